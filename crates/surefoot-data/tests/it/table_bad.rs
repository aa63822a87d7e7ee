//! Files that cannot be read: every `bad-` file in `tests/files` has its error here, and there is no other.

use std::collections::BTreeMap;
use std::path::PathBuf;

use surefoot_data::{Format, read_table};

/// Checks that the bad files of a folder give these errors, each after the place, which is the file and mostly the line.
fn errors(folder: &str, format: Format, expected: &[(&str, &str)]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(folder);
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let result = read_table(&file, format).and_then(|tables| tables.collect::<Result<Vec<_>, _>>());
        let text = match result {
            Ok(_) => "nothing wrong".to_owned(),
            Err(error) => error.to_string().replace(&format!("{}", file.display()), ""),
        };
        if let Some(name) = name.strip_prefix("bad-") {
            found.insert(name.to_owned(), text);
        } else {
            assert_eq!(text, "nothing wrong", "{name}");
        }
    }
    let expected: BTreeMap<String, String> =
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    for (name, text) in &found {
        if expected.get(name) != Some(text) {
            eprintln!("    ({name:?}, {text:?}),");
        }
    }
    assert!(found == expected, "see above for what is not as it should be, of {} files", found.len());
}

#[test]
fn every_bad_file_of_csv_gives_its_error() {
    errors(
        "csv",
        Format::Csv,
        &[
            ("after-quote", ", line 2: field 2 should have a comma after a closing quote, but has 'b' after \"a\""),
            ("blank", ": should start with a header, but is empty"),
            (
                "carriage-returns",
                ", line 1: field 2 should have no carriage return but at the end of a line, but has '\\r' after \"note\"",
            ),
            ("empty", ": should start with a header, but is empty"),
            ("latin1-in-quotes", ", line 3: should be UTF-8 text, but byte 2 is 0xff"),
            ("long-row", ", line 4: should have 2 fields, as the header has, but has 3"),
            ("not-utf8", ", line 3: should be UTF-8 text, but byte 6 is 0xe9"),
            ("only-index", ", line 1: should have from 1 to 1048576 columns with names, but has 0"),
            ("open-quote", ", line 3: should close every quote, but one is still open at the end of the file"),
            (
                "quote-inside",
                ", line 2: field 2 should have no quote, as it does not start with one, but has '\"' after \"5\"",
            ),
            ("short-row", ", line 4: should have 2 fields, as the header has, but has 1"),
            ("twice", ", line 1: should have every column once, but has action twice"),
            ("unnamed", ", line 1: every column but the first should have a name, but column 2 has none"),
            ("utf16", ", line 1: should be UTF-8 text, but byte 1 is 0xff"),
        ],
    );
}

#[test]
fn every_bad_file_of_json_lines_gives_its_error() {
    errors(
        "json_lines",
        Format::JsonLines,
        &[
            ("array", ", line 2: should be a JSON object, but is an array"),
            ("array-of-arrays", ", line 1: x should be an array of numbers and texts, but is one with an array"),
            ("array-of-objects", ", line 1: user.x should be an array of numbers and texts, but is one with an object"),
            ("array-of-truths", ", line 1: x should be an array of numbers and texts, but is one with true or false"),
            ("cut-off", ", line 2: should have ',' or ']' at byte 12, but the line ends"),
            ("half-a-pair", ", line 1: should have the other half of a surrogate pair at byte 14, but there is '\"'"),
            ("nan", ", line 1: should have a JSON value at byte 12, but there is 'N'"),
            ("not-utf8", ", line 2: should be UTF-8 text, but byte 8 is 0xff"),
            ("null-in-array", ", line 1: x should be an array of numbers and texts, but is one with null"),
            ("number", ", line 1: should be a JSON object, but is 17"),
            ("number-and-array", ", line 3: a should be a number, as in line 1, but is an array"),
            ("single-quotes", ", line 1: should have a name in quotes at byte 2, but there is '\\''"),
            ("text-and-truth", ", line 2: a should be text, as in line 1, but is true or false"),
            ("too-deep", ", line 1: should have at most 64 levels of arrays and objects, but has more"),
            ("too-large", ", line 1: reward should be a number within the range of 64 bits, but is 1e999"),
            ("twice", ", line 1: should have every field once, but has \"a\" twice"),
            ("twice-flattened", ", line 1: should have every field once, but has \"a.b\" twice"),
            ("two-objects", ", line 1: should have the end of the line at byte 10, but there is '{'"),
        ],
    );
}

