//! Many edges that lost their cloud at one instant come back at one instant: once when their line is back, beside an
//! edge that was not cut off, and once when the cloud is back after `kill -9`.
//!
//! Each is a real `selvedge edge` with a log of its own. While there is no way to the cloud, a device leaves a message
//! there; an edge is in sync again when an application in the cloud has that message.

mod fleet;

use std::time::{Duration, Instant};

use mqtt::Packet;

use super::client::{Client, acknowledge};
use super::contender::Site;
use super::linked::{Linked, PATIENCE, Side};
use super::live::Live;
use super::options::Options;
use super::pause::pause;
use super::record::Figure;
use crate::generator::socket::Endpoint;
use crate::network::{Bandwidth, LinePlan, Plan, Settings, Span};
pub(super) use fleet::EDGES_MAX;
use fleet::{Fleet, edge_of};

/// Of both lines: that of the edges, and that of the cloud.
const LINE: Settings = Settings {
    bandwidth_bit_per_s: Bandwidth::UNSHAPED,
    round_trip_us: 15_000,
    jitter_us: 0,
    loss: 0.0,
};
/// Time between two messages at the edge that stays: in two seconds there are enough for a 99th percentile.
const LIVE_INTERVAL: Duration = Duration::from_millis(4);
/// Edges that are not back by then never will be.
const LIMIT: Duration = Duration::from_secs(180);
/// How long the first start of all edges may take them to come.
const FIRST_LIMIT: Duration = Duration::from_secs(300);
const FILTER: &str = "devices/+/telemetry/storm";
const SESSION: &str = "storm-app";

/// Starts the edges, takes their line away and gives it back, then kills the cloud and starts it again.
pub(super) fn measure(site: &Site, name: &str, options: &Options) -> Result<Vec<(Figure, Option<f64>)>, String> {
    let network = site.network(&Plan {
        device_edge: LinePlan::Emulated(LINE),
        edge_cloud: LinePlan::Emulated(LINE),
        means: None,
        seed: 0,
    })?;
    let words = |error: std::io::Error| error.to_string();
    let linked = Linked::set_up(site, name, None, Some(&network))?;
    let mut fleet = Fleet::set_up(&linked, &network, options.edges)?;
    let cloud = linked.start(Side::Cloud)?;
    let _edge = linked.start(Side::Edge)?;
    let door = linked.endpoint(Side::Cloud);
    let mut app = App::connect(&door, options.edges).map_err(words)?;
    app.subscribe().map_err(words)?;
    fleet.start()?;
    fleet.leave_messages(0)?;
    let first = app.hears(0, FIRST_LIMIT).map_err(words)?;
    if first.missing > 0 {
        return Err(format!(
            "{} of {} edges never came to their cloud",
            first.missing, options.edges
        ));
    }

    let live = Live::new(linked.endpoint(Side::Edge), door.clone(), LIVE_INTERVAL);
    let alone = live.alone().map_err(words)?;
    let line = network.line(Span::DeviceEdge);
    line.cut().map_err(|error| error.to_string())?;
    let cut = Instant::now();
    fleet.leave_messages(1)?;
    pause(options.outage().saturating_sub(cut.elapsed()));
    let (during, of_line) = live
        .during(|| {
            line.mend().map_err(|error| error.to_string())?;
            app.hears(1, LIMIT).map_err(words)
        })
        .map_err(words)?;
    let of_line = of_line?;

    cloud.kill(PATIENCE)?;
    fleet.leave_messages(2)?;
    let _cloud = linked.start(Side::Cloud)?;
    let mut app = App::connect(&door, options.edges).map_err(words)?;
    let of_cloud = app.hears(2, LIMIT).map_err(words)?;

    let (alone_us, during_us) = (alone.p99_us(), during.p99_us());
    Ok(vec![
        (Figure::LineSyncMs, of_line.last_ms()),
        (Figure::LineMissingEdges, Some(f64::from(of_line.missing))),
        (Figure::CloudSyncMs, of_cloud.last_ms()),
        (Figure::CloudMissingEdges, Some(f64::from(of_cloud.missing))),
        (Figure::LiveP99Us, alone_us),
        (Figure::LiveStormP99Us, during_us),
        (
            Figure::LiveStormRatio,
            during_us.zip(alone_us).map(|(during, alone)| during / alone),
        ),
        (Figure::LiveLostMessages, Some((alone.lost() + during.lost()) as f64)),
    ])
}

/// When edges were heard of, since they could come.
struct Heard {
    last: Duration,
    missing: u32,
}

impl Heard {
    /// Of the last of all; none where one is missing.
    fn last_ms(&self) -> Option<f64> {
        (self.missing == 0).then_some(self.last.as_secs_f64() * 1e3)
    }
}

/// Hears in the cloud what devices say at the edges. Its session outlives the cloud.
struct App {
    client: Client,
    edges: u32,
}

impl App {
    fn connect(cloud: &Endpoint, edges: u32) -> std::io::Result<App> {
        let client = Client::begin(cloud, SESSION, false)?;
        Ok(App { client, edges })
    }

    fn subscribe(&mut self) -> std::io::Result<()> {
        self.client.accepted()?;
        self.client.subscribe(FILTER)
    }

    /// Waits until a message of this round has come from every edge.
    fn hears(&mut self, round: u64, limit: Duration) -> std::io::Result<Heard> {
        let (began, mut last) = (Instant::now(), Duration::ZERO);
        let (mut came, mut missing) = (vec![false; self.edges as usize], self.edges);
        while missing > 0 && began.elapsed() < limit {
            self.client
                .receive(limit.saturating_sub(began.elapsed()), |packet, out| {
                    let Packet::Publish(publish) = packet else { return };
                    publish.packet_id.inspect(|id| acknowledge(*id, out));
                    let of_round = publish.payload == round.to_string().as_bytes();
                    let edge = edge_of(publish.topic).filter(|_| of_round);
                    if let Some(came) = edge.and_then(|edge| came.get_mut(edge as usize)).filter(|came| !**came) {
                        (*came, last) = (true, began.elapsed());
                        missing -= 1;
                    }
                })?;
        }
        Ok(Heard { last, missing })
    }
}
