//! Writing to a store.

use std::fs;

use super::between::{Rule, proxy};
use super::server::Store;
use super::{failed, folder, passed, run, run_at};

#[test]
fn a_policy_is_written_with_the_files_it_names_and_read_again() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    for learner in ["--algorithm thompson", "--members kernel", "--algorithm seq-adj-ls --epochs 1 --lambda 0.5"] {
        let _ = fs::remove_dir_all(at.join("p"));
        fs::create_dir(at.join("p")).unwrap();
        let command = format!("learn logs.csv --actions 2 {learner} --quiet");
        passed(&run(at, &store, &format!("{command} --out p/next.safetensors")));
        passed(&run(at, &store, &format!("{command} --out s3://bkt/p/next.safetensors")));
        for entry in fs::read_dir(at.join("p")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let same =
                store.get(&format!("p/{name}")).as_deref() == Some(&fs::read(at.join("p").join(&name)).unwrap()[..]);
            assert!(same, "{learner}: {name}");
        }
        // A seed and ids decide, so the decisions are the same.
        let score = |policy: &str| passed(&run(at, &store, &format!("score {policy} logs.csv --json --seed 3")));
        assert_eq!(score("p/next.safetensors").lines().count(), score("s3://bkt/p/next.safetensors").lines().count());
        let evaluate = "evaluate logs.csv --actions 2 --quiet --policy";
        passed(&run(at, &store, &format!("{evaluate} s3://bkt/p/next.safetensors")));
        let next = format!("{command} --prior s3://bkt/p/next.safetensors --prior-is-older --out again.safetensors");
        if !learner.contains("kernel") {
            passed(&run(at, &store, &next));
        }
    }
}

#[test]
fn a_run_is_saved_and_verified_in_a_store() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    let learn = "learn logs.csv --actions 2 --algorithm thompson --quiet --out p.safetensors --save";
    passed(&run(at, &store, &format!("{learn} s3://bkt/run")));
    passed(&run(at, &store, &format!("{learn} local")));
    let verified = |run_folder: &str| passed(&run(at, &store, &format!("verify {run_folder} --quiet")));
    assert_eq!(verified("s3://bkt/run"), verified("local"));
    let again = failed(&run(at, &store, &format!("{learn} s3://bkt/run")));
    assert!(again.contains("s3://bkt/run: the folder should be new or empty, but is not"), "{again}");
}

#[test]
fn large_tables_are_sent_in_parts_and_given_up_as_a_whole() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    let row = "1.5,2,1,0.5,1,a long text that takes some room in the file\n";
    let csv = format!("x,y,action,pscore,reward,note\n{}", row.repeat(170_000));
    assert!(csv.len() > 9 << 20);
    fs::write(at.join("big.csv"), &csv).unwrap();
    passed(&run(at, &store, "convert big.csv --out local.csv"));
    passed(&run(at, &store, "convert big.csv --out s3://bkt/big.csv"));
    let whole = fs::read(at.join("local.csv")).unwrap();
    assert!(store.get("big.csv").as_deref() == Some(&whole[..]));
    // The second part is refused: the old object stays, and nothing is left of the new one.
    let port = proxy(store.port, |request| match request.line.contains("partNumber=2") {
        true => Rule::Refuse(403),
        false => Rule::Pass,
    });
    let said = failed(&run_at(at, port, "convert big.csv --ignore x --out s3://bkt/big.csv"));
    assert!(said.contains("s3://bkt/big.csv: cannot be written: the store denies access"), "{said}");
    let said = failed(&run_at(at, port, "convert big.csv --out s3://bkt/other.csv"));
    assert!(said.contains("s3://bkt/other.csv: cannot be written: the store denies access"), "{said}");
    assert!(store.get("big.csv").as_deref() == Some(&whole[..]));
    assert_eq!(store.get("other.csv"), None);
    let uploads = String::from_utf8(store.ask("GET", "/bkt?uploads", b"")).unwrap();
    assert!(!uploads.contains("<Upload>"), "{uploads}");
}

#[test]
fn a_policy_appears_with_its_certificates_or_not_at_all() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    let command = "learn logs.csv --actions 2 --algorithm thompson --quiet --out s3://bkt/next.safetensors";
    let port = proxy(store.port, |request| {
        match request.line.starts_with("PUT /bkt/next.safetensors") && !request.line.contains('?') {
            true => Rule::Refuse(403),
            false => Rule::Pass,
        }
    });
    // There was nothing before, so nothing is there after.
    let said = failed(&run_at(at, port, command));
    assert!(said.contains("s3://bkt/next.safetensors: cannot be written: the store denies access"), "{said}");
    assert_eq!((store.get("next.safetensors"), store.get("next.certificates.json")), (None, None));
    // What was there stays.
    passed(&run(at, &store, command));
    let before = (store.get("next.safetensors"), store.get("next.certificates.json"));
    assert!(before.0.is_some() && before.1.is_some());
    failed(&run_at(at, port, &format!("{command} --seed 5 --exploration 0.2")));
    assert!((store.get("next.safetensors"), store.get("next.certificates.json")) == before);
}

#[test]
fn what_cannot_be_written_is_said_before_the_work() {
    let Some(store) = Store::start() else { return };
    let folder = folder();
    let at = folder.path();
    let out = |url: &str| failed(&run(at, &store, &format!("learn logs.csv --actions 2 --quiet --out {url}")));
    assert!(
        out("s3://none/p.safetensors").contains("s3://none/p.safetensors: cannot be written: there is no such bucket")
    );
    assert!(out("s3://bkt/").contains("should be the name of an object, but is a prefix"));
    assert!(out("http://127.0.0.1/p.safetensors").contains("nothing is written to web servers"));
}
