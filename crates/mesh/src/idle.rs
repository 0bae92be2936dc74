//! When an application that runs on demand has been asked nothing for long enough.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::network::connections::{self, Led, Use};
use agent::network::{HostRules, Network};
use agent::sockets::{self, At, Sockets};
use agent::supervise::{Key, Supervisor};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::held;

/// Between two looks at who is connected, at least.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Requests to one application.
#[derive(Clone)]
pub(crate) struct Activity {
    supervisor: Arc<Mutex<Supervisor>>,
    key: Key,
    open: Arc<watch::Sender<usize>>,
    /// Where its programs of the host listen, or did since it slept last.
    programs: Arc<Mutex<BTreeSet<SocketAddrV4>>>,
}

/// A request, for as long as it is under way.
pub struct Request(Arc<watch::Sender<usize>>);

impl Activity {
    /// Begins one. The application does not go to sleep before it ends.
    pub(crate) fn begin(&self) -> Request {
        self.open.send_modify(|open| *open += 1);
        Request(Arc::clone(&self.open))
    }

    /// Whether something of it is ready, and stays so while there is a request.
    pub(crate) fn is_ready(&self) -> bool {
        held(&self.supervisor).is_ready(&self.key)
    }

    /// Why it has not started since it was woken, if that has failed.
    pub(crate) fn failure(&self) -> Option<String> {
        let status = held(&self.supervisor).status(&self.key);
        status.into_iter().find_map(|one| {
            let doing = one.doing;
            let end = doing.last_end.filter(|_| !doing.is_done).map(|end| end.to_string());
            let why = doing.trouble.or(end)?;
            Some(format!("{} of {}: {why}", one.container, self.key.application))
        })
    }

    /// Its programs of the host listen there.
    pub(crate) fn add_programs(&self, programs: &[SocketAddrV4]) {
        held(&self.programs).extend(programs);
    }

    /// Whom the kernel may lead connections to.
    fn led(&self) -> Led {
        let status = held(&self.supervisor).status(&self.key);
        Led {
            pods: status.into_iter().filter_map(|one| one.doing.address).collect(),
            programs: held(&self.programs).clone(),
        }
    }

    pub(crate) fn wake(&self) {
        held(&self.supervisor).wake(&self.key);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// When nobody asks an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    /// It sleeps once that has been so for so long.
    pub(crate) idle_timeout: Duration,
    /// Sockets that it has taken over, where nobody else counts connections.
    pub(crate) taken: BTreeSet<At>,
}

/// Who knows of connections that do not come to doors.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) sockets: Sockets,
    pub(crate) network: Network,
    pub(crate) host: HostRules,
}

/// Looks at what the kernel is to lead past doors, each with a number from 1 on.
#[derive(Clone)]
pub(crate) struct Rules {
    /// The last that has begun.
    pub(crate) begun: Arc<AtomicU64>,
    /// The last after which the kernel's rules are so.
    pub(crate) done: watch::Receiver<u64>,
}

impl Rules {
    /// The first look that has not begun yet: one that is under way may not see what is changed now.
    fn next(&self) -> u64 {
        self.begun.load(Ordering::SeqCst) + 1
    }

    /// Returns once the kernel's rules are by this look or a later one; `false`: nobody looks any more.
    async fn are_by(&mut self, look: u64) -> bool {
        self.done.wait_for(|done| *done >= look).await.is_ok()
    }
}

/// Lets an application sleep once nobody has asked it for so long.
pub(crate) struct Watcher {
    activity: Activity,
    idle: Idle,
    is_led_past: Arc<AtomicBool>,
    _watching: AbortOnDropHandle<()>,
}

impl Watcher {
    /// `rules` says by which look at [`Watcher::may_be_led_past`] the kernel's rules are; `changes` is told when
    /// another is needed.
    pub(crate) fn new(
        supervisor: Arc<Mutex<Supervisor>>,
        key: Key,
        idle: Idle,
        connections: Connections,
        changes: Arc<Notify>,
        rules: Rules,
    ) -> Self {
        let activity = Activity {
            supervisor,
            key,
            open: Arc::new(watch::channel(0).0),
            programs: Arc::default(),
        };
        let is_led_past = Arc::new(AtomicBool::new(true));
        let mut watching = Watching {
            activity: activity.clone(),
            idle: idle.clone(),
            connections,
            last_use: Instant::now(),
            is_led_past: Arc::clone(&is_led_past),
            changes,
            rules,
        };
        Watcher {
            activity,
            idle,
            is_led_past,
            _watching: AbortOnDropHandle::new(tokio::spawn(async move { watching.run().await })),
        }
    }

    pub(crate) fn idle(&self) -> &Idle {
        &self.idle
    }

