//! `surefoot paper`: the paper's tables and figures, beside the paper's numbers.

mod cells;
mod methods;
mod published;
mod report;
mod sets;
mod work;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::Serialize;
use surefoot_terminal::{Failure, Result, Running};

use crate::options::{Config, Options};
use cells::{Cell, Store};
use methods::Method;
use report::{Results, Written};
use sets::{Set, Source};
use work::Work;

/// Run the paper's experiments, and print each result beside the paper's number
///
/// The paper is "Sequential Off-Policy Learning with Logarithmic Smoothing". paper/README.md lists the details that it
/// leaves open, the settings that were chosen, and the results that could not be reproduced. Each result is printed as
/// a table and written to the output folder as CSV, Markdown, SVG and PNG. Finished runs are stored there in
/// cells.jsonl, so an interrupted command continues where it stopped. Missing data sets are left out and reported.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  surefoot paper all --quick\n  surefoot paper table1 --sets mnist\n  \
                  surefoot paper figure1 figure2 --seeds 3 --data path/to/data --output results")]
pub struct Paper {
    /// Results to compute
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<What>,
    /// Run everything at small size on the digits that ship with Surefoot, in about a minute
    #[arg(long)]
    quick: bool,
    /// Number of seeds per run, from 1 to 1000; half as many for runs of 100 rounds [default: 6, or 2 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Use only these data sets, separated by commas; the written files then contain no others [default: all]
    #[arg(long, value_name = "SETS", value_delimiter = ',')]
    sets: Vec<Set>,
    /// Folder of the data sets
    #[arg(long, value_name = "FOLDER", env = crate::sets::VARIABLE, default_value = crate::sets::FOLDER, hide_env_values = true)]
    data: PathBuf,
    /// Folder to write the results to [default: paper/results, or paper-quick with --quick]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Repeat runs that are already stored; the newest result is used
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    running: Running,
}

/// A result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// Table 1: risk of the last policy by number of rounds, alpha 0.2
    Table1,
    /// Table 2: the same on CIFAR-100 for other alphas
    Table2,
    /// Figure 1: risk per round, alpha 0.2
    Figure1,
    /// Figure 2: the same with alpha 0
    Figure2,
    /// Figure 3: the same with alpha 0.5
    Figure3,
    /// Figure 4: the same with alpha 1
    Figure4,
    /// Not in the paper: SCRM in each of its variants
    Scrm,
    /// Not in the paper: certified and true risk per round
    Certified,
    /// Not in the paper: Surefoot's best setting compared with the best of all others
    Best,
    /// All results
    All,
}

impl What {
    const EACH: [What; 9] = [
        What::Table1,
        What::Table2,
        What::Figure1,
        What::Figure2,
        What::Figure3,
        What::Figure4,
        What::Scrm,
        What::Certified,
        What::Best,
    ];

    /// The name of the result's files.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
    }

    /// The runs that the result needs, without the seed: set, alpha, rounds and method.
    fn runs(self, size: &Size) -> Vec<(Set, f64, usize, Method)> {
        let rows = |sets: &[Set], alphas: &[f64], rounds: &[usize], methods: &[Method]| {
            let mut runs = Vec::new();
            for &set in sets {
                for &alpha in alphas {
                    runs.extend(rounds.iter().flat_map(|&k| methods.iter().map(move |&m| (set, alpha, k, m))));
                }
            }
            runs
        };
        let figure = |alpha| rows(&Set::ALL, &[alpha], &[size.rounds], &FIGURE);
        match self {
            What::Table1 => {
                let mut runs = rows(&[Set::Mnist, Set::Cifar100], &[0.2], &size.columns, &TABLE);
                runs.extend(rows(&[Set::Mnist, Set::Cifar100], &[0.2], &size.columns, &LITERAL));
                runs
            }
            What::Table2 => rows(&[Set::Cifar100], &[0.0, 0.5, 1.0], &size.columns, &TABLE),
            What::Figure1 => figure(0.2),
            What::Figure2 => figure(0.0),
            What::Figure3 => figure(0.5),
            What::Figure4 => figure(1.0),
            What::Scrm => rows(&Set::ALL, &ALPHAS, &[size.rounds], &Method::SCRM),
            What::Certified => rows(&Set::ALL, &[0.2], &[size.rounds], &[Method::SeqAdjLs, Method::Surefoot]),
            What::Best => {
                let mut runs = rows(&Set::ALL, &ALPHAS, &[size.rounds], &BEST);
                // A uniform first policy cannot be sharpened.
                runs.retain(|run| run.1 > 0.0 || run.3 != Method::SurefootFlat);
                runs.push((Set::Mnist, 0.0, 3 * size.rounds, Method::Surefoot));
                runs
            }
            What::All => What::EACH.iter().flat_map(|what| what.runs(size)).collect(),
        }
    }
}

/// Runs with this many rounds or more are long, because each round learns from all records so far.
const MANY_ROUNDS: usize = 100;

const ALPHAS: [f64; 4] = [0.0, 0.2, 0.5, 1.0];
const TABLE: [Method; 3] = [Method::SeqLs, Method::SeqAdjLs, Method::Surefoot];
const LITERAL: [Method; 2] = [Method::PrintedSeqLs, Method::PrintedSeqAdjLs];
const FIGURE: [Method; 5] = [Method::Surefoot, Method::SeqAdjLs, Method::SeqLs, Method::Scrm, Method::ScrmFixedScale];
const BEST: [Method; 8] = [
    Method::SeqLs,
    Method::SeqAdjLs,
    Method::Scrm,
    Method::ScrmLargeBatch,
    Method::ScrmFixedScale,
    Method::ScrmDivergence,
    Method::SurefootFlat,
    Method::Surefoot,
];

