//! How replicas of an application end: those that others replace, and those that are not needed any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::application::Replicas;
use super::container::Board;
use super::following::{Following, Replica};
use super::version::Plan;
use super::{Changes, Key};

/// Until nobody is sent to a replica any more that is to end, while others are there; then it is asked to end all the same.
const LEAD_PATIENCE: Duration = Duration::from_secs(10);
/// From then until it is asked to end: those that are on their way arrive.
const DRAIN: Duration = Duration::from_millis(200);
/// For all of them to be answered, or as long as its grace is, if that is less.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at that.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A replica that is not needed any more, while others may be started.
pub(super) struct Leaving {
    pub(super) number: u32,
    /// What is shown of it.
    pub(super) containers: Vec<(Plan, Board)>,
    /// Its requests are not waited for.
    hurry: CancellationToken,
    ending: AbortOnDropHandle<()>,
}

impl Following {
    /// Nobody is sent to them any more when this returns, where others are there to be sent to.
    pub(super) async fn drain(&self, replicas: &[u32]) {
        let is_ready = |replica: &Replica| replica.keepers.iter().any(|keeper| keeper.board.look().is_ready);
        let (leaving, staying): (Vec<_>, Vec<_>) =
            self.replicas.iter().partition(|(number, _)| replicas.contains(number));
        if staying.iter().any(|(_, replica)| is_ready(replica)) && leaving.iter().any(|(_, replica)| is_ready(replica))
        {
            let keepers = leaving.iter().flat_map(|(_, replica)| &replica.keepers);
            keepers.for_each(|keeper| keeper.board.withdraw());
            let drained = leaving.iter().map(|(_, replica)| {
                let boards = replica.keepers.iter().map(|keeper| keeper.board.clone());
                drained(&self.key, &self.changes, boards.collect(), replica.grace())
            });
            join_all(drained).await;
        }
    }

    /// Has surplus replicas end, each once nobody is sent there any more and all that was sent is answered.
    pub(super) fn leave(&mut self, replicas: &[u32]) {
        let is_any_left = self.replicas.len() > replicas.len();
        for number in replicas {
            let Some(replica) = self.replicas.remove(number) else {
                continue;
            };
            let (key, changes, told) = (self.key.clone(), self.changes.clone(), Arc::clone(&self.of_replicas));
            let (hurry, grace) = (CancellationToken::new(), replica.grace());
            let is_hurried = hurry.clone();
            let containers: Vec<(Plan, Board)> = (replica.keepers.iter())
                .map(|keeper| (keeper.plan.clone(), keeper.board.clone()))
                .collect();
            let boards: Vec<Board> = containers.iter().map(|(_, board)| board.clone()).collect();
            boards.iter().for_each(Board::withdraw);
            // Who forgets it forgets those that keep it, too.
            let keeping = replica.keepers.into_iter();
            let (stops, tasks): (Vec<_>, Vec<_>) = keeping
                .map(|keeper| (keeper.stop, AbortOnDropHandle::new(keeper.task)))
                .unzip();
            let ending = async move {
                if is_any_left {
                    tokio::select! {
                        () = drained(&key, &changes, boards, grace) => {}
                        () = is_hurried.cancelled() => {}
                    }
                }
                stops.iter().for_each(CancellationToken::cancel);
                for task in tasks {
                    task.await.expect("keeping a container does not panic");
                }
                told.notify_one();
            };
            self.leaving.push(Leaving {
                number: *number,
                containers,
                hurry,
                ending: AbortOnDropHandle::new(tokio::spawn(ending)),
            });
        }
    }

    /// How many more may be there, with those that leave.
    pub(super) fn room(&self, target: &Replicas) -> u32 {
        let there = (self.replicas.len() + self.leaving.len()) as u32;
        let most = target.most.max(target.count).saturating_add(target.update.surge);
        most.saturating_sub(there)
    }

    /// What those had that have left goes with them.
    pub(super) async fn forget_left(&mut self, wanted: u32) {
        let before = self.leaving.len();
        self.leaving.retain(|leaving| !leaving.ending.is_finished());
        if self.leaving.len() < before {
            self.clear(wanted).await;
        }
    }

    /// All have ended when this returns.
    pub(super) async fn stop_all(&mut self) {
        self.leaving.iter().for_each(|leaving| leaving.hurry.cancel());
        self.stop(self.replicas.keys().copied().collect()).await;
        for leaving in self.leaving.drain(..) {
            leaving.ending.await.expect("ending a replica does not panic");
        }
    }

    /// They have ended when this returns.
    pub(super) async fn stop(&mut self, replicas: Vec<u32>) {
        let leaving: Vec<Replica> = replicas
            .iter()
            .filter_map(|number| self.replicas.remove(number))
            .collect();
        for keeper in leaving.iter().flat_map(|replica| &replica.keepers) {
            keeper.board.withdraw();
            keeper.stop.cancel();
        }
        for keeper in leaving.into_iter().flat_map(|replica| replica.keepers) {
            keeper.task.await.expect("keeping a container does not panic");
        }
    }

    /// What the containers of a replica shared goes with it.
    pub(super) async fn clear(&self, wanted: u32) {
        let Key { tenant, application } = &self.key;
        let leaving = self.leaving.iter().map(|leaving| leaving.number);
        let kept: BTreeSet<u32> = self.replicas.keys().copied().chain(leaving).collect();
        if let Err(error) = self.runtime.clear(tenant, application, kept, wanted).await {
            tracing::warn!(%tenant, %application, %error, "what replicas shared that have ended is not removed");
        }
    }
}

impl Replica {
    /// From the request to end until it is made to.
    fn grace(&self) -> Duration {
        let all = self.keepers.iter().map(|keeper| keeper.plan.container.grace);
        all.max().unwrap_or_default()
    }
}

/// Returns once nobody is sent to a replica any more and all that was sent is answered, or that has taken too long.
async fn drained(Key { tenant, application }: &Key, changes: &Changes, boards: Vec<Board>, grace: Duration) {
    if timeout(LEAD_PATIENCE, changes.are_followed()).await.is_err() {
        tracing::warn!(%tenant, %application, "requests may be sent to replicas that are to end");
    }
    sleep(DRAIN).await;
    let address = boards.iter().find_map(|board| board.look().address);
    let until = Instant::now() + grace.min(BUSY_PATIENCE);
    while Instant::now() < until && address.is_some_and(|address| changes.is_busy(address)) {
        sleep(BUSY_PAUSE).await;
    }
}
