//! What an edge takes at rest, beside itself without applications; and how long an application takes from `apply`.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::activation::{PORT, door};
use super::ask::{SMALL, answered, ask};
use super::edge::Edge;
use super::engine::Engine;
use super::manifests::{IMAGE, Web, counted, service};
use super::options::Runtime;
use super::record::{Figure, Mode, Sample};
use super::site::Site;
use crate::interrupt::pause;
use crate::proc;

/// Containers that run, and applications that sleep.
pub(super) const RUNNING: u32 = 20;
pub(super) const SLEEPING: u32 = 100;
/// Containers that answer for each service.
pub(super) const ENDPOINTS: u32 = 10;
/// Of each service: every endpoint has been asked twice.
const REQUESTS: u32 = 2 * ENDPOINTS;
/// Long enough to sleep for the whole measurement.
const IDLE_MS: u32 = 60_000;
/// Until what a start has left to be done is done, and memory given back.
const SETTLED: Duration = Duration::from_secs(3);
/// Between two applications.
const REST: Duration = Duration::from_millis(100);
const NAME: &str = "site-applied";

/// An edge of its own without applications, then with containers that run.
pub(super) fn running(site: &Site, runtime: Runtime, window_ms: u32) -> Result<Vec<Sample>, String> {
    let edge = Edge::start(site, "edge-at-rest")?;
    edge.build_image(site)?;
    added(&edge, window_ms, |number| web(site, number, runtime, None), RUNNING)
}

/// The same with applications that sleep. The edge has had one before: what code takes that is used for the first time
/// is not what a hundred take.
pub(super) fn sleeping(site: &Site, runtime: Runtime, window_ms: u32) -> Result<Vec<Sample>, String> {
    let sleeper = |number| web(site, number, runtime, Some((Mode::Cold, IDLE_MS)));
    let edge = Edge::start(site, "edge-at-rest")?;
    edge.build_image(site)?;
    edge.apply(&sleeper(0))?;
    edge.wait("site-0", |one| one.is_asleep(false))?;
    edge.delete("site-0")?;
    added(&edge, window_ms, sleeper, SLEEPING)
}

fn web(site: &Site, number: u32, runtime: Runtime, sleeps: Option<(Mode, u32)>) -> String {
    let name = format!("site-{number}");
    let web = Web {
        name: &name,
        runtime,
        sleeps,
        port: Some(PORT + number as u16),
        folder: &site.folder,
        busybox: &site.busybox,
    };
    web.yaml()
}

fn added(edge: &Edge, window_ms: u32, manifest: impl Fn(u32) -> String, count: u32) -> Result<Vec<Sample>, String> {
    let without = settled(edge, window_ms)?;
    let all: Vec<String> = (0..count).map(manifest).collect();
    edge.apply(&all.join("---\n"))?;
    for number in 0..count {
        edge.wait(&format!("site-{number}"), |one| {
            one.is_asleep(false) || (!one.sleeps && one.is_ready())
        })?;
    }
    Ok(samples(&without, &settled(edge, window_ms)?))
}

/// An edge of its own with containers, then with services that lead to them, each of which has been asked by HTTP through
/// the edge.
pub(super) fn services(site: &Site, count: u32, window_ms: u32) -> Result<Vec<Sample>, String> {
    let edge = Edge::start(site, "edge-at-rest")?;
    edge.build_image(site)?;
    edge.run(&[
        "tenant",
        "set",
        "default",
        "--containers",
        &(count * (ENDPOINTS + 1)).to_string(),
    ])?;
    let names: Vec<String> = (0..count).map(|number| format!("site-{number}")).collect();
    let all: Vec<String> = names.iter().map(|name| counted(name, ENDPOINTS)).collect();
    edge.apply(&all.join("---\n"))?;
    for name in &names {
        edge.wait(name, |one| one.is_ready() && one.ready == ENDPOINTS)?;
    }
    let without = settled(&edge, window_ms)?;
    let all: Vec<String> = names.iter().map(|name| service(name)).collect();
    edge.apply(&all.join("---\n"))?;
    let printed = edge.run(&["get", "services", "--output", "json"])?;
    let services: Vec<Service> =
        serde_json::from_str(&printed).map_err(|error| format!("`get services --output json`: {error}"))?;
    site.enter(|| {
        services.iter().try_for_each(|service| {
            let address = service.address.ok_or("a service has no address")?;
            let answered = (0..REQUESTS).try_for_each(|_| ask((address, 80).into(), SMALL).map(drop));
            answered.map_err(|error| format!("{address} does not answer: {error}"))
        })
    })??;
    Ok(samples(&without, &settled(&edge, window_ms)?))
}

