//! Applications whose time stands still while somebody reads what they keep.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::application::Window;

/// All containers of an application stand still within that, or it is let go again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Applications that stand still until this is dropped; none of their containers is started meanwhile.
#[derive(Debug)]
pub struct Held(Vec<HeldApplication>);

#[derive(Debug)]
pub(super) struct HeldApplication {
    pub(super) hold: watch::Sender<bool>,
    pub(super) window: Window,
}

impl Drop for Held {
    fn drop(&mut self) {
        for application in &self.0 {
            application.hold.send_replace(false);
        }
    }
}

impl Held {
    pub(super) fn begin(applications: Vec<HeldApplication>) -> Self {
        for application in &applications {
            application.hold.send_replace(true);
        }
        Held(applications)
    }

    /// Waits until all that runs of them stands still; the starts that do.
    ///
    /// # Errors
    /// In words, what does not, and why.
    pub async fn stands_still(&self) -> Result<BTreeSet<String>, String> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.starts() {
                Ok(starts) => return Ok(starts),
                Err(why) if Instant::now() >= until => return Err(why),
                Err(_) => sleep(LOOK).await,
            }
        }
    }

    /// Whether all has stood still since those `starts` did.
    #[must_use]
    pub fn stood_still(&self, starts: &BTreeSet<String>) -> bool {
        self.starts().is_ok_and(|now| now == *starts)
    }

    fn starts(&self) -> Result<BTreeSet<String>, String> {
        let mut starts = BTreeSet::new();
        for application in &self.0 {
            for (plan, board) in &application.window.look().containers {
                let doing = board.look();
                if !doing.is_running || doing.is_done {
                    continue;
                }
                if !doing.is_paused {
                    let why = doing
                        .trouble
                        .unwrap_or_else(|| "it does not stand still yet".to_owned());
                    return Err(format!("{}: {why}", plan.container.name));
                }
                starts.extend(doing.start);
            }
        }
        Ok(starts)
    }
}
