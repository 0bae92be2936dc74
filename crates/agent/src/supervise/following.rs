//! The loop of one application: its replicas, and what is done when others are wanted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::application::{Replicas, Shown, Target, Wanted, Window};
use super::backoff::Backoff;
use super::container::{Board, Doing, Orders, Turn, end, keep};
use super::events::{Events, What, cut};
use super::kept_logs::KeptLogs;
use super::leaving::Leaving;
use super::rollout::{self, Seen, Step, Update};
use super::tenant_disk::TenantDisks;
use super::version::{Bad, Histories, History, Plan, Version, of_start};
use super::{Changes, Gate, Key, Rollout};
use crate::runtime::{Error, Runtime};

/// From the request to end until it is made to, for a container that nobody wants any more.
const GRACE: Duration = Duration::from_secs(10);
/// A container that nobody asks whether it is ready has to run for so long, before what it takes the place of is ended.
const SETTLED: Duration = Duration::from_secs(1);
/// How long a replica that is not ready counts as one that will be.
const BROKEN: Duration = Duration::from_secs(10);
/// A new version whose containers have to be started again so often is taken back.
const RESTARTS_MAX: u32 = 3;

/// The loop of one application.
pub(super) struct Following {
    pub(super) gate: Gate,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) histories: Histories,
    pub(super) kept_logs: KeptLogs,
    pub(super) history: History,
    pub(super) key: Key,
    pub(super) events: Events,
    pub(super) changes: Changes,
    pub(super) disks: TenantDisks,
    /// Told when something of a replica is so that was not.
    pub(super) of_replicas: Arc<Notify>,
    /// By their numbers.
    pub(super) replicas: BTreeMap<u32, Replica>,
    pub(super) naps: u64,
    /// Replicas that ran when this began, until it is said how many are to.
    pub(super) found: u32,
    /// Replicas that end, by their numbers, while others may be started.
    pub(super) leaving: Vec<Leaving>,
    /// Nobody is to be sent to what is there, and its time stands still once it is ready.
    pub(super) is_at_rest: bool,
    /// Told to all containers.
    pub(super) is_held: watch::Receiver<bool>,
    pub(super) progress: Progress,
    pub(super) window: Window,
}

/// A replica that is kept.
pub(super) struct Replica {
    pub(super) version: Version,
    pub(super) keepers: Vec<Keeper>,
    /// Of how often it was evicted.
    backoff: Backoff,
    /// Told to them.
    is_to_rest: watch::Sender<bool>,
    since: Instant,
    /// With how many restarts before.
    ready: Option<(Instant, u32)>,
    was_available: bool,
}

/// Who keeps one container.
pub(super) struct Keeper {
    pub(super) plan: Plan,
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<()>,
    pub(super) board: Board,
    /// Whether it has come to its good end, where it is to.
    is_done: watch::Receiver<bool>,
}

/// How far a version has come.
#[derive(Default)]
pub(super) struct Progress {
    revision: String,
    available: usize,
    /// When the last of them became so.
    at: Option<Instant>,
}

impl Following {
    /// Until whoever wants something is gone: what runs goes on. While nothing is to be done, as where it sleeps, it has no
    /// room for what is done then.
    pub(super) async fn run(&mut self, mut wanting: watch::Receiver<Wanted>) {
        let mut preparing: Option<(Arc<Replicas>, AbortOnDropHandle<()>)> = None;
        let mut look_at = None;
        let mut is_known = false;
        loop {
            tokio::select! {
                changed = wanting.changed() => if changed.is_err() { break },
                () = self.of_replicas.notified(), if is_known => {}
                () = sleep_until(look_at.unwrap_or_else(Instant::now)), if look_at.is_some() => {}
            }
            let wanted = wanting.borrow_and_update().clone();
            if wanted.target == Target::Unknown {
                continue;
            }
            if wanted.scale.is_some() {
                self.found = 0;
            }
            let mut target = self.target(&wanted);
            self.window.look().is_over = false;
            let is_to_be_prepared = target.clone().filter(|_| !wanted.runs());
            preparing = match (preparing.take(), &is_to_be_prepared) {
                (Some(same), Some(target)) if same.0.version == target.version => Some(same),
                (Some((_, other)), _) => {
                    // It has nothing made any more that is to be cleared away.
                    other.abort();
                    let _ = other.await;
                    None
                }
                (None, _) => None,
            };
            if std::mem::replace(&mut self.naps, wanted.naps) != wanted.naps {
                Box::pin(self.stop_all()).await;
            }
            if !std::mem::replace(&mut is_known, true) {
                Box::pin(self.find(target.as_deref())).await;
                self.found = self.replicas.len() as u32;
                target = self.target(&wanted);
            }
            look_at = match &target {
                Some(target) if wanted.runs() => {
                    self.is_at_rest = wanted.sleeps();
                    self.rest_or_go_on();
                    let look_at = Box::pin(self.step(target, &wanted.target(self.found))).await;
                    self.rest_or_go_on();
                    look_at
                }
                _ => {
                    Box::pin(self.stop_all()).await;
                    self.progress = Progress::default();
                    Box::pin(self.clear(target.as_ref().map_or(0, |target| target.count))).await;
                    self.show(self.taken_back(&wanted.target));
                    None
                }
            };
            if let (None, Some(target)) = (&preparing, is_to_be_prepared) {
                preparing = Some((Arc::clone(&target), self.prepare(target)));
            }
            if wanted.target == Target::Nothing {
                self.forget();
                self.window.look().is_over = true;
            }
        }
        let keepers = self.replicas.values().flat_map(|replica| &replica.keepers);
        keepers.for_each(|keeper| keeper.task.abort());
    }

