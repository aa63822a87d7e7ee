//! `surefoot mcp`: a server of the Model Context Protocol, for agents.

use std::path::PathBuf;

use clap::Args;
use surefoot_serve::Client;
use surefoot_terminal::{Failure, Result};

/// Let agents decide, reward and read certificates, by the Model Context Protocol
///
/// Speaks JSON-RPC 2.0 on the standard streams, one message per line, and asks a running surefoot serve for everything. The
/// environment variable SUREFOOT_KEY is the key to ask with: one with the roles decide, reward and read allows all tools.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  SUREFOOT_KEY=... surefoot mcp --url http://127.0.0.1:8080")]
pub(crate) struct Mcp {
    /// Address of the service
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    /// File of the certificates that are trusted, in PEM, for an address that begins with https
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Mcp {
    pub(crate) fn run(self) -> Result<()> {
        let key = std::env::var("SUREFOOT_KEY").ok().filter(|key| !key.is_empty());
        let client = Client::new(&self.url, self.ca.as_deref()).map_err(Failure::new)?.with_key(key.as_deref());
        surefoot_serve::mcp(std::io::stdin().lock(), std::io::stdout().lock(), &client).map_err(Failure::new)
    }
}
