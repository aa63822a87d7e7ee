//! Tables in memory: whatever types a data frame has, the records are those of the CSV file of the same data.

use std::fs;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryViewBuilder, FixedSizeListBuilder, GenericBinaryBuilder, GenericListBuilder, GenericStringBuilder,
    Int32Builder, StringDictionaryBuilder, StringViewBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, DurationSecondArray, FixedSizeBinaryArray, Float64Array,
    Int32Array, LargeStringArray, ListArray, ListViewArray, NullArray, OffsetSizeTrait, PrimitiveArray, RecordBatch,
    RunArray, StringArray, StringViewArray, StructArray, Time32SecondArray,
};
use arrow_buffer::{ArrowNativeType as _, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat;
use surefoot::{Contexts, RewardRange};
use surefoot_data::{
    Check, ColumnNames, Encoding, EncodingFit, EncodingSettings, Grouping, LogReader, ROWS, Result, Scan,
};
use tempfile::TempDir;

/// All that learning takes from some records.
#[derive(Debug, PartialEq)]
struct Seen {
    scan: Scan,
    action: Vec<u32>,
    propensity: Vec<f64>,
    cost: Vec<f64>,
    eligible: Vec<Vec<u32>>,
    encoding: Encoding,
    contexts: Vec<Vec<f32>>,
}

fn seen(reader: &LogReader) -> Result<Seen> {
    let scan = Scan::of(reader, &Grouping::PolicyVersion)?;
    let mut check = Check::new(scan.actions.clone(), RewardRange::new(0.0, 1.0).unwrap());
    let has_code =
        reader.batches().any(|batch| batch.is_ok_and(|batch| batch.table().column_by_name("code").is_some()));
    let categorical = has_code.then(|| "code".into()).into_iter().collect();
    let settings = EncodingSettings { categorical, ..EncodingSettings::default() };
    let mut fit = EncodingFit::new(settings).unwrap();
    let (mut action, mut propensity, mut cost, mut eligible) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for batch in reader.batches() {
        let batch = batch?;
        let records = check.records(&batch)?;
        action.extend(&records.action);
        propensity.extend(&records.propensity);
        cost.extend(&records.cost);
        eligible.extend(records.eligible.iter().flat_map(|sets| (0..batch.len()).map(|i| sets.get(i).to_vec())));
        fit.add(&batch)?;
    }
    let encoding = fit.finish(&reader.place())?;
    let mut contexts = Vec::new();
    for batch in reader.batches() {
        let dense: Contexts = encoding.encode(&batch?)?.to_dense();
        contexts.extend((0..dense.len()).map(|i| dense.row(i).values().to_vec()));
    }
    Ok(Seen { scan, action, propensity, cost, eligible, encoding, contexts })
}

fn csv(text: &str) -> Seen {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.csv");
    fs::write(&path, text).unwrap();
    seen(&LogReader::new(vec![path], None, ColumnNames::default())).unwrap()
}

fn logs(batches: Vec<RecordBatch>) -> LogReader {
    LogReader::in_memory("logs".into(), batches, ColumnNames::default())
}

fn table<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// The table with one column changed, or added.
fn with(columns: &[(&'static str, ArrayRef)], name: &'static str, array: ArrayRef) -> RecordBatch {
    let mut columns = columns.to_vec();
    match columns.iter_mut().find(|(found, _)| *found == name) {
        Some(column) => column.1 = array,
        None => columns.push((name, array)),
    }
    table(columns)
}

const CSV: &str = "\
action,pscore,reward,x,colour,code,flag,nothing,day,second,context,eligible
0,0.5,1,2,red,7,true,,2025-01-31,2025-01-31T12:00:00,\"[1, 2]\",\"[0, 2]\"
2,0.25,0,,blue,8,false,,2025-02-01,2025-01-31T12:00:01,\"[3, 4]\",\"[1, 2]\"
1,1,1,4,,7,,,2025-01-31,,\"[5, 6]\",\"[0, 1]\"
0,0.5,0,8,red,,true,,,2025-01-31T12:00:00,\"[7, 8]\",\"[0, 1]\"
";

const NOON: i64 = 1_738_324_800;
const X: [Option<f64>; 4] = [Some(2.0), None, Some(4.0), Some(8.0)];
const COLOUR: [Option<&str>; 4] = [Some("red"), Some("blue"), None, Some("red")];
const CONTEXT: [[f64; 2]; 4] = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]];
const ELIGIBLE: [[i32; 2]; 4] = [[0, 2], [1, 2], [0, 1], [0, 1]];
const SECONDS: [Option<i64>; 4] = [Some(NOON), Some(NOON + 1), None, Some(NOON)];

fn primitive<T: ArrowPrimitiveType>(cells: impl IntoIterator<Item = Option<T::Native>>) -> ArrayRef {
    Arc::new(cells.into_iter().collect::<PrimitiveArray<T>>())
}

/// The cells as numbers of every width.
fn numbers(cells: [Option<f64>; 4]) -> Vec<ArrayRef> {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    macro_rules! cast {
        ($($type:ty),*) => {
            vec![$(primitive::<$type>(cells.map(|x| x.map(|x| x as <$type as ArrowPrimitiveType>::Native)))),*]
        };
    }
    let mut arrays = cast!(
        Int8Type,
        Int16Type,
        Int32Type,
        Int64Type,
        UInt8Type,
        UInt16Type,
        UInt32Type,
        UInt64Type,
        Float32Type,
        Float64Type
    );
    arrays.push(primitive::<Float16Type>(cells.map(|x| x.map(Half::from_f64))));
    arrays.push(dictionary::<Int8Type>(&arrays[3].clone()));
    arrays.push(dictionary::<UInt32Type>(&arrays[9].clone()));
    arrays
}

/// An array as the values of a dictionary, each once.
fn dictionary<K: ArrowDictionaryKeyType>(values: &ArrayRef) -> ArrayRef {
    let key = |i: usize| (!values.is_null(i)).then(|| K::Native::from_usize(i).unwrap());
    let keys: PrimitiveArray<K> = (0..values.len()).map(key).collect();
    Arc::new(DictionaryArray::try_new(keys, values.clone()).unwrap())
}

/// The cells as text of every kind.
fn texts(cells: [Option<&str>; 4]) -> Vec<ArrayRef> {
    fn plain<O: OffsetSizeTrait>(cells: [Option<&str>; 4]) -> [ArrayRef; 2] {
        let (mut text, mut bytes) = (GenericStringBuilder::<O>::new(), GenericBinaryBuilder::<O>::new());
        cells.into_iter().for_each(|cell| text.append_option(cell));
        cells.into_iter().for_each(|cell| bytes.append_option(cell));
        [Arc::new(text.finish()), Arc::new(bytes.finish())]
    }
    fn categorical<K: ArrowDictionaryKeyType>(cells: [Option<&str>; 4]) -> ArrayRef {
        let mut builder = StringDictionaryBuilder::<K>::new();
        cells.into_iter().for_each(|cell| builder.append_option(cell));
        Arc::new(builder.finish())
    }
    let (mut text, mut bytes) = (StringViewBuilder::new(), BinaryViewBuilder::new());
    cells.into_iter().for_each(|cell| text.append_option(cell));
    cells.into_iter().for_each(|cell| bytes.append_option(cell));
    let mut arrays = [plain::<i32>(cells), plain::<i64>(cells)].concat();
    arrays.push(Arc::new(text.finish()));
    arrays.push(Arc::new(bytes.finish()));
    let values: Vec<ArrayRef> = arrays.iter().map(dictionary::<UInt32Type>).collect();
    arrays.extend(values);
    arrays.push(categorical::<Int8Type>(cells));
    arrays.push(categorical::<UInt8Type>(cells));
    arrays.push(categorical::<Int16Type>(cells));
    arrays.push(categorical::<UInt16Type>(cells));
    arrays.push(categorical::<Int32Type>(cells));
    arrays.push(categorical::<Int64Type>(cells));
    arrays.push(categorical::<UInt64Type>(cells));
    arrays
}

/// Lists of the given entries, two a record, of every kind.
fn lists(entries: &ArrayRef) -> Vec<ArrayRef> {
    fn of<O: OffsetSizeTrait>(entries: &ArrayRef) -> ArrayRef {
        let field = Arc::new(Field::new("item", entries.data_type().clone(), true));
        let offsets = OffsetBuffer::<O>::from_lengths([2; 4]);
        Arc::new(arrow_array::GenericListArray::<O>::try_new(field, offsets, entries.clone(), None).unwrap())
    }
    let field = Arc::new(Field::new("item", entries.data_type().clone(), true));
    let fixed = arrow_array::FixedSizeListArray::try_new(field, 2, entries.clone(), None).unwrap();
    vec![of::<i32>(entries), of::<i64>(entries), Arc::new(fixed)]
}

/// The table of the CSV file, in the types that pandas would choose.
fn frame() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("action", primitive::<Int64Type>([0, 2, 1, 0].map(Some))),
        ("pscore", primitive::<Float64Type>([0.5, 0.25, 1.0, 0.5].map(Some))),
        ("reward", primitive::<Int64Type>([1, 0, 1, 0].map(Some))),
        ("x", primitive::<Float64Type>(X)),
        ("colour", Arc::new(LargeStringArray::from(COLOUR.to_vec()))),
        ("code", primitive::<Int64Type>([Some(7), Some(8), Some(7), None])),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
        ("nothing", Arc::new(NullArray::new(4))),
        ("day", primitive::<Date32Type>([Some(20_119), Some(20_120), Some(20_119), None])),
        ("second", primitive::<TimestampNanosecondType>(SECONDS.map(|t| t.map(|t| t * 1_000_000_000)))),
        ("context", lists(&primitive::<Float64Type>(CONTEXT.concat().into_iter().map(Some)))[0].clone()),
        ("eligible", lists(&primitive::<Int64Type>(ELIGIBLE.concat().iter().map(|&a| Some(a.into()))))[1].clone()),
    ]
}