    /// Replicas rest as a whole, once all of a replica is ready: its containers may need each other for that.
    fn rest_or_go_on(&self) {
        for replica in self.replicas.values() {
            let rests = self.is_at_rest && replica.lasting().all(|keeper| keeper.board.is_up());
            for keeper in &replica.keepers {
                match self.is_at_rest {
                    true => keeper.board.withdraw(),
                    false => keeper.board.restore(),
                }
            }
            replica
                .is_to_rest
                .send_if_modified(|is_to_rest| std::mem::replace(is_to_rest, rests) != rests);
        }
    }

    /// So many replicas as are to run now; `None`: its end.
    fn target(&self, wanted: &Wanted) -> Option<Arc<Replicas>> {
        match wanted.target(self.found) {
            Target::Replicas(replicas) => Some(self.chosen(&replicas)),
            Target::Unknown | Target::Nothing => None,
        }
    }

    /// What is wanted, or what was good before it where that was taken back.
    fn chosen(&self, wanted: &Arc<Replicas>) -> Arc<Replicas> {
        match (&self.history.good, &self.history.bad) {
            (Some(good), Some(bad)) if bad.revision == wanted.version.revision => Arc::new(Replicas {
                version: good.clone(),
                ..(**wanted).clone()
            }),
            // It is named as what runs is, whatever an agent before this one knew of it.
            (Some(good), _) if good.containers == wanted.version.containers => Arc::new(Replicas {
                version: good.clone(),
                ..(**wanted).clone()
            }),
            _ => Arc::clone(wanted),
        }
    }

    fn taken_back(&self, wanted: &Target) -> Option<Rollout> {
        let Target::Replicas(wanted) = wanted else { return None };
        let bad = self.history.bad.as_ref()?;
        let why = || Rollout::TakenBack { why: bad.why.clone() };
        (self.history.good.is_some() && bad.revision == wanted.version.revision).then(why)
    }

    /// Takes up replicas that run already, of the version that is wanted and of the last good one. All else has ended
    /// when this returns.
    async fn find(&mut self, target: Option<&Replicas>) {
        let target = target.map(|target| &target.version);
        let good = self.history.good.as_ref().filter(|_| target.is_some());
        let known: Vec<Version> = target.into_iter().chain(good).cloned().collect();
        let mut backoff = Backoff::default();
        let found = loop {
            match self.try_to_find(&known).await {
                Ok(found) => break found,
                Err(error) => {
                    let Key { tenant, application } = &self.key;
                    tracing::warn!(%tenant, %application, %error, "what is not wanted any more is not ended yet");
                    sleep(backoff.after(Duration::ZERO, rand::random())).await;
                }
            }
        };
        for (replica, version) in found {
            self.keep(replica, version);
        }
    }

    async fn try_to_find(&self, known: &[Version]) -> Result<BTreeMap<u32, Version>, Error> {
        let names = self.runtime.names().await?;
        let prefix = self.key.prefix();
        let own: Vec<&String> = names.iter().filter(|name| name.starts_with(&prefix)).collect();
        let mut found: BTreeMap<u32, Version> = BTreeMap::new();
        // Of two of one number, the version that is known first.
        for version in known {
            let starts = own.iter().filter_map(|name| of_start(name));
            for (replica, _) in starts.filter(|(_, revision)| *revision == version.revision) {
                found.entry(replica).or_insert_with(|| version.clone());
            }
        }
        self.end_strays(&found).await?;
        Ok(found)
    }

