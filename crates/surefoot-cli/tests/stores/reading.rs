//! Reading from a store.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::between::{Rule, proxy};
use super::server::{Store, free_port};
use super::{failed, folder, passed, run, run_at};

const LEARN: &str = "learn --actions 2 --algorithm thompson --quiet";

#[test]
fn an_object_gives_what_the_file_gives_in_every_format_and_packing() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    for name in ["logs.parquet", "logs.jsonl", "logs.csv.gz", "logs.jsonl.zst", "logs.parquet.gz"] {
        if name != "logs.parquet.gz" {
            passed(&run(at, &store, &format!("convert logs.csv --out {name}")));
        }
    }
    // Parquet within gzip is not written, but read.
    let gzip = std::process::Command::new("gzip").args(["-k", "logs.parquet"]).current_dir(at).status().unwrap();
    assert!(gzip.success());
    passed(&run(at, &store, &format!("{LEARN} logs.csv --out file.safetensors")));
    let whole = fs::read(at.join("file.safetensors")).unwrap();
    for name in ["logs.csv", "logs.csv.gz", "logs.parquet", "logs.jsonl.zst", "logs.parquet.gz"] {
        store.put(&format!("one/{name}"), &fs::read(at.join(name)).unwrap());
        passed(&run(at, &store, &format!("{LEARN} {name} --out file.safetensors")));
        passed(&run(at, &store, &format!("{LEARN} s3://bkt/one/{name} --out object.safetensors")));
        let [file, object] = ["file", "object"].map(|name| fs::read(at.join(format!("{name}.safetensors"))).unwrap());
        assert!(file == object, "{name}");
    }
    // A prefix is a folder, with and without the slash.
    for part in ["0", "1"] {
        store.put(&format!("parts/{part}.csv"), &fs::read(at.join(format!("parts/{part}.csv"))).unwrap());
    }
    store.put("parts/_SUCCESS", b"");
    for prefix in ["s3://bkt/parts", "s3://bkt/parts/"] {
        passed(&run(at, &store, &format!("{LEARN} {prefix} --out object.safetensors")));
        assert!(fs::read(at.join("object.safetensors")).unwrap() == whole, "{prefix}");
    }
    // Every command that reads a log.
    for command in
        ["lint", "evaluate --policy logged --actions 2", "select --policy logged --policy uniform --actions 2"]
    {
        let from = |log: &str| passed(&run(at, &store, &format!("{command} {log} --json --quiet")));
        assert_eq!(
            from("logs.csv").replace("logs.csv", "LOG"),
            from("s3://bkt/one/logs.csv").replace("s3://bkt/one/logs.csv", "LOG")
        );
    }
}

#[test]
fn a_cache_is_used_again_until_the_object_changes() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    let logs = fs::read_to_string(at.join("logs.csv")).unwrap();
    store.put("logs.csv", logs.as_bytes());
    let command = format!("{LEARN} s3://bkt/logs.csv --cache cache --out p.safetensors");
    let caches = || fs::read_dir(at.join("cache")).unwrap().count();
    passed(&run(at, &store, &command));
    let first = fs::read(at.join("p.safetensors")).unwrap();
    passed(&run(at, &store, &command));
    assert_eq!(caches(), 1);
    assert!(fs::read(at.join("p.safetensors")).unwrap() == first);
    // The size is the same, and the tag is another one.
    store.put("logs.csv", logs.replacen(",0.5,0,", ",0.5,1,", 1).as_bytes());
    passed(&run(at, &store, &command));
    assert_eq!(caches(), 2);
}

#[test]
fn what_is_not_there_is_said() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    let lint = |url: &str| failed(&run(at, &store, &format!("lint {url}")));
    assert!(
        lint("s3://bkt/none.csv").starts_with("error: s3://bkt/none.csv: cannot be read: there is no such object\n")
    );
    assert!(lint("s3://none/a.csv").starts_with("error: s3://none/a.csv: cannot be read: there is no such bucket\n"));
    assert!(lint("s3://bkt/none/").contains("s3://bkt/none/: should be a folder of log files, but has none"));
    assert!(lint("s3:///a.csv").contains("s3:///a.csv: should name a bucket"));
    assert!(lint("ftp://bkt/a.csv").contains("the scheme should be s3, gs, az, http or https, but is ftp"));
    store.put("deep/er/a.csv", b"x\n1\n");
    assert!(lint("s3://bkt/deep").contains("without folders in it, but has the folder er"));
    store.put("bad.parquet", &[b'x'; 100]);
    assert!(
        lint("s3://bkt/bad.parquet")
            .contains("s3://bkt/bad.parquet: not a readable Parquet file: should begin and end with")
    );
    let none = run(at, &store, "score s3://bkt/none.safetensors logs.csv");
    assert!(failed(&none).contains("s3://bkt/none.safetensors: cannot be read: there is no such object"));
    let none = run(at, &store, "verify s3://bkt/deep");
    assert!(failed(&none).contains("s3://bkt/deep: no certificates.json"));
}

