//! Applications that have as many replicas as what comes to them needs: what is written of it, and who sees to it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::supervise::{Key, Supervisor};
use agent::workload::{MAX_REPLICAS, most_replicas, sockets};
use balance::scale::{Aim, Demand, LOOK_PAUSE, Scaler, Scaling, Verdict};
use manifest::workload::Deployment;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use crate::door::Opened;
use crate::table::{duration, is_ready};
use crate::{Doors, held};

/// Requests that a replica is to have at once, those that wait among them.
pub(crate) const TARGET_CONCURRENCY: &str = "selvedge.dev/target-concurrency";
/// How long answers are to take on average.
pub(crate) const TARGET_LATENCY: &str = "selvedge.dev/target-latency";
/// Replicas that have not been needed for so long are ended.
pub(crate) const SCALE_DOWN_AFTER: &str = "selvedge.dev/scale-down-after";
/// Where it is not written.
const DOWN_AFTER: Duration = Duration::from_secs(60);
const CONCURRENCY_LEAST: f32 = 0.1;
const CONCURRENCY_MOST: f32 = 10_000.0;
const LATENCY_LEAST: Duration = Duration::from_millis(1);
const LATENCY_MOST: Duration = Duration::from_secs(60);
const DOWN_AFTER_MOST: Duration = Duration::from_secs(86_400);
/// Between two times that another node is woken for one application.
const WAKE_PAUSE: Duration = Duration::from_secs(5);

/// Those that scale, and how.
pub(crate) type Scaled = HashMap<Key, Scaling>;

/// How an application scales, if it does; it has been checked.
#[must_use]
pub(crate) fn scaling(deployment: &Deployment) -> Option<Scaling> {
    let (least, most) = (deployment.spec.replicas, most_replicas(deployment));
    let settle = written(deployment, SCALE_DOWN_AFTER).and_then(duration);
    (least < most).then_some(Scaling {
        least,
        most,
        aim: concurrency(deployment).or_else(|| latency(deployment))?,
        settle: settle.unwrap_or(DOWN_AFTER),
    })
}

fn written<'a>(deployment: &'a Deployment, name: &str) -> Option<&'a str> {
    deployment.metadata.annotations.get(name).map(String::as_str)
}

fn concurrency(deployment: &Deployment) -> Option<Aim> {
    let each: f32 = written(deployment, TARGET_CONCURRENCY)?.parse().ok()?;
    (CONCURRENCY_LEAST..=CONCURRENCY_MOST)
        .contains(&each)
        .then_some(Aim::Concurrency(each))
}

fn latency(deployment: &Deployment) -> Option<Aim> {
    let aim = duration(written(deployment, TARGET_LATENCY)?)?;
    (LATENCY_LEAST..=LATENCY_MOST)
        .contains(&aim)
        .then_some(Aim::Latency(aim))
}

/// What of that cannot be, as annotation and words.
pub(crate) fn unsupported(deployment: &Deployment) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let text = |name| written(deployment, name);
    if let Some(value) = text(TARGET_CONCURRENCY).filter(|_| concurrency(deployment).is_none()) {
        let wrong = format!("{value:?} is no number of requests from {CONCURRENCY_LEAST} to {CONCURRENCY_MOST}");
        found.push((TARGET_CONCURRENCY, wrong));
    }
    if let Some(value) = text(TARGET_LATENCY).filter(|_| latency(deployment).is_none()) {
        let most_s = LATENCY_MOST.as_secs();
        let wrong = format!("{value:?} is no time from 1ms to {most_s}s; one is 50ms or 2s");
        found.push((TARGET_LATENCY, wrong));
    }
    let down_after = text(SCALE_DOWN_AFTER).map(|value| (value, duration(value)));
    if let Some((value, None)) = down_after {
        found.push((SCALE_DOWN_AFTER, format!("{value:?} is no time; one is 90s, 5m or 1h")));
    } else if let Some((value, _)) = down_after.filter(|(_, after)| *after > Some(DOWN_AFTER_MOST)) {
        found.push((SCALE_DOWN_AFTER, format!("{value:?} is more than 24h")));
    }
    let aims = [TARGET_CONCURRENCY, TARGET_LATENCY].map(|name| text(name).is_some());
    let others = [TARGET_CONCURRENCY, TARGET_LATENCY, SCALE_DOWN_AFTER];
    match (text(MAX_REPLICAS), aims) {
        (Some(_), [false, false]) => found.push((
            MAX_REPLICAS,
            format!("says how many replicas there may be, and nothing when: write {TARGET_CONCURRENCY} or {TARGET_LATENCY}, too"),
        )),
        (Some(_), [true, true]) => found.push((
            TARGET_LATENCY,
            format!("stands beside {TARGET_CONCURRENCY}: one of them says how many replicas there are"),
        )),
        (Some(_), _) if sockets::take_sockets(deployment) => found.push((
            MAX_REPLICAS,
            "is for what is called by the edge's doors, which count; who takes sockets over is not".to_owned(),
        )),
        (Some(_), _) => {}
        (None, _) => {
            let without = others.into_iter().filter(|name| text(name).is_some());
            found.extend(without.map(|name| (name, format!("needs {MAX_REPLICAS} beside it"))));
        }
    }
    found
}

