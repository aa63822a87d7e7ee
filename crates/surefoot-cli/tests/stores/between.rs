//! What stands between the program and a server: it passes requests on, cuts answers, or refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// What happens to a request.
pub(crate) enum Rule {
    Pass,
    /// The connection ends after so many bytes of the answer's body.
    Cut(usize),
    /// The request is refused with this status.
    Refuse(u16),
}

/// A request: its first line, and all of its headers in lower case.
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection.
    pub(crate) fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let mut headers = String::new();
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).ok()?;
            if header.trim().is_empty() {
                break;
            }
            // One request per connection.
            if !header.to_ascii_lowercase().starts_with("connection:") {
                headers.push_str(&header);
            }
        }
        let mut request = Request { line: line.trim_end().to_owned(), headers, body: Vec::new() };
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        stream.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let found = self.headers.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(found[name.len() + 1..].trim().to_owned())
    }
}

/// Listens on a port, and answers each connection in a thread of its own.
pub(crate) fn serve(answer: impl Fn(Request, &mut TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), answer) = (stream, Arc::clone(&answer)) else { return };
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                if let Some(request) = Request::read(&mut reader) {
                    answer(request, &mut stream);
                }
            });
        }
    });
    port
}

/// A proxy before the server at a port.
pub(crate) fn proxy(to: u16, rule: impl Fn(&Request) -> Rule + Send + Sync + 'static) -> u16 {
    serve(move |request, stream| {
        let rule = rule(&request);
        if let Rule::Refuse(status) = rule {
            let _ = write!(stream, "HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            return;
        }
        let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        write!(server, "{}\r\n{}Connection: close\r\n\r\n", request.line, request.headers).unwrap();
        server.write_all(&request.body).unwrap();
        let mut answer = Vec::new();
        let _ = server.read_to_end(&mut answer);
        let body = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(answer.len(), |end| end + 4);
        let end = match rule {
            Rule::Cut(bytes) => (body + bytes).min(answer.len()),
            Rule::Pass | Rule::Refuse(_) => answer.len(),
        };
        let _ = stream.write_all(&answer[..end]);
    })
}
