//! Rows go when they have been kept long enough, or take too much room: beside the ingest, on a connection of its own,
//! a step at a time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::clock::unix_now_ms;
use crate::{Database, Error, Retention};

/// Time between two looks at what is old.
const INTERVAL: Duration = Duration::from_secs(60);
/// Pause between two steps, in which the ingest gets its turn.
const PAUSE: Duration = Duration::from_millis(100);
/// Steps of one look, which is half an hour of them: what is left is for the next.
const STEPS_MAX: usize = 10_000;

/// Time between two looks at whether what is to be kept has changed.
const CHANGED_INTERVAL: Duration = Duration::from_secs(5);

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// How long rows are kept.
    pub retention: Retention,
    /// So many bytes of them, of an embedded database; `None`: all.
    pub bytes: Option<u64>,
}

impl Keep {
    fn is_all(&self) -> bool {
        self.retention.keeps_all() && self.bytes.is_none()
    }
}

/// Removes what is not to be kept, until it is dropped. A database that is away is looked for at the next look. `keep`
/// says what is kept now, and may block; where it is not known (`None`), all is.
pub async fn run(
    open: impl Fn() -> Result<Database, Error> + Clone + Send + 'static,
    keep: impl Fn() -> Option<Keep> + Clone + Send + 'static,
) {
    let mut database = None;
    loop {
        let kept = now(&keep).await;
        for _ in 0..STEPS_MAX {
            let (open, keep) = (open.clone(), keep.clone());
            let stepping = tokio::task::spawn_blocking(move || step(database, open, &keep().unwrap_or_default()));
            let (there, more) = match stepping.await.expect("a step of retention does not panic") {
                Ok(done) => done,
                Err(error) => {
                    tracing::warn!(%error, "rows that are too old stay for now");
                    (None, false)
                }
            };
            database = there;
            if !more {
                break;
            }
            sleep(PAUSE).await;
        }
        let until = Instant::now() + INTERVAL;
        while Instant::now() < until && now(&keep).await == kept {
            sleep(CHANGED_INTERVAL).await;
        }
    }
}

async fn now(keep: &(impl Fn() -> Option<Keep> + Clone + Send + 'static)) -> Option<Keep> {
    let asking = tokio::task::spawn_blocking(keep.clone());
    asking.await.expect("what is kept is asked for without a panic")
}

/// Removes some; whether there is more to remove.
fn step(
    database: Option<Database>,
    open: impl Fn() -> Result<Database, Error>,
    keep: &Keep,
) -> Result<(Option<Database>, bool), Error> {
    if keep.is_all() {
        return Ok((database, false));
    }
    let mut database = database.map_or_else(open, Ok)?;
    let is_old = database.retain(&keep.retention, unix_now_ms())?;
    let is_large = match keep.bytes {
        Some(bytes) => database.shrink(bytes)?,
        None => false,
    };
    Ok((Some(database), is_old || is_large))
}
