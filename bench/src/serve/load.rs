//! LOAD: callers of a server on this machine. Connections stay open; each sends a request, waits for the answer, and sends
//! the next.
//!
//! Bodies must differ, since an event is decided once, and a steady load must be counted from the moment at which a request
//! was due, not from the one at which a slow server let it be sent. General tools do one of the two. This generator parses
//! as little as it can: it shares the cores with the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::work::Result;

/// Makes requests: the n-th of all.
pub(crate) type Request = Arc<dyn Fn(u64, &mut Vec<u8>) + Send + Sync>;
/// Makes the request that follows an answer to the n-th, if there is one.
pub(crate) type Follow = Arc<dyn Fn(u64, &[u8], &mut Vec<u8>) + Send + Sync>;

/// What to send.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) to: SocketAddr,
    pub(crate) connections: usize,
    /// How long.
    pub(crate) time: Duration,
    /// Requests a second of all connections together; as many as are answered if there is none.
    pub(crate) rate: Option<f64>,
    /// The number of the first request.
    pub(crate) first: u64,
    pub(crate) request: Request,
    pub(crate) follow: Option<Follow>,
}

/// One answered request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// When it was due.
    pub(crate) due: Instant,
    /// From then to its answer.
    pub(crate) took: Duration,
}

/// What was answered.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    pub(crate) seconds: f64,
    pub(crate) samples: Vec<Sample>,
    /// Answers that were neither 200 nor 201.
    pub(crate) refused: u64,
    /// The number of the request that would have come next.
    pub(crate) next: u64,
}

impl Answered {
    /// Answered requests a second.
    pub(crate) fn rate(&self) -> f64 {
        self.samples.len() as f64 / self.seconds
    }

    /// A quantile of the times, in milliseconds.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        quantile(self.samples.iter(), share)
    }
}

/// A quantile of the times of some samples, in milliseconds.
pub(crate) fn quantile<'a>(samples: impl Iterator<Item = &'a Sample>, share: f64) -> f64 {
    let mut took: Vec<Duration> = samples.map(|sample| sample.took).collect();
    took.sort_unstable();
    let place = ((took.len() as f64 * share) as usize).min(took.len().saturating_sub(1));
    took.get(place).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
}

impl Load {
    /// Sends it from one thread, and blocks until it is over.
    pub(crate) fn run(&self) -> Result<Answered> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.all())
    }

    async fn all(&self) -> Result<Answered> {
        let next = Arc::new(AtomicU64::new(self.first));
        let began = Instant::now();
        let callers: Vec<_> =
            (0..self.connections).map(|_| tokio::spawn(caller(self.clone(), Arc::clone(&next), began))).collect();
        let mut all = Answered::default();
        for one in callers {
            let (samples, refused) = one.await??;
            all.samples.extend(samples);
            all.refused += refused;
        }
        all.seconds = began.elapsed().as_secs_f64();
        all.next = next.load(Ordering::Relaxed);
        Ok(all)
    }
}

async fn caller(load: Load, next: Arc<AtomicU64>, began: Instant) -> Result<(Vec<Sample>, u64)> {
    let mut stream = TcpStream::connect(load.to).await?;
    stream.set_nodelay(true)?;
    let (mut out, mut answer) = (Vec::new(), Vec::new());
    let (mut samples, mut refused) = (Vec::new(), 0);
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let due = match load.rate {
            None => Instant::now(),
            Some(rate) => began + Duration::from_secs_f64((number - load.first) as f64 / rate),
        };
        if due >= began + load.time {
            next.fetch_sub(1, Ordering::Relaxed);
            return Ok((samples, refused));
        }
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
        out.clear();
        (load.request)(number, &mut out);
        let status = exchange(&mut stream, &out, &mut answer).await?;
        match status {
            200 | 201 => samples.push(Sample { due, took: due.elapsed() }),
            _ => refused += 1,
        }
        if let Some(follow) = &load.follow {
            out.clear();
            follow(number, &answer, &mut out);
            refused += u64::from(exchange(&mut stream, &out, &mut answer).await? > 201);
        }
    }
}

/// Sends a request and reads the answer to it: the status, and the body in `answer`.
async fn exchange(stream: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>) -> Result<u16> {
    stream.write_all(request).await?;
    answer.clear();
    loop {
        if stream.read_buf(answer).await? == 0 {
            return Err("the server closed the connection".into());
        }
        if let Some((status, head, length)) = head(answer)
            && answer.len() >= head + length
        {
            answer.drain(..head);
            return Ok(status);
        }
    }
}

/// The status of an answer, the length of its head and that of its body, if the head is whole.
fn head(answer: &[u8]) -> Option<(u16, usize, usize)> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.get(9..12)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Some((status, end + 4, length.unwrap_or(0)))
}

/// A request without keys.
pub(crate) fn post(path: &str, kind: &str, body: &[u8], out: &mut Vec<u8>) {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

/// One request on a connection of its own.
pub(crate) fn once(to: SocketAddr, request: &[u8]) -> Result<(u16, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut answer = Vec::new();
        let status = exchange(&mut TcpStream::connect(to).await?, request, &mut answer).await?;
        Ok((status, answer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_when_they_are_whole() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(head(answer), Some((201, answer.len() - 2, 2)));
        assert_eq!(head(&answer[..30]), None);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let due = Instant::now();
        let samples: Vec<_> = (0..100).map(|i| Sample { due, took: Duration::from_millis(99 - i) }).collect();
        assert_eq!(quantile(samples.iter(), 0.99), 99.0);
        assert_eq!(quantile(samples.iter(), 0.5), 50.0);
    }
}
