//! PROXY protocol headers from anybody: nothing panics, a header is read to its end whatever follows it, and no more
//! than the longest header is ever read.
#![no_main]

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/hub/src/door/proxy_protocol.rs"]
mod proxy_protocol;

/// Signature, command, length and the longest block of version 2.
const HEADER_MAX_BYTES: usize = 16 + 536;

fuzz_target!(|bytes: &[u8]| {
    let (read, used) = read_header(bytes);
    assert!(used <= HEADER_MAX_BYTES);
    let Ok(address) = read else { return };
    let followed = [&bytes[..used], b"\x10\x0e"].concat();
    let (again, used_again) = read_header(&followed);
    assert_eq!((again.expect("as before"), used_again), (address, used));
});

/// What the header says, and its bytes.
fn read_header(bytes: &[u8]) -> (std::io::Result<Option<std::net::SocketAddr>>, usize) {
    let mut rest = bytes;
    let reading = pin!(proxy_protocol::read_header(&mut rest)).poll(&mut Context::from_waker(Waker::noop()));
    match reading {
        Poll::Ready(read) => (read, bytes.len() - rest.len()),
        Poll::Pending => unreachable!("bytes in memory are there"),
    }
}
