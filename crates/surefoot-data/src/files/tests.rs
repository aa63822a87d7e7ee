//! Every file is new and whole or as it was before, whatever fails.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use surefoot::learn::LearnerSettings;
use surefoot::observer::Silent;
use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
use surefoot::{FeatureMap, Gate, Policy as _, Session};
use tempfile::TempDir;

use super::faults::fail_at;
use super::*;
use crate::{
    ColumnNames, LearnRequest, Learned, LogReader, Prior, ReadRequest, Rounds, RunFiles, certificates_path, learn_from,
    read_certificates, read_policy, read_session, write_learned_to, write_session,
};

/// All files below a folder with their content; a folder has none.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut snapshot(&path));
            found.insert(path, None);
        } else {
            found.insert(path.clone(), Some(fs::read(&path).unwrap()));
        }
    }
    found
}

/// Runs `work` in fresh copies of a folder, with an error at the first operation, then at the second, and so on until
/// no operation fails. After each error the folder must be as it was before.
fn survives(prepare: impl Fn(&Path), work: impl Fn(&Path) -> Result<()>, whole: impl Fn(&Path)) -> usize {
    for n in 1.. {
        let folder = TempDir::new().unwrap();
        prepare(folder.path());
        let before = snapshot(folder.path());
        let (result, reached) = fail_at(n, || work(folder.path()));
        if !reached {
            result.unwrap();
            whole(folder.path());
            assert!(!snapshot(folder.path()).keys().any(|path| path.to_string_lossy().contains(".surefoot-")));
            return n - 1;
        }
        let text = result.unwrap_err().to_string();
        assert!(text.contains("cannot be written: the disk fails on request"), "{n}: {text}");
        assert!(!text.contains(".surefoot-"), "the error should have the final name: {text}");
        assert!(snapshot(folder.path()) == before, "after an error in operation {n} the folder is another");
    }
    unreachable!("some number of operations is enough")
}

fn learned(records: usize) -> (Learned, Rounds) {
    let folder = TempDir::new().unwrap();
    let mut csv = String::from("x,y,action,pscore,reward,policy_version\n");
    for i in 0..records {
        let (x, y) = ((i * 7 % 11) as f64, (i * 5 % 13) as f64);
        csv += &format!("{x},{y},{},0.5,{},v{}\n", i % 2, i % 3 % 2, 2 * i / records);
    }
    let path = folder.path().join("logs.csv");
    fs::write(&path, csv).unwrap();
    let reader = LogReader::new(vec![path], None, ColumnNames::default());
    let settings = LearnerSettings { posterior: "shaped".into(), epochs: 1, ..LearnerSettings::default() };
    let request = LearnRequest {
        read: ReadRequest::default(),
        prior: Prior::Uniform,
        prior_is_older: false,
        learner: settings.learner().unwrap().0,
        held_back: 0.2,
        exploration: 0.05,
        intercept: true,
        contenders: Vec::new(),
    };
    let rounds = Rounds::read(&reader, &request.read, None).unwrap();
    let learned = learn_from(&rounds, &request, &mut Silent).unwrap();
    assert!(learned.policy.as_gaussian().unwrap().posterior().basis().is_some());
    (learned, rounds)
}

#[test]
fn a_learned_policy_appears_with_its_certificates_or_not_at_all() {
    let ((old, _), (new, rounds)) = (learned(60), learned(80));
    assert_ne!(old.policy.identity(), new.policy.identity());
    let out = |folder: &Path| folder.join("next.safetensors");
    let whole = |folder: &Path| {
        let out = out(folder);
        assert_eq!(read_policy(&out).unwrap().identity(), new.policy.identity());
        assert_eq!(read_certificates(&certificates_path(&out)).unwrap(), new.certificates());
    };
    let write = |folder: &Path| write_learned_to(&out(folder), &new, None);
    let first = survives(|_| {}, write, whole);
    let over_another = survives(|folder| write_learned_to(&out(folder), &old, None).unwrap(), write, whole);
    assert!(first > 10 && over_another > first, "{first} and {over_another} operations");

    let run = |folder: &Path| write_learned_to(&out(folder), &new, Some((&folder.join("run"), &rounds.rounds)));
    let whole = |folder: &Path| {
        whole(folder);
        let run = RunFiles::of(&folder.join("run")).unwrap().read().unwrap();
        assert_eq!((run.rounds.len(), run.policies.len()), (2, 2));
    };
    survives(|folder| write_learned_to(&out(folder), &old, None).unwrap(), run, whole);
    // An empty folder may be there, and stays if writing fails.
    survives(|folder| fs::create_dir(folder.join("run")).unwrap(), run, whole);
}

#[test]
fn a_session_is_saved_whole_or_not_at_all() {
    let world = Synthetic::new(SyntheticSettings::default()).unwrap();
    let first = world.first_policy(FeatureMap::identity(10), 0.2).unwrap();
    let settings = LearnerSettings { epochs: 1, ..LearnerSettings::default() };
    let mut session = Session::new(settings.learner().unwrap().0, Gate::Always, first).unwrap();
    for round in 0..2 {
        let turn = Turn { round, start: 60 * round, n: 60 };
        let logs = world.collect(session.running().as_ref(), turn).unwrap();
        session.take(logs, false, &mut Silent).unwrap();
    }
    let whole = |folder: &Path| {
        let found = read_session(&folder.join("run")).unwrap();
        assert_eq!(found.newest().fingerprint(), session.newest().fingerprint());
        assert_eq!(found.logs().len(), 2);
    };
    let write = |folder: &Path| write_session(&folder.join("run"), &session, Vec::new());
    assert!(survives(|_| {}, write, whole) > 20);
    survives(|folder| fs::create_dir(folder.join("run")).unwrap(), write, whole);
}

