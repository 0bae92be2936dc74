//! One application: its containers, and what is done when others are wanted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::backoff::Backoff;
use super::container::{Board, Turn, end, keep};
use super::events::{Events, What, cut};
use super::{Changes, Container, Key, Status};
use crate::runtime::{Error, Runtime, SEPARATOR};

/// From the request to end until it is made to, for a container that nobody wants any more.
const GRACE: Duration = Duration::from_secs(10);

/// A container with the name of its starts, but for their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) container: Container,
}

/// What is wanted of an application, and now.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// `None`: not known yet.
    plans: Option<Arc<[Plan]>>,
    is_on_demand: bool,
    is_awake: bool,
    /// How often it went to sleep: what ran before that is not what is woken.
    naps: u64,
}

impl Wanted {
    fn sleeps(&self) -> bool {
        self.is_on_demand && !self.is_awake
    }
}

/// An application that is kept as it is wanted.
pub(super) struct Application {
    wanted: watch::Sender<Wanted>,
    boards: watch::Receiver<Vec<(Plan, Board)>>,
    /// Whether nothing is wanted, and nothing is left.
    is_over: watch::Receiver<bool>,
}

impl Application {
    /// Leaves what runs of it alone until it is known what is wanted.
    pub(super) fn open(runtime: Arc<dyn Runtime>, key: &Key, events: Events, changes: Changes, is_awake: bool) -> Self {
        let (wanted, wanting) = watch::channel(Wanted {
            is_awake,
            ..Wanted::default()
        });
        let (show, boards) = watch::channel(Vec::new());
        let (tell_over, is_over) = watch::channel(false);
        let following = Following {
            runtime,
            key: key.clone(),
            events,
            changes,
            keepers: BTreeMap::new(),
        };
        tokio::spawn(following.run(wanting, show, tell_over));
        Application {
            wanted,
            boards,
            is_over,
        }
    }

    /// Has these run, and no others; on demand, those only while it is awake.
    pub(super) fn want(&self, plans: Arc<[Plan]>, is_on_demand: bool) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.plans.as_ref() != Some(&plans) || wanted.is_on_demand != is_on_demand;
            (wanted.plans, wanted.is_on_demand) = (Some(plans), is_on_demand);
            is_new
        });
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
            let can_sleep = wanted.is_on_demand && wanted.is_awake;
            if can_sleep {
                self.boards.borrow().iter().for_each(|(_, board)| board.withdraw());
                wanted.is_awake = false;
                wanted.naps += 1;
            }
            can_sleep
        });
    }

    pub(super) fn is_ready(&self) -> bool {
        self.boards.borrow().iter().any(|(_, board)| board.look().is_ready)
    }

    pub(super) fn sleeps(&self) -> bool {
        self.wanted.borrow().sleeps()
    }

    /// Whether nothing is wanted of it, and nothing is left.
    pub(super) fn is_over(&self) -> bool {
        let wants_nothing = self
            .wanted
            .borrow()
            .plans
            .as_ref()
            .is_some_and(|plans| plans.is_empty());
        wants_nothing && *self.is_over.borrow()
    }

    pub(super) fn status(&self) -> Vec<Status> {
        let boards = self.boards.borrow();
        let status = |(plan, board): &(Plan, Board)| Status {
            container: plan.container.name.clone(),
            replica: plan.container.replica,
            is_init: plan.container.is_init,
            limits: plan.container.launch.limits,
            doing: board.look(),
        };
        boards.iter().map(status).collect()
    }
}

/// The loop of one application.
struct Following {
    runtime: Arc<dyn Runtime>,
    key: Key,
    events: Events,
    changes: Changes,
    /// By the names of their containers.
    keepers: BTreeMap<String, Keeper>,
}

/// Who keeps one container.
struct Keeper {
    stop: CancellationToken,
    task: JoinHandle<()>,
    board: Board,
    /// Whether it has come to its good end, where it is to.
    is_done: watch::Receiver<bool>,
}

impl Following {
    /// Until whoever wants something is gone: what runs goes on.
    async fn run(
        mut self,
        mut wanting: watch::Receiver<Wanted>,
        show: watch::Sender<Vec<(Plan, Board)>>,
        tell_over: watch::Sender<bool>,
    ) {
        let mut _preparing = None;
        let mut naps = 0;
        while wanting.changed().await.is_ok() {
            let wanted = wanting.borrow_and_update().clone();
            let Some(all) = wanted.plans.clone() else {
                continue;
            };
            let plans = if wanted.sleeps() {
                Arc::default()
            } else {
                Arc::clone(&all)
            };
            tell_over.send_replace(false);
            if std::mem::replace(&mut naps, wanted.naps) != wanted.naps {
                self.stop_others(&[]).await;
            }
            self.stop_others(&plans).await;
            self.end_strays(&plans).await;
            self.clear(&plans).await;
            let mut boards = Vec::new();
            for (number, plan) in plans.iter().enumerate() {
                boards.push((plan.clone(), self.keep(plan, &plans[..number])));
            }
            show.send_replace(boards);
            self.changes.tell();
            tell_over.send_replace(all.is_empty());
            _preparing = wanted.sleeps().then(|| self.prepare(all));
        }
        self.keepers.values().for_each(|keeper| keeper.task.abort());
    }

