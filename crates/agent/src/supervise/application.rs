//! One application, as it is wanted and as it is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use super::container::Board;
use super::events::Events;
use super::following::{Following, Progress};
use super::hold::HeldApplication;
use super::kept_logs::KeptLogs;
use super::rollout::Update;
use super::tenant_disk::TenantDisks;
use super::version::{Histories, Plan, Version};
use super::{Changes, Gate, Key, Peers, Rollout, Status, WhenIdle};
use crate::runtime::Runtime;

/// What is wanted of an application, and now.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) target: Target,
    when_idle: Option<WhenIdle>,
    is_awake: bool,
    /// Replicas that are to run in place of those that are wanted.
    pub(super) scale: Option<u32>,
    /// How often what runs was given up: that is not what is woken.
    pub(super) naps: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Target {
    #[default]
    Unknown,
    /// Its end.
    Nothing,
    Replicas(Arc<Replicas>),
}

/// So many of this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replicas {
    pub(super) version: Version,
    pub(super) count: u32,
    /// As many as `count` may become for who asks.
    pub(super) most: u32,
    pub(super) update: Update,
}

impl Wanted {
    pub(super) fn sleeps(&self) -> bool {
        self.when_idle.is_some() && !self.is_awake
    }

    /// With as many replicas as run now; of one of which nobody has said how many, as many as were `found`.
    pub(super) fn target(&self, found: u32) -> Target {
        match &self.target {
            Target::Replicas(replicas) if replicas.most > replicas.count => {
                let mut scaled = (**replicas).clone();
                scaled.count = self.scale.unwrap_or(found).clamp(replicas.count, replicas.most);
                Target::Replicas(Arc::new(scaled))
            }
            target => target.clone(),
        }
    }

    /// Containers of it are to be there.
    pub(super) fn runs(&self) -> bool {
        !self.sleeps() || self.when_idle != Some(WhenIdle::Stop)
    }
}

/// What is shown of an application.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) containers: Vec<(Plan, Board)>,
    pub(super) rollout: Option<Rollout>,
    /// Nothing is wanted, and nothing is left.
    pub(super) is_over: bool,
}

/// Where its loop shows it to whoever looks.
#[derive(Clone, Debug, Default)]
pub(super) struct Window(Arc<Mutex<Shown>>);

impl Window {
    pub(super) fn look(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().expect("nobody who looks panics")
    }
}

/// An application that is kept as it is wanted.
pub(super) struct Application {
    wanted: watch::Sender<Wanted>,
    /// What it comes after.
    after: watch::Sender<BTreeSet<String>>,
    /// Whether its time is to stand still.
    hold: watch::Sender<bool>,
    window: Window,
}

impl Application {
    /// Leaves what runs of it alone until it is known what is wanted.
    pub(super) fn open(
        runtime: Arc<dyn Runtime>,
        (histories, kept_logs): (Histories, KeptLogs),
        key: &Key,
        events: Events,
        (peers, changes): (Peers, Changes),
        disks: TenantDisks,
        is_awake: bool,
    ) -> Self {
        let (wanted, wanting) = watch::channel(Wanted {
            is_awake,
            ..Wanted::default()
        });
        let window = Window::default();
        let (after, told_after) = watch::channel(BTreeSet::new());
        let (hold, is_held) = watch::channel(false);
        let mut following = Following {
            gate: Gate::new(&key.tenant, peers, changes.clone(), told_after),
            history: histories.read(key),
            histories,
            kept_logs,
            runtime,
            key: key.clone(),
            events,
            changes,
            disks,
            of_replicas: Arc::default(),
            replicas: BTreeMap::new(),
            naps: 0,
            found: 0,
            leaving: Vec::new(),
            is_at_rest: false,
            is_held,
            progress: Progress::default(),
            window: window.clone(),
        };
        tokio::spawn(async move { following.run(wanting).await });
        Application {
            wanted,
            after,
            hold,
            window,
        }
    }

