//! Whose login is checked next. A check of a password takes a core for tens of milliseconds, so only some run at once,
//! and the addresses that logins come from take turns: who sends a thousand waits for them, and nobody else does.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The checks of all doors. A login first waits for those of its own address. Of each address as many as may run at
/// once come further, and wait in the order in which they came, so that each other address has no more before them.
pub(super) struct LoginChecks {
    at_once: usize,
    running: Arc<Semaphore>,
    lanes: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// Those of one address; forgotten with the last of them.
struct Lane {
    checks: Arc<LoginChecks>,
    origin: IpAddr,
    places: Arc<Semaphore>,
}

/// The right to check one login, until it is dropped.
pub(super) struct Turn {
    _running: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
    // Dropped last: it looks whether the lane is still in use.
    _lane: Lane,
}

impl LoginChecks {
    /// So many checks at once.
    pub(super) fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self {
            at_once,
            running: Arc::new(Semaphore::new(at_once)),
            lanes: Mutex::default(),
        })
    }

    /// Waits until a login from this address may be checked.
    pub(super) async fn turn(self: &Arc<Self>, origin: IpAddr) -> Turn {
        let lane = self.lane(origin);
        let place = acquire(&lane.places).await;
        Turn {
            _running: acquire(&self.running).await,
            _place: place,
            _lane: lane,
        }
    }

    /// How many more may run now.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.running.available_permits()
    }

    fn lane(self: &Arc<Self>, origin: IpAddr) -> Lane {
        let mut lanes = self.lanes();
        let places = lanes
            .entry(origin)
            .or_insert_with(|| Arc::new(Semaphore::new(self.at_once)));
        Lane {
            checks: Arc::clone(self),
            origin,
            places: Arc::clone(places),
        }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<IpAddr, Arc<Semaphore>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn acquire(places: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(places).acquire_owned().await.expect("never closed")
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut lanes = self.checks.lanes();
        // One is the table's and one this lane's own.
        if Arc::strong_count(&self.places) == 2 {
            lanes.remove(&self.origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[tokio::test]
    async fn who_comes_from_another_address_does_not_wait_for_a_flood() {
        let checks = LoginChecks::new(2);
        let (done, mut order) = mpsc::channel(1_000);
        let log_in = |origin: IpAddr| {
            let (checks, done) = (Arc::clone(&checks), done.clone());
            tokio::spawn(async move {
                let _turn = checks.turn(origin).await;
                tokio::task::yield_now().await;
                done.send(origin).await.unwrap();
            })
        };
        for _ in 0..500 {
            log_in(address(2));
        }
        tokio::task::yield_now().await;
        for last in [3, 4] {
            log_in(address(last));
        }
        drop(done);
        let mut finished = Vec::new();
        while let Some(origin) = order.recv().await {
            finished.push(origin);
        }
        for last in [3, 4] {
            let before = finished.iter().position(|origin| *origin == address(last)).unwrap();
            assert!(before < 12, "{before} logins came before that of address {last}");
        }
        assert_eq!(finished.len(), 502);
        assert!(checks.lanes().is_empty());
    }

    #[tokio::test]
    async fn no_more_run_than_may_and_who_is_given_up_leaves_its_place() {
        let checks = LoginChecks::new(1);
        let first = checks.turn(address(1)).await;
        let waiting = {
            let checks = Arc::clone(&checks);
            tokio::spawn(async move { checks.turn(address(2)).await })
        };
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        waiting.abort();
        assert!(waiting.await.is_err());
        drop(first);
        drop(checks.turn(address(3)).await);
        assert!(checks.lanes().is_empty());
        assert_eq!(checks.free(), 1);
    }
}