#[test]
fn a_single_file_is_new_or_as_it_was() {
    let whole = |folder: &Path| assert_eq!(fs::read(folder.join("a")).unwrap(), b"new");
    let write = |folder: &Path| replace(&folder.join("a"), b"new");
    survives(|_| {}, write, whole);
    survives(|folder| fs::write(folder.join("a"), "old").unwrap(), write, whole);
}

#[test]
fn content_that_fails_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "old").unwrap();
    let failed = replace_with(&path, |file| {
        file.write_all(b"new")?;
        Err(io::Error::other("enough"))
    });
    assert!(failed.unwrap_err().to_string().ends_with("a: cannot be written: enough"));
    assert_eq!(snapshot(folder.path()), BTreeMap::from([(path, Some(b"old".to_vec()))]));
}

#[test]
fn what_is_read_is_not_written() {
    let folder = TempDir::new().unwrap();
    let (log, link) = (folder.path().join("log.csv"), folder.path().join("link.csv"));
    fs::write(&log, "").unwrap();
    std::os::unix::fs::symlink(&log, &link).unwrap();
    let said = |path: &Path| check_not_read(path, [log.as_path()]).map_err(|error| error.to_string());
    let refused = format!("{}: cannot be written: it is one of the files that are read", log.display());
    assert_eq!(said(&log), Err(refused));
    assert!(said(&link).is_err() && said(&folder.path().join("./log.csv")).is_err());
    said(&folder.path().join("new.csv")).unwrap();
    // Neither is a file whose content would be lost.
    check_not_read(Path::new("/dev/null"), [Path::new("/dev/null/.."), Path::new("-")]).unwrap();
}

#[test]
fn outputs_that_cannot_be_written_are_known_before() {
    let folder = TempDir::new().unwrap();
    let said = |path: &Path| check_output(path).unwrap_err().to_string();
    let shown = folder.path().display();
    assert_eq!(
        said(folder.path()),
        format!("{shown}: cannot be written: it should be the name of a file, but is a folder")
    );
    assert_eq!(
        said(&folder.path().join("no/file")),
        format!("{shown}/no/file: cannot be written: there is no folder {shown}/no")
    );
    assert!(said(&folder.path().join("file/")).ends_with("but is a folder"));
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(check_output(&folder.path().join("file/below")).is_err());
    check_output(&folder.path().join("file")).unwrap();
    check_output(&folder.path().join("new")).unwrap();
    assert!(check_output_folder(&folder.path().join("file/run")).is_err());
    check_output_folder(&folder.path().join("a/b/c")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "checks leave nothing behind");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn an_existing_file_keeps_its_mode_and_a_new_one_has_the_usual() {
        let folder = TempDir::new().unwrap();
        let (old, new, usual) = (folder.path().join("old"), folder.path().join("new"), folder.path().join("usual"));
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        fs::write(&usual, "").unwrap();
        replace_all(&[(&old, b"1"), (&new, b"2")]).unwrap();
        assert_eq!((fs::read(&old).unwrap(), fs::read(&new).unwrap()), (b"1".to_vec(), b"2".to_vec()));
        assert_eq!((mode(&old), mode(&new)), (0o640, mode(&usual)));
    }

    #[test]
    fn the_target_of_a_link_is_replaced_and_not_the_link() {
        let folder = TempDir::new().unwrap();
        let real = folder.path().join("real");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("file"), "old").unwrap();
        for (link, target) in [("to-file", "real/file"), ("to-nothing", "real/new")] {
            let link = folder.path().join(link);
            symlink(target, &link).unwrap();
            replace(&link, b"new").unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
            assert_eq!(fs::read(folder.path().join(target)).unwrap(), b"new");
        }
        assert_eq!(snapshot(&real).len(), 2);
    }

    #[test]
    fn pipes_and_devices_are_written_to_and_not_replaced() {
        let before = fs::metadata("/dev/null").unwrap();
        replace(Path::new("/dev/null"), b"gone").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert_eq!(fs::metadata("/dev/null").unwrap().ino(), before.ino());

        let folder = TempDir::new().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut text = String::new();
                File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
                text
            }
        });
        replace(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_is_read_up_to_a_limit() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "123456").unwrap();
        let (spool, size) = Spool::copy_at_most(&path, 6).unwrap();
        assert_eq!((fs::read(spool.path()).unwrap(), size), (b"123456".to_vec(), 6));
        assert_eq!(mode(spool.path()), 0o600);
        let copy = spool.path().to_owned();
        drop(spool);
        assert!(!copy.exists());
        let said = Spool::copy_at_most(&path, 5).unwrap_err().to_string();
        assert!(said.ends_with("a: the size of a pipe in bytes should be at most 5, but is more"), "{said}");
    }
}