    /// Has these run, and no others, started `after` those that are named; where it is said what becomes of them when
    /// nobody asks, they run on demand.
    pub(super) fn want(&self, replicas: Option<Replicas>, after: BTreeSet<String>, when_idle: Option<WhenIdle>) {
        self.after.send_if_modified(|known| {
            let is_new = *known != after;
            *known = after;
            is_new
        });
        let target = replicas.map_or(Target::Nothing, |replicas| Target::Replicas(Arc::new(replicas)));
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.target != target || wanted.when_idle != when_idle;
            // One that was removed and comes anew while it still ends is asleep, as any that nobody has called yet.
            wanted.is_awake &= target != Target::Nothing;
            (wanted.target, wanted.when_idle) = (target, when_idle);
            is_new
        });
    }

    /// Has so many replicas run: as many as may, once it is told, where that is something else than before.
    pub(super) fn scale(&self, count: Option<u32>) -> Option<u32> {
        let mut now = None;
        self.wanted.send_if_modified(|wanted| {
            let Target::Replicas(replicas) = &wanted.target else {
                return false;
            };
            let count = count.map(|count| count.clamp(replicas.count, replicas.most));
            let before = std::mem::replace(&mut wanted.scale, count);
            let is_new = before.unwrap_or(replicas.count) != count.unwrap_or(replicas.count);
            now = is_new.then(|| count.unwrap_or(replicas.count));
            before != count
        });
        now
    }

    pub(super) fn wake(&self) {
        self.wanted.send_if_modified(|wanted| {
            let sleeps = wanted.sleeps();
            wanted.is_awake |= sleeps;
            sleeps
        });
    }

    pub(super) fn let_sleep(&self) {
        self.wanted.send_if_modified(|wanted| {
            let can_sleep = wanted.when_idle.is_some() && wanted.is_awake;
            if can_sleep {
                let shown = self.window.look();
                shown.containers.iter().for_each(|(_, board)| board.withdraw());
                wanted.is_awake = false;
                wanted.naps += u64::from(wanted.when_idle != Some(WhenIdle::Pause));
            }
            can_sleep
        });
    }

    /// What its time is made to stand still by.
    pub(super) fn holding(&self) -> HeldApplication {
        HeldApplication {
            hold: self.hold.clone(),
            window: self.window.clone(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        let shown = self.window.look();
        shown.containers.iter().any(|(_, board)| board.look().is_ready)
    }

    pub(super) fn sleeps(&self) -> bool {
        self.wanted.borrow().sleeps()
    }

    /// How it is, for others.
    pub(super) fn readiness(&self) -> Readiness {
        Readiness {
            wanted: self.wanted.subscribe(),
            window: self.window.clone(),
        }
    }

    /// Whether nothing is wanted of it, and nothing is left.
    pub(super) fn is_over(&self) -> bool {
        self.wanted.borrow().target == Target::Nothing && self.window.look().is_over
    }

    pub(super) fn status(&self) -> Vec<Status> {
        let shown = self.window.look();
        let status = |(plan, board): &(Plan, Board)| Status {
            container: plan.container.name.clone(),
            replica: plan.container.replica,
            is_init: plan.container.is_init,
            limits: plan.container.launch.limits,
            doing: board.look(),
        };
        shown.containers.iter().map(status).collect()
    }

    pub(super) fn rollout(&self) -> Option<Rollout> {
        self.window.look().rollout.clone()
    }
}

/// How an application is, for those that come after it.
#[derive(Clone, Debug)]
pub(super) struct Readiness {
    wanted: watch::Receiver<Wanted>,
    window: Window,
}

impl Readiness {
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.wanted.borrow().target, Target::Replicas(_))
    }

    /// Whether all containers of a replica are ready, or whoever calls it has it started.
    pub(super) fn is_met(&self) -> bool {
        let mut replicas: BTreeMap<u32, bool> = BTreeMap::new();
        for (plan, board) in &self.window.look().containers {
            let is_ready = plan.container.is_init || board.look().is_ready;
            *replicas.entry(plan.container.replica).or_insert(true) &= is_ready;
        }
        replicas.into_values().any(|is_ready| is_ready) || self.wanted.borrow().sleeps()
    }
}
