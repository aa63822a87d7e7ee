//! `growth`: seconds per epoch as the number of records, features or actions grows.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use surefoot::Contexts;

use crate::draw::{Curve, Panel, curves};
use crate::report::{number, publish, table};
use crate::work::{Result, Task, dense, sparse, threads, timed};

/// Measure how the time per epoch grows, and write `growth.md`, `.csv`, `.svg` and `.png`
#[derive(Debug, Args)]
pub(crate) struct Growth {
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
    /// Small sizes, for a test of the command
    #[arg(long)]
    quick: bool,
}

const BATCH: usize = 1024;
const REPEATS: usize = 3;

/// A series of measurements in which one quantity grows and the others are constant.
struct Sweep {
    /// The growing quantity, and the values of the others.
    grows: &'static str,
    setting: &'static str,
    sizes: Vec<usize>,
    /// The contexts and the number of actions for a size.
    make: fn(usize) -> Result<(Contexts, usize)>,
}

/// A measured size.
struct Point {
    size: usize,
    records: usize,
    seconds: f64,
}

fn sweeps(quick: bool) -> [Sweep; 4] {
    let sizes = |full: &[usize], quickly: &[usize]| if quick { quickly.to_vec() } else { full.to_vec() };
    let features = || sizes(&[100, 300, 1000, 3000, 10_000], &[100, 200]);
    [
        Sweep {
            grows: "N",
            setting: "sparse, p = 1,000, 16 non-zero, K = 10",
            sizes: sizes(&[10_000, 100_000, 1_000_000, 10_000_000], &[500, 1000]),
            make: |n| Ok((sparse(n, 1000, 16)?, 10)),
        },
        Sweep {
            grows: "p",
            setting: "dense, N = 8,192, K = 10",
            sizes: features(),
            make: |p| Ok((dense(8 * BATCH, p, 1.0)?, 10)),
        },
        Sweep {
            grows: "p",
            setting: "sparse, 10 % non-zero, N = 8,192, K = 10",
            sizes: features(),
            make: |p| Ok((sparse(8 * BATCH, p, p / 10)?, 10)),
        },
        Sweep {
            grows: "K",
            setting: "dense, p = 100, N = 4,096",
            sizes: sizes(&[2, 10, 100, 1000, 10_000], &[2, 10]),
            make: |k| Ok((dense(4 * BATCH, 100, 1.0)?, k)),
        },
    ]
}

impl Growth {
    pub(crate) fn run(&self) -> Result<()> {
        let sweeps = sweeps(self.quick);
        let bar = ProgressBar::new(sweeps.iter().map(|sweep| sweep.sizes.len() as u64).sum())
            .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} sizes  {msg}")?);
        let pool = threads(1)?;
        let (mut rows, mut slopes) = (Vec::new(), Vec::new());
        let mut csv = String::from("grows,setting,size,records,seconds_per_epoch,seconds_per_record\n");
        let mut panels = ["N", "p", "K"].map(|name| Panel { name: name.to_owned(), curves: Vec::new() });
        for sweep in &sweeps {
            let mut points = Vec::new();
            for &size in &sweep.sizes {
                bar.set_message(format!("{} = {size}, {}", sweep.grows, sweep.setting));
                points.push(pool.install(|| measure(sweep, size))?);
                bar.inc(1);
            }
            let curve: Vec<(f64, f64)> = points.iter().map(|p| (p.size as f64, p.seconds)).collect();
            for Point { size, records, seconds } in points {
                let each = seconds / records as f64;
                rows.push(
                    [sweep.grows, sweep.setting, &size.to_string(), &number(seconds), &number(1e6 * each)]
                        .map(str::to_owned),
                );
                csv += &format!("{},\"{}\",{size},{records},{seconds:e},{each:e}\n", sweep.grows, sweep.setting);
            }
            // Constant costs hide the slope at small sizes; the slope of the last step is closer to the limit.
            let [all, last] = [&curve[..], &curve[curve.len() - 2..]].map(|points| format!("{:.2}", slope(points)));
            slopes.push([sweep.grows.to_owned(), sweep.setting.to_owned(), all, last]);
            let panel = panels.iter_mut().find(|panel| panel.name == sweep.grows).expect("one for each");
            panel.curves.push(Curve { label: sweep.setting.to_owned(), points: curve });
        }
        bar.finish_and_clear();

        fs::create_dir_all(&self.out)?;
        fs::write(self.out.join("growth.csv"), csv)?;
        curves("Seconds an epoch; grey lines are linear growth", &panels)?.write(&self.out.join("growth"))?;
        let body = format!(
            "One thread, batches of 1,024, every record weighs; the smallest of {REPEATS} repeats. A slope of 1 in logarithms is \
             linear growth.\n\n{}\n{}\n![Seconds an epoch](growth.svg)\n",
            table(["grows", "the rest", "slope", "of the last step"], &slopes),
            table(["grows", "the rest", "size", "seconds an epoch", "microseconds a record"], &rows),
        );
        publish(&self.out, "growth", "Growth of an epoch", &body)
    }
}

fn measure(sweep: &Sweep, size: usize) -> Result<Point> {
    let (contexts, actions) = (sweep.make)(size)?;
    let records = contexts.len();
    let task = Task::new(contexts, actions, 1.0)?;
    let mut seconds = f64::INFINITY;
    for _ in 0..REPEATS {
        let (once, done) = timed(|| task.epoch(BATCH));
        done?;
        seconds = seconds.min(once);
    }
    Ok(Point { size, records, seconds })
}

/// The exponent `b` of `seconds = a size^b`, by least squares on the logarithms.
fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / n, sum.1 + p.1 / n));
    let both: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let square: f64 = logs.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    both / square
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_the_exponent() {
        let points: Vec<(f64, f64)> = [1.0, 10.0, 300.0f64].map(|x| (x, 7.0 * x.powf(1.5))).into();
        assert!((slope(&points) - 1.5).abs() < 1e-12);
    }

    #[test]
    fn a_quick_run_writes_everything() {
        let place = tempfile::tempdir().unwrap();
        Growth { out: place.path().to_owned(), quick: true }.run().unwrap();
        for end in ["md", "csv", "svg", "png"] {
            assert!(place.path().join(format!("growth.{end}")).metadata().unwrap().len() > 100, "{end}");
        }
    }
}
