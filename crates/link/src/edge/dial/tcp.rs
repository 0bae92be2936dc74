//! TCP: names, addresses, and what the kernel is told about a socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size_force;
use socket2::SockRef;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::target::place;

/// How long an address may keep silent before the next one is tried beside it (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 16;
/// Bytes that the kernel takes beyond those that it has sent. What waits longer waits with us, where something more
/// urgent can still go first.
pub(super) const UNSENT_BYTES_MAX: usize = 16 << 10;
/// Bytes that the kernel may have sent and that are not acknowledged, what it needs beside them counted: with the usual
/// 4 MiB a line of 300 ms carries no more than 90 Mbit/s. The window decides how much it is.
const SENT_BYTES_MAX: usize = 16 << 20;
/// Sent and not acknowledged by the other kernel for as long: the line is gone. It is as long as the session waits for
/// a sign of life.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

/// Why there is no connection of TCP.
#[derive(Debug, thiserror::Error)]
pub(in crate::edge) enum TcpError {
    #[error("the name {name:?} is not known here: {source}")]
    Name { name: String, source: io::Error },
    #[error("the name {0:?} has no address")]
    NoAddress(String),
    #[error("{place}: {source}")]
    Address { place: String, source: io::Error },
    #[error("{place}: none of its addresses answers: {}", list(.failures))]
    Addresses {
        place: String,
        failures: Vec<(SocketAddr, io::Error)>,
    },
}

fn list(failures: &[(SocketAddr, io::Error)]) -> String {
    let failures: Vec<String> = failures
        .iter()
        .map(|(address, error)| format!("{address}: {error}"))
        .collect();
    failures.join("; ")
}

/// Connects to the first address of a host that answers; addresses of both families take turns.
pub(super) async fn connect(host: &str, port: u16) -> Result<TcpStream, TcpError> {
    let addresses = in_turns(resolve(host, port).await?);
    first_of(addresses)
        .await
        .map_err(|failures| unreachable_host(host, port, failures))
}

/// A connection with the first that answers, or why there is none with any.
async fn first_of(addresses: Vec<SocketAddr>) -> Result<TcpStream, Vec<(SocketAddr, io::Error)>> {
    let mut waiting = addresses.into_iter().take(ADDRESSES_MAX);
    let (mut attempts, mut failures) = (JoinSet::new(), Vec::new());
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(async move { (address, TcpStream::connect(address).await) });
        }
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(attempt) => match attempt.expect("no attempt panics") {
                    (_, Ok(socket)) => return Ok(socket),
                    (address, Err(error)) => failures.push((address, error)),
                },
                None => return Err(failures),
            },
            () = sleep(ATTEMPT_DELAY), if waiting.len() > 0 => {}
        }
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, TcpError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let found = lookup_host((host, port)).await.map_err(|source| TcpError::Name {
        name: host.to_owned(),
        source,
    })?;
    let addresses: Vec<SocketAddr> = found.collect();
    match addresses.is_empty() {
        true => Err(TcpError::NoAddress(host.to_owned())),
        false => Ok(addresses),
    }
}

/// The family of the first address begins, as the system orders them (RFC 6724).
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let len = addresses.len();
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (ones, others): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let (mut ones, mut others) = (ones.into_iter(), others.into_iter());
    let mut all = Vec::with_capacity(len);
    while all.len() < len {
        all.extend(ones.next());
        all.extend(others.next());
    }
    all
}

fn unreachable_host(host: &str, port: u16, mut failures: Vec<(SocketAddr, io::Error)>) -> TcpError {
    let place = place(host, port);
    match failures.len() {
        1 => TcpError::Address {
            place,
            source: failures.remove(0).1,
        },
        _ => TcpError::Addresses { place, failures },
    }
}

/// What the kernel is to do with the socket: send at once, queue little, and notice when nobody acknowledges.
pub(super) fn set_options(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX as u32)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    // Without root it is as the host has it.
    let _ = set_socket_send_buffer_size_force(&*socket, SENT_BYTES_MAX);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn of(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_of_both_families_take_turns_and_the_first_stays_first() {
        let found = of(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
        let expected = of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
        assert_eq!(in_turns(found), expected);
        assert_eq!(in_turns(of(&["1.1.1.1:1", "[::1]:1"])), of(&["1.1.1.1:1", "[::1]:1"]));
        assert!(in_turns(Vec::new()).is_empty());
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_named_with_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        connect("127.0.0.1", port).await.unwrap();
        drop(listener);
        let error = connect("127.0.0.1", port).await.unwrap_err().to_string();
        assert!(
            error.contains(&format!("127.0.0.1:{port}: Connection refused")),
            "{error}"
        );
    }

    /// An address that neither takes nor refuses a connection, for as long as what it comes with lives.
    async fn silent() -> (SocketAddr, Vec<TcpStream>, socket2::Socket) {
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        while let Ok(socket) = tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
            queued.push(socket.unwrap());
        }
        (address, queued, listener)
    }

    #[tokio::test]
    async fn an_address_that_is_silent_or_refuses_does_not_keep_the_next_one_waiting() {
        let live = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (silent, _queued, _listener) = silent().await;
        let (live_at, closed_at) = (live.local_addr().unwrap(), closed.local_addr().unwrap());
        drop(closed);
        let socket = first_of(vec![silent, closed_at, live_at]).await.unwrap();
        assert_eq!(socket.peer_addr().unwrap(), live_at);
    }

    #[tokio::test]
    async fn where_all_addresses_fail_each_is_named_with_its_reason() {
        let closed = of(&["127.0.0.1:1", "127.0.0.2:1"]);
        let failures = first_of(closed).await.unwrap_err();
        let error = unreachable_host("cloud.example", 1, failures).to_string();
        assert!(error.starts_with("cloud.example:1: none of its addresses answers: 127.0.0.1:1: Connection refused"));
        assert!(error.contains("; 127.0.0.2:1: Connection refused"), "{error}");
    }

    #[tokio::test]
    async fn a_name_that_nobody_knows_is_named() {
        let error = connect("no-such-host.invalid", 1).await.unwrap_err().to_string();
        assert!(
            error.starts_with("the name \"no-such-host.invalid\" is not known here"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn the_kernel_is_told_to_queue_little_and_to_give_up_a_silent_line() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        set_options(&socket).unwrap();
        let told = SockRef::from(&socket);
        assert!(socket.nodelay().unwrap());
        assert_eq!(told.tcp_notsent_lowat().unwrap() as usize, UNSENT_BYTES_MAX);
        assert_eq!(told.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED_MAX));
    }
}