    /// What none of them starts has ended when this returns.
    async fn end_strays(&self, kept: &BTreeMap<u32, Version>) -> Result<(), Error> {
        let names = self.runtime.names().await?.into_iter();
        let prefix = self.key.prefix();
        let is_kept = |name: &str| {
            of_start(name).is_some_and(|(replica, revision)| {
                kept.get(&replica).is_some_and(|version| version.revision == revision)
            })
        };
        let mut ending = JoinSet::new();
        for name in names.filter(|name| name.starts_with(&prefix) && !is_kept(name)) {
            let (runtime, kept_logs) = (Arc::clone(&self.runtime), self.kept_logs.clone());
            ending.spawn(async move { end(&*runtime, &kept_logs, &name, None, GRACE).await });
        }
        ending.join_all().await.into_iter().collect()
    }

    /// Goes as far as it can, and says when it is to look again though nothing changes.
    async fn step(&mut self, target: &Arc<Replicas>, wanted: &Target) -> Option<Instant> {
        let mut target = Arc::clone(target);
        loop {
            self.end_others(&target).await;
            self.forget_left(target.count).await;
            self.replace_evicted(target.count).await;
            let now = Instant::now();
            let seen = self.look(&target, now);
            match rollout::next(target.count, &target.update, &seen) {
                Step::Stop(replicas)
                    if replicas
                        .iter()
                        .all(|number| self.replicas[number].version == target.version) =>
                {
                    self.leave(&replicas);
                }
                Step::Stop(replicas) => {
                    self.drain(&replicas).await;
                    self.stop(replicas).await;
                    self.clear(target.count).await;
                }
                // Those that leave have their place until they have ended.
                Step::Start(count) if self.room(&target) == 0 && count > 0 => {
                    self.show(self.taken_back(wanted));
                    return self.look_at(&target, now);
                }
                Step::Start(count) => {
                    for _ in 0..count.min(self.room(&target)) {
                        let is_free = |number: &u32| {
                            let mut leaving = self.leaving.iter();
                            !self.replicas.contains_key(number) && leaving.all(|left| left.number != *number)
                        };
                        let free = (0..).find(is_free);
                        self.keep(
                            free.expect("there are more numbers than replicas"),
                            target.version.clone(),
                        );
                    }
                }
                Step::Wait => match self.failure(&target, now) {
                    Some(why) => {
                        self.take_back(&target.version, why);
                        target = match wanted {
                            Target::Replicas(wanted) => self.chosen(wanted),
                            Target::Unknown | Target::Nothing => unreachable!("replicas are wanted"),
                        };
                    }
                    None => {
                        let new = seen.iter().filter(|one| one.is_new && one.is_available).count();
                        let is_rolling = self.history.good.as_ref().is_some_and(|good| *good != target.version);
                        let rolling = is_rolling.then_some(Rollout::Rolling {
                            available: new as u32,
                            of: target.count,
                        });
                        self.show(self.taken_back(wanted).or(rolling));
                        return self.look_at(&target, now);
                    }
                },
                Step::Done => {
                    self.note_good(&target);
                    self.show(self.taken_back(wanted));
                    return None;
                }
            }
        }
    }

    /// Neither those of the version that is wanted nor those of the last good one.
    async fn end_others(&mut self, target: &Replicas) {
        let good = self.history.good.as_ref();
        let is_other = |replica: &Replica| replica.version != target.version && good != Some(&replica.version);
        let others = self.replicas.iter().filter(|(_, replica)| is_other(replica));
        let others: Vec<u32> = others.map(|(number, _)| *number).collect();
        if !others.is_empty() {
            self.stop(others).await;
            self.clear(target.count).await;
        }
    }

    fn look(&mut self, target: &Replicas, now: Instant) -> Vec<Seen> {
        let look = |(number, replica): (&u32, &mut Replica)| {
            replica.observe();
            let is_available = replica.available_at(&target.update).is_some_and(|at| at <= now);
            replica.was_available |= is_available;
            Seen {
                replica: *number,
                is_new: replica.version == target.version,
                is_available,
                is_broken: !is_available && now >= replica.since + BROKEN,
            }
        };
        let seen: Vec<Seen> = self.replicas.iter_mut().map(look).collect();
        let available = seen.iter().filter(|one| one.is_new && one.is_available).count();
        let progress = &mut self.progress;
        if progress.revision != target.version.revision {
            *progress = Progress {
                revision: target.version.revision.clone(),
                available,
                at: Some(now),
            };
        } else if available > progress.available {
            (progress.available, progress.at) = (available, Some(now));
        }
        seen
    }

