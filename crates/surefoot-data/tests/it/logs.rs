//! What the columns of log files mean: roles, actions, rounds, features, judged policies.

use std::fs;
use std::path::{Path, PathBuf};

use surefoot::RewardRange;
use surefoot_data::{
    Actions, Check, ColumnNames, Encoding, EncodingFit, EncodingSettings, Field, Grouping, LogReader, ReadRequest,
    RecordPolicy, Records, Rounds, Scan,
};
use tempfile::TempDir;

fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn reader(path: &Path) -> LogReader {
    LogReader::new(vec![path.to_owned()], None, ColumnNames::default())
}

fn unit() -> RewardRange {
    RewardRange::new(0.0, 1.0).unwrap()
}

/// The records of a file with one batch.
fn records(reader: &LogReader, actions: Actions, range: RewardRange) -> Result<Records, String> {
    let mut check = Check::new(actions, range);
    let batch = reader.batches().next().unwrap().map_err(|e| e.to_string())?;
    check.records(&batch).map_err(|e| e.to_string())
}

/// What is said of a CSV file, without its folder.
fn refusal(text: &str) -> String {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "logs.csv", text);
    let said = records(&reader(&path), Actions::Count(3), unit()).unwrap_err();
    said.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn the_usual_names_are_understood_and_others_can_be_given() {
    let folder = TempDir::new().unwrap();
    for (action, propensity, reward, turned) in [
        ("action", "pscore", "reward", false),
        ("item_id", "propensity", "click", false),
        ("action", "action_prob", "cost", true),
        ("action", "propensity_score", "reward", false),
    ] {
        let [one, zero] = if turned { ["-1", "0"] } else { ["1", "0"] };
        let text = format!("{action},{propensity},{reward}\n2,0.5,{one}\n0,0.25,{zero}\n");
        let path = file(&folder, "logs.csv", &text);
        let found = records(&reader(&path), Actions::Count(3), unit()).unwrap();
        assert_eq!((&found.action[..], &found.propensity[..]), (&[2, 0][..], &[0.5, 0.25][..]));
        assert_eq!(found.cost, [-1.0, 0.0], "{reward}");
    }
    let path = file(&folder, "logs.csv", "arm,prob,stars\n1,0.5,5\n3,0.25,1\n");
    let named = |name: &str| Some(name.to_owned());
    let columns = ColumnNames {
        action: named("arm"),
        propensity: named("prob"),
        reward: named("stars"),
        from_one: true,
        ..ColumnNames::default()
    };
    let reader = LogReader::new(vec![path], None, columns);
    let found = records(&reader, Actions::Count(3), RewardRange::new(1.0, 5.0).unwrap()).unwrap();
    assert_eq!((&found.action[..], &found.cost[..]), (&[0, 2][..], &[-1.0, 0.0][..]));
}

#[test]
fn what_no_policy_can_have_logged_is_refused_with_row_and_column() {
    assert_eq!(
        refusal("action,reward\n0,1\n"),
        "logs.csv: no column pscore or propensity or action_prob or propensity_score; it has action, reward"
    );
    assert_eq!(
        refusal("action,pscore,propensity,reward\n0,1,1,1\n"),
        "logs.csv: the column of the pscore should be unique, or named by an option, but is pscore or propensity"
    );
    assert_eq!(
        refusal("action,pscore,reward\n0,0.5,1\n0,1.2,1\n"),
        "logs.csv, row 1: pscore should be in (0, 1], but is 1.2"
    );
    assert_eq!(refusal("action,pscore,reward\n0,0,1\n"), "logs.csv, row 0: pscore should be in (0, 1], but is 0");
    assert_eq!(refusal("action,pscore,reward\n0,,1\n"), "logs.csv, row 0: pscore should be a number, but is missing");
    assert_eq!(refusal("action,pscore,reward\n3,0.5,1\n"), "logs.csv, row 0: action should be from 0 to 2, but is 3");
    assert_eq!(
        refusal("action,pscore,reward\n1.5,0.5,1\n"),
        "logs.csv, row 0: action should be a whole number from 0 on, but is 1.5"
    );
    assert_eq!(refusal("action,pscore,reward\n1,0.5,2\n"), "logs.csv, row 0: reward should be in [0, 1], but is 2");
    assert_eq!(refusal("action,pscore,reward\n1,0.5,\n"), "logs.csv, row 0: reward should be a number, but is missing");
    assert_eq!(
        refusal("action,pscore,reward\n1,half,1\n"),
        "logs.csv, row 0: pscore should be a number, but is \"half\""
    );
    assert_eq!(
        refusal("action,pscore,reward,eligible\n1,0.5,1,\"[0, 2]\"\n"),
        "logs.csv, row 0: action should be one of the eligible [0, 2], but is 1"
    );
    assert_eq!(
        refusal("action,pscore,reward,eligible\n1,0.5,1,\"[1, 1]\"\n"),
        "logs.csv, row 0: eligible should be strictly increasing, but is [1, 1]"
    );
    assert_eq!(
        refusal("action,pscore,reward,pdrop\n1,0.5,1,0.2\n1,0.5,1,0.3\n"),
        "logs.csv, row 1: pdrop should be 0.2 as before, because records dropped with different probabilities are not \
         a sample, but is 0.3"
    );
}

