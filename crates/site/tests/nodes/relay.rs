//! Nodes that do not reach each other are led by one that reaches both.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{AsyncReadExt, AsyncWriteExt};
use identity::NodeKeys;
use site::{Known, NoRelay, Site};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::compat::{FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};

use crate::founder::{Founder, Node, PATIENCE, ask, start, start_with};

/// A place where nobody is, and where somebody may come.
async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// A node that nobody reaches where it says that it is.
async fn behind_a_nat(keys: NodeKeys, seeds: &[SocketAddr], place: SocketAddr) -> Node {
    start_with(keys, seeds, |options| options.addresses = vec![place]).await
}

impl Node {
    async fn is_led_to(&self, node: &str, relay: Option<&str>) {
        let is_led = |known: &[Known]| {
            known
                .iter()
                .any(|known| known.node == node && known.is_connected && known.through.as_deref() == relay)
        };
        self.knows(&format!("led to {node} through {relay:?}"), is_led).await;
    }
}

/// A stream carries bytes of one to the other and back.
async fn speaks_with(one: &Site, other: &mut Node, names: (&str, &str), bytes: &[u8]) {
    let (back, ()) = tokio::join!(ask(one, names.1, bytes), other.echo_one(names.0));
    assert!(back == bytes, "{} of {} bytes", back.len(), bytes.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_do_not_reach_each_other_are_led_by_one_that_reaches_both_and_directly_once_they_do() {
    let founder = Founder::new();
    let one = start(founder.keys("one"), &[]).await;
    let places = [closed().await, closed().await];
    let mut two = behind_a_nat(founder.joined("two"), &[one.address], places[0]).await;
    let mut three = behind_a_nat(founder.joined("three"), &[one.address], places[1]).await;
    two.is_led_to("three", Some("one")).await;
    three.is_led_to("two", Some("one")).await;
    two.is_led_to("one", None).await;
    let much: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_be_bytes).collect();
    for bytes in [&b"a few"[..], &much] {
        speaks_with(&two.site, &mut three, ("two", "three"), bytes).await;
        speaks_with(&three.site, &mut two, ("three", "two"), bytes).await;
    }
    assert_eq!((one.site.relayed().passing, one.site.relayed().led > 0), (1, true));
    // A request that is under way while a direct way opens comes to its end.
    let mut under_way = two.site.open("three").await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut under_way, b"before ")
        .await
        .unwrap();
    let door = lead_to(places[1], three.address).await;
    two.is_led_to("three", None).await;
    three.is_led_to("two", None).await;
    tokio::io::AsyncWriteExt::write_all(&mut under_way, b"and after")
        .await
        .unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut under_way).await.unwrap();
    let mut back = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut under_way, &mut back);
    let (read, ()) = tokio::join!(read, three.echo_one("two"));
    assert_eq!((read.unwrap(), &*back), (16, &b"before and after"[..]));
    drop(under_way);
    let ended = async {
        while one.site.relayed().passing > 0 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("the way through the relay ends");
    door.abort();
}

/// Has a place lead to another, as a NAT does that was told to.
async fn lead_to(place: SocketAddr, to: SocketAddr) -> AbortHandle {
    let listener = TcpListener::bind(place).await.unwrap();
    let leading = tokio::spawn(async move {
        loop {
            let (mut from, _) = listener.accept().await.unwrap();
            let mut to = TcpStream::connect(to).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut from, &mut to).await });
        }
    });
    leading.abort_handle()
}

#[tokio::test]
async fn when_a_relay_is_gone_another_one_leads_and_without_one_nobody_is_said_to_be_connected() {
    let founder = Founder::new();
    let one = start(founder.keys("one"), &[]).await;
    let two = start(founder.joined("two"), &[one.address]).await;
    one.is_connected_with(&["two"]).await;
    let seeds = [one.address, two.address];
    let left = behind_a_nat(founder.joined("left"), &seeds, closed().await).await;
    let right = behind_a_nat(founder.joined("right"), &seeds, closed().await).await;
    let led = |known: &[Known]| known.iter().find(|known| known.node == "right")?.through.clone();
    left.knows("led", |known| led(known).is_some()).await;
    let first = led(&left.site.known().borrow()).unwrap();
    let (gone, stays, second) = match &*first {
        "one" => (one, two, "two"),
        _ => (two, one, "one"),
    };
    drop(gone);
    left.is_led_to("right", Some(second)).await;
    right.is_led_to("left", Some(second)).await;
    drop(stays);
    left.knows("alone", |known| {
        known.iter().all(|known| !known.is_alive && !known.is_connected)
    })
    .await;
    assert!(left.site.open("right").await.is_err());
}

