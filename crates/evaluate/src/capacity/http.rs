//! Questions over HTTP: one connection each, on the host of who is asked.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::network::Host;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: u64 = 32 << 20;

/// A door of HTTP.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) address: SocketAddr,
    pub(super) host: Host,
}

impl Door {
    /// The body of the answer to a GET; `token`: as whom.
    ///
    /// # Errors
    /// There is no answer in 60 s, or one with another status than 200, in words.
    pub(super) fn get(&self, path: &str, token: Option<&str>) -> Result<String, String> {
        let authorization = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
        self.ask(&format!("GET {path}"), &authorization, "")
    }

    /// The same of a POST of JSON.
    pub(super) fn post(&self, path: &str, json: &str) -> Result<String, String> {
        let about = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", json.len());
        self.ask(&format!("POST {path}"), &about, json)
    }

    fn ask(&self, what: &str, headers: &str, body: &str) -> Result<String, String> {
        let request = format!("{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n{body}");
        let said = self.host.enter(|| exchange(self.address, &request));
        let said = said.map_err(|error| error.to_string())?;
        // The path alone: what stands behind it may be long.
        let path = what.split('?').next().unwrap_or(what);
        let named = |error: &dyn std::fmt::Display| format!("{path} at {}: {error}", self.address);
        body_of(&said.map_err(|error| named(&error))?).map_err(|error| named(&error))
    }
}

fn exchange(address: SocketAddr, request: &str) -> io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(request.as_bytes())?;
    let mut answer = String::new();
    socket.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Of an answer that came whole.
fn body_of(answer: &str) -> Result<String, String> {
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or("the answer has no end of its head")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("{status}: {}", body.trim()));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, length)| length.trim().parse::<usize>().ok());
    match length {
        Some(length) if length == body.len() => Ok(body.to_owned()),
        Some(length) => Err(format!("{} of {length} bytes came", body.len())),
        None => Err("the answer does not say how long it is".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_body_if_it_is_whole_and_a_good_one() {
        let answer =
            |status, length| format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nX: y\r\n\r\n{{\"a\":1}}");
        assert_eq!(body_of(&answer("200 OK", 7)), Ok("{\"a\":1}".to_owned()));
        assert_eq!(body_of(&answer("200 OK", 9)), Err("7 of 9 bytes came".to_owned()));
        assert_eq!(
            body_of(&answer("401 Unauthorized", 7)),
            Err("HTTP/1.1 401 Unauthorized: {\"a\":1}".to_owned())
        );
        assert!(body_of("HTTP/1.1 200 OK\r\n").is_err());
    }
}