#[test]
fn every_bad_file_of_dsjson_gives_its_error() {
    errors(
        "dsjson",
        Format::Dsjson,
        &[
            ("action-0", ", line 1: a[0] should be the number of an action, counted from 1, but is 0"),
            ("action-not-whole", ", line 1: a[0] should be the number of an action, counted from 1, but is 2.5"),
            ("action-twice", ", line 1: a should have every action once, but has 1 twice"),
            ("array", ", line 1: should be a JSON object, but is an array"),
            ("checkpoint", ", line 1: should be a decision with a, c and p, but has no a"),
            ("context-not-object", ", line 1: c should be an object, but is an array"),
            ("cost-text", ", line 1: _label_cost should be a number within the range of 64 bits, but is \"-1\""),
            ("cost-too-large", ", line 1: _label_cost should be a number within the range of 64 bits, but is -1e400"),
            (
                "dangling-reward",
                ", line 2: should be a decision, but is an observation (RewardValue) of event \"e9\": rewards must be joined first",
            ),
            ("event-id-number", ", line 1: EventId should be text, but is 5"),
            ("feature-too-large", ", line 1: c.GUser.x should be a number within the range of 32 bits, but is 1e+39"),
            ("feature-twice", ", line 1: c should have every feature once, but has \"GUser.id=rnc\" twice"),
            ("few-in-multi", ", line 1: a should have actions up to 2, as c._multi has that many, but has 3"),
            ("field-twice", ", line 1: should have every field once, but has \"_label_cost\" twice"),
            ("label-action", ", line 2: _label_Action counts from 1 and should be 2, as a[0] is 2, but is 1"),
            ("label-action-from-0", ", line 1: _label_Action counts from 1 and should be 2, as a[0] is 2, but is 0"),
            ("label-index", ", line 1: _labelIndex counts from 0 and should be 1, as a[0] is 2, but is 2"),
            (
                "label-probability",
                ", line 1: _label_probability should be p[0], which is 0.5, to a relative 0.0001, but is 0.4",
            ),
            (
                "label-probability-with-pdrop",
                ", line 1: _label_probability should be p[0], which is 0.5, or p[0] (1 - pdrop), which is 0.4, to a relative 0.0001, but is 0.3",
            ),
            ("lengths", ", line 1: p should have a probability for each of the 3 actions in a, but has 2"),
            ("multi-not-array", ", line 1: c._multi should be an array with an object for each action, but is 3"),
            ("no-actions", ", line 1: a should have an action, but is empty"),
            ("no-context", ", line 1: should be a decision with a, c and p, but has no c"),
            ("no-label", ", line 1: a decision without _label_cost: rewards must be joined first"),
            ("not-json", ", line 2: should have the end of the line at byte 2, but there is ':'"),
            ("not-utf8", ", line 2: should be UTF-8 text, but byte 8 is 0xff"),
            ("several-slots", ", line 1: should be a decision for one slot, but is one for several (_outcomes)"),
            ("skip-number", ", line 1: _skipLearn should be true or false, but is 1"),
            ("state", ", line 1: VWState should be an object, but is \"m7\""),
        ],
    );
}

#[test]
fn every_bad_file_of_vw_gives_its_error() {
    errors(
        "vw",
        Format::Vw,
        &[
            ("action-0", ", line 1: the action of a label should be counted from 1, but is \"0\""),
            ("action-twice", ", line 1: should have every action once, but has 1 twice"),
            (
                "adf-alone",
                ", line 1: one of the lines after shared should have a label, action:cost:probability, but none of the 0 has",
            ),
            (
                "adf-not-ended",
                ", line 3: should come after a blank line, which ends the decision of line 1, but does not",
            ),
            ("adf-several-labels", ", line 2: the line of an action should have at most one label, but has 2"),
            ("adf-shared-label", ", line 1: a shared line should have no label, but has \"1:0:0.5\""),
            (
                "adf-two-labels",
                ", line 4: one action of a decision should have a label, but this is the second, after action 0",
            ),
            (
                "adf-without-label",
                ", line 2: one of the lines after shared should have a label, action:cost:probability, but none of the 2 has",
            ),
            (
                "cost-nan",
                ", line 1: the label should be action or action:cost:probability, with finite numbers, but is \"1:nan:0.5\"",
            ),
            (
                "csv",
                ", line 1: the label should be action or action:cost:probability, with finite numbers, but is \"action,reward\"",
            ),
            (
                "four-parts",
                ", line 1: the label should be action or action:cost:probability, with finite numbers, but is \"1:0:0.5:2\"",
            ),
            (
                "label-is-tag",
                ", line 1: should have a label, action:cost:probability, but has none (\"1:0:0.5\" is a tag, since no space comes before the |)",
            ),
            (
                "label-word",
                ", line 1: the label should be action or action:cost:probability, with finite numbers, but is \"one:0:0.5\"",
            ),
            (
                "namespace-weight",
                ", line 1: the weight of a namespace should be a number within the range of 32 bits, but is \"two\"",
            ),
            (
                "no-label",
                ", line 2: should have a label, action:cost:probability, but has none (the lines of one decision would have to start with a line: shared |)",
            ),
            ("no-name", ", line 1: a feature should be a name, or a name and a value, but is \":2\""),
            (
                "no-probability",
                ", line 1: the label should be action or action:cost:probability, with finite numbers, but is \"1:0.5\"",
            ),
            ("not-utf8", ", line 2: should be UTF-8 text, but byte 11 is 0xff"),
            (
                "only-actions",
                ", line 1: should have a label, action:cost:probability, but has none (the lines of one decision would have to start with a line: shared |)",
            ),
            (
                "probability-infinite",
                ", line 1: the label should be action or action:cost:probability, with finite numbers, but is \"1:0:inf\"",
            ),
            ("two-costs", ", line 1: should have one label with a cost, but has several"),
            ("value", ", line 1: the value of a feature should be a number within the range of 32 bits, but is \"x\""),
            ("value-too-large", ", line 1: a should be a number within the range of 32 bits, but is \"inf\""),
            (
                "value-twice",
                ", line 1: the value of a feature should be a number within the range of 32 bits, but is \"1:2\"",
            ),
        ],
    );
}
