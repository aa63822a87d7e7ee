//! Data is held once, from the file to the worlds made of it. Alone in its process, since it asks for the peak of all.

#![allow(missing_docs)]
#![cfg(target_os = "linux")]

#[path = "it/common/mod.rs"]
mod common;

use std::fs::File;
use std::io::{BufWriter, Write};

use common::{Folder, idx};
use surefoot::policy::Uniform;
use surefoot::worlds::{Environment, LabelBandit, Turn};

/// The most bytes that the process has had in memory so far.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
}

const PIXELS: usize = 28 * 28;

/// An image such as MNIST's, of which a fifth is not black.
fn image(i: usize) -> [u8; PIXELS] {
    std::array::from_fn(|j| if (i + j).is_multiple_of(5) { 1 + (i * j % 255) as u8 } else { 0 })
}

#[test]
fn loading_and_simulating_with_three_seeds_takes_little_more_than_the_contexts() {
    let (train, test) = (20_000, 1_000);
    let folder = Folder::new();
    for (split, rows) in [("train", train), ("t10k", test)] {
        let labels: Vec<u8> = (0..rows).map(|i| (i % 10) as u8).collect();
        folder.write(&format!("{split}-labels-idx1-ubyte"), idx(&[rows as u32], &labels));
        let file = File::create(folder.path().join(format!("{split}-images-idx3-ubyte"))).unwrap();
        let mut file = BufWriter::new(file);
        file.write_all(&idx(&[rows as u32, 28, 28], &[])).unwrap();
        (0..rows).for_each(|i| file.write_all(&image(i)).unwrap());
        file.flush().unwrap();
    }
    let filled: usize = (0..train).chain(0..test).map(|i| image(i).iter().filter(|&&v| v != 0).count()).sum();
    // A value and its index, and the offset and the norm of a row.
    let contexts = 6 * filled + 16 * (train + test);

    let before = peak();
    let data = surefoot_data::load(folder.path()).unwrap().unit_rows();
    let worlds = [1, 2, 3].map(|seed| LabelBandit::new(&data, 0.2, seed).unwrap());
    let uniform = Uniform::new(10).unwrap();
    let logs = worlds.map(|world| world.collect(&uniform, Turn { round: 0, start: 0, n: 10_000 }).unwrap());
    let taken = peak() - before;
    assert!(logs.iter().all(|logs| logs.len() == 10_000));
    assert!(10 * taken <= 13 * contexts, "{taken} bytes for contexts of {contexts}");
    assert!(10 * taken >= 9 * contexts, "the measure is of no use: {taken} bytes for contexts of {contexts}");
}
