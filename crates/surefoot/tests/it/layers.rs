//! The modules from the bottom to the top: each may use those on earlier lines, and no others.

use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom to the top. Modules on one line do not use each other.
const LAYERS: [&[&str]; 16] = [
    &["error"],
    &["wire"],
    &["contexts", "observer"],
    &["math"],
    &["fingerprint"],
    &["features", "logs", "estimator", "optim"],
    &["policy"],
    &["model"],
    &["certificate", "objective"],
    &["evaluation", "audit"],
    &["learn"],
    &["work"],
    &["session"],
    &["worlds"],
    &["simulate"],
    &["lib"],
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn no_room_uses_one_that_comes_after_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let layer = |room: &str| LAYERS.iter().position(|rooms| rooms.contains(&room));
    let mut seen = 0;
    for path in files {
        let place = path.strip_prefix(&src).unwrap().display().to_string();
        // Tests may use anything.
        if place.contains("tests") {
            continue;
        }
        let room = place.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        let own = layer(&room).unwrap_or_else(|| panic!("{place}: no layer has the room {room}"));
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for part in line.split("crate::").skip(1) {
                let used: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let Some(other) = layer(&used) else { continue };
                seen += 1;
                assert!(
                    used == room || other < own,
                    "{place}: {room} (layer {own}) may not use {used} (layer {other}): {line}"
                );
            }
        }
    }
    assert!(seen > 200, "only {seen} imports were found: does this test still read them?");
}