/// The size of all experiments.
#[derive(Debug, Clone, Serialize)]
struct Size {
    quick: bool,
    seeds: u64,
    /// The number of rounds in the figures.
    rounds: usize,
    /// The numbers of rounds in the tables.
    columns: Vec<usize>,
}

impl Size {
    fn new(quick: bool, seeds: Option<u64>) -> Self {
        let (rounds, columns, few) = if quick { (4, vec![1, 2, 4, 8], 2) } else { (10, vec![1, 5, 10, 100], 6) };
        Size { quick, seeds: seeds.unwrap_or(few), rounds, columns }
    }

    /// The number of seeds of a run; half as many if it has many rounds.
    fn seeds_of(&self, rounds: usize) -> u64 {
        if rounds < MANY_ROUNDS { self.seeds } else { self.seeds.div_ceil(2) }
    }

    /// Whether each round of a cell is certified, not only the last one. Figures of certificates need it.
    fn certifies_each(&self, cell: &Cell) -> bool {
        What::Certified.runs(self).contains(&(cell.set, cell.alpha, cell.rounds, cell.method))
    }

    /// All settings of a cell.
    fn config(&self, source: &Source, cell: &Cell) -> Config {
        let common = Options {
            dataset: Some(source.name.into()),
            alpha: Some(cell.alpha),
            rounds: Some(cell.rounds),
            certify: Some(true),
            seed: Some(cell.seed),
            ..Options::default()
        };
        let small = Options { interactions: Some(1200), epochs: Some(4), ..Options::default() };
        let options = cell.method.options(source, cell.rounds).or(common);
        if self.quick { options.or(small).complete() } else { options.complete() }
    }
}

impl Paper {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        self.running.start()?;
        let clock = Instant::now();
        let size = Size::new(self.quick, self.seeds);
        let wanted: Vec<What> = What::EACH
            .into_iter()
            .filter(|what| self.results.contains(what) || self.results.contains(&What::All))
            .collect();
        let sources = self.sources(&wanted, &size)?;
        let output =
            self.output.clone().unwrap_or_else(|| if self.quick { "paper-quick" } else { "paper/results" }.into());
        fs::create_dir_all(&output).map_err(|e| Failure::file(&output, "made", e))?;
        let path = output.join("cells.jsonl");
        let runs = wanted.iter().flat_map(|what| what.runs(&size));
        let cells: Vec<Cell> = runs
            .flat_map(|(set, alpha, rounds, method)| {
                (1..=size.seeds_of(rounds)).map(move |seed| Cell { set, alpha, rounds, method, seed })
            })
            .collect();
        let store = Store::open(&path)?;
        let work = Work { sources: &sources, size: &size, store: &store, folder: &self.data, fresh: self.fresh };
        work.run(&cells, self.running.quiet)?;
        // The new cells are known when the file is read again; it is locked until then.
        drop(store);
        let results = Results { size: &size, sources: &sources, store: &Store::open(&path)? };
        // Writing a result without any of the sets would only overwrite the existing files.
        let about = |what: &What| what.runs(&size).iter().any(|run| sources.iter().any(|source| source.set == run.0));
        let wanted: Vec<What> = wanted.into_iter().filter(about).collect();
        let written: Vec<Written> = wanted.iter().map(|&what| results.write(what, &output)).collect::<Result<_>>()?;
        let answer = Answer { version: env!("CARGO_PKG_VERSION"), size: &size, sources: &sources, results: &written };
        self.running.answer(&answer, || {
            let texts: Vec<&str> = written.iter().map(|answer| answer.text.as_str()).collect();
            let notes = results.notes(&self.missing(&wanted, &size, &sources));
            let seconds = clock.elapsed().as_secs_f64();
            format!("{}\n\n{notes}{seconds:.0} s; files in {}", texts.join("\n\n"), output.display())
        })
    }

    /// The sets that are selected and that the results need.
    fn needed(&self, wanted: &[What], size: &Size) -> Vec<Set> {
        let asked = |set: &Set| self.sets.is_empty() || self.sets.contains(set);
        let used = |set: &Set| wanted.iter().any(|what| what.runs(size).iter().any(|run| run.0 == *set));
        Set::ALL.into_iter().filter(asked).filter(used).collect()
    }

    /// The data sources of the sets.
    fn sources(&self, wanted: &[What], size: &Size) -> Result<Vec<Source>> {
        let needed = self.needed(wanted, size);
        if self.quick {
            return Ok(needed.into_iter().map(Source::digits).collect());
        }
        let found: Vec<Option<Source>> =
            needed.iter().map(|&set| Source::find(set, &self.data)).collect::<Result<_>>()?;
        let found: Vec<Source> = found.into_iter().flatten().collect();
        match (needed.first(), found.is_empty()) {
            (Some(&set), true) => Err(Failure::new(format!("{}: none of the sets is there", self.data.display()))
                .hint(format!(
                    "for {}: {}; surefoot data tells more; --quick needs none",
                    set.title(),
                    sets::how_to_get(set)
                ))),
            (None, _) => Err(Failure::new("none of these results is about these sets").hint("leave --sets out")),
            _ => Ok(found),
        }
    }

    fn missing(&self, wanted: &[What], size: &Size, sources: &[Source]) -> Vec<Set> {
        let there = |set: &Set| sources.iter().any(|source| source.set == *set);
        self.needed(wanted, size).into_iter().filter(|set| !there(set)).collect()
    }
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    version: &'static str,
    size: &'a Size,
    sources: &'a [Source],
    results: &'a [Written],
}