#[tokio::test]
async fn a_node_that_is_to_be_no_relay_leads_nobody() {
    let founder = Founder::new();
    let one = start_with(founder.keys("one"), &[], |options| options.is_relay = false).await;
    let two = behind_a_nat(founder.joined("two"), &[one.address], closed().await).await;
    let _three = behind_a_nat(founder.joined("three"), &[one.address], closed().await).await;
    let refused = async {
        while one.site.relayed().refused[&NoRelay::Off] == 0 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, refused).await.expect("somebody asks");
    let known = two.site.known().borrow().clone();
    let three = known.iter().find(|known| known.node == "three").unwrap();
    assert!(three.is_alive && !three.is_connected);
    assert_eq!(one.site.relayed().led, 0);
}

/// A member that speaks for itself: it opens streams, and says in them what it likes.
struct Raw {
    asks: mpsc::Sender<oneshot::Sender<yamux::Stream>>,
    /// Streams that the other end has opened.
    opened: mpsc::Receiver<yamux::Stream>,
}

impl Raw {
    async fn of(keys: &NodeKeys, at: SocketAddr) -> Raw {
        let tcp = TcpStream::connect(at).await.unwrap();
        let connector = TlsConnector::from(keys.client_config().unwrap());
        let tls = connector.connect(NodeKeys::server_name(), tcp).await.unwrap();
        let mut connection = yamux::Connection::new(tls.compat(), yamux::Config::default(), yamux::Mode::Client);
        let (asks, mut asked) = mpsc::channel::<oneshot::Sender<yamux::Stream>>(1);
        let (opens, opened) = mpsc::channel(100);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    inbound = poll_fn(|context| connection.poll_next_inbound(context)) => match inbound {
                        Some(Ok(stream)) => opens.send(stream).await.unwrap(),
                        _ => return,
                    },
                    Some(ask) = asked.recv() => {
                        let stream = poll_fn(|context| connection.poll_new_outbound(context)).await;
                        let _ = ask.send(stream.unwrap());
                    }
                }
            }
        });
        Raw { asks, opened }
    }

    /// Has the other end know that it is there: it asks for echoes.
    async fn is_there(&self) -> AbortHandle {
        let mut gossip = self.says(&[0]).await;
        let echoing = tokio::spawn(async move {
            loop {
                gossip
                    .write_all(&[0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1])
                    .await
                    .unwrap();
                gossip.flush().await.unwrap();
                sleep(Duration::from_millis(300)).await;
            }
        });
        echoing.abort_handle()
    }

    async fn says(&self, bytes: &[u8]) -> yamux::Stream {
        let (ask, asked) = oneshot::channel();
        self.asks.send(ask).await.unwrap();
        let mut stream = asked.await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }

    /// What it is told that asks to be led to a node; `None`: nothing.
    async fn is_led(&self, to: &[u8]) -> (yamux::Stream, Option<u8>) {
        let mut stream = self.says(&[&[2, to.len() as u8], to].concat()).await;
        let mut answer = [0];
        let read = timeout(PATIENCE, stream.read(&mut answer)).await.unwrap();
        (stream, (read.unwrap_or(0) == 1).then_some(answer[0]))
    }
}