#[test]
fn a_frame_gives_the_records_of_its_csv_whatever_its_types() {
    let (expected, frame) = (csv(CSV), frame());
    assert_eq!(expected.contexts[0].len(), expected.encoding.width());
    let context: Vec<f64> = CONTEXT.concat();
    let entries = |at: usize| -> [Option<f64>; 4] { std::array::from_fn(|i| Some(context[at + i])) };
    let mut columns: Vec<(&str, Vec<ArrayRef>)> = vec![
        ("action", numbers([0.0, 2.0, 1.0, 0.0].map(Some))),
        ("action", texts(["0", "2", "1", "0"].map(Some))),
        ("pscore", texts(["0.5", "0.25", "1", "0.5"].map(Some))),
        ("reward", numbers([1.0, 0.0, 1.0, 0.0].map(Some))),
        ("reward", vec![Arc::new(BooleanArray::from(vec![true, false, true, false]))]),
        ("x", numbers(X)),
        ("x", texts([Some("2"), None, Some("4"), Some("8")])),
        ("colour", texts(COLOUR)),
        ("code", numbers([Some(7.0), Some(8.0), Some(7.0), None])),
        ("code", texts([Some("7"), Some("8"), Some("7"), None])),
        ("flag", texts([Some("true"), Some("false"), None, Some("true")])),
        ("flag", numbers([Some(1.0), Some(0.0), None, Some(1.0)])),
        ("nothing", texts([None; 4])),
        ("nothing", numbers([None; 4])),
        ("nothing", vec![dictionary::<Int8Type>(&(Arc::new(NullArray::new(4)) as ArrayRef))]),
    ];
    let hundredths = [50, 25, 100, 50];
    let wide = hundredths.map(|p| Some(i256::from_i128(p)));
    let wide = wide.into_iter().collect::<PrimitiveArray<Decimal256Type>>().with_precision_and_scale(50, 2).unwrap();
    macro_rules! decimals {
        ($type:ty) => {{
            let cells = hundredths.map(|p| Some(p.try_into().unwrap())).into_iter();
            Arc::new(cells.collect::<PrimitiveArray<$type>>().with_precision_and_scale(5, 2).unwrap()) as ArrayRef
        }};
    }
    columns.push(("pscore", vec![Arc::new(wide), decimals!(Decimal128Type)]));
    columns.push(("pscore", vec![decimals!(Decimal64Type), decimals!(Decimal32Type)]));
    let times = |per: i64| SECONDS.map(|t| t.map(|t| t * per));
    columns.push(("second", vec![primitive::<TimestampSecondType>(times(1))]));
    columns.push(("second", vec![primitive::<TimestampMillisecondType>(times(1_000))]));
    columns.push(("second", vec![primitive::<TimestampMicrosecondType>(times(1_000_000))]));
    for (first, second) in numbers(entries(0)).iter().zip(&numbers(entries(4))) {
        columns.push(("context", lists(&joined(first, second))));
    }
    columns.push(("eligible", lists(&primitive::<UInt8Type>(ELIGIBLE.concat().iter().map(|&a| Some(a as u8))))));
    let json = ["[1, 2]", "[3, 4]", "[5, 6]", "[7, 8]"].map(Some);
    columns.push(("context", texts(json)));
    for (name, arrays) in columns {
        for array in arrays {
            let kind = array.data_type().clone();
            // Whole, and in parts that begin anywhere.
            let whole = with(&frame, name, array);
            let parts = vec![whole.slice(0, 1), whole.slice(1, 0), whole.slice(1, 3)];
            for batches in [vec![whole], parts] {
                let found = seen(&logs(batches)).unwrap_or_else(|error| panic!("{name} as {kind}: {error}"));
                assert_eq!(found, expected, "{name} as {kind}");
            }
        }
    }
}

