//! Fetches and tries models on a thread of its own, while another one is at work.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::predictor::{Limits, Predictor};
use crate::reference::Reference;
use crate::registry::{Error, Registries};

/// Before a registry that is away is asked again; each time twice as long, up to a minute.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What became of a model that was asked for.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// As it was asked for.
    pub reference: String,
    /// It is at work, or why not.
    pub outcome: Result<Predictor, Refusal>,
}

/// Why a model does not run.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// In words.
    pub reason: String,
    /// It is tried again.
    pub is_passing: bool,
}

/// Asks for models, of which the last one counts.
#[derive(Debug)]
pub(crate) struct Loader {
    wanted: Arc<Wanted>,
    loaded: Receiver<Loaded>,
}

#[derive(Debug, Default)]
struct Wanted {
    reference: Mutex<Option<String>>,
    changed: Condvar,
}

impl Loader {
    /// Starts its thread, which lives as long as the processes of models that it starts. A byte in `bell` says that
    /// something has been loaded.
    ///
    /// # Errors
    /// There can be no thread.
    pub(crate) fn start(registries: Registries, limits: Limits, bell: UnixStream) -> std::io::Result<Self> {
        let wanted = Arc::new(Wanted::default());
        let (told, loaded) = sync_channel(1);
        let thread = Thread {
            wanted: Arc::clone(&wanted),
            registries,
            limits,
            told,
            bell,
        };
        std::thread::Builder::new()
            .name("loader".into())
            .spawn(move || thread.run())?;
        Ok(Loader { wanted, loaded })
    }

    /// Has a model loaded; one that was asked for before and is not there yet is not any more.
    pub(crate) fn want(&self, reference: &str) {
        *self.wanted.lock() = Some(reference.to_owned());
        self.wanted.changed.notify_one();
    }

    /// What has been loaded, if anything has.
    #[must_use]
    pub(crate) fn take(&self) -> Option<Loaded> {
        self.loaded.try_recv().ok()
    }
}

impl Wanted {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.reference.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wanted next, which is waited for; not for longer than this.
    fn next(&self, patience: Option<Duration>) -> Option<String> {
        let wanted = self.lock();
        let is_none = |wanted: &mut Option<String>| wanted.is_none();
        let mut wanted = match patience {
            None => self
                .changed
                .wait_while(wanted, is_none)
                .unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.changed.wait_timeout_while(wanted, patience, is_none);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        wanted.take()
    }
}

struct Thread {
    wanted: Arc<Wanted>,
    registries: Registries,
    limits: Limits,
    told: SyncSender<Loaded>,
    bell: UnixStream,
}

impl Thread {
    fn run(mut self) {
        let mut retry: Option<(String, Duration)> = None;
        loop {
            let next = self.wanted.next(retry.as_ref().map(|(_, pause)| *pause));
            let (reference, pause) = match (next, retry.take()) {
                (Some(reference), _) => (reference, PAUSE),
                (None, Some((reference, pause))) => (reference, (pause * 2).min(PAUSE_MAX)),
                (None, None) => continue,
            };
            let outcome = self.load(&reference);
            if outcome.as_ref().is_err_and(|refusal| refusal.is_passing) {
                retry = Some((reference.clone(), pause));
            }
            if self.told.send(Loaded { reference, outcome }).is_err() || self.bell.write_all(&[0]).is_err() {
                return;
            }
        }
    }

    fn load(&self, reference: &str) -> Result<Predictor, Refusal> {
        let refused = |reason| Refusal {
            reason,
            is_passing: false,
        };
        let reference = Reference::parse(reference).map_err(refused)?;
        let model = self.registries.fetch(&reference).map_err(|error| Refusal {
            is_passing: matches!(error, Error::Unreachable { .. }),
            reason: error.to_string(),
        })?;
        Predictor::start(Arc::new(model), self.limits).map_err(|failure| refused(failure.to_string()))
    }
}
