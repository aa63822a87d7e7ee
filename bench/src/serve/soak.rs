//! The service under load for minutes. Its memory must stay flat.

use std::time::Duration;

use clap::Args;

use super::bodies::Bodies;
use super::load::Load;
use super::servers::Server;
use super::{CONNECTIONS, Paths, empty};
use crate::report::{number, publish, say, table};
use crate::work::Result;

/// The service under a steady load for minutes, with rounds that are learned from, and its memory
#[derive(Debug, Args)]
pub(crate) struct Soak {
    #[command(flatten)]
    paths: Paths,
    /// How long
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Decisions a second, each with its reward
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
}

/// Between two looks at the memory.
const EVERY: Duration = Duration::from_secs(30);

impl Soak {
    pub(crate) fn run(&self) -> Result<()> {
        let (folder, file) = empty(&self.paths.data.join("soak"), "1s")?;
        let server = Server::serve(&self.paths.surefoot, &file, &folder, None)?;
        let bodies = Bodies::new();
        let (mut next, mut refused) = (0, 0);
        let mut rows: Vec<[String; 4]> = Vec::new();
        for look in 1..=2 * self.minutes {
            let load = Load {
                to: server.address,
                connections: CONNECTIONS,
                time: EVERY,
                rate: Some(self.rate),
                first: next,
                request: bodies.single(),
                follow: Some(bodies.rewarded()),
            };
            let answered = load.run()?;
            next = answered.next;
            refused += answered.refused;
            let memory = server.memory().ok_or("the memory of the process cannot be read")?;
            let row = [
                format!("{} s", look * EVERY.as_secs()),
                next.to_string(),
                format!("{} ms", number(answered.quantile(0.99))),
                format!("{memory:.0} MB"),
            ];
            say(&row.join(", "))?;
            rows.push(row);
        }
        let about = format!(
            "{} decisions a second for {} minutes, each with its reward, on {CONNECTIONS} connections; {refused} requests were \
             refused. Nothing is learned from: rounds end by hand only.",
            self.rate, self.minutes
        );
        let body = table(["after", "decisions", "p99", "memory"], &rows);
        publish(&self.paths.out, "soak", "The service under load for ten minutes", &format!("{about}\n\n{body}"))
    }
}