/// One array after the other; a dictionary keeps its kind.
fn joined(a: &ArrayRef, b: &ArrayRef) -> ArrayRef {
    concat(&[a, b]).unwrap()
}

#[test]
fn names_of_actions_may_be_categoricals_in_lists_too() {
    let expected = csv("action,pscore,reward,x,eligible\n\
         red,0.5,1,1,\"[\"\"red\"\",\"\"blue\"\"]\"\nblue,0.5,0,2,\"[\"\"blue\"\",\"\"green\"\"]\"\n\
         red,0.5,0,3,\"[\"\"red\"\",\"\"green\"\"]\"\ngreen,0.5,0,4,\"[\"\"red\"\",\"\"green\"\"]\"\n");
    let sets = ["red", "blue", "blue", "green", "red", "green", "red", "green"].map(Some);
    let [one, two] = [[sets[0], sets[1], sets[2], sets[3]], [sets[4], sets[5], sets[6], sets[7]]].map(texts);
    let frame = [
        ("pscore", primitive::<Float64Type>([Some(0.5); 4])),
        ("reward", primitive::<Int64Type>([1, 0, 0, 0].map(Some))),
        ("x", primitive::<Int64Type>([1, 2, 3, 4].map(Some))),
    ];
    for (action, entries) in texts(["red", "blue", "red", "green"].map(Some)).iter().zip(one.iter().zip(&two)) {
        for eligible in lists(&joined(entries.0, entries.1)) {
            let kind = eligible.data_type().clone();
            let columns = [("action", action.clone()), ("eligible", eligible)];
            let found = seen(&logs(vec![table(columns.into_iter().chain(frame.clone()))])).unwrap();
            assert_eq!(found, expected, "{kind}");
        }
    }
}

