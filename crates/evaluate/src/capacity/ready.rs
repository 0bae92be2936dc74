//! How long a server takes until it answers, with more and more to remember.

use super::contender::{Contender, Place, Site};
use super::flood::{Publisher, Until, fetch, first_message, open_session};
use super::options::Options;
use super::record::Figure;

/// Messages that make a data directory a used one, and that come in between two ends of a server.
const FEW: u64 = 1_000;
const PAYLOAD_BYTES: u32 = 64;
/// Numbers of messages that [`FEW`] publishes: beyond those of any queue.
const BEYOND: u64 = 1 << 40;

/// Starts with an empty directory, then with what was left in it.
pub(super) fn fresh(
    site: &Site,
    contender: Contender,
    name: &str,
    options: &Options,
) -> Result<Vec<(Figure, f64)>, String> {
    let place = site.place(contender, name, false)?;
    let standing = place.start()?;
    let empty_ms = standing.ready_ms;
    open_session(&place.endpoint).map_err(|error| error.to_string())?;
    publish(&place, options, FEW, 0)?;
    standing.stop()?;
    let standing = place.start()?;
    let used_ms = standing.ready_ms;
    standing.stop()?;
    Ok(vec![(Figure::ReadyEmptyMs, empty_ms), (Figure::ReadyUsedMs, used_ms)])
}

/// A data directory with messages queued for an offline session, made once for all blocks.
pub(super) struct Queue<'a> {
    place: Place<'a>,
    messages: u64,
}

impl<'a> Queue<'a> {
    /// Queues the messages and stops the server.
    pub(super) fn fill(site: &'a Site, contender: Contender, options: &Options) -> Result<Queue<'a>, String> {
        let place = site.place(contender, "queue", false)?;
        let standing = place.start()?;
        open_session(&place.endpoint).map_err(|error| error.to_string())?;
        let messages = u64::from(options.queued);
        publish(&place, options, messages, 0)?;
        standing.stop()?;
        Ok(Queue { place, messages })
    }

    /// Starts after the clean stop, kills after a few more messages, starts again, stops.
    pub(super) fn measure(&self, options: &Options, block: u32) -> Result<Vec<(Figure, f64)>, String> {
        let standing = self.place.start()?;
        let after_stop_ms = standing.ready_ms;
        publish(&self.place, options, FEW, BEYOND + u64::from(block) * FEW)?;
        standing.kill()?;
        let standing = self.place.start()?;
        let after_kill_ms = standing.ready_ms;
        first_message(&self.place.endpoint).map_err(|error| error.to_string())?;
        let first_ms = standing.server.age().as_secs_f64() * 1e3;
        standing.stop()?;
        Ok(vec![
            (Figure::ReadyAfterStopMs, after_stop_ms),
            (Figure::ReadyAfterKillMs, after_kill_ms),
            (Figure::FirstMessageAfterKillMs, first_ms),
        ])
    }

    /// Takes all messages out: how many of them all that befell the server has cost.
    pub(super) fn lost(&self) -> Result<u64, String> {
        let standing = self.place.start()?;
        let all = vec![true; self.messages as usize];
        let fetched = fetch(&self.place.endpoint, &all).map_err(|error| error.to_string())?;
        standing.stop()?;
        Ok(fetched.lost)
    }
}

fn publish(place: &Place<'_>, options: &Options, messages: u64, first_number: u64) -> Result<(), String> {
    let publisher = Publisher::connect(&place.endpoint, options.in_flight, PAYLOAD_BYTES);
    let mut publisher = publisher
        .map_err(|error| error.to_string())?
        .numbered_from(first_number);
    publisher
        .run(Until::Acknowledged(messages))
        .map_err(|error| error.to_string())
}
