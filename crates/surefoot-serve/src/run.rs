//! RUN: all loops of a file behind one server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use surefoot::LinearGaussian;

use crate::clock::SystemClock;
use crate::config::{KeyConfig, Rules, ServerConfig, TlsConfig};
use crate::error::{Error, Result};
use crate::http::{Limits, Server};
use crate::sequencer::Loop;
use crate::telemetry::{LogStyle, Telemetry};

/// Opens all loops of a file. `place` is the name of the file, for errors.
pub fn open_all(config: &ServerConfig, place: &str, data: &Path, learning_threads: usize) -> Result<Vec<Arc<Loop>>> {
    // All are checked before any is opened.
    let resolved: Vec<(Rules, LinearGaussian)> =
        config.loops.iter().map(|lp| lp.resolve(place)).collect::<Result<_>>()?;
    let storage = config.storage();
    let open = |(lp, (rules, first)): (&crate::config::LoopConfig, (Rules, LinearGaussian))| {
        let clock = Arc::new(SystemClock);
        Loop::open_in(&storage, &data.join(&lp.name), &lp.name, rules, first, clock, learning_threads).map(Arc::new)
    };
    config.loops.iter().zip(resolved).map(open).collect()
}

/// Serves loops until the process ends. `ready` is called with the address when the server listens.
pub fn run(
    loops: Vec<Arc<Loop>>,
    keys: Vec<KeyConfig>,
    listen: SocketAddr,
    limits: Limits,
    ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let telemetry = Telemetry::new(LogStyle::None, None)?;
    run_with(None, &telemetry, keys, listen, limits, || Ok(loops), |address, _| ready(address))
}

/// The same, with TLS if there is a certificate, and with what is told about requests. `open` opens the loops when the server
/// listens: a loop that is new keeps its rules for ever, so nothing may fail after it but the loops.
pub fn run_with(
    tls: Option<&TlsConfig>,
    telemetry: &Telemetry,
    keys: Vec<KeyConfig>,
    listen: SocketAddr,
    limits: Limits,
    open: impl FnOnce() -> Result<Vec<Arc<Loop>>>,
    ready: impl FnOnce(SocketAddr, &[Arc<Loop>]),
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|reason| Error::System { place: "the threads of the server".into(), reason })?;
    let server = runtime.block_on(Server::bind(listen, keys, limits))?.with_tls(tls)?.with_telemetry(telemetry.clone());
    let address = server.address()?;
    // Not inside the runtime: a store may have one of its own.
    let loops = open()?;
    runtime.block_on(async {
        for lp in &loops {
            tokio::spawn(telemetry.clone().follow(Arc::clone(lp)));
        }
        ready(address, &loops);
        server.run(loops).await;
    });
    Ok(())
}