#[test]
fn missing_and_empty_lists_are_all_actions() {
    let empty: ArrayRef = Arc::new(NullArray::new(0));
    let field = Arc::new(Field::new("item", DataType::Null, true));
    let offsets = OffsetBuffer::<i32>::from_lengths([0; 4]);
    let nothing: ArrayRef = Arc::new(ListArray::try_new(field, offsets, empty, None).unwrap());
    let mut fixed = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    let mut large = GenericListBuilder::<i64, _>::new(Int32Builder::new());
    for _ in 0..4 {
        fixed.values().append_nulls(2);
        fixed.append(false);
        large.append(false);
    }
    for eligible in [nothing, Arc::new(fixed.finish()), Arc::new(large.finish())] {
        let found = seen(&logs(vec![with(&frame(), "eligible", eligible)])).unwrap();
        assert_eq!(found.eligible, vec![vec![0, 1, 2]; 4]);
    }
}

#[test]
fn a_struct_becomes_columns_and_a_missing_one_misses_all() {
    let inner = StructArray::try_new(
        vec![Field::new("x", DataType::Float64, true), Field::new("colour", DataType::Utf8View, true)].into(),
        vec![
            primitive::<Float64Type>([Some(2.0), Some(3.0), Some(4.0), Some(8.0)]),
            Arc::new(StringViewArray::from(vec!["red", "blue", "grey", "red"])),
        ],
        Some(vec![true, false, true, true].into()),
    );
    let columns = frame().into_iter().take(3).chain([("user", Arc::new(inner.unwrap()) as ArrayRef)]);
    let found = seen(&logs(vec![table(columns)])).unwrap();
    let names = ["user.x", "user.x is missing", "user.colour=grey", "user.colour=red"];
    assert_eq!(found.encoding.names(), names);
    assert_eq!(found.contexts[1], [0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn large_batches_are_cut_without_a_copy_and_rows_keep_their_numbers() {
    let n = 2 * ROWS + 100;
    let long = |propensity: Float64Array| {
        let names = StringArray::from_iter_values((0..n).map(|i| ["a", "b", "c"][i % 3]));
        let entries = primitive::<Float64Type>((0..2 * n).map(|i| Some((i / 2) as f64)));
        let field = Arc::new(Field::new("item", DataType::Float64, true));
        let offsets = OffsetBuffer::<i32>::from_lengths(std::iter::repeat_n(2, n));
        table([
            ("action", dictionary_of(&names)),
            ("pscore", Arc::new(propensity)),
            ("reward", primitive::<Float64Type>((0..n).map(|_| Some(1.0)))),
            ("context", Arc::new(ListArray::try_new(field, offsets, entries, None).unwrap())),
        ])
    };
    let whole = long(Float64Array::from(vec![0.5; n]));
    let none = whole.slice(0, 0);
    let reader = logs(vec![none.clone(), whole.clone(), none, whole.slice(5, 10)]);
    let batches: Vec<_> = reader.batches().map(|batch| batch.unwrap()).collect();
    assert_eq!(batches.iter().map(|batch| batch.len()).collect::<Vec<_>>(), [ROWS, ROWS, 100, 10]);
    assert_eq!(batches.iter().map(|batch| batch.row()).collect::<Vec<_>>(), [0, ROWS, 2 * ROWS, n]);
    let values = |table: &RecordBatch| table.column(1).as_primitive::<Float64Type>().values().as_ptr();
    assert_eq!(values(batches[1].table()), values(&whole.slice(ROWS, 1)));
    let found = seen(&reader).unwrap();
    assert_eq!((found.scan.records, found.action.len()), (n + 10, n + 10));
    assert!((0..n).all(|i| found.action[i] as usize == i % 3 && found.contexts[i] == [i as f32; 2]));
    assert_eq!(found.contexts[n], [5.0; 2]);

    let mut propensity = vec![0.5; n];
    propensity[ROWS + 3] = 1.2;
    let said = seen(&logs(vec![long(Float64Array::from(propensity))])).unwrap_err().to_string();
    assert_eq!(said, format!("logs, row {}: pscore should be in (0, 1], but is 1.2", ROWS + 3));
    let said = seen(&logs(vec![])).unwrap_err().to_string();
    assert_eq!(said, "logs: should have records, but has none");
}

fn dictionary_of(names: &StringArray) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    names.iter().for_each(|name| builder.append_option(name));
    Arc::new(builder.finish())
}

#[test]
fn what_cannot_be_understood_is_refused_with_its_place() {
    let said = |name, array| seen(&logs(vec![with(&frame(), name, array)])).unwrap_err().to_string();
    let missing = primitive::<Float64Type>([Some(0.5), Some(0.5), Some(0.5), None]);
    assert_eq!(said("pscore", missing), "logs, row 3: pscore should be a number, but is missing");
    let categories = texts(["0.5", "half", "1", "1"].map(Some));
    for array in categories {
        assert_eq!(said("pscore", array), "logs, row 1: pscore should be a number, but is \"half\"");
    }
    let bytes = arrow_array::LargeBinaryArray::from_vec(vec![b"a", b"b", b"\xff", b"d"]);
    assert_eq!(said("colour", Arc::new(bytes)), "logs, row 2: colour should be UTF-8, but is \\xff");
    let late = primitive::<TimestampSecondType>([Some(0), Some(i64::MAX), None, None]);
    assert!(said("second", late).starts_with("logs, row 1: second should be in the years 0 to 9999, but is "));
    let lists_of_texts = lists(&(Arc::new(StringArray::from(vec!["a"; 8])) as ArrayRef));
    for array in lists_of_texts {
        let text = said("context", array);
        assert!(
            text.starts_with("logs: the type of column context should be lists of numbers, but is List("),
            "{text}"
        );
    }

    let entries = primitive::<Int32Type>([1, 2, 3, 4].map(Some));
    let field = Arc::new(Field::new("item", DataType::Int32, true));
    let starts: ScalarBuffer<i32> = vec![0, 1, 2, 3].into();
    let sizes: ScalarBuffer<i32> = vec![1; 4].into();
    let views = ListViewArray::try_new(field, starts, sizes, entries.clone(), None).unwrap();
    let ends = Int32Array::from(vec![4]);
    let runs = RunArray::try_new(&ends, &Int32Array::from(vec![7])).unwrap();
    let pairs = lists(&(Arc::new(Int32Array::from(vec![0; 8])) as ArrayRef))[0].clone();
    let pair = Arc::new(Field::new("item", pairs.data_type().clone(), true));
    let nested = ListArray::try_new(pair, OffsetBuffer::from_lengths([1; 4]), pairs.clone(), None);
    let fixed = FixedSizeBinaryArray::try_from_iter([b"ab"; 4].into_iter()).unwrap();
    let refused: [ArrayRef; 7] = [
        Arc::new(views),
        Arc::new(runs),
        Arc::new(nested.unwrap()),
        dictionary::<Int8Type>(&pairs),
        Arc::new(DurationSecondArray::from(vec![1; 4])),
        Arc::new(Time32SecondArray::from(vec![1; 4])),
        Arc::new(fixed),
    ];
    for array in refused {
        let expected = format!(
            "logs: odd should be numbers, booleans, text, times, dates or decimals, or lists of these or of structs of these, but is of type {}; \
             it can be left out by name",
            array.data_type()
        );
        assert_eq!(said("odd", array), expected);
    }

    let twice = ["x", "x"].map(|name| Field::new(name, DataType::Int32, true));
    let twice = RecordBatch::try_new(Arc::new(Schema::new(twice.to_vec())), vec![entries.clone(), entries]).unwrap();
    assert_eq!(seen(&logs(vec![twice])).unwrap_err().to_string(), "logs: it has two columns x");
}