/// A line of `get services`.
#[derive(Deserialize)]
struct Service {
    address: Option<Ipv4Addr>,
}

fn settled(edge: &Edge, window_ms: u32) -> Result<AtRest, String> {
    pause(SETTLED)?;
    at_rest(edge, Duration::from_millis(u64::from(window_ms)))
}

fn samples(without: &AtRest, with: &AtRest) -> Vec<Sample> {
    let sample = |figure, value: f64| Sample {
        figure,
        values: vec![Some(value)],
    };
    vec![
        sample(Figure::EdgePssBytes, without.pss_bytes),
        sample(Figure::WithPssBytes, with.pss_bytes),
        sample(Figure::AddedPssBytes, with.pss_bytes - without.pss_bytes),
        sample(Figure::AddedRssBytes, with.rss_bytes - without.rss_bytes),
        sample(Figure::EdgeCpuShare, without.cpu_share),
        sample(Figure::WithCpuShare, with.cpu_share),
    ]
}

/// Of the edge and of what it has beside containers.
struct AtRest {
    pss_bytes: f64,
    rss_bytes: f64,
    cpu_share: f64,
}

fn at_rest(edge: &Edge, window: Duration) -> Result<AtRest, String> {
    let pids: Vec<u32> = edge.processes().into_iter().map(|(pid, _)| pid).collect();
    let cpu_s = || pids.iter().filter_map(|pid| proc::cpu_s(*pid)).sum::<f64>();
    let (before_s, began) = (cpu_s(), Instant::now());
    pause(window)?;
    let cpu_share = (cpu_s() - before_s) / began.elapsed().as_secs_f64();
    let sum = |of: fn(u32) -> Option<u64>| pids.iter().filter_map(|pid| of(*pid)).sum::<u64>() as f64;
    if pids.len() < 2 && sum(proc::pss_bytes) == 0.0 {
        return Err("the kernel does not say how much memory the edge has".to_owned());
    }
    Ok(AtRest {
        pss_bytes: sum(proc::pss_bytes),
        rss_bytes: sum(proc::rss_bytes),
        cpu_share,
    })
}

/// From the start of the command `apply` to the end of the first answer, one after the other.
pub(super) fn apply(edge: &Edge, site: &Site, runtime: Runtime, count: u32) -> Result<Vec<Sample>, String> {
    let web = Web {
        name: NAME,
        runtime,
        sleeps: None,
        port: Some(PORT),
        folder: &site.folder,
        busybox: &site.busybox,
    };
    let file = edge.manifest(&web.yaml())?.display().to_string();
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        values.push(site.enter(|| {
            let began = Instant::now();
            edge.run(&["apply", "-f", &file])?;
            Ok::<_, String>(answered(door(), began).ok())
        })??);
        edge.delete(NAME)?;
        pause(REST)?;
    }
    Ok(vec![Sample {
        figure: Figure::AnswerMs,
        values,
    }])
}

/// The same of `docker run`.
pub(super) fn docker_run(site: &Site, count: u32) -> Result<Vec<Sample>, String> {
    let engine = site.engine.as_ref().ok_or("there is no Docker Engine")?;
    let address = Engine::at_address();
    let mut words = vec!["run", "--detach", "--name", NAME];
    words.extend(address.iter().map(String::as_str));
    words.push(IMAGE);
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        values.push(site.enter(|| {
            let began = Instant::now();
            engine.docker(&words)?;
            Ok::<_, String>(answered(Engine::address(), began).ok())
        })??);
        engine.docker(&["rm", "--force", NAME])?;
        pause(REST)?;
    }
    Ok(vec![Sample {
        figure: Figure::AnswerMs,
        values,
    }])
}