#[test]
fn records_that_the_logger_asks_to_skip_are_left_out_and_rows_keep_their_numbers() {
    let folder = TempDir::new().unwrap();
    let text = "action,pscore,reward,skip\n0,0.5,1,false\n1,0.5,1,true\n2,0.5,7,false\n";
    let path = file(&folder, "logs.csv", text);
    let said = records(&reader(&path), Actions::Count(3), unit()).unwrap_err();
    assert!(said.ends_with("logs.csv, row 2: reward should be in [0, 1], but is 7"), "{said}");
    let scan = Scan::of(&reader(&path), &Grouping::PolicyVersion).unwrap();
    assert_eq!((scan.records, scan.skipped), (2, 1));
}

#[test]
fn a_survey_finds_actions_rounds_and_their_order() {
    let folder = TempDir::new().unwrap();
    let numbers = file(&folder, "a.csv", "action,policy_version\n4,v1\n1,v1\n0,v2\n");
    let scan = Scan::of(&reader(&numbers), &Grouping::PolicyVersion).unwrap();
    assert_eq!(scan.actions, Actions::Count(5));
    assert_eq!(scan.groups, [("v1".to_owned(), 2), ("v2".to_owned(), 1)]);
    assert!(!scan.interleaved);

    let names = file(&folder, "b.csv", "action,day,eligible\nred,1,\"[\"\"red\"\",\"\"blue\"\"]\"\ngreen,2,\nred,1,\n");
    let scan = Scan::of(&reader(&names), &Grouping::Column("day".into())).unwrap();
    assert_eq!(scan.actions, Actions::Names(["blue", "green", "red"].map(String::from).to_vec()));
    assert!(scan.interleaved, "day 1 comes back");

    let wide = file(&folder, "d.csv", "action,probabilities\n0,\"[0.5, 0.2, 0.3]\"\n");
    assert_eq!(Scan::of(&reader(&wide), &Grouping::File).unwrap().actions, Actions::Count(3));
    let zeros = file(&folder, "e.csv", "action\n7\n07\n");
    let scan = Scan::of(&reader(&zeros), &Grouping::File).unwrap();
    assert_eq!(scan.actions, Actions::Names(vec!["07".into(), "7".into()]));

    let empty = file(&folder, "c.csv", "action,pscore,reward\n");
    let said = Scan::of(&reader(&empty), &Grouping::File).unwrap_err().to_string();
    assert!(said.ends_with("c.csv: should have records, but has none"), "{said}");
    let several = LogReader::new(vec![numbers.clone(), numbers], None, ColumnNames::default());
    assert_eq!(Scan::of(&several, &Grouping::File).unwrap().groups.len(), 2);
}

