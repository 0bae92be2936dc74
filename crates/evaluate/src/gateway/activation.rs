//! How long the first request to a web server takes that does not run, one after the other; between two it comes to
//! rest.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::ask::{SMALL, ask};
use super::bare::Bare;
use super::edge::Edge;
use super::manifests::Web;
use super::options::Runtime;
use super::record::{Arm, Figure, Mode, Sample};
use super::site::Site;
use crate::interrupt::pause;

/// Of what is asked once and then left alone.
const IDLE_MS: u32 = 50;
/// After it sleeps, until the next asks: what its end leaves to be done is done.
const REST: Duration = Duration::from_millis(50);
/// Port of the edge.
pub(super) const PORT: u16 = 8001;

/// Of an application of the edge.
pub(super) fn by_edge(
    edge: &Edge,
    site: &Site,
    runtime: Runtime,
    (mode, count): (Mode, u32),
) -> Result<Vec<Sample>, String> {
    let name = format!("site-{}", mode.name());
    edge.apply(&web(site, &name, runtime, (mode, IDLE_MS)))?;
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        edge.wait(&name, |one| one.is_asleep(mode != Mode::Cold))?;
        pause(REST)?;
        values.push(site.enter(|| {
            let began = Instant::now();
            ask(door(), SMALL).ok().map(|_| began.elapsed().as_secs_f64() * 1e3)
        })?);
    }
    edge.delete(&name)?;
    Ok(answers(values))
}

/// Of a container without an edge.
pub(super) fn bare(site: &Site, arm: Arm, count: u32) -> Result<Vec<Sample>, String> {
    let container = Bare::make(site, arm)?;
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        values.push(site.enter(|| container.start())??);
        container.stop()?;
        pause(REST)?;
    }
    Ok(answers(values))
}

/// Of a container without an edge that is paused.
pub(super) fn bare_paused(site: &Site, arm: Arm, count: u32) -> Result<Vec<Sample>, String> {
    let container = Bare::make(site, arm)?;
    site.enter(|| container.start())??
        .ok_or("it does not answer once started")?;
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        container.pause()?;
        pause(REST)?;
        values.push(site.enter(|| container.unpause())??);
    }
    Ok(answers(values))
}

/// The manifest of a web server at [`PORT`] that sleeps.
pub(super) fn web(site: &Site, name: &str, runtime: Runtime, sleeps: (Mode, u32)) -> String {
    let web = Web {
        name,
        runtime,
        sleeps: Some(sleeps),
        port: Some(PORT),
        folder: &site.folder,
        busybox: &site.busybox,
    };
    web.yaml()
}

/// Where it is asked.
pub(super) fn door() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, PORT).into()
}

fn answers(values: Vec<Option<f64>>) -> Vec<Sample> {
    vec![Sample {
        figure: Figure::AnswerMs,
        values,
    }]
}
