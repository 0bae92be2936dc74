//! Who has no answer is told why.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::listening::Stream;

/// For the first bytes of who is told that nobody answers.
const FIRST_BYTES_PATIENCE: Duration = Duration::from_millis(200);
/// Of them.
const FIRST_BYTES: usize = 4 << 10;

/// Says why to who speaks HTTP, as what he `said` first shows; others are cut off.
pub(super) async fn refuse(mut stream: Stream, mut said: Vec<u8>, why: String) {
    if said.is_empty() {
        said.reserve(FIRST_BYTES);
        let _ = timeout(FIRST_BYTES_PATIENCE, stream.read_buf(&mut said)).await;
    }
    if is_method(&said) {
        let body = format!("{why}\n");
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Retry-After: 5\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        // What was sent and not read would take the answer back.
        let _ = timeout(
            FIRST_BYTES_PATIENCE,
            tokio::io::copy(&mut stream, &mut tokio::io::sink()),
        )
        .await;
    }
}

/// Whether that is how a request of HTTP/1 begins (RFC 9110, 9.1).
pub(super) fn is_method(first: &[u8]) -> bool {
    let methods: [&[u8]; 8] = [
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PUT ",
        b"DELETE ",
        b"OPTIONS ",
        b"PATCH ",
        b"TRACE ",
    ];
    methods.iter().any(|method| {
        let length = method.len().min(first.len());
        length > 2 && first[..length] == method[..length]
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;
    use tokio_util::either::Either;

    use super::*;

    #[tokio::test]
    async fn who_has_asked_already_is_told_why_nobody_answers_and_so_is_who_asks_then() {
        let request = b"GET / HTTP/1.1\r\n\r\n";
        for said in [&request[..], &[]] {
            let (mut caller, door) = UnixStream::pair().unwrap();
            if said.is_empty() {
                caller.write_all(request).await.unwrap();
            }
            caller.shutdown().await.unwrap();
            refuse(Either::Right(door), said.to_vec(), "it sleeps".to_owned()).await;
            let mut answer = String::new();
            caller.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\nit sleeps\n"),
                "{answer}"
            );
        }
    }
}
