//! Many first requests at once to one that sleeps.

use std::net::TcpStream;
use std::time::Instant;

use super::activation::{door, web};
use super::ask::{self, PATIENCE, SMALL};
use super::edge::Edge;
use super::options::Runtime;
use super::record::{Figure, Mode, Sample};
use super::site::Site;

/// It stays until all are answered.
const IDLE_MS: u32 = 2_000;
const NAME: &str = "site-burst";

/// All connect, then all ask, then each waits for its answer: nothing else is waited for once the edge says that it
/// sleeps.
pub(super) fn measure(edge: &Edge, site: &Site, runtime: Runtime, requests: u32) -> Result<Vec<Sample>, String> {
    edge.apply(&web(site, NAME, runtime, (Mode::Cold, IDLE_MS)))?;
    edge.wait(NAME, |one| one.is_asleep(false))?;
    let before = edge.starts(NAME)?;
    let (answered, took_ms) = site.enter(|| {
        let began = Instant::now();
        let connect = || {
            let stream = TcpStream::connect_timeout(&door(), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let streams: Vec<std::io::Result<TcpStream>> = (0..requests).map(|_| connect()).collect();
        let streams: Vec<TcpStream> = streams.into_iter().flatten().collect();
        let sent = streams.iter().filter(|stream| ask::send(stream, SMALL).is_ok());
        let sent: Vec<&TcpStream> = sent.collect();
        let answered = sent.into_iter().filter(|stream| ask::read(stream).is_ok()).count();
        (answered, began.elapsed().as_secs_f64() * 1e3)
    })?;
    let starts = edge.starts(NAME)? - before;
    edge.delete(NAME)?;
    let sample = |figure, value| Sample {
        figure,
        values: vec![Some(value)],
    };
    Ok(vec![
        sample(Figure::BurstLostRequests, f64::from(requests) - answered as f64),
        sample(Figure::BurstStarts, starts as f64),
        sample(Figure::BurstMs, took_ms),
    ])
}
