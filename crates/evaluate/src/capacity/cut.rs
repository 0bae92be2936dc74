//! An edge under load loses its line for minutes, and both ends are killed meanwhile and right after: what it
//! acknowledged is in the cloud's database, each message once.

mod publisher;
mod rows;

use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::contender::Site;
use super::linked::{Ledger, Linked, PATIENCE, Side};
use super::options::Options;
use super::pause::pause;
use super::record::Figure;
use crate::arms::ServerProcess;
use crate::network::{Bandwidth, Network, Plan, Settings, Span};
use publisher::{Fate, Publisher};
use rows::{Rows, Told};

/// Messages a second, in an open loop.
pub(super) const PER_S: u32 = 1_000;
const ROUND_TRIP_US: u64 = 30_000;
/// Under load before the cut, and after it.
const AROUND: Duration = Duration::from_secs(5);
/// How often each side is killed while the line is cut, and once it is back.
pub(super) const KILLS: [u32; 2] = [2, 1];
/// What waits has to be in the database by then.
const LIMIT: Duration = Duration::from_secs(300);

/// Something that befalls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Cut,
    Mend,
    Kill(Side),
}

/// Publishes through all of it, and holds what is in the database against what was acknowledged.
pub(super) fn measure(
    site: &Site,
    name: &str,
    options: &Options,
    seed: u64,
) -> Result<Vec<(Figure, Option<f64>)>, String> {
    let network = site.network(&Plan::wan(
        Settings {
            bandwidth_bit_per_s: Bandwidth::UNSHAPED,
            round_trip_us: ROUND_TRIP_US,
            ..Settings::default()
        },
        seed,
    ))?;
    let linked = Linked::set_up(site, name, None, Some(&network))?;
    let mut pair = Pair {
        linked: &linked,
        network: &network,
        servers: [linked.start(Side::Cloud)?, linked.start(Side::Edge)?],
    };
    let sending = AROUND + options.cut() + AROUND;
    let publisher = Publisher::new(linked.endpoint(Side::Edge), PER_S, sending);
    let (fates, mended) = std::thread::scope(|scope| {
        let publishing = scope.spawn(|| publisher.run());
        let mended = pair.suffer(&script(options.cut(), seed));
        if mended.is_err() {
            publisher.give_up();
        }
        let fates = publishing.join().expect("publishing does not panic");
        Ok::<_, String>((fates.map_err(|error| error.to_string())?, mended?))
    })?;
    let (ledger, caught_up) = pair.comes_to_rest()?;
    let rows = Rows::read(&linked)?;
    let caught_up_ms = caught_up.duration_since(mended).as_secs_f64() * 1e3;
    let found = Told::of(&fates, &rows);
    let count = |messages: u64| Some(messages as f64);
    let of = |fate| fates.iter().filter(|one| **one == fate).count() as u64;
    Ok(vec![
        (Figure::CutSentMessages, count(fates.len() as u64)),
        (Figure::CutAcknowledgedMessages, count(of(Fate::Acknowledged))),
        (Figure::CutInDoubtMessages, count(of(Fate::InDoubt))),
        (Figure::CutRowsMessages, count(rows.len())),
        (Figure::CutLostMessages, count(found.missing)),
        (Figure::CutFurtherMessages, count(found.further)),
        (Figure::CutDuplicateMessages, count(found.duplicates)),
        (Figure::CutUnknownMessages, count(found.unknown)),
        (
            Figure::CutUnbalancedMessages,
            count(unbalanced(&ledger, rows.len(), found.further)),
        ),
        (Figure::CutCaughtUpMs, Some(caught_up_ms)),
    ])
}

/// Messages that the edge's log took and the database has not; and rows that the log does not account for. Those of
/// messages in doubt it need not have: they may have gone to the cloud before a crash, and not yet to the disk.
fn unbalanced(ledger: &Ledger, rows: u64, in_doubt: u64) -> u64 {
    let lacking = ledger.received.saturating_sub(rows);
    lacking + rows.saturating_sub(ledger.received + in_doubt) + ledger.dropped
}