    /// Why a version will not do, where there is one to go back to.
    fn failure(&self, target: &Replicas, now: Instant) -> Option<String> {
        let good = self.history.good.as_ref()?;
        if *good == target.version {
            return None;
        }
        let new = self
            .replicas
            .values()
            .filter(|replica| replica.version == target.version);
        for replica in new.filter(|replica| !replica.was_available) {
            for keeper in &replica.keepers {
                let doing = keeper.board.look();
                if doing.restarts >= RESTARTS_MAX {
                    let how = doing.last_end.map_or_else(String::new, |end| format!(": {end}"));
                    return Some(format!("{} does not stay up{how}", keeper.plan.container.name));
                }
            }
        }
        let is_late = self.progress.at? + target.update.deadline <= now;
        is_late.then(|| {
            let seconds = target.update.deadline.as_secs();
            let reason = self
                .reason(&target.version)
                .map_or_else(String::new, |reason| format!(": {reason}"));
            format!("it was not ready in {seconds} s{reason}")
        })
    }

    /// What a container of a version says that is not ready.
    fn reason(&self, version: &Version) -> Option<String> {
        let new = self.replicas.values().filter(|replica| replica.version == *version);
        let mut doing = new
            .flat_map(|replica| &replica.keepers)
            .map(|keeper| keeper.board.look());
        doing.find_map(|doing| doing.trouble.or(doing.not_ready))
    }

    fn take_back(&mut self, version: &Version, why: String) {
        if let Some(container) = version.containers.first() {
            self.events
                .note(&container.launch.pod, &container.name, What::TakenBack, &why);
        }
        self.history.bad = Some(Bad {
            revision: version.revision.clone(),
            why,
        });
        self.write_history();
    }

    fn note_good(&mut self, target: &Replicas) {
        if target.count == 0 || self.history.good.as_ref() == Some(&target.version) {
            return;
        }
        self.history = History {
            good: Some(target.version.clone()),
            bad: None,
        };
        self.write_history();
    }

    fn write_history(&self) {
        if let Err(error) = self.histories.write(&self.key, &self.history) {
            let Key { tenant, application } = &self.key;
            tracing::warn!(%tenant, %application, %error, "what is good of it is known to this agent alone");
        }
    }

    fn forget(&mut self) {
        self.history = History::default();
        if let Err(error) = self.histories.remove(&self.key) {
            let Key { tenant, application } = &self.key;
            tracing::warn!(%tenant, %application, %error, "what was good of it is not removed");
        }
        if let Err(error) = self.kept_logs.forget(&self.key) {
            let Key { tenant, application } = &self.key;
            tracing::warn!(%tenant, %application, %error, "what it said is not removed");
        }
    }

    /// When something is so that was not `now`, if nothing else changes.
    fn look_at(&self, target: &Replicas, now: Instant) -> Option<Instant> {
        let is_last_resort = self.history.good.as_ref().is_none_or(|good| *good == target.version);
        let deadline = self
            .progress
            .at
            .map(|at| at + target.update.deadline)
            .filter(|_| !is_last_resort);
        let of_replicas = self.replicas.values().flat_map(|replica| {
            let broken = (replica.version != target.version).then_some(replica.since + BROKEN);
            [replica.available_at(&target.update), broken]
        });
        of_replicas.chain([deadline]).flatten().filter(|at| *at > now).min()
    }

    fn show(&self, rollout: Option<Rollout>) {
        let keepers = self.replicas.values().flat_map(|replica| &replica.keepers);
        let keepers = keepers.map(|keeper| (keeper.plan.clone(), keeper.board.clone()));
        let leaving = self.leaving.iter().flat_map(|leaving| leaving.containers.clone());
        *self.window.look() = Shown {
            containers: keepers.chain(leaving).collect(),
            rollout,
            is_over: false,
        };
        self.changes.tell();
    }