/// Sees to it that they have as many.
pub(crate) struct Scalers {
    pub(crate) supervisor: Arc<Mutex<Supervisor>>,
    pub(crate) doors: Arc<Mutex<Doors>>,
    /// Told when other nodes are to be told something else.
    pub(crate) changes: Arc<Notify>,
}

/// One of them that is awake.
struct Awake {
    scaler: Scaler,
    woke_at: Option<Instant>,
}

impl Scalers {
    /// Of those that are `wanted`, at any time.
    pub(crate) async fn run(self, mut wanted: watch::Receiver<Arc<Scaled>>) {
        let since = Instant::now();
        let mut awake: HashMap<Key, Awake> = HashMap::new();
        loop {
            let scaled = Arc::clone(&wanted.borrow_and_update());
            if scaled.is_empty() {
                awake.clear();
                self.show(HashMap::new());
                if wanted.changed().await.is_err() {
                    return;
                }
                continue;
            }
            sleep(LOOK_PAUSE).await;
            awake.retain(|key, awake| scaled.get(key) == Some(&awake.scaler.scaling()));
            let mut verdicts = HashMap::new();
            for (key, scaling) in &*scaled {
                if let Some(verdict) = self.look(key, *scaling, &mut awake, since) {
                    verdicts.insert(key.clone(), verdict);
                }
            }
            self.show(verdicts);
        }
    }

    /// `None`: nothing of it is to run.
    fn look(&self, key: &Key, scaling: Scaling, awake: &mut HashMap<Key, Awake>, since: Instant) -> Option<Verdict> {
        let status = {
            let supervisor = held(&self.supervisor);
            let status = supervisor.status(key);
            if supervisor.sleeps(key) || status.is_empty() {
                awake.remove(key);
                supervisor.scale(key, None);
                return None;
            }
            status
        };
        let now = since.elapsed();
        let numbers: BTreeSet<u32> = status.iter().map(|one| one.replica).collect();
        let ready = numbers.iter().filter(|number| is_ready(&status, **number)).count() as u32;
        let awake = awake.entry(key.clone()).or_insert_with(|| Awake {
            scaler: Scaler::new(scaling, numbers.len() as u32, now),
            woke_at: None,
        });
        let verdict = awake.scaler.look(self.demand(key, ready), ready, now);
        held(&self.supervisor).scale(key, Some(verdict.count));
        let may_wake = !verdict.may_grow && awake.woke_at.is_none_or(|at| at.elapsed() >= WAKE_PAUSE);
        if may_wake && verdict.needed > verdict.count {
            awake.woke_at = Some(Instant::now());
            let doors = held(&self.doors);
            let leading = doors.opened.values().filter(|opened| opened.scales(key));
            leading.for_each(|opened| opened.wake_elsewhere(verdict.needed, verdict.count));
        }
        Some(verdict)
    }

    /// Of all doors that lead to it.
    fn demand(&self, key: &Key, ready: u32) -> Demand {
        let doors = held(&self.doors);
        let leading = doors.opened.values().filter(|opened| opened.scales(key));
        let demands = leading.map(|opened: &Opened| opened.demand(ready));
        demands.fold(Demand::default(), |all, one| Demand {
            under_way: all.under_way + one.under_way,
            waiting: all.waiting + one.waiting,
            answered: all.answered + one.answered,
            took_s: all.took_s + one.took_s,
        })
    }

    fn show(&self, verdicts: HashMap<Key, Verdict>) {
        let mut doors = held(&self.doors);
        let grow = |verdicts: &HashMap<Key, Verdict>| -> BTreeSet<Key> {
            let growing = verdicts.iter().filter(|(_, verdict)| verdict.may_grow);
            growing.map(|(key, _)| key.clone()).collect()
        };
        let is_told = grow(&doors.verdicts) != grow(&verdicts);
        doors.verdicts = verdicts;
        if is_told {
            self.changes.notify_one();
        }
    }
}