    pub(crate) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// Whether the kernel may lead connections to it past doors, where nobody counts them.
    pub(crate) fn may_be_led_past(&self) -> bool {
        self.is_led_past.load(Ordering::SeqCst)
    }
}

struct Watching {
    activity: Activity,
    idle: Idle,
    connections: Connections,
    /// As far as it was seen.
    last_use: Instant,
    is_led_past: Arc<AtomicBool>,
    changes: Arc<Notify>,
    rules: Rules,
}

impl Watching {
    async fn run(&mut self) {
        let mut open = self.activity.open.subscribe();
        loop {
            if open.wait_for(|open| *open == 0).await.is_err() {
                return;
            }
            self.last_use = Instant::now();
            if self.idle.taken.is_empty() && timeout(self.idle.idle_timeout, open.changed()).await.is_ok() {
                continue;
            }
            while let Some(left) = self.is_used_for().await {
                sleep(left.max(LOOK_PAUSE)).await;
            }
            // From here on all connections come to doors, and those that do not are known of.
            if !self.lead_past(false).await {
                return;
            }
            let sleeps = *open.borrow() == 0 && self.is_used_for().await.is_none() && self.let_sleep();
            if !self.lead_past(true).await {
                return;
            }
            if sleeps && open.wait_for(|open| *open > 0).await.is_err() {
                return;
            }
        }
    }

    /// `None`: it is not; else how long it has to be waited for at least.
    async fn is_used_for(&mut self) -> Option<Duration> {
        let idle_timeout = self.idle.idle_timeout;
        if !self.idle.taken.is_empty() {
            if self.is_taken_used().await {
                self.last_use = Instant::now();
            }
            let left = idle_timeout.checked_sub(self.last_use.elapsed())?;
            return Some(left.min(LOOK_PAUSE)).filter(|left| !left.is_zero());
        }
        let led = self.activity.led();
        if led.is_empty() {
            return None;
        }
        let Connections { network, host, .. } = self.connections.clone();
        let led = tokio::task::spawn_blocking(move || connections::to(&led, &network, &host)).await;
        // One that is made and ends between two looks may be known from when it was made alone: they are not far apart.
        let until_next = idle_timeout / 4;
        match led.expect("reading a list does not panic") {
            Ok(Use::Open) => {
                self.last_use = Instant::now();
                Some(until_next)
            }
            Ok(ended) => {
                let since_last = self.last_use.elapsed();
                let unused_for = match ended {
                    Use::Ended(ago) => ago.min(since_last),
                    _ => since_last,
                };
                let left = idle_timeout.checked_sub(unused_for)?;
                Some(left.min(until_next)).filter(|left| !left.is_zero())
            }
            Err(error) => {
                tracing::warn!(application = self.activity.key.application, %error, "it stays awake: nobody knows who is connected");
                Some(idle_timeout)
            }
        }
    }

    /// Whether a connection to a socket that it has taken over is open.
    async fn is_taken_used(&self) -> bool {
        let (sockets, taken) = (self.connections.sockets.clone(), self.idle.taken.clone());
        let used = tokio::task::spawn_blocking(move || sockets::are_used(&sockets, &taken)).await;
        used.expect("reading a list does not panic").unwrap_or_else(|error| {
            tracing::warn!(application = self.activity.key.application, %error, "it stays awake: nobody knows who is connected");
            true
        })
    }

    /// Returns once the kernel does so; not where nobody asks it to any more.
    async fn lead_past(&mut self, is_led_past: bool) -> bool {
        // The look that is waited for begins after the one that `next` knows of, and sees this: both threads write, and then
        // read what the other one wrote.
        self.is_led_past.store(is_led_past, Ordering::SeqCst);
        let next = self.rules.next();
        self.changes.notify_one();
        self.rules.are_by(next).await
    }

    /// Nobody begins a request meanwhile: who does waits for this, and wakes it again.
    fn let_sleep(&self) -> bool {
        let mut sleeps = false;
        self.activity.open.send_if_modified(|open| {
            if *open == 0 {
                held(&self.activity.supervisor).let_sleep(&self.activity.key);
                held(&self.activity.programs).clear();
                sleeps = true;
            }
            false
        });
        sleeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_was_under_way_when_something_changed_is_not_waited_for_but_the_next_one() {
        let (done, doing) = watch::channel(0);
        let mut rules = Rules {
            begun: Arc::new(AtomicU64::new(1)),
            done: doing,
        };
        let next = rules.next();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            done.send_replace(1);
            let waited = timeout(Duration::from_millis(20), rules.are_by(next)).await;
            assert!(waited.is_err(), "it may have looked before");
            done.send_replace(2);
            assert!(rules.are_by(next).await);
            drop(done);
            assert!(!rules.are_by(next + 1).await);
        });
    }
}