/// What befalls them when: a side is killed at any time of the cut, and of the load after it.
fn script(cut: Duration, seed: u64) -> Vec<(Duration, Blow)> {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let mut blows = vec![(AROUND, Blow::Cut), (AROUND + cut, Blow::Mend)];
    for (begins, length, kills) in [(AROUND, cut, KILLS[0]), (AROUND + cut, AROUND, KILLS[1])] {
        for side in [Side::Cloud, Side::Edge] {
            let times = (0..kills).map(|_| begins + length.mul_f64(chance.random_range(0.05..0.95)));
            blows.extend(times.map(|at| (at, Blow::Kill(side))));
        }
    }
    blows.sort_by_key(|(at, _)| *at);
    blows
}

struct Pair<'a> {
    linked: &'a Linked<'a>,
    network: &'a Network,
    /// Cloud and edge.
    servers: [ServerProcess; 2],
}

impl Pair<'_> {
    /// Does to them what the script says; when the line came back.
    fn suffer(&mut self, script: &[(Duration, Blow)]) -> Result<Instant, String> {
        let (began, mut mended) = (Instant::now(), Instant::now());
        let line = self.network.line(Span::EdgeCloud);
        for (at, blow) in script {
            pause(at.saturating_sub(began.elapsed()));
            match blow {
                Blow::Cut => line.cut().map_err(|error| error.to_string())?,
                Blow::Mend => {
                    line.mend().map_err(|error| error.to_string())?;
                    mended = Instant::now();
                }
                Blow::Kill(side) => self.kill(*side)?,
            }
        }
        Ok(mended)
    }

    /// `kill -9`, and another start.
    fn kill(&mut self, side: Side) -> Result<(), String> {
        self.servers[side as usize].kill(PATIENCE)?;
        self.servers[side as usize] = self.linked.start(side)?;
        Ok(())
    }

    /// Waits until nothing waits at either side any more; the edge's ledger, and when that was.
    fn comes_to_rest(&mut self) -> Result<(Ledger, Instant), String> {
        let [cloud, edge] = &mut self.servers;
        let is_empty = |ledger: &Ledger| ledger.queued == 0;
        self.linked.waits_for((Side::Edge, edge), LIMIT, is_empty)?;
        let at = self.linked.waits_for((Side::Cloud, cloud), LIMIT, is_empty)?;
        Ok((self.linked.ledger(Side::Edge)?, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_log_balance_where_they_are_of_messages_in_doubt() {
        let ledger = Ledger {
            received: 100,
            ..Ledger::default()
        };
        let found = [(100, 0), (103, 3), (103, 5), (103, 2), (99, 0)];
        assert_eq!(
            found.map(|(rows, in_doubt)| unbalanced(&ledger, rows, in_doubt)),
            [0, 0, 0, 1, 1]
        );
    }

    #[test]
    fn both_sides_are_killed_while_the_line_is_cut_and_again_once_it_is_back() {
        let cut = Duration::from_secs(60);
        for seed in 0..50 {
            let script = script(cut, seed);
            assert!(script.is_sorted_by_key(|(at, _)| *at));
            let place = |wanted| script.iter().position(|(_, blow)| *blow == wanted).unwrap();
            let (begins, ends) = (place(Blow::Cut), place(Blow::Mend));
            for side in [Side::Cloud, Side::Edge] {
                let kills =
                    |some: &[(Duration, Blow)]| some.iter().filter(|(_, blow)| *blow == Blow::Kill(side)).count();
                assert_eq!(kills(&script[begins..ends]), KILLS[0] as usize);
                assert_eq!(kills(&script[ends..]), KILLS[1] as usize);
            }
        }
        assert_ne!(script(cut, 1), script(cut, 2));
    }
}
