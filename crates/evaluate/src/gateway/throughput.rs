//! What passes through the edge's port to an application that is awake, and past it straight to the application, in
//! turn.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::activation::{PORT, door, web};
use super::ask::{LARGE, SMALL, ask};
use super::edge::Edge;
use super::manifests::{INNER_PORT, inner_port};
use super::options::Runtime;
use super::record::{Figure, Mode, Sample};
use super::site::Site;
use crate::interrupt::{self, pause};

/// Long enough for one way to be silent while the other is measured.
const IDLE_MS: u32 = 5_000;
/// Clients of the closed loop; more would only wait for the two cores of a small machine.
const CLIENTS: usize = 2;
/// Of one client each time. A server's kernel remembers each connection for a minute (TIME_WAIT), of both ways the same
/// client's: once it knows some 25,000 of the 28,000 ports that a client has, new ones collide with them and wait a
/// second.
const ANSWERS_MAX: u64 = 400;
/// Which way each part of the time is for, so that what drifts meanwhile is the same for both.
const TURNS: [usize; 8] = [0, 1, 1, 0, 1, 0, 0, 1];
/// From the first answer until the kernel leads connections past the edge: a change of the kernel's rules, which is no
/// part of being ready, as connections before it go through the edge. No command says that it is done.
const REST: Duration = Duration::from_millis(500);
const NAME: &str = "site-busy";

/// Wakes one and measures. That it is ready is what its first answer says, and the edge.
pub(super) fn measure(edge: &Edge, site: &Site, runtime: Runtime, each_ms: u32) -> Result<Vec<Sample>, String> {
    edge.apply(&web(site, NAME, runtime, (Mode::Cold, IDLE_MS)))?;
    edge.wait(NAME, |one| one.is_asleep(false))?;
    site.enter(|| ask(door(), SMALL))?
        .map_err(|error| format!("the first request: {error}"))?;
    let awake = edge.wait(NAME, |one| one.is_ready() && !one.containers.is_empty())?;
    let direct = match awake.containers[0].address.as_deref() {
        Some(address) => {
            let address: IpAddr = address.parse().map_err(|_| format!("its address is {address}"))?;
            SocketAddr::new(address, INNER_PORT)
        }
        None => (Ipv4Addr::LOCALHOST, inner_port(runtime, PORT)).into(),
    };
    pause(REST)?;
    let time = Duration::from_millis(u64::from(each_ms));
    let rates = site.enter(|| [SMALL, LARGE].map(|path| rates([door(), direct], path, time)))?;
    edge.delete(NAME)?;
    let [[through, past], [through_bytes, past_bytes]] = rates;
    let sample = |figure, value: Option<f64>| Sample {
        figure,
        values: vec![value],
    };
    Ok(vec![
        sample(Figure::ThroughPerS, through.map(|rate| rate.answers_per_s)),
        sample(Figure::DirectPerS, past.map(|rate| rate.answers_per_s)),
        sample(Figure::ThroughBytesPerS, through_bytes.map(|rate| rate.bytes_per_s)),
        sample(Figure::DirectBytesPerS, past_bytes.map(|rate| rate.bytes_per_s)),
    ])
}

struct Rate {
    answers_per_s: f64,
    bytes_per_s: f64,
}

/// Of each way, for so long in all; none where one was not answered.
fn rates(ways: [SocketAddr; 2], path: &str, time: Duration) -> [Option<Rate>; 2] {
    let parts = TURNS.len() as u32 / 2;
    let rate = |way: usize| rate(ways[way], path, time / parts);
    // What has just been started is slower at first, which is not measured.
    let warm_up = [0, 1].map(rate);
    let measured: Vec<(usize, Option<Rate>)> = TURNS.iter().map(|&way| (way, rate(way))).collect();
    [0, 1].map(|way| {
        warm_up[way].as_ref()?;
        let of_way = measured.iter().filter(|(of, _)| *of == way);
        let all = of_way.map(|(_, rate)| rate.as_ref()).collect::<Option<Vec<_>>>()?;
        Some(Rate {
            answers_per_s: all.iter().map(|rate| rate.answers_per_s).sum::<f64>() / f64::from(parts),
            bytes_per_s: all.iter().map(|rate| rate.bytes_per_s).sum::<f64>() / f64::from(parts),
        })
    })
}

/// A closed loop, a connection for each request, until time or answers are up; none where one was not answered.
fn rate(address: SocketAddr, path: &str, time: Duration) -> Option<Rate> {
    let began = Instant::now();
    let client = || {
        let (mut answers, mut bytes) = (0_u64, 0_u64);
        while began.elapsed() < time && answers < ANSWERS_MAX {
            interrupt::check().ok()?;
            bytes += ask(address, path).ok()? as u64;
            answers += 1;
        }
        Some((answers, bytes))
    };
    let counted = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let counted = clients
            .into_iter()
            .map(|client| client.join().expect("asking does not panic"));
        counted.collect::<Option<Vec<_>>>()
    })?;
    let took_s = began.elapsed().as_secs_f64();
    Some(Rate {
        answers_per_s: counted.iter().map(|(answers, _)| answers).sum::<u64>() as f64 / took_s,
        bytes_per_s: counted.iter().map(|(_, bytes)| bytes).sum::<u64>() as f64 / took_s,
    })
}
