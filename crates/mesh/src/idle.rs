//! When an application that runs on demand has been asked nothing for long enough.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::supervise::{Key, Supervisor};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::held;

/// Requests to one application.
#[derive(Clone)]
pub(crate) struct Activity {
    supervisor: Arc<Mutex<Supervisor>>,
    key: Key,
    open: Arc<watch::Sender<usize>>,
}

/// A request, for as long as it is under way.
pub(crate) struct Request(Arc<watch::Sender<usize>>);

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

    pub(crate) fn wake(&self) {
        held(&self.supervisor).wake(&self.key);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// Lets an application sleep once nobody has asked it for so long.
pub(crate) struct Watcher {
    activity: Activity,
    idle_timeout: Duration,
    _watching: AbortOnDropHandle<()>,
}

impl Watcher {
    pub(crate) fn new(supervisor: Arc<Mutex<Supervisor>>, key: Key, idle_timeout: Duration) -> Self {
        let activity = Activity {
            supervisor,
            key,
            open: Arc::new(watch::channel(0).0),
        };
        let watching = watch_over(activity.clone(), idle_timeout);
        Watcher {
            activity,
            idle_timeout,
            _watching: AbortOnDropHandle::new(tokio::spawn(watching)),
        }
    }

    pub(crate) fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    pub(crate) fn activity(&self) -> Activity {
        self.activity.clone()
    }
}

async fn watch_over(activity: Activity, idle_timeout: Duration) {
    let mut open = activity.open.subscribe();
    loop {
        if open.wait_for(|open| *open == 0).await.is_err() {
            return;
        }
        if timeout(idle_timeout, open.changed()).await.is_ok() {
            continue;
        }
        // Nobody begins one meanwhile: who does waits for this, and wakes it again.
        let lets_sleep = activity.open.send_if_modified(|open| {
            if *open == 0 {
                held(&activity.supervisor).let_sleep(&activity.key);
            }
            false
        });
        debug_assert!(!lets_sleep, "nothing was modified");
        if open.changed().await.is_err() {
            return;
        }
    }
}
