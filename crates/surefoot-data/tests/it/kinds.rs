//! What Vowpal Wabbit and Open Bandit Pipeline also accept as contextual bandits. What is refused is in `table_corpus.rs`.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use surefoot_data::{Format, read_table, read_table_bytes};

use crate::common::{Folder, npy, npz};

fn one(text: &str, format: Format) -> RecordBatch {
    let mut tables: Vec<RecordBatch> =
        read_table_bytes("text", text.into(), format).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(tables.len(), 1);
    tables.remove(0)
}

/// Actions, propensities and rewards; `None` where the label is not known.
fn labels(table: &RecordBatch) -> Vec<Option<(u32, f64, f64)>> {
    let column = |name: &str| table.column_by_name(name).unwrap().clone();
    let (action, pscore, reward) = (column("action"), column("pscore"), column("reward"));
    let row = |i| {
        let number = |column: &arrow_array::ArrayRef| column.as_primitive::<Float64Type>().value(i);
        action.is_valid(i).then(|| (action.as_primitive::<UInt32Type>().value(i), number(&pscore), number(&reward)))
    };
    (0..table.num_rows()).map(row).collect()
}

/// The features of a record's context: `name:value`.
fn context(table: &RecordBatch, i: usize) -> Vec<String> {
    let names = table.column_by_name("context_names").unwrap().as_list::<i32>().value(i);
    let values = table.column_by_name("context_values").unwrap().as_list::<i32>().value(i);
    let (names, values) = (names.as_string::<i32>(), values.as_primitive::<Float32Type>());
    names.iter().flatten().zip(values.values()).map(|(name, value)| format!("{name}:{value}")).collect()
}

fn eligible(table: &RecordBatch, i: usize) -> Option<Vec<u32>> {
    let sets = table.column_by_name("eligible").unwrap().as_list::<i32>();
    sets.is_valid(i).then(|| sets.value(i).as_primitive::<UInt32Type>().values().to_vec())
}

#[test]
fn vowpal_wabbit_s_own_json_is_read_beside_that_of_its_services() {
    let table = one(include_str!("../files/dsjson/good-json.dsjson"), Format::Dsjson);
    let expected = [
        Some((1, 0.5, 1.0)),
        Some((0, 0.125, -0.25)),
        Some((1, 0.25, -0.5)),
        Some((1, 0.75, -2.0)),
        None,
        Some((0, 1.0, 0.0)),
    ];
    assert_eq!(labels(&table), expected);
    assert_eq!(context(&table, 0), ["user.age:31", "user.city=Rome:1", "new:1"]);
    assert_eq!(context(&table, 2), ["s=1:1"]);
    assert_eq!(context(&table, 5), ["s=4:1", "s=5:1"]);
    assert_eq!(
        (eligible(&table, 0), eligible(&table, 2), eligible(&table, 4)),
        (None, Some(vec![0, 1]), Some(vec![0]))
    );
    let ids = table.column_by_name("event_id").unwrap().as_string::<i32>();
    assert_eq!(ids.iter().collect::<Vec<_>>(), [Some("e1"), None, None, None, None, None]);
    let lists = table.column_by_name("candidates").unwrap().as_list::<i32>();
    let sizes: Vec<usize> = (0..6).map(|i| if lists.is_valid(i) { lists.value(i).len() } else { 0 }).collect();
    assert_eq!(sizes, [0, 0, 2, 2, 1, 1]);
    let names = lists.value(2).as_struct().column_by_name("names").unwrap().as_list::<i32>().value(1);
    assert_eq!(names.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "b=x"]);
}

#[test]
fn costs_of_actions_that_were_not_chosen_are_not_rewards() {
    let table = one("1:1:0.5 2:2 3:3 | a\n1:1 2:2:0.25 | a\n", Format::Vw);
    assert_eq!(labels(&table), [Some((0, 0.5, -1.0)), Some((1, 0.25, -2.0))]);
    assert_eq!((eligible(&table, 0), eligible(&table, 1)), (Some(vec![0, 1, 2]), Some(vec![0, 1])));
    let several = one("shared | s\n1:1 | a\n2:2:0.25 | b\n", Format::Vw);
    assert_eq!(labels(&several), [Some((1, 0.25, -2.0))]);
}

#[test]
fn features_without_names_have_places_and_texts_are_values() {
    let table = one("1:0:0.5 |f :1 x :2 |g :0.5\n1:0:0.5 |u city:Rome age:3 at:1e2\n", Format::Vw);
    assert_eq!(context(&table, 0), ["f^[0]:1", "f^x:1", "f^[1]:2", "g^[0]:0.5"]);
    assert_eq!(context(&table, 1), ["u^city=Rome:1", "u^age:3", "u^at:100"]);
}

