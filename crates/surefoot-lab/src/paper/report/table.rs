//! Tables, for the terminal and for Markdown.

use comfy_table::{CellAlignment, presets};

use super::{Point, Results, Summary};
use crate::paper::methods::Method;
use crate::paper::{LITERAL, TABLE, What};

/// A table of texts.
pub(super) struct Table {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(title: &str, header: &[&str]) -> Self {
        Table { title: title.into(), header: header.iter().map(|&h| h.into()).collect(), rows: Vec::new() }
    }

    /// The table for the terminal.
    pub(super) fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(&self.header);
        self.rows.iter().for_each(|row| {
            table.add_row(row);
        });
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        format!("{}\n\n{}", self.title, table.trim_fmt())
    }

    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("| --- |{}\n", " ---: |".repeat(self.header.len() - 1));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("**{}**\n\n{}{rule}{rows}", self.title, line(&self.header))
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.3}"))
}

fn spread(point: &Point) -> String {
    format!("{:.3} ± {:.3}", point.risk, point.deviation)
}

impl Results<'_> {
    /// The tables of a result.
    pub(super) fn tables(&self, what: What, rows: &[Summary]) -> Vec<Table> {
        let over = format!("mean ± deviation over {}", self.over(what));
        match what {
            What::Table1 => vec![
                self.by_rounds(&format!("Table 1: risk by the number of rounds k, alpha 0.2; {over}"), rows),
                self.literal(
                    &format!("Table 1 with lambda = 1/sqrt(m) and batches of 128, as the paper says; {over}"),
                    rows,
                ),
            ],
            What::Table2 => {
                vec![self.by_rounds(&format!("Table 2: risk by alpha and the number of rounds k; {over}"), rows)]
            }
            What::Figure1 | What::Figure2 | What::Figure3 | What::Figure4 => {
                let alpha = rows.first().map_or(0.0, |row| row.alpha);
                let title = format!("{}: risk after {} rounds, alpha {alpha}; {over}", title(what), self.size.rounds);
                vec![self.last_rounds(&title, rows)]
            }
            What::Scrm => {
                vec![self.last_rounds(
                    &format!("SCRM in its readings: risk after {} rounds; {over}", self.size.rounds),
                    rows,
                )]
            }
            What::Certified => vec![self.certified(rows)],
            What::Best => vec![self.best(rows, &format!("Surefoot and the best of the others: risk; {over}"))],
            What::All => Vec::new(),
        }
    }

    /// One row per set, alpha and number of rounds: each method beside the paper's number.
    fn by_rounds(&self, title: &str, rows: &[Summary]) -> Table {
        let mut header = vec!["set", "alpha", "k"];
        for method in TABLE {
            header.extend(match method {
                Method::Surefoot => vec![method.label(), "proven"],
                _ => vec![method.label(), "paper", "proven"],
            });
        }
        let mut table = Table::new(title, &header);
        for places in groups(rows, |row| (row.set.key(), row.alpha)) {
            let first = places[0];
            // Before the first round, all methods have the first policy; only its features differ.
            if first.alpha != 0.2 {
                let mut cells = vec![self.title(first), first.alpha.to_string(), "0".into()];
                for method in TABLE {
                    let row = places.iter().find(|row| row.method == method);
                    cells.push(row.map_or(String::new(), |row| spread(&row.curve[0])));
                    if method != Method::Surefoot {
                        let paper = self.published(first.set, first.alpha, 0);
                        cells.push(number(paper.map(|paper| paper[0])));
                    }
                    cells.push(String::new());
                }
                table.rows.push(cells);
            }
            for row in groups(places.iter().copied(), |row| row.rounds) {
                let mut cells = vec![self.title(row[0]), row[0].alpha.to_string(), row[0].rounds.to_string()];
                for method in TABLE {
                    let found = row.iter().find(|row| row.method == method);
                    cells.push(found.map_or(String::new(), |row| spread(row.last())));
                    if method != Method::Surefoot {
                        cells.push(number(found.and_then(|row| row.paper)));
                    }
                    cells.push(number(found.and_then(|row| row.last().certified)));
                }
                table.rows.push(cells);
            }
        }
        table
    }

    fn literal(&self, title: &str, rows: &[Summary]) -> Table {
        let mut table = Table::new(title, &["set", "k", "SeqLS", "paper", "proven", "SeqAdjLS", "paper", "proven"]);
        let rows = rows.iter().filter(|row| LITERAL.contains(&row.method));
        for row in groups(rows, |row| (row.set.key(), row.rounds)) {
            let mut cells = vec![self.title(row[0]), row[0].rounds.to_string()];
            for row in row {
                cells.extend([spread(row.last()), number(row.paper), number(row.last().certified)]);
            }
            table.rows.push(cells);
        }
        table
    }

    /// One row per set and alpha, one column per method.
    fn last_rounds(&self, title: &str, rows: &[Summary]) -> Table {
        let mut methods: Vec<Method> = Vec::new();
        rows.iter().for_each(|row| {
            if !methods.contains(&row.method) {
                methods.push(row.method);
            }
        });
        let mut header = vec!["set", "alpha"];
        header.extend(methods.iter().map(|method| method.label()));
        let mut table = Table::new(title, &header);
        for row in groups(rows, |row| (row.set.key(), row.alpha)) {
            let mut cells = vec![self.title(row[0]), row[0].alpha.to_string()];
            for &method in &methods {
                let found = row.iter().find(|row| row.method == method);
                cells.push(found.map_or(String::new(), |row| spread(row.last())));
            }
            table.rows.push(cells);
        }
        table
    }

    fn certified(&self, rows: &[Summary]) -> Table {
        let title = format!(
            "What is proven: expected cost after {} rounds, with the noise of the rewards, alpha 0.2; mean over {} seeds",
            self.size.rounds, self.size.seeds
        );
        let mut table = Table::new(&title, &["set", "method", "true", "proven", "slack", "accuracy", "proven"]);
        for row in rows {
            let last = row.last();
            let slack = last.certified_true_risk.map(|certified| certified - last.true_risk);
            table.rows.push(vec![
                self.title(row),
                row.method.label().into(),
                format!("{:.4} ± {:.4}", last.true_risk, last.true_deviation),
                last.certified_true_risk.map_or(String::new(), |certified| format!("{certified:.4}")),
                number(slack),
                number(Some(-last.risk)),
                number(last.certified.map(|certified| -certified)),
            ]);
        }
        table
    }

    fn best(&self, rows: &[Summary], title: &str) -> Table {
        let header = [
            "set",
            "alpha",
            "k",
            "Surefoot",
            "proven",
            "reward while learning",
            "flat prior",
            "SeqAdjLS",
            "best SCRM",
            "paper",
            "ahead of all",
        ];
        let mut table = Table::new(title, &header);
        for row in groups(rows, |row| (row.set.key(), row.alpha, row.rounds)) {
            let of = |method: Method| row.iter().find(|row| row.method == method);
            let Some(surefoot) = of(Method::Surefoot) else { continue };
            let risk = surefoot.last().risk;
            let scrm = Method::SCRM.iter().filter_map(|&method| of(method));
            let scrm = scrm.min_by(|a, b| a.last().risk.total_cmp(&b.last().risk));
            let paper = self.published(row[0].set, row[0].alpha, row[0].rounds);
            let paper = paper.map(|risks| risks[0].min(risks[1]));
            let rivals = [of(Method::SeqLs), of(Method::SeqAdjLs), scrm];
            let rivals = rivals.iter().flatten().map(|rival| rival.last().risk).chain(paper);
            let best = rivals.fold(f64::INFINITY, f64::min);
            table.rows.push(vec![
                self.title(surefoot),
                surefoot.alpha.to_string(),
                surefoot.rounds.to_string(),
                spread(surefoot.last()),
                number(surefoot.last().certified),
                number(Some(surefoot.mean_reward)),
                of(Method::SurefootFlat).map_or(String::new(), |row| spread(row.last())),
                of(Method::SeqAdjLs).map_or(String::new(), |row| spread(row.last())),
                scrm.map_or(String::new(), |row| spread(row.last())),
                number(paper),
                match best {
                    best if best.is_infinite() => String::new(),
                    best if risk < best => "yes".into(),
                    best => format!("no, by {:.3}", risk - best),
                },
            ]);
        }
        table
    }
}

/// The title of a result.
pub(super) fn title(what: What) -> &'static str {
    match what {
        What::Table1 => "Table 1",
        What::Table2 => "Table 2",
        What::Figure1 => "Figure 1",
        What::Figure2 => "Figure 2",
        What::Figure3 => "Figure 3",
        What::Figure4 => "Figure 4",
        What::Scrm => "SCRM",
        What::Certified => "Certified",
        What::Best => "Best",
        What::All => "All",
    }
}

/// Groups rows by a key, in the order in which the keys first occur.
pub(super) fn groups<'a, K: PartialEq>(
    rows: impl IntoIterator<Item = &'a Summary>,
    key: impl Fn(&Summary) -> K,
) -> Vec<Vec<&'a Summary>> {
    let mut groups: Vec<(K, Vec<&Summary>)> = Vec::new();
    for row in rows {
        let of = key(row);
        match groups.iter_mut().find(|(known, _)| *known == of) {
            Some((_, group)) => group.push(row),
            None => groups.push((of, vec![row])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
