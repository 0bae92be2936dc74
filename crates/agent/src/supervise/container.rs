//! Keeps one container running: starts it, waits for its end, pauses, starts it again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::SEPARATOR;
use super::application::Plan;
use super::backoff::Backoff;
use crate::instance::{Ended, How};
use crate::probe::Watch;
use crate::runtime::{Error, Runtime, State};
use crate::shim::unix_now_ms;

/// What is known of a container, for whoever asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Doing>>);

/// What a container is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// The name of its start, as the runtime knows it, once there was one.
    pub start: Option<String>,
    /// Whether what it is made of is being brought here.
    pub is_preparing: bool,
    /// Whether it runs, for all that is known.
    pub is_running: bool,
    /// Whether it runs and is ready, if there is a probe for that.
    pub is_ready: bool,
    /// Why it is not ready, by the probe.
    pub not_ready: Option<String>,
    /// Starts since it was wanted so, beyond the first.
    pub restarts: u32,
    /// How it ended the last time.
    pub last_end: Option<Ended>,
    /// Why it could not be started, stopped or looked at, or why it was ended: it did not live.
    pub trouble: Option<String>,
}

impl Board {
    pub(super) fn look(&self) -> Doing {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, change: impl FnOnce(&mut Doing)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Keeps it running until it is to stop; it has ended then, and its files are gone. One that runs already is kept.
pub(super) async fn keep(runtime: Arc<dyn Runtime>, plan: Plan, stop: CancellationToken, board: Board) {
    let keeper = Keeper {
        runtime: &*runtime,
        plan: &plan,
        board: &board,
        stop: &stop,
    };
    let mut backoff = Backoff::default();
    while !stop.is_cancelled() {
        let began = Instant::now();
        // A start is not given up half way: what came of it would be known to nobody.
        let ended = match keeper.find_or_start().await {
            Ok(Some(name)) => tokio::select! {
                ended = keeper.attend(&name) => ended,
                () = stop.cancelled() => break,
            },
            Ok(None) => break,
            Err(error) => Err(error),
        };
        let pause = backoff.after(began.elapsed(), rand::random());
        keeper.note_end(ended);
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
    while let Err(error) = keeper.end_all().await {
        board.note(|doing| doing.trouble = Some(error.to_string()));
        sleep(backoff.after(Duration::ZERO, rand::random())).await;
    }
}

struct Keeper<'a> {
    runtime: &'a dyn Runtime,
    plan: &'a Plan,
    board: &'a Board,
    stop: &'a CancellationToken,
}

impl Keeper<'_> {
    /// The name of the start that runs now; `None`: it is to stop, and none was made.
    async fn find_or_start(&self) -> Result<Option<String>, Error> {
        let number = match self.last_start().await? {
            Some((number, true)) => number,
            last => {
                if !self.prepare().await? {
                    return Ok(None);
                }
                self.start_after(last.map(|(number, _)| number)).await?
            }
        };
        let name = self.start_name(number);
        self.board.note(|doing| {
            doing.restarts += u32::from(doing.start.is_some());
            (doing.start, doing.is_running, doing.trouble) = (Some(name.clone()), true, None);
            (doing.is_ready, doing.not_ready) = (false, None);
        });
        Ok(Some(name))
    }

    /// Whether what it is made of is here; not where it is to stop meanwhile.
    async fn prepare(&self) -> Result<bool, Error> {
        self.board.note(|doing| doing.is_preparing = true);
        let prepared = tokio::select! {
            prepared = self.runtime.prepare(&self.plan.container.launch) => prepared.map(|()| true),
            () = self.stop.cancelled() => Ok(false),
        };
        self.board.note(|doing| doing.is_preparing = false);
        prepared
    }

    /// Asks it whether it lives and is ready until it has ended, by itself or because it does not live.
    async fn attend(&self, name: &str) -> Result<Ended, Error> {
        let watch = Watch {
            runtime: self.runtime,
            container: name,
            probes: &self.plan.container.probes,
        };
        let ready = |answer: Result<(), String>| {
            self.board.note(|doing| {
                doing.is_ready = answer.is_ok();
                doing.not_ready = answer.err();
            });
        };
        let why = tokio::select! {
            ended = self.wait(name) => return ended,
            why = watch.run(ready) => why,
        };
        self.board.note(|doing| {
            doing.is_ready = false;
            doing.trouble = Some(why);
        });
        stop(self.runtime, name, self.plan.container.grace).await?;
        self.wait(name).await
    }

    async fn wait(&self, name: &str) -> Result<Ended, Error> {
        match self.runtime.wait(name).await? {
            State::Ended(ended) => Ok(ended),
            State::Absent | State::Running(_) => Ok(Ended {
                how: How::Unseen,
                is_out_of_memory: false,
                at_ms: unix_now_ms(),
            }),
        }
    }

    /// The last start that there is, and whether it runs.
    async fn last_start(&self) -> Result<Option<(u32, bool)>, Error> {
        let Some(last) = self.starts().await?.into_iter().max() else {
            return Ok(None);
        };
        let state = self.runtime.state(&self.start_name(last)).await?;
        Ok(Some((last, matches!(state, State::Running(_)))))
    }

    async fn start_after(&self, last: Option<u32>) -> Result<u32, Error> {
        let next = last.map_or(0, |last| last.wrapping_add(1));
        // Of the start before, the output is kept: for whoever wants to know why it ended.
        for old in self.starts().await?.into_iter().filter(|number| Some(*number) != last) {
            self.runtime.remove(&self.start_name(old)).await?;
        }
        self.runtime
            .start(&self.start_name(next), self.plan.container.launch.clone())
            .await?;
        Ok(next)
    }

    fn note_end(&self, ended: Result<Ended, Error>) {
        self.board.note(|doing| {
            (doing.is_running, doing.is_ready) = (false, false);
            match ended {
                Ok(ended) => doing.last_end = Some(ended),
                Err(error) => doing.trouble = Some(error.to_string()),
            }
        });
    }

    /// Whatever start runs has ended, and all are removed.
    async fn end_all(&self) -> Result<(), Error> {
        for number in self.starts().await? {
            end(self.runtime, &self.start_name(number), self.plan.container.grace).await?;
        }
        Ok(())
    }

    fn start_name(&self, number: u32) -> String {
        format!("{}{SEPARATOR}{number}", self.plan.name)
    }

    /// Numbers of the starts that there are.
    async fn starts(&self) -> Result<Vec<u32>, Error> {
        let names = self.runtime.names().await?;
        let number = |start: &String| {
            let (name, number) = start.rsplit_once(SEPARATOR)?;
            (name == self.plan.name).then(|| number.parse().ok())?
        };
        Ok(names.iter().filter_map(number).collect())
    }
}

/// Ends a container, gently at first, and removes it.
pub(super) async fn end(runtime: &dyn Runtime, name: &str, grace: Duration) -> Result<(), Error> {
    stop(runtime, name, grace).await?;
    runtime.remove(name).await
}

async fn stop(runtime: &dyn Runtime, name: &str, grace: Duration) -> Result<(), Error> {
    runtime.ask_to_end(name).await?;
    if timeout(grace, runtime.wait(name)).await.is_err() {
        runtime.kill(name).await?;
    }
    Ok(())
}
