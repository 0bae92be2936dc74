//! Connections to who is ready on this node, and those of which it is not known yet that anybody has them.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::{FAILURE_POLL, Leads, wait};
use crate::choice::{AtEndpoint, Choice};
use crate::held;
use crate::idle::Activity;

/// Connections of a door that are led to somebody of whom it is not known yet that he has them: a program has room for few
/// that it has not taken.
const BEGINNINGS_MAX: usize = 128;
/// Of those that nobody has yet: where more come at once the kernel does not yet lead those that follow past the door.
/// What it cannot deliver it drops, and who calls tries again after seconds; a door tries again at once.
const BEGINNINGS_CALM: usize = 16;
/// For a connection to somebody who is ready.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// For one attempt. Who has too many waiting drops the first packet of more, which the kernel sends again after 1, 3
/// and 7 s.
pub(super) const ATTEMPT: Duration = Duration::from_millis(250);
/// Between two attempts where what is said to be ready does not take connections yet; longer each time.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Connections of a door that nobody has yet.
pub(super) struct Beginnings {
    places: Arc<Semaphore>,
    /// With those that have no place, as they wait for one or for a start.
    all: Arc<AtomicUsize>,
}

/// A connection that nobody has yet.
pub(crate) struct Beginning {
    place: Option<OwnedSemaphorePermit>,
    all: Arc<AtomicUsize>,
}

impl Beginnings {
    pub(super) fn new() -> Self {
        Beginnings {
            places: Arc::new(Semaphore::new(BEGINNINGS_MAX)),
            all: Arc::default(),
        }
    }

    pub(super) fn begin(&self) -> Beginning {
        self.all.fetch_add(1, Ordering::Relaxed);
        Beginning {
            place: None,
            all: Arc::clone(&self.all),
        }
    }

    pub(super) fn are_few(&self) -> bool {
        self.all.load(Ordering::Relaxed) <= BEGINNINGS_CALM
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection to somebody of this node.
pub(super) struct Connected {
    pub(super) stream: TcpStream,
    /// Whose requests it counts among.
    pub(super) endpoint: AtEndpoint,
    pub(super) beginning: Beginning,
}

/// A connection to one of those that are ready, as the policy has it. Where nobody is, those that sleep are woken, and
/// waited for.
pub(super) async fn connect(Leads { leading, door }: &mut Leads) -> Result<Connected, String> {
    let mut beginning = door.beginnings.begin();
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut last = "nobody is ready to answer".to_owned();
    loop {
        let way = leading.borrow_and_update().clone();
        let sleepers = &way.sleepers;
        // What one of before listened at may still be known, until this is told.
        let are_there = sleepers.is_empty() || sleepers.iter().any(Activity::is_ready);
        let is_nobody = way.backends.is_empty() || !are_there;
        // Who waits for a start waits for nothing else, and nobody for two places.
        beginning.place = None;
        beginning.place = match is_nobody {
            true => None,
            false => Arc::clone(&door.beginnings.places).acquire_owned().await.ok(),
        };
        let (mut failed, mut is_busy) = (Vec::new(), false);
        // Who has been ready before this waited may not be any more.
        let next = |failed: &[SocketAddrV4]| match is_nobody {
            true => None,
            false => Choice::endpoint(&door.choice, &leading.borrow(), failed),
        };
        while let Some(endpoint) = next(&failed) {
            let at = endpoint.at;
            match timeout(ATTEMPT, TcpStream::connect(at)).await {
                Ok(Ok(stream)) => {
                    if door.beginnings.are_few() && held(&door.shared.reached).insert(at) {
                        door.shared.changes.notify_one();
                    }
                    return Ok(Connected {
                        stream,
                        endpoint,
                        beginning,
                    });
                }
                Ok(Err(error)) => last = format!("{at}: {error}"),
                Err(_) => (is_busy, last) = (true, format!("{at} does not answer")),
            }
            failed.push(at);
        }
        if is_busy && began.elapsed() < CONNECT_PATIENCE {
            continue;
        }
        if sleepers.is_empty() {
            return Err(last);
        }
        let patience = if is_nobody { FAILURE_POLL } else { pause };
        if !is_nobody {
            pause = LONGEST_PAUSE.min(2 * pause);
        }
        wait(leading, sleepers, began, patience).await?;
    }
}
