//! HTTP as it comes in: bounded in what it reads, and for its owner alone on the control socket.

use std::os::unix::fs::PermissionsExt;

use api::{Bounds, Door, serve};
use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// What is answered to `request`, until the connection closes.
async fn answer(request: &[u8]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let door = Door::unix(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let router = Router::new().route("/", get(async || "here"));
    let serving = tokio::spawn(serve(door, router, Bounds::PUBLIC));
    let mut stream = UnixStream::connect(&path).await.unwrap();
    // It may close before it has read all.
    let _ = stream.write_all(request).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    serving.abort();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_request_is_answered_and_its_connection_closed() {
    let answer = answer(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhere"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let endless = [b"GET / HTTP/1.1\r\nx: ".as_slice(), &[b'x'; 100_000]].concat();
    let answer = answer(&endless).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn what_is_no_http_is_refused() {
    let answer = answer(b"\x10\x0e\0\x04MQTT\x04\x02\0\x3c\0\x02ab\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_socket_that_a_killed_edge_left_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    drop(Door::unix(&path).unwrap());
    assert!(path.exists());
    Door::unix(&path).unwrap();
}