#[test]
fn wrong_credentials_are_refused_in_words() {
    // From the first action on, the server knows nobody.
    let Some(store) = Store::start_with(&[("INITIAL_NO_AUTH_ACTION_COUNT", "0")]) else { return };
    let folder = folder();
    let said = failed(&run(folder.path(), &store, "lint s3://bkt/logs.csv"));
    assert!(said.contains("s3://bkt/logs.csv: cannot be read: the store denies access: the credentials"), "{said}");
    let said = failed(&run(folder.path(), &store, &format!("{LEARN} logs.csv --out s3://bkt/p.safetensors")));
    assert!(said.contains("s3://bkt/p.safetensors: cannot be written: the store denies access"), "{said}");
}

#[test]
fn a_store_without_encryption_must_be_allowed_and_one_that_is_not_there_is_an_error() {
    let folder = folder();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.current_dir(folder.path()).args(["lint", "s3://bkt/logs.csv"]);
    command.env("AWS_ENDPOINT", "http://127.0.0.1:9").env("AWS_ACCESS_KEY_ID", "k").env("AWS_SECRET_ACCESS_KEY", "s");
    let said = failed(&command.env_remove("AWS_ALLOW_HTTP").output().unwrap());
    assert!(said.contains("s3://bkt/logs.csv: cannot be read: "), "{said}");
    let said = failed(&run_at(folder.path(), free_port(), "lint s3://bkt/logs.csv"));
    assert!(said.contains("s3://bkt/logs.csv: cannot be read: ") && said.contains("refused"), "{said}");
}

#[test]
fn a_connection_that_is_cut_is_opened_again_some_times() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    passed(&run(at, &store, "convert logs.csv --out logs.parquet"));
    for name in ["logs.csv", "logs.parquet"] {
        store.put(name, &fs::read(at.join(name)).unwrap());
        passed(&run(at, &store, &format!("{LEARN} {name} --out file.safetensors")));
        let cuts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&cuts);
        let port = proxy(store.port, move |request| match request.line.starts_with("GET /bkt/logs") {
            true if counted.fetch_add(1, Ordering::Relaxed) < 2 => Rule::Cut(700),
            _ => Rule::Pass,
        });
        passed(&run_at(at, port, &format!("{LEARN} s3://bkt/{name} --out object.safetensors")));
        assert!(cuts.load(Ordering::Relaxed) > 2);
        let [file, object] = ["file", "object"].map(|name| fs::read(at.join(format!("{name}.safetensors"))).unwrap());
        assert!(file == object, "{name}");
        // After 700 bytes, nothing more comes.
        let port = proxy(store.port, |request| match request.header("range") {
            _ if !request.line.starts_with("GET /bkt/logs") => Rule::Pass,
            None => Rule::Cut(700),
            Some(range) if range.starts_with("bytes=0-") => Rule::Cut(700),
            Some(_) => Rule::Cut(0),
        });
        let said = failed(&run_at(at, port, &format!("{LEARN} s3://bkt/{name} --out none.safetensors")));
        let size = fs::metadata(at.join(name)).unwrap().len();
        assert!(said.contains(&format!("s3://bkt/{name}: cannot be read: at byte 700 of {size}: ")), "{said}");
        assert!(!at.join("none.safetensors").exists());
    }
}

#[test]
fn an_object_that_changes_between_two_passes_is_refused() {
    let Some(store) = Store::start().map(Arc::new) else { return };
    let folder = folder();
    let at = folder.path();
    let logs = fs::read_to_string(at.join("logs.csv")).unwrap();
    for (name, other) in
        [("same.csv", logs.replacen(",0.5,0,", ",0.5,1,", 1)), ("longer.csv", format!("{logs}1,1,1,0.5,1,v1\n"))]
    {
        store.put(name, logs.as_bytes());
        let (gets, into) = (AtomicUsize::new(0), Arc::clone(&store));
        let port = proxy(store.port, move |request| {
            if request.line.starts_with("GET /bkt/") && gets.fetch_add(1, Ordering::Relaxed) == 1 {
                into.put(name, other.as_bytes());
            }
            Rule::Pass
        });
        let said = failed(&run_at(at, port, &format!("{LEARN} s3://bkt/{name} --out none.safetensors")));
        assert!(said.contains(&format!("s3://bkt/{name}: ")) && said.contains("changed while it was read"), "{said}");
        assert!(!at.join("none.safetensors").exists());
    }
}