    /// Has here what is to start at once when somebody calls.
    fn prepare(&self, plans: Arc<[Plan]>) -> AbortOnDropHandle<()> {
        let (runtime, events) = (Arc::clone(&self.runtime), self.events.clone());
        let preparing = async move {
            for plan in plans.iter().filter(|plan| plan.container.replica == 0) {
                let container = &plan.container;
                let mut backoff = Backoff::default();
                while let Err(error) = runtime.prepare(&container.launch).await {
                    let why = cut(&error.to_string());
                    events.note(&container.launch.pod, &container.name, What::Failed, &why);
                    sleep(backoff.after(Duration::ZERO, rand::random())).await;
                }
            }
        };
        AbortOnDropHandle::new(tokio::spawn(preparing))
    }

    /// Those that are kept and not wanted any more have ended when this returns.
    async fn stop_others(&mut self, plans: &[Plan]) {
        let is_other = |name: &String, _: &mut Keeper| !is_planned(plans, name);
        let leaving: Vec<Keeper> = self
            .keepers
            .extract_if(.., is_other)
            .map(|(_, keeper)| keeper)
            .collect();
        for keeper in &leaving {
            keeper.board.withdraw();
            keeper.stop.cancel();
        }
        for keeper in leaving {
            keeper.task.await.expect("keeping a container does not panic");
        }
    }

    /// So have those that an earlier agent started.
    async fn end_strays(&self, plans: &[Plan]) {
        let mut backoff = Backoff::default();
        while let Err(error) = self.try_to_end_strays(plans).await {
            tracing::warn!(tenant = %self.key.tenant, application = %self.key.application, %error, "what is not wanted any more is not ended yet");
            sleep(backoff.after(Duration::ZERO, rand::random())).await;
        }
    }

    /// What replicas shared goes with them.
    async fn clear(&self, plans: &[Plan]) {
        let replicas = plans.iter().map(|plan| plan.container.replica + 1).max().unwrap_or(0);
        let Key { tenant, application } = &self.key;
        if let Err(error) = self.runtime.clear(tenant, application, replicas).await {
            tracing::warn!(%tenant, %application, %error, "the scratch of what has ended is not removed");
        }
    }

    async fn try_to_end_strays(&self, plans: &[Plan]) -> Result<(), Error> {
        let names = self.runtime.names().await?.into_iter();
        let prefix = self.key.prefix();
        let is_stray = |name: &String| name.starts_with(&prefix) && !is_of_plan(plans, name);
        let mut ending = JoinSet::new();
        for name in names.filter(is_stray) {
            let runtime = Arc::clone(&self.runtime);
            ending.spawn(async move { end(&*runtime, &name, None, GRACE).await });
        }
        ending.join_all().await.into_iter().collect()
    }

    /// Has it kept, if it is not, once those `before` it have come to their end that are to.
    fn keep(&mut self, plan: &Plan, before: &[Plan]) -> Board {
        let awaited = before.iter().filter(|other| {
            let other = &other.container;
            other.is_init && other.replica == plan.container.replica
        });
        let awaited = awaited.filter_map(|other| Some(self.keepers.get(&other.name)?.is_done.clone()));
        let awaited: Vec<watch::Receiver<bool>> = awaited.collect();
        let keeper = self.keepers.entry(plan.name.clone()).or_insert_with(|| {
            let (stop, board) = (CancellationToken::new(), Board::new(self.changes.clone()));
            let (done, is_done) = watch::channel(false);
            let turn = Turn { awaited, done };
            let keeping = keep(
                Arc::clone(&self.runtime),
                plan.clone(),
                turn,
                stop.clone(),
                board.clone(),
                self.events.clone(),
            );
            Keeper {
                stop,
                task: tokio::spawn(keeping),
                board,
                is_done,
            }
        });
        keeper.board.clone()
    }
}

fn is_planned(plans: &[Plan], name: &str) -> bool {
    plans.iter().any(|plan| plan.name == name)
}

/// Whether that is a start of one of them.
fn is_of_plan(plans: &[Plan], start: &str) -> bool {
    start
        .rsplit_once(SEPARATOR)
        .is_some_and(|(name, _)| is_planned(plans, name))
}