#[test]
fn columns_become_features_as_one_expects() {
    let folder = TempDir::new().unwrap();
    let text = "action,age,country,zip,flag\n0,20,NO,0123,true\n0,,SE,0456,false\n0,40,,0789,true\n";
    let path = file(&folder, "logs.csv", text);
    let settings =
        EncodingSettings { vocabulary: 2, hash_bits: 2, categorical: vec!["zip".into()], ..Default::default() };
    let mut fit = EncodingFit::new(settings).unwrap();
    let batch = reader(&path).batches().next().unwrap().unwrap();
    fit.add(&batch).unwrap();
    let encoding = fit.finish("logs.csv").unwrap();
    assert_eq!(
        encoding.names(),
        ["age", "age is missing", "country=NO", "country=SE", "zip#[0]", "zip#[1]", "zip#[2]", "zip#[3]", "flag"]
    );
    let dense = encoding.encode(&batch).unwrap().to_dense();
    let row = |i: usize| dense.row(i).values().to_vec();
    assert_eq!(&row(0)[..4], [-1.0, 0.0, 1.0, 0.0]);
    assert_eq!(&row(1)[..4], [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(&row(2)[..4], [1.0, 0.0, 0.0, 0.0]);
    for i in 0..3 {
        assert_eq!(row(i)[4..8].iter().sum::<f32>(), 1.0, "one bucket");
    }
    let fitted = |settings: EncodingSettings| {
        let mut fit = EncodingFit::new(settings).unwrap();
        fit.add(&batch).map(|()| fit.finish("logs.csv").unwrap().names().join(" "))
    };
    let ignore = vec!["c*".to_owned(), "zip".to_owned()];
    assert_eq!(fitted(EncodingSettings { ignore, ..Default::default() }).unwrap(), "age age is missing flag");
    let features = Some(vec!["f*".to_owned(), "age".to_owned()]);
    assert_eq!(fitted(EncodingSettings { features, ..Default::default() }).unwrap(), "age age is missing flag");
    let features = Some(vec!["size".to_owned()]);
    let said = fitted(EncodingSettings { features, ..Default::default() }).unwrap_err().to_string();
    assert!(said.ends_with("logs.csv: no column size; it has action, age, country, zip, flag"), "{said}");
    // NaN is missing, infinity refused, a usual name no feature; a column that changes its type has all its categories.
    let odd = file(&folder, "odd.csv", "action,propensity,reward,click,x\n0,1,1,1,2\n0,1,1,0,NaN\n");
    let columns = ColumnNames { reward: Some("reward".into()), ..ColumnNames::default() };
    let fitted = |path: &Path| {
        let reader = LogReader::new(vec![path.to_owned()], None, columns.clone());
        let mut fit = EncodingFit::new(EncodingSettings::default()).unwrap();
        let added: Result<(), _> = reader.batches().try_for_each(|batch| fit.add(&batch?));
        added.map(|()| fit.finish("odd").unwrap().names().join(" "))
    };
    assert_eq!(fitted(&odd).unwrap(), "x x is missing");
    let endless = file(&folder, "endless.csv", "reward,x\n1,inf\n");
    assert!(fitted(&endless).unwrap_err().to_string().ends_with("row 0: x should be finite, but is inf"));
    let late = format!("{}{{\"x\": \"a\", \"y\": 1}}\n", "{\"x\": 1}\n".repeat(8192));
    let late = file(&folder, "late.jsonl", &late);
    assert_eq!(fitted(&late).unwrap(), "x=1 x=a y y is missing");
    // What it has not seen has an encoding too, and the encoding survives a file.
    let other = file(&folder, "new.csv", "age,country,zip,flag\n30,DK,9,\n");
    let again: Encoding = serde_json::from_str(&serde_json::to_string(&encoding).unwrap()).unwrap();
    assert_eq!(again, encoding);
    let batch = reader(&other).batches().next().unwrap().unwrap();
    let found = again.encode(&batch).unwrap().to_dense().row(0).values().to_vec();
    assert_eq!(&found[..4], [0.0, 0.0, 0.0, 0.0]);
    assert_eq!(found[8], 0.0);
    let wrong = file(&folder, "wrong.csv", "age,country,zip\nold,DK,9\n");
    let batch = reader(&wrong).batches().next().unwrap().unwrap();
    let said = again.encode(&batch).unwrap_err().to_string();
    assert!(said.ends_with("wrong.csv, row 0: age should be a number, but is \"old\""), "{said}");
}

/// Records of numbers alone are encoded column by column, and others row by row.
#[test]
fn numbers_are_encoded_alike_with_and_without_other_columns() {
    let folder = TempDir::new().unwrap();
    let encoded = |name: &str, other: &str, large: bool| {
        let mut text = format!("action,x,y{}\n", if other.is_empty() { "" } else { ",z" });
        for i in 0..1500 {
            let x = if i % 7 == 0 { String::new() } else { format!("{}", i % 13 - 6) };
            let y = if large && i == 1200 { "1e300".into() } else { format!("{}", i % 5) };
            text += &format!("0,{x},{y}{other}\n");
        }
        let path = file(&folder, name, &text);
        let batch = reader(&path).batches().next().unwrap().unwrap();
        let mut fit = EncodingFit::new(EncodingSettings { standardise: false, ..EncodingSettings::default() }).unwrap();
        fit.add(&batch.slice(0..1000)).unwrap();
        let encoding = fit.finish("x").unwrap();
        assert_eq!(encoding.names()[..3], ["x", "x is missing", "y"]);
        encoding.encode(&batch).map(|found| found.to_dense()).map_err(|error| error.to_string())
    };
    let (alone, beside) = (encoded("a.csv", "", false).unwrap(), encoded("b.csv", ",red", false).unwrap());
    for i in 0..1500 {
        let bits = |values: &[f32]| values[..3].iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(alone.row(i).values()), bits(beside.row(i).values()), "{i}");
    }
    assert_eq!(alone.row(1499).values(), [-2.0, 0.0, 4.0]);
    assert_eq!(alone.row(7).values(), [0.0, 1.0, 2.0]);
    let said = encoded("c.csv", "", true).unwrap_err();
    assert!(said.contains("row 1200: y should be finite, within the range of f32, but is"), "{said}");
}

#[test]
fn lists_and_names_become_features_too() {
    let folder = TempDir::new().unwrap();
    let dense = file(&folder, "a.csv", "action,context\n0,\"[1, 2.5]\"\n1,\"[0, -1]\"\n");
    let fitted = |path: &Path| {
        let batch = reader(path).batches().next().unwrap().unwrap();
        let mut fit = EncodingFit::new(EncodingSettings { standardise: false, ..EncodingSettings::default() }).unwrap();
        fit.add(&batch).map(|()| (fit.finish("x").unwrap(), batch))
    };
    let (encoding, batch) = fitted(&dense).unwrap();
    assert_eq!(encoding.fields(), [Field::Vector { column: "context".into(), width: 2 }]);
    assert_eq!(encoding.encode(&batch).unwrap().row(0).values(), [1.0, 2.5]);

    let sparse = file(&folder, "b.csv", "context_indices,context_values\n\"[3, 1]\",\"[1, 2]\"\n[],[]\n");
    let (encoding, batch) = fitted(&sparse).unwrap();
    assert_eq!(encoding.encode(&batch).unwrap().to_dense().row(0).values(), [0.0, 2.0, 0.0, 1.0]);

    let named =
        file(&folder, "c.jsonl", "{\"context_names\": [\"a\", \"b=c\", \"a\"], \"context_values\": [1, 2, 3]}\n");
    let (encoding, batch) = fitted(&named).unwrap();
    let mut values: Vec<f32> = encoding.encode(&batch).unwrap().to_sparse().row(0).values().to_vec();
    values.sort_by(f32::total_cmp);
    assert_eq!(values, [2.0, 4.0], "the same name twice is added up");

    let ragged = file(&folder, "d.csv", "context\n\"[1, 2]\"\n[1]\n");
    let said = fitted(&ragged).unwrap_err().to_string();
    assert!(said.ends_with("d.csv, row 1: context should be 2 numbers, as in the first record, but is 1"), "{said}");
}

#[test]
fn rounds_are_read_with_the_first_records_set_aside() {
    let folder = TempDir::new().unwrap();
    let mut text = String::from("action,pscore,reward,policy_version,x,eligible\n");
    for i in 0..20 {
        let (version, x) = (if i < 12 { "one" } else { "two" }, i);
        let eligible = if i == 15 { "\"[1, 0]\"" } else { "" };
        text.push_str(&format!("{},0.5,{},{version},{x},{eligible}\n", i % 3, i % 3 % 2));
    }
    let path = file(&folder, "logs.csv", &text);
    let reader = reader(&path);
    let read = |set_aside| {
        let encoding = EncodingSettings { standardise: false, ..EncodingSettings::default() };
        Rounds::read(&reader, &ReadRequest { encoding, set_aside, ..ReadRequest::default() }, None)
    };
    let rounds = read(0.25).unwrap();
    assert_eq!(rounds.actions, Actions::Count(3));
    let set_aside = rounds.set_aside.unwrap();
    let (contexts, aside) = (set_aside.contexts(), set_aside.action());
    assert_eq!((contexts.len(), aside.len()), (3, 3));
    let sizes: Vec<(String, usize)> =
        rounds.rounds.iter().map(|logs| (logs.policy_version().to_owned(), logs.len())).collect();
    assert_eq!(sizes, [("one".to_owned(), 9), ("two".to_owned(), 8)]);
    assert_eq!(rounds.rounds[0].contexts().row(0).values(), [3.0]);
    assert!(rounds.rounds[0].eligible().is_none(), "a cell without a list is no restriction");
    let sets = rounds.rounds[1].eligible().unwrap();
    assert_eq!((sets.get(3), sets.get(4)), (&[0, 1][..], &[0, 1, 2][..]));
    assert!(read(0.0).unwrap().set_aside.is_none());
    assert!(read(1.0).unwrap_err().to_string().ends_with("the share that is set aside should be in [0, 1), but is 1"));
}

#[test]
fn probabilities_in_the_logs_are_those_of_a_policy() {
    let folder = TempDir::new().unwrap();
    let text = "action,pscore,reward,p_a,p_b,both\nb,0.5,1,0.25,0.75,\"[0.1, 0.9]\"\na,0.5,0,1,0,\"[0.5, 0.4]\"\n";
    let path = file(&folder, "logs.csv", text);
    let reader = reader(&path);
    let batch = reader.batches().next().unwrap().unwrap();
    let columns: RecordPolicy = "columns:p_".parse().unwrap();
    let actions = columns.actions(&batch).unwrap().unwrap();
    assert_eq!(actions, Actions::Names(vec!["a".into(), "b".into()]));
    let records = Check::new(actions.clone(), unit()).records(&batch).unwrap();
    assert_eq!(columns.propensity(&batch, &records, &actions).unwrap(), [0.75, 1.0]);
    assert_eq!(columns.distribution(&batch, None, &actions).unwrap(), [0.25, 0.75, 1.0, 0.0]);
    assert_eq!(RecordPolicy::Uniform.propensity(&batch, &records, &actions).unwrap(), [0.5, 0.5]);
    assert_eq!(RecordPolicy::Logged.propensity(&batch, &records, &actions).unwrap(), [0.5, 0.5]);
    let mixture = RecordPolicy::Mixture(vec![(0.5, columns), (0.5, RecordPolicy::Uniform)]);
    assert_eq!(mixture.propensity(&batch, &records, &actions).unwrap(), [0.625, 0.75]);

    let sets = surefoot::logs::Eligible::new([[1], [0]]).unwrap();
    let said = RecordPolicy::distribution(&"columns:p_".parse().unwrap(), &batch, Some(&sets), &actions).unwrap_err();
    let said = said.to_string();
    assert!(
        said.ends_with("row 0: the probability of action 0, which is not eligible, should be 0, but is 0.25"),
        "{said}"
    );

    let list: RecordPolicy = "list:both".parse().unwrap();
    assert_eq!(list.actions(&batch).unwrap(), Some(Actions::Count(2)));
    let said = list.propensity(&batch, &records, &actions).unwrap_err().to_string();
    assert!(said.ends_with("row 1: the sum of the probabilities should be 1, but is 0.9"), "{said}");
    let said = RecordPolicy::Logged.distribution(&batch, None, &actions).unwrap_err().to_string();
    assert!(said.contains("no column probabilities; it has action, pscore"), "{said}");
    let absent: RecordPolicy = "columns:q_".parse().unwrap();
    assert!(
        absent.actions(&batch).unwrap_err().to_string().contains("no column q_ACTION, one for each action; it has")
    );
    assert!("nothing".parse::<RecordPolicy>().is_err() && "list:".parse::<RecordPolicy>().is_err());
}

/// Rows that are filled by more than a quarter are dense from the beginning. They have the values of sparse ones.
#[test]
fn categories_are_encoded_alike_in_dense_and_in_sparse_rows() {
    let (x, c) = ([0.5f32, -1.0, 0.0, 2.0], ["a", "b", "unknown", "a"]);
    let lines = x.iter().zip(c).map(|(x, c)| format!("0,0.5,1,{x},{c}\n")).collect::<String>();
    let folder = TempDir::new().unwrap();
    let reader = reader(&file(&folder, "logs.csv", &format!("action,pscore,reward,x,c\n{lines}")));
    let batch = reader.batches().next().unwrap().unwrap();
    let encoded = |categories: &[&str]| {
        let categories = categories.iter().map(|c| (*c).to_owned()).collect();
        let fields = vec![
            Field::Number { column: "x".into(), mean: 0.0, scale: 1.0, indicator: false },
            Field::OneHot { column: "c".into(), categories },
        ];
        Encoding::new(fields).unwrap().encode(&batch).unwrap()
    };
    let some = encoded(&["a", "b"]);
    let many = encoded(&["a", "b", "d", "e", "f", "g", "h", "i", "j", "k", "l"]);
    assert_eq!((some.is_sparse(), many.is_sparse()), (false, true));
    for (i, (x, c)) in x.into_iter().zip(c).enumerate() {
        let expected = [x, f32::from(u8::from(c == "a")), f32::from(u8::from(c == "b"))];
        for contexts in [&some, &many] {
            let mut row = vec![0.0; contexts.features()];
            contexts.row(i).for_each(|f, v| row[f] = v as f32);
            assert_eq!(row[..3], expected);
            assert!(row[3..].iter().all(|v| *v == 0.0));
        }
    }
}