    /// Has here what is to start at once when somebody calls.
    fn prepare(&self, replicas: Arc<Replicas>) -> AbortOnDropHandle<()> {
        let (runtime, events) = (Arc::clone(&self.runtime), self.events.clone());
        let preparing = async move {
            for container in &replicas.version.containers {
                let mut backoff = Backoff::default();
                while let Err(error) = runtime.prepare(&container.launch).await {
                    let why = cut(&error.to_string());
                    events.note(&container.launch.pod, &container.name, What::Failed, &why);
                    sleep(backoff.after(Duration::ZERO, rand::random())).await;
                }
            }
        };
        // Its handle is kept while the application sleeps, and what it was is not.
        AbortOnDropHandle::new(tokio::spawn(Box::pin(preparing)))
    }

    /// Replicas of which a container had more on disk than it may go as a whole, with all that they had, and begin
    /// anew.
    async fn replace_evicted(&mut self, wanted: u32) {
        let is_evicted = |replica: &Replica| replica.keepers.iter().any(|keeper| keeper.board.is_evicted());
        let evicted = self.replicas.iter().filter(|(_, replica)| is_evicted(replica));
        let evicted: Vec<u32> = evicted.map(|(number, _)| *number).collect();
        for number in evicted {
            let replica = &self.replicas[&number];
            let (version, mut backoff, ran) = (replica.version.clone(), replica.backoff, replica.since.elapsed());
            let doing = replica.keepers.iter().map(|keeper| keeper.board.look()).collect();
            self.stop(vec![number]).await;
            self.clear(wanted).await;
            let pause = backoff.after(ran, rand::random());
            self.keep_after(number, version, backoff, pause, doing);
        }
    }

    fn keep(&mut self, number: u32, version: Version) {
        self.keep_after(number, version, Backoff::default(), Duration::ZERO, Vec::new());
    }

    /// Has a replica kept: each container of it once those before it have come to their end that are to. `before` it,
    /// its containers did that.
    fn keep_after(&mut self, number: u32, version: Version, backoff: Backoff, pause: Duration, before: Vec<Doing>) {
        let mut before = before.into_iter();
        let mut keepers: Vec<Keeper> = Vec::new();
        let is_to_rest = watch::Sender::new(false);
        for plan in version.plans(number) {
            let awaited = keepers.iter().filter(|keeper| keeper.plan.container.is_init);
            let awaited = awaited.map(|keeper| keeper.is_done.clone()).collect();
            let (stop, board) = (
                CancellationToken::new(),
                Board::new(self.changes.clone(), Arc::clone(&self.of_replicas), before.next()),
            );
            if self.is_at_rest {
                board.withdraw();
            }
            let orders = Orders {
                stop: stop.clone(),
                is_to_rest: is_to_rest.subscribe(),
                disks: self.disks.clone(),
                is_held: self.is_held.clone(),
            };
            let (done, is_done) = watch::channel(false);
            let keeping = keep(
                (Arc::clone(&self.runtime), self.kept_logs.clone()),
                plan.clone(),
                Turn {
                    awaited,
                    done,
                    gate: self.gate.clone(),
                    pause,
                },
                orders,
                board.clone(),
                self.events.clone(),
            );
            keepers.push(Keeper {
                plan,
                stop,
                task: tokio::spawn(keeping),
                board,
                is_done,
            });
        }
        let replica = Replica {
            version,
            keepers,
            is_to_rest,
            backoff,
            since: Instant::now(),
            ready: None,
            was_available: false,
        };
        self.replicas.insert(number, replica);
    }
}

impl Replica {
    /// Takes note of whether it is ready, and since when without a restart.
    fn observe(&mut self) {
        let doing: Vec<Doing> = self.lasting().map(|keeper| keeper.board.look()).collect();
        let restarts = doing.iter().map(|doing| doing.restarts).sum();
        self.ready = match self.ready {
            _ if !self.lasting().all(|keeper| keeper.board.is_up()) => None,
            Some((since, before)) if before == restarts => Some((since, before)),
            _ => Some((Instant::now(), restarts)),
        };
    }

    /// When it is available, or will be if it stays ready; `None`: it is not ready.
    fn available_at(&self, update: &Update) -> Option<Instant> {
        let is_asked = |keeper: &Keeper| keeper.plan.container.probes.readiness.is_some();
        let settled = match self.lasting().all(is_asked) {
            true => update.min_ready,
            false => update.min_ready.max(SETTLED),
        };
        self.ready.map(|(since, _)| since + settled)
    }

    /// Of all its containers but those that run once.
    fn lasting(&self) -> impl Iterator<Item = &Keeper> {
        self.keepers.iter().filter(|keeper| !keeper.plan.container.is_init)
    }
}
