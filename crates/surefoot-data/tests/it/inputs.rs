//! A log gives the same records however it comes: plain, compressed, or as a folder of files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array};
use arrow_select::concat::concat_batches;
use flate2::Compression;
use flate2::write::GzEncoder;
use surefoot_data::{ColumnNames, Format, LogReader, convert, read_table};

use crate::common::Folder;

/// Records that every format can hold, from `first` on.
fn records(first: u32, n: u32) -> RecordBatch {
    let of = |value: fn(u32) -> f64| -> ArrayRef { Arc::new((first..first + n).map(value).collect::<Float64Array>()) };
    let action: ArrayRef = Arc::new((first..first + n).map(|i| i % 3).collect::<UInt32Array>());
    let columns = [
        ("action", action),
        ("pscore", of(|i| 1.0 / f64::from(i % 7 + 2))),
        ("reward", of(|i| f64::from(i % 2))),
        ("x", of(|i| f64::from(i % 1024) / 8.0)),
        ("y", of(|i| f64::from(i % 11))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn write(folder: &Folder, name: &str, format: Format, records: RecordBatch) -> PathBuf {
    let path = folder.path().join(name);
    let source = LogReader::in_memory("logs".into(), vec![records], ColumnNames::default());
    convert(&source, &path, format, &[]).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).unwrap()
}

fn reader(path: &Path, format: Option<Format>) -> LogReader {
    LogReader::new(vec![path.to_owned()], format, ColumnNames::default())
}

/// The records of two passes, which must be the same, as one table.
fn rows(reader: &LogReader) -> Result<RecordBatch, String> {
    let pass = || -> Result<RecordBatch, String> {
        let tables = reader.batches().map(|batch| batch.map(|batch| batch.table().clone()));
        let tables: Vec<RecordBatch> = tables.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        Ok(concat_batches(&tables[0].schema(), &tables).unwrap())
    };
    let first = pass()?;
    assert!(pass().unwrap() == first);
    Ok(first)
}

fn refusal(path: &Path, format: Option<Format>) -> String {
    rows(&reader(path, format)).unwrap_err()
}

#[test]
fn every_format_gives_the_same_records_plain_compressed_and_from_a_folder() {
    for format in Format::ALL {
        let folder = Folder::new();
        let end = format.extension();
        let plain = write(&folder, &format!("logs.{end}"), format, records(0, 9000));
        let bytes = fs::read(&plain).unwrap();
        let expected = rows(&reader(&plain, None)).unwrap();
        assert_eq!(expected.num_rows(), 9000, "{format}");
        for (ending, packed) in [("gz", gzip(&bytes)), ("zst", zstd(&bytes)), ("GZ", gzip(&bytes))] {
            let path = folder.write(&format!("packed.{end}.{ending}"), &packed);
            assert!(rows(&reader(&path, None)).unwrap() == expected, "{format} {ending}");
            let unnamed = folder.write("unnamed", &packed);
            assert!(rows(&reader(&unnamed, Some(format))).unwrap() == expected, "{format} {ending} without a name");
            let tables = read_table(&path, format).unwrap().map(Result::unwrap);
            assert_eq!(tables.map(|table| table.num_rows()).sum::<usize>(), 9000, "{format} {ending}");
        }
        // Two parts in the order of their names, one of them compressed, and what is not a log beside them.
        let parts = Folder::new();
        let second = write(&parts, &format!("b.{end}.zst"), format, records(5000, 4000));
        assert_eq!(&fs::read(second).unwrap()[..4], [0x28, 0xb5, 0x2f, 0xfd]);
        write(&parts, &format!("a.{end}"), format, records(0, 5000));
        parts.write("_SUCCESS", "");
        parts.write(&format!(".hidden.{end}"), "not a log");
        let joined = rows(&reader(parts.path(), None)).unwrap();
        assert!(joined == expected, "{format} from a folder");
    }
}

#[test]
fn several_streams_in_one_file_are_one_log() {
    let folder = Folder::new();
    let plain = write(&folder, "logs.csv", Format::Csv, records(0, 50));
    let bytes = fs::read(&plain).unwrap();
    let (one, two) = bytes.split_at(300);
    let expected = rows(&reader(&plain, None)).unwrap();
    for (name, packed) in [("a.csv.gz", [gzip(one), gzip(two)]), ("a.csv.zst", [zstd(one), zstd(two)])] {
        let path = folder.write(name, packed.concat());
        assert!(rows(&reader(&path, None)).unwrap() == expected, "{name}");
    }
}

#[test]
fn a_stream_that_is_cut_anywhere_is_an_error() {
    let folder = Folder::new();
    let plain = write(&folder, "logs.csv", Format::Csv, records(0, 30));
    let bytes = fs::read(&plain).unwrap();
    for (ending, packed) in [("gz", gzip(&bytes)), ("zst", zstd(&bytes))] {
        for end in 0..packed.len() {
            let path = folder.write(&format!("cut.csv.{ending}"), &packed[..end]);
            let text = refusal(&path, None);
            let start = if ending == "gz" { 2 } else { 4 };
            let said = if end >= start { "stream is damaged or ends too early" } else { "as its name says, but is" };
            assert!(text.contains(said), "{ending} at {end}: {text}");
        }
    }
}

#[test]
fn a_stream_with_a_changed_byte_is_an_error_or_the_same_records() {
    let folder = Folder::new();
    let plain = write(&folder, "logs.csv", Format::Csv, records(0, 30));
    let expected = rows(&reader(&plain, None)).unwrap();
    // Written by us, with a checksum of the content.
    for ending in ["gz", "zst"] {
        let name = format!("logs.csv.{ending}");
        let packed = fs::read(write(&folder, &name, Format::Csv, records(0, 30))).unwrap();
        let mut refused = 0;
        for i in 0..packed.len() {
            let mut broken = packed.clone();
            broken[i] ^= 0x11;
            let path = folder.write(&name, &broken);
            match rows(&reader(&path, None)) {
                // Some bytes, such as the time in the header of gzip, do not matter.
                Ok(found) => assert!(found == expected, "{ending} at {i}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > packed.len() / 2, "{ending}: {refused} of {}", packed.len());
    }
}

#[test]
fn a_name_that_promises_another_compression_is_an_error() {
    let folder = Folder::new();
    let text = "action,pscore,reward\n0,0.5,1\n";
    let says = |name: &str, bytes: &[u8]| refusal(&folder.write(name, bytes), None);
    assert!(
        says("a.csv.gz", text.as_bytes()).ends_with("should be compressed with gzip, as its name says, but is not")
    );
    let other = says("b.csv.gz", &zstd(text.as_bytes()));
    assert!(
        other.ends_with("should be compressed with gzip, as its name says, but is compressed with zstd"),
        "{other}"
    );
    let empty = says("c.csv.zst", b"");
    assert!(empty.ends_with("should be compressed with zstd, as its name says, but is empty"), "{empty}");
    assert!(says("d.gz", &gzip(text.as_bytes())).contains("the format is unknown"));
}

#[test]
fn a_stream_that_expands_beyond_all_records_is_an_error() {
    let folder = Folder::new();
    let mut out = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    out.write_all(b"action,pscore,reward\n").unwrap();
    // Blank lines, which a reader skips.
    let blank = vec![b'\n'; 1 << 20];
    for _ in 0..300 {
        out.write_all(&blank).unwrap();
    }
    let bomb = out.finish().unwrap();
    assert!(bomb.len() < 1 << 16);
    for format in [Format::Csv, Format::Parquet] {
        let path = folder.write(&format!("bomb.{}.zst", format.extension()), &bomb);
        let text = refusal(&path, None);
        assert!(text.contains("should expand to at most 500 bytes per byte"), "{format}: {text}");
    }
}

#[test]
fn a_folder_that_is_empty_or_mixed_is_refused_in_words() {
    let says = |files: &[&str], format: Option<Format>| {
        let folder = Folder::new();
        for name in files {
            if let Some(inner) = name.strip_suffix('/') {
                fs::create_dir(folder.path().join(inner)).unwrap();
            } else {
                folder.write(name, "");
            }
        }
        refusal(folder.path(), format).replace(&format!("{}: ", folder.path().display()), "")
    };
    assert_eq!(says(&[], None), "should be a folder of log files, but has none");
    assert_eq!(says(&["_SUCCESS", ".notes"], None), "should be a folder of log files, but has none");
    assert_eq!(
        says(&["a.csv", "b.jsonl.gz"], None),
        "should be a folder of log files of one format, but b.jsonl.gz is jsonl and not csv, as a.csv"
    );
    assert_eq!(
        says(&["a.csv", "notes.txt"], None),
        "should be a folder of log files of one format, but the format of notes.txt is unknown; its files can be named \
         one by one"
    );
    assert_eq!(
        says(&["a.csv"], Some(Format::Vw)),
        "should be a folder of log files of one format, but a.csv is csv and not vw, as the format that is given"
    );
    assert_eq!(
        says(&["a.csv", "day/"], None),
        "should be a folder of log files, without folders in it, but has the folder day"
    );
}

#[test]
fn standard_input_needs_a_format_and_is_read_once() {
    let input = Path::new("-");
    let text = refusal(input, None);
    assert!(text.starts_with("standard input: the format should be given (option format), parquet, csv"), "{text}");
    let twice = LogReader::new(vec![input.into(), input.into()], Some(Format::Csv), ColumnNames::default());
    let last = twice.batches().map(|batch| batch.map_err(|error| error.to_string())).last();
    // The standard input of a test is empty or closed, so the first of them may be refused too.
    assert!(matches!(last, Some(Err(text)) if text.starts_with("standard input: ")));
}