#[tokio::test]
async fn hostile_requests_of_a_relay_are_refused_by_their_reason_and_the_relay_goes_on() {
    let founder = Founder::new();
    let mut one = start(founder.keys("one"), &[]).await;
    let two = start(founder.joined("two"), &[one.address]).await;
    one.is_connected_with(&["two"]).await;
    let raw = Raw::of(&founder.joined("raw"), one.address).await;
    // Who has just connected may ask before it is looked at.
    let known = async { while raw.is_led(b"nobody").await.1.is_none() {} };
    timeout(PATIENCE, known).await.unwrap();
    for (to, why) in [
        ("raw", NoRelay::Itself),
        ("one", NoRelay::Itself),
        ("nobody", NoRelay::NotConnected),
    ] {
        let answer = raw.is_led(to.as_bytes()).await.1;
        assert_eq!(answer, Some(why as u8 + 1), "{to}");
    }
    // Names that are none.
    assert_eq!(raw.is_led(&[0xff; 255]).await.1, None);
    assert_eq!(raw.is_led(b"").await.1, Some(NoRelay::NotConnected as u8 + 1));
    // One of which nobody takes the connections, and another that takes more than may pass.
    let (_stream, answer) = raw.is_led(b"two").await;
    assert_eq!(answer, Some(0));
    let other = Raw::of(&founder.joined("other"), one.address).await;
    let mut held = Vec::new();
    let full = async {
        loop {
            match raw.is_led(b"other").await {
                (stream, Some(0)) => held.push(stream),
                (_, Some(answer)) if answer == NoRelay::NotConnected as u8 + 1 => {}
                (_, answer) => return answer,
            }
        }
    };
    assert_eq!(timeout(PATIENCE, full).await.unwrap(), Some(NoRelay::Full as u8 + 1));
    assert_eq!(one.site.relayed().refused[&NoRelay::Full], 1);
    drop(other);
    let passes = || async {
        while one.site.relayed().passing > 0 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, passes())
        .await
        .expect("nobody holds the place of who is gone");
    // In the name of another relay's work: what is led here is no TLS.
    for _ in 0..40 {
        raw.says(&[3, 0, 1, 2, 3]).await;
    }
    let (back, ()) = tokio::join!(ask(&two.site, "one", b"still there"), one.echo_one("two"));
    assert_eq!(back, b"still there");
    one.is_led_to("two", None).await;
}

#[tokio::test]
async fn a_relay_that_leads_to_another_node_than_was_asked_for_is_not_believed() {
    let founder = Founder::new();
    let one = start_with(founder.keys("one"), &[], |options| options.is_relay = false).await;
    let left = behind_a_nat(founder.joined("left"), &[one.address], closed().await).await;
    left.is_connected_with(&["one"]).await;
    let liar = founder.joined("liar");
    let mut raw = Raw::of(&liar, left.address).await;
    let _there = raw.is_there().await;
    let _right = behind_a_nat(founder.joined("right"), &[one.address], closed().await).await;
    let mut others = Vec::new();
    let asked = async {
        loop {
            let mut stream = raw.opened.recv().await.unwrap();
            let mut purpose = [0];
            if stream.read_exact(&mut purpose).await.is_ok() && purpose == [2] {
                return stream;
            }
            others.push(stream);
        }
    };
    let mut stream = timeout(PATIENCE, asked).await.unwrap();
    let mut to = [0; 6];
    stream.read_exact(&mut to).await.unwrap();
    assert_eq!(&to, b"\x05right");
    stream.write_all(&[0]).await.unwrap();
    let acceptor = TlsAcceptor::from(liar.server_config().unwrap());
    if let Ok(mut tls) = acceptor.accept(FuturesAsyncReadCompatExt::compat(stream)).await {
        let read = timeout(PATIENCE, tokio::io::AsyncReadExt::read_u8(&mut tls))
            .await
            .unwrap();
        assert!(read.is_err(), "it is spoken to");
    }
    let known = left.site.known().borrow().clone();
    let right = known.iter().find(|known| known.node == "right").unwrap();
    assert!(right.is_alive && !right.is_connected);
}

#[tokio::test]
async fn a_device_that_a_member_leads_to_a_node_is_as_little_let_in_as_one_that_dials() {
    let founder = Founder::new();
    let mut one = start(founder.keys("one"), &[]).await;
    let raw = Raw::of(&founder.joined("raw"), one.address).await;
    let _there = raw.is_there().await;
    let connector = crate::client_of(Some(&crate::device(&founder)), &founder);
    let led = FuturesAsyncReadCompatExt::compat(raw.says(&[3]).await);
    let tls = timeout(PATIENCE, connector.connect(NodeKeys::server_name(), led))
        .await
        .unwrap();
    if let Ok(mut tls) = tls {
        let read = timeout(PATIENCE, tokio::io::AsyncReadExt::read_u8(&mut tls))
            .await
            .unwrap();
        assert!(read.is_err(), "it is spoken to");
    }
    assert!(one.requests.try_recv().is_err());
}
