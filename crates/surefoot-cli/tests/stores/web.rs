//! Files of a web server.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::between::{Request, serve};
use super::{failed, folder, passed, run_at};

/// Answers for a file, with parts of it if asked.
fn answer(request: &Request, stream: &mut TcpStream, content: &[u8], tag: Option<&str>, in_parts: bool) {
    let tag = tag.map_or(String::new(), |tag| format!("ETag: \"{tag}\"\r\n"));
    let range = request.header("range").filter(|_| in_parts).map(|range| {
        let (from, to) = range.trim_start_matches("bytes=").split_once('-').unwrap();
        (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap().min(content.len() - 1))
    });
    let (status, part) = match range {
        Some((from, to)) => {
            (format!("206 Part\r\nContent-Range: bytes {from}-{to}/{}", content.len()), &content[from..=to])
        }
        None => ("200 OK".into(), content),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{tag}Connection: close\r\n\r\n", part.len());
    let _ = stream.write_all(head.as_bytes());
    if !request.line.starts_with("HEAD") {
        let _ = stream.write_all(part);
    }
}

#[test]
fn files_of_a_web_server_are_read_with_and_without_tags() {
    let folder = folder();
    let at = folder.path();
    passed(&run_at(at, 9, "convert logs.csv --out logs.parquet"));
    passed(&run_at(at, 9, "learn logs.csv --actions 2 --algorithm thompson --quiet --out file.safetensors"));
    let [csv, parquet] = ["logs.csv", "logs.parquet"].map(|name| fs::read(at.join(name)).unwrap());
    for tag in [Some("one"), None] {
        let (csv, parquet) = (csv.clone(), parquet.clone());
        let port = serve(move |request, stream| match request.line.split(' ').nth(1) {
            Some("/a/logs.csv") => answer(&request, stream, &csv, tag, true),
            Some("/a/logs.parquet") => answer(&request, stream, &parquet, tag, true),
            // A server that sends no parts is enough for small files.
            Some("/whole/logs.csv") => answer(&request, stream, &csv, tag, false),
            _ => drop(stream.write_all(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")),
        });
        for name in ["a/logs.csv", "a/logs.parquet", "whole/logs.csv"] {
            let url = format!("http://127.0.0.1:{port}/{name}");
            passed(&run_at(
                at,
                9,
                &format!("learn {url} --actions 2 --algorithm thompson --quiet --out web.safetensors"),
            ));
            if name != "a/logs.parquet" {
                let [file, web] = ["file", "web"].map(|name| fs::read(at.join(format!("{name}.safetensors"))).unwrap());
                assert!(file == web, "{name}");
            }
        }
        let said = failed(&run_at(at, 9, &format!("lint http://127.0.0.1:{port}/none.csv")));
        assert!(said.contains("/none.csv: cannot be read: there is no such object"), "{said}");
        let said = failed(&run_at(at, 9, &format!("lint http://127.0.0.1:{port}/a/")));
        assert!(said.contains("cannot be listed"), "{said}");
        let said = failed(&run_at(at, 9, &format!("lint http://127.0.0.1:{port}/a/logs.csv?key=1")));
        assert!(said.contains("without a query, but has one"), "{said}");
    }
}

#[test]
fn a_file_of_a_web_server_that_changes_is_refused() {
    let folder = folder();
    let at = folder.path();
    let csv = fs::read(at.join("logs.csv")).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let port = serve(move |request, stream| {
        let version = if asked.fetch_add(1, Ordering::Relaxed) < 4 { "one" } else { "two" };
        answer(&request, stream, &csv, Some(version), true);
    });
    let url = format!("http://127.0.0.1:{port}/logs.csv");
    let said =
        failed(&run_at(at, 9, &format!("learn {url} --actions 2 --algorithm thompson --quiet --out p.safetensors")));
    assert!(said.contains(&format!("{url}: ")) && said.contains("changed while it was read"), "{said}");
}