#[test]
fn the_number_of_an_action_with_lines_of_its_own_does_not_matter() {
    // Without shared, the first line is known to be one of several only by the second.
    let table = one("0:-3:0.2 | b:2\n| b:3\n\n| b:4\n0:1:0.5 | b:5\n", Format::Vw);
    assert_eq!(labels(&table), [Some((0, 0.2, 3.0)), Some((1, 0.5, -1.0))]);
    let alone = read_table_bytes("text", b"0:-3:0.2 | b:2\n".to_vec(), Format::Vw).unwrap().next().unwrap();
    assert!(alone.unwrap_err().to_string().contains("the action of a label should be counted from 1"));
}

/// Feedback with these arrays for the context and the probabilities.
fn feedback(context: Vec<u8>, pi_b: Vec<u8>) -> Vec<u8> {
    let doubles = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    npz(&[
        ("action", npy("'|u1'", "False", "(3,)", &[0, 1, 1])),
        ("position", npy("'|u1'", "False", "(3,)", &[1, 1, 1])),
        ("pscore", npy("'<f8'", "False", "(3,)", &doubles(&[0.5, 0.25, 1.0]))),
        ("reward", npy("'<f8'", "False", "(3,)", &doubles(&[1.0, 0.0, 1.0]))),
        ("context", context),
        ("pi_b", pi_b),
    ])
}

#[test]
fn arrays_in_fortran_s_order_give_the_same_records() {
    let folder = Folder::new();
    // context[i, j] = 10 i + j of shape (3, 2), and pi_b[i, k, l] = 100 i + 10 k + l of shape (3, 2, 2).
    let mut c = Vec::new();
    let mut fortran = Vec::new();
    (0..3).for_each(|i| (0..2).for_each(|j| c.push(10 * i + j)));
    (0..2).for_each(|j| (0..3).for_each(|i| fortran.push(10 * i + j)));
    let (mut pi, mut pi_fortran) = (Vec::new(), Vec::new());
    (0..3).for_each(|i| (0..2).for_each(|k| (0..2).for_each(|l| pi.push(100 * i + 10 * k + l))));
    (0..2).for_each(|l| (0..2).for_each(|k| (0..3).for_each(|i| pi_fortran.push(100 * i + 10 * k + l))));
    let bytes = |values: &[i16]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let file = |order: &str, context: &[i16], pi: &[i16]| {
        let context = npy("'<i2'", order, "(3, 2)", &bytes(context));
        let path = folder.write("logs.npz", feedback(context, npy("'<i2'", order, "(3, 2, 2)", &bytes(pi))));
        let tables: Vec<RecordBatch> = read_table(&path, Format::Obp).unwrap().collect::<Result<_, _>>().unwrap();
        tables
    };
    let expected = file("False", &c, &pi);
    let lists = expected[0].column_by_name("probabilities").unwrap().as_list::<i32>().value(1);
    assert_eq!(lists.as_primitive::<Float64Type>().values(), &[101.0, 111.0]);
    assert_eq!(file("True", &fortran, &pi_fortran), expected);
    // An array that is cut, or longer than it says, is refused.
    for cut in [&fortran[..5], &[fortran.clone(), vec![0]].concat()[..]] {
        let context = npy("'<i2'", "True", "(3, 2)", &bytes(cut));
        let path = folder.write("cut.npz", feedback(context, npy("'<i2'", "True", "(3, 2, 2)", &bytes(&pi_fortran))));
        let text = read_table(&path, Format::Obp).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("cut.npz: context: should have"), "{text}");
    }
}

#[test]
fn slates_of_open_bandit_pipeline_are_named() {
    let folder = Folder::new();
    let array = || npy("'|u1'", "False", "(2,)", &[0, 1]);
    let path = folder.write("slates.npz", npz(&[("slate_id", array()), ("action", array()), ("position", array())]));
    let text = read_table(&path, Format::Obp).map(|_| ()).unwrap_err().to_string();
    assert!(
        text.ends_with(
            "is that of slates, which choose several actions at once, one for each position (slate_id): these are not read; \
             the records of one position are"
        ),
        "{text}"
    );
    let length = npy("'|u1'", "False", "()", &[3]);
    let path = folder.write("lists.npz", npz(&[("len_list", length), ("action", array())]));
    let text = read_table(&path, Format::Obp).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("slates") && text.contains("(len_list is 3, and there is no array position)"), "{text}");
}
