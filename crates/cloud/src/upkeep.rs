//! Rows go when they have been kept long enough, or take too much room: beside the ingest, on a connection of its own,
//! a step at a time.

use std::time::Duration;

use tokio::time::sleep;

use crate::clock::unix_now_ms;
use crate::{Database, Error};

/// Time between two looks at what is old.
const INTERVAL: Duration = Duration::from_secs(60);
/// Pause between two steps, in which the ingest gets its turn.
const PAUSE: Duration = Duration::from_millis(100);
/// Steps of one look, which is half an hour of them: what is left is for the next.
const STEPS_MAX: usize = 10_000;

/// What is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Rows that were stored so long ago or less; `None`: however old they are.
    pub age: Option<Duration>,
    /// So many bytes of them, of an embedded database; `None`: all.
    pub bytes: Option<u64>,
}

/// Removes what is not to be kept, until it is dropped. A database that is away is looked for at the next look.
pub async fn run(open: impl Fn() -> Result<Database, Error> + Clone + Send + 'static, keep: Keep) {
    let mut database = None;
    loop {
        for _ in 0..STEPS_MAX {
            let open = open.clone();
            let stepping = tokio::task::spawn_blocking(move || step(database, open, keep));
            let (there, more) = match stepping.await.expect("a step of retention does not panic") {
                Ok((database, more)) => (Some(database), more),
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
        sleep(INTERVAL).await;
    }
}

/// Removes some; whether there is more to remove.
fn step(
    database: Option<Database>,
    open: impl Fn() -> Result<Database, Error>,
    keep: Keep,
) -> Result<(Database, bool), Error> {
    let mut database = database.map_or_else(open, Ok)?;
    let age_ms = keep.age.and_then(|age| i64::try_from(age.as_millis()).ok());
    let is_old = match age_ms {
        Some(age_ms) => database.retain(unix_now_ms().saturating_sub(age_ms))?,
        None => false,
    };
    let is_large = match keep.bytes {
        Some(bytes) => database.shrink(bytes)?,
        None => false,
    };
    Ok((database, is_old || is_large))
}
