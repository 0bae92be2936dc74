//! When an application that runs on demand has been asked nothing for long enough.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::network::connections::{self, Use};
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

    /// Where its containers are that have a network of their own.
    fn pods(&self) -> BTreeSet<Ipv4Addr> {
        let status = held(&self.supervisor).status(&self.key);
        status.into_iter().filter_map(|one| one.doing.address).collect()
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

/// Lets an application sleep once nobody has asked it for so long.
pub(crate) struct Watcher {
    activity: Activity,
    idle: Idle,
    is_led_past: watch::Receiver<bool>,
    _watching: AbortOnDropHandle<()>,
}

impl Watcher {
    /// `rules` changes whenever the kernel's rules are as [`Watcher::may_be_led_past`] has it, which `changes` is told of.
    pub(crate) fn new(
        supervisor: Arc<Mutex<Supervisor>>,
        key: Key,
        idle: Idle,
        sockets: Sockets,
        changes: Arc<Notify>,
        rules: watch::Receiver<()>,
    ) -> Self {
        let activity = Activity {
            supervisor,
            key,
            open: Arc::new(watch::channel(0).0),
        };
        let (lead_past, is_led_past) = watch::channel(true);
        let watching = Watching {
            activity: activity.clone(),
            idle: idle.clone(),
            sockets,
            last_use: Instant::now(),
            lead_past,
            changes,
            rules,
        };
        Watcher {
            activity,
            idle,
            is_led_past,
            _watching: AbortOnDropHandle::new(tokio::spawn(watching.run())),
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
        *self.is_led_past.borrow()
    }
}

struct Watching {
    activity: Activity,
    idle: Idle,
    sockets: Sockets,
    /// Of a socket that it has taken over, as far as it was seen.
    last_use: Instant,
    lead_past: watch::Sender<bool>,
    changes: Arc<Notify>,
    rules: watch::Receiver<()>,
}

impl Watching {
    async fn run(mut self) {
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
        let pods = self.activity.pods();
        if pods.is_empty() || !connections::are_listed() {
            return None;
        }
        let led = tokio::task::spawn_blocking(move || connections::led_to(&pods)).await;
        match led.expect("reading a list does not panic") {
            Ok(Use::Open) => Some(idle_timeout / 4),
            Ok(Use::Ended(ago)) => idle_timeout.checked_sub(ago).filter(|left| !left.is_zero()),
            Ok(Use::None) => None,
            Err(error) => {
                tracing::warn!(application = self.activity.key.application, %error, "it stays awake: nobody knows who is connected");
                Some(idle_timeout)
            }
        }
    }

    /// Whether a connection to a socket that it has taken over is open.
    async fn is_taken_used(&self) -> bool {
        let (sockets, taken) = (self.sockets.clone(), self.idle.taken.clone());
        let used = tokio::task::spawn_blocking(move || sockets::are_used(&sockets, &taken)).await;
        used.expect("reading a list does not panic").unwrap_or_else(|error| {
            tracing::warn!(application = self.activity.key.application, %error, "it stays awake: nobody knows who is connected");
            true
        })
    }

    /// Returns once the kernel does so; not where nobody asks it to any more.
    async fn lead_past(&mut self, is_led_past: bool) -> bool {
        self.rules.borrow_and_update();
        self.lead_past.send_replace(is_led_past);
        self.changes.notify_one();
        self.rules.changed().await.is_ok()
    }

    /// Nobody begins a request meanwhile: who does waits for this, and wakes it again.
    fn let_sleep(&self) -> bool {
        let mut sleeps = false;
        self.activity.open.send_if_modified(|open| {
            if *open == 0 {
                held(&self.activity.supervisor).let_sleep(&self.activity.key);
                sleeps = true;
            }
            false
        });
        sleeps
    }
}
