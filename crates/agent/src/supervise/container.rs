//! Keeps one container running: starts it, waits for its end, pauses, starts it again.

use std::future::pending;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Changes;
use super::backoff::Backoff;
use super::events::{Events, What, cut};
use super::gate::Gate;
use super::kept_logs::KeptLogs;
use super::tenant_disk::TenantDisks;
use super::version::Plan;
use crate::instance::{Ended, How};
use crate::probe::Watch;
use crate::runtime::{Error, Launch, Runtime, SEPARATOR, State};
use crate::shim::{boot_id, unix_now_ms};

/// From the request to end until it is made to, whatever was done before; as in Kubernetes.
const GRACE_LEAST: Duration = Duration::from_secs(2);

/// Between two looks at what it has on disk, so many times as long as the last one took, within these bounds.
pub(super) const LOOKS_SHARE: u32 = 100;
pub(super) const LOOK_LEAST: Duration = Duration::from_secs(1);
pub(super) const LOOK_MOST: Duration = Duration::from_secs(60);

/// What is known of a container, for whoever asks.
#[derive(Clone, Debug)]
pub(super) struct Board {
    noted: Arc<Mutex<Noted>>,
    changes: Changes,
    of_replicas: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Noted {
    doing: Doing,
    is_withdrawn: bool,
    is_evicted: bool,
}

/// What a container is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// The name of its start, as the runtime knows it, once there was one.
    pub start: Option<String>,
    /// Whether what it is made of is being brought here.
    pub is_preparing: bool,
    /// Whether it runs, for all that is known.
    pub is_running: bool,
    /// Whether it runs, and its time stands still.
    pub is_paused: bool,
    /// Where it is reached while it runs; `None`: where the host is.
    pub address: Option<Ipv4Addr>,
    /// Whether it runs and is ready, if there is a probe for that, and somebody may be sent to it.
    pub is_ready: bool,
    /// Whether it has come to its good end, where it is to.
    pub is_done: bool,
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
    /// Who leads requests is told of `changes`, and of more whoever keeps the replica.
    /// `before` it, a container was evicted that was doing that.
    pub(super) fn new(changes: Changes, of_replicas: Arc<Notify>, before: Option<Doing>) -> Self {
        let doing = before.map(|before| Doing {
            start: before.start,
            restarts: before.restarts,
            last_end: before.last_end,
            trouble: before.trouble,
            ..Doing::default()
        });
        Board {
            noted: Arc::new(Mutex::new(Noted {
                doing: doing.unwrap_or_default(),
                ..Noted::default()
            })),
            changes,
            of_replicas,
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn look(&self) -> Doing {
        let noted = self.noted();
        Doing {
            is_ready: noted.doing.is_ready && !noted.is_withdrawn,
            ..noted.doing.clone()
        }
    }

    /// Whether its replica is to be replaced.
    pub(super) fn is_evicted(&self) -> bool {
        self.noted().is_evicted
    }

    /// Whether it is ready, though nobody may be sent there.
    pub(super) fn is_up(&self) -> bool {
        self.noted().doing.is_ready
    }

    /// It is to end, or to rest: nobody is to be sent there.
    pub(super) fn withdraw(&self) {
        self.change(|noted| noted.is_withdrawn = true);
    }

    /// It is as if it had not been withdrawn; not while its time stands still.
    pub(super) fn restore(&self) {
        self.change(|noted| noted.is_withdrawn &= noted.doing.is_paused);
    }

    fn note(&self, change: impl FnOnce(&mut Doing)) {
        self.change(|noted| change(&mut noted.doing));
    }

    fn change(&self, change: impl FnOnce(&mut Noted)) {
        let mut noted = self.noted();
        let seen = |Noted {
                        doing,
                        is_withdrawn,
                        is_evicted,
                    }: &Noted| {
            (
                (*is_withdrawn, *is_evicted),
                doing.is_ready,
                doing.is_paused,
                doing.address,
                doing.restarts,
            )
        };
        let before = seen(&noted);
        change(&mut noted);
        if before != seen(&noted) {
            self.changes.tell();
            self.of_replicas.notify_one();
        }
    }
}

/// When a container has its turn.
pub(super) struct Turn {
    /// Of those before it: whether they have come to their good end.
    pub(super) awaited: Vec<watch::Receiver<bool>>,
    /// Says so of this one.
    pub(super) done: watch::Sender<bool>,
    /// Of its application.
    pub(super) gate: Gate,
    /// Before its first start.
    pub(super) pause: Duration,
}

impl Turn {
    async fn comes(&mut self) {
        for awaited in &mut self.awaited {
            if awaited.wait_for(|is_done| *is_done).await.is_err() {
                // It is not wanted any more, and so this is not either.
                pending::<()>().await;
            }
        }
    }
}

/// What is wanted of one that is kept.
pub(super) struct Orders {
    /// Its end.
    pub(super) stop: CancellationToken,
    /// That its time stands still.
    pub(super) is_to_rest: watch::Receiver<bool>,
    /// That it goes, as its tenant has too much on disk.
    pub(super) disks: TenantDisks,
    /// That it does, and that nothing is started, while somebody reads what it keeps.
    pub(super) is_held: watch::Receiver<bool>,
}

impl Orders {
    /// Returns once its time is to stand still.
    async fn to_rest(is_to_rest: &mut watch::Receiver<bool>, is_held: &mut watch::Receiver<bool>) {
        tokio::select! {
            () = becomes(is_to_rest, true) => {}
            () = becomes(is_held, true) => {}
        }
    }

    /// Returns once its time is to go on.
    async fn to_go_on(is_to_rest: &mut watch::Receiver<bool>, is_held: &mut watch::Receiver<bool>) {
        loop {
            becomes(is_to_rest, false).await;
            becomes(is_held, false).await;
            if !*is_to_rest.borrow() {
                return;
            }
        }
    }
}

/// Whoever said it last may be gone, and what is kept with it: then it does not.
async fn becomes(told: &mut watch::Receiver<bool>, wanted: bool) {
    let is_told = told.wait_for(|told| *told == wanted).await.is_ok();
    if !is_told {
        pending::<()>().await;
    }
}

/// Keeps it running until it is to stop, or to its good end where it is to have one; once it is to stop it has ended,
/// and its files are gone. One that runs already is kept.
pub(super) async fn keep(
    (runtime, kept_logs): (Arc<dyn Runtime>, KeptLogs),
    plan: Plan,
    mut turn: Turn,
    orders: Orders,
    board: Board,
    events: Events,
) {
    let Orders {
        stop,
        is_to_rest,
        disks,
        is_held,
    } = orders;
    tokio::select! {
        () = turn.comes() => {}
        () = stop.cancelled() => {}
    }
    // A timer for no time takes a millisecond.
    if !turn.pause.is_zero() {
        tokio::select! {
            () = sleep(turn.pause) => {}
            () = stop.cancelled() => {}
        }
    }
    let mut keeper = Keeper {
        runtime: &*runtime,
        kept_logs: &kept_logs,
        gate: turn.gate.clone(),
        plan: &plan,
        board: &board,
        stop: &stop,
        is_to_rest,
        disks: &disks,
        is_held,
        events: &events,
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
        let is_done = plan.container.is_init && ended.as_ref().is_ok_and(is_good);
        keeper.note_end(ended, is_done);
        if is_done {
            turn.done.send_replace(true);
            stop.cancelled().await;
        }
        if board.is_evicted() {
            stop.cancelled().await;
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
    while let Err(error) = keeper.end_all().await {
        let why = cut(&error.to_string());
        keeper.tell(What::Failed, &why);
        board.note(|doing| doing.trouble = Some(why));
        sleep(backoff.after(Duration::ZERO, rand::random())).await;
    }
}

struct Keeper<'a> {
    runtime: &'a dyn Runtime,
    kept_logs: &'a KeptLogs,
    gate: Gate,
    plan: &'a Plan,
    board: &'a Board,
    stop: &'a CancellationToken,
    is_to_rest: watch::Receiver<bool>,
    disks: &'a TenantDisks,
    is_held: watch::Receiver<bool>,
    events: &'a Events,
}

impl Keeper<'_> {
    fn tell(&self, what: What, message: &str) {
        let container = &self.plan.container;
        self.events.note(&container.launch.pod, &container.name, what, message);
    }

    /// The name of the start that runs now; `None`: it is to stop, and none was made.
    async fn find_or_start(&mut self) -> Result<Option<String>, Error> {
        let number = match self.last_start().await? {
            // Nobody starts anew what has come to its good end, but with the host.
            Some((number, State::Running(_))) => {
                // An agent before this one may have had it rest.
                self.runtime.pause(&self.start_name(number), false).await?;
                number
            }
            Some((number, State::Ended(ended)))
                if self.plan.container.is_init && is_good(&ended) && ended.boot_id == boot_id()? =>
            {
                number
            }
            last => {
                if !self.prepare().await? || !self.passes().await {
                    return Ok(None);
                }
                let number = self.start_after(last.map(|(number, _)| number)).await?;
                self.tell(What::Started, &self.plan.container.launch.image);
                number
            }
        };
        let name = self.start_name(number);
        let address = match self.runtime.state(&name).await? {
            State::Running(started) => started.address,
            State::Absent | State::Ended(_) => None,
        };
        self.board.note(|doing| {
            doing.address = address;
            doing.restarts += u32::from(doing.start.is_some());
            (doing.start, doing.is_running, doing.trouble) = (Some(name.clone()), true, None);
            (doing.is_paused, doing.is_ready, doing.not_ready) = (false, false, None);
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

    /// Waits for what it comes after; not where it is to stop meanwhile.
    async fn passes(&mut self) -> bool {
        let (board, events, container) = (self.board, self.events, &self.plan.container);
        let tell = |why: String| {
            events.note(&container.launch.pod, &container.name, What::Waiting, &why);
            board.note(|doing| doing.trouble = Some(why));
        };
        let is_held = &mut self.is_held;
        let opens = async {
            self.gate.opens(tell).await;
            becomes(is_held, false).await;
        };
        tokio::select! {
            () = opens => true,
            () = self.stop.cancelled() => false,
        }
    }

    /// Asks it whether it lives and is ready until it has ended, by itself or because it does not live.
    async fn attend(&self, name: &str) -> Result<Ended, Error> {
        let watch = Watch {
            runtime: self.runtime,
            container: name,
            address: self.board.look().address.unwrap_or(Ipv4Addr::LOCALHOST),
            probes: &self.plan.container.probes,
        };
        let ready = |answer: Result<(), String>| {
            if answer.is_ok() && !self.board.is_up() && self.plan.container.probes.readiness.is_some() {
                self.tell(What::Ready, "its readiness probe is answered");
            }
            self.board.note(|doing| {
                doing.is_ready = answer.is_ok();
                doing.not_ready = answer.err();
            });
        };
        let _counted = self.disks.count(name, &self.plan.container.launch);
        let (mut is_to_rest, mut is_held) = (self.is_to_rest.clone(), self.is_held.clone());
        let why = loop {
            tokio::select! {
                ended = self.wait(name) => return ended,
                why = watch.run(ready) => break (What::Unhealthy, why),
                why = self.overfull(name) => break (What::Evicted, why),
                why = self.disks.is_to_go(name) => break (What::Evicted, why),
                () = Orders::to_rest(&mut is_to_rest, &mut is_held) => {}
            }
            let mut backoff = Backoff::default();
            let why = loop {
                let again = (!self.pause(name).await).then(|| backoff.after(Duration::ZERO, rand::random()));
                tokio::select! {
                    ended = self.wait(name) => return ended,
                    why = self.disks.is_to_go(name) => break Some((What::Evicted, why)),
                    () = Orders::to_go_on(&mut is_to_rest, &mut is_held) => break None,
                    () = sleep(again.unwrap_or_default()), if again.is_some() => {}
                }
            };
            if let Some(why) = why {
                break why;
            }
            self.runtime.pause(name, false).await?;
            self.board
                .note(|doing| (doing.is_paused, doing.trouble) = (false, None));
        };
        let (what, why) = (why.0, cut(&why.1));
        self.tell(what, &why);
        self.board.change(|noted| {
            noted.is_evicted = what == What::Evicted;
            noted.doing.is_ready = false;
            noted.doing.trouble = Some(why);
        });
        let container = &self.plan.container;
        stop(self.runtime, name, container.pre_stop.as_deref(), container.grace).await?;
        self.wait(name).await
    }

    /// Where it cannot be, as one that waits for a disk, it runs on, and only nobody is sent there. Nothing where it
    /// has ended. Whether there is nothing left to do.
    async fn pause(&self, name: &str) -> bool {
        let paused = self.runtime.pause(name, true).await;
        match (&paused, *self.is_held.borrow()) {
            (Ok(false), _) => return true,
            (Ok(true), true) => self.tell(What::Paused, "while a snapshot is taken"),
            (Ok(true), false) => self.tell(What::Paused, "until somebody asks it"),
            (Err(_), _) => {}
        }
        self.board.note(|doing| {
            doing.is_paused = paused.is_ok();
            doing.trouble = paused.err().map(|error| cut(&error.to_string()));
        });
        self.board.look().is_paused
    }

    /// Returns once it has more on disk than it may: what, and how much that is. Looking takes no more than a hundredth
    /// of the time.
    async fn overfull(&self, name: &str) -> String {
        let launch = &self.plan.container.launch;
        if launch.disk.is_none() {
            pending::<()>().await;
        }
        loop {
            let began = Instant::now();
            match self.too_much(name, launch).await {
                Ok(Some(why)) => return why,
                Ok(None) => {}
                Err(error) => tracing::warn!(container = name, %error, "it is not known what it has on disk"),
            }
            sleep((began.elapsed() * LOOKS_SHARE).clamp(LOOK_LEAST, LOOK_MOST)).await;
        }
    }

    async fn too_much(&self, name: &str, launch: &Launch) -> Result<Option<String>, Error> {
        let words = |what: &str, bytes: u64, most: u64| {
            let most = format!("{:.1} MB", most as f64 / 1e6);
            match bytes {
                u64::MAX => format!("{what} is nested too deep to be counted; it may take {most}"),
                bytes => format!(
                    "{what} takes {:.1} MB of the disk; it may take {most}",
                    bytes as f64 / 1e6
                ),
            }
        };
        if let Some(most) = launch.disk.own_bytes {
            // What is counted ends soon after the limit: how much it really is says more.
            let taken = self.runtime.written(name, most.saturating_mul(2)).await?;
            if taken > most {
                let what = "what it has written (limits.ephemeral-storage)";
                return Ok(Some(words(what, taken, most)));
            }
        }
        for (volume, most) in &launch.disk.scratch_bytes {
            let taken = self
                .runtime
                .scratch(&launch.pod, volume, most.saturating_mul(2))
                .await?;
            if taken > *most {
                let what = format!("its volume {volume} (emptyDir.sizeLimit)");
                return Ok(Some(words(&what, taken, *most)));
            }
        }
        Ok(None)
    }

    async fn wait(&self, name: &str) -> Result<Ended, Error> {
        match self.runtime.wait(name).await? {
            State::Ended(ended) => Ok(ended),
            State::Absent | State::Running(_) => Ok(Ended {
                how: How::Unseen,
                is_out_of_memory: false,
                is_by_tenant: false,
                at_ms: unix_now_ms(),
                boot_id: boot_id()?,
            }),
        }
    }

    /// The last start that there is, and what is so of it.
    async fn last_start(&self) -> Result<Option<(u32, State)>, Error> {
        let Some(last) = self.starts().await?.into_iter().max() else {
            return Ok(None);
        };
        let state = self.runtime.state(&self.start_name(last)).await?;
        Ok(Some((last, state)))
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

    fn note_end(&self, ended: Result<Ended, Error>, is_done: bool) {
        let (what, words) = match &ended {
            Ok(ended) => (What::Ended, ended.to_string()),
            Err(error) => (What::Failed, error.to_string()),
        };
        let words = cut(&words);
        self.tell(what, &words);
        self.board.note(|doing| {
            (doing.is_running, doing.is_paused, doing.is_ready, doing.is_done) = (false, false, false, is_done);
            match ended {
                Ok(ended) => doing.last_end = Some(ended),
                Err(_) => doing.trouble = Some(words),
            }
        });
    }

    /// Whatever start runs has ended, and all are removed; what they said is kept, the last one's last.
    async fn end_all(&self) -> Result<(), Error> {
        let mut starts = self.starts().await?;
        starts.sort_unstable();
        let has_any = !starts.is_empty();
        for number in starts {
            let container = &self.plan.container;
            let name = self.start_name(number);
            let pre_stop = container.pre_stop.as_deref();
            end(self.runtime, self.kept_logs, &name, pre_stop, container.grace).await?;
        }
        if has_any {
            self.tell(What::Stopped, "it is not wanted so any more");
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

fn is_good(ended: &Ended) -> bool {
    ended.how == How::Exited { code: 0 }
}

/// Ends a container, gently at first, and removes it; what it said is kept.
pub(super) async fn end(
    runtime: &dyn Runtime,
    kept_logs: &KeptLogs,
    name: &str,
    pre_stop: Option<&[String]>,
    grace: Duration,
) -> Result<(), Error> {
    stop(runtime, name, pre_stop, grace).await?;
    kept_logs.keep(runtime, name).await;
    runtime.remove(name).await
}

/// What is done before it is asked to end counts as its grace; some is left to it in any case.
async fn stop(runtime: &dyn Runtime, name: &str, pre_stop: Option<&[String]>, grace: Duration) -> Result<(), Error> {
    let until = Instant::now() + grace;
    if let Some(command) = pre_stop
        && let State::Running(_) = runtime.state(name).await?
    {
        runtime.pause(name, false).await?;
        match timeout(grace, runtime.exec(name, command.to_vec())).await {
            Ok(Ok(done)) if done.is_good => {}
            Ok(Ok(done)) => tracing::warn!(container = name, why = done.words, "its preStop has failed"),
            Ok(Err(error)) => tracing::warn!(container = name, %error, "its preStop has failed"),
            Err(_) => tracing::warn!(container = name, "its preStop took all of its grace"),
        }
    }
    runtime.ask_to_end(name).await?;
    let left = until.saturating_duration_since(Instant::now());
    if timeout(left.max(GRACE_LEAST.min(grace)), runtime.wait(name))
        .await
        .is_err()
    {
        runtime.kill(name).await?;
    }
    Ok(())
}
