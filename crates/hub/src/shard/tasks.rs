//! Tasks that run on the loop of a shard, in turn with its connections: what one has from the shard's tenants, or asks
//! of them, crosses no thread. A link is one, because each message of its devices goes through it.
//!
//! A task has its turn at the end of each turn of the loop in which it was woken: by its socket, which epoll watches
//! beside those of clients, or by whatever else it waits for. Timers and what it spawns are those of the hub's tokio
//! runtime. What it does must not block, and in between it gives way ([`Place::give_way`]).

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{io, mem};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use slab::Slab;
use tokio::runtime::Handle;

use super::inbox::Bell;

/// The bit of epoll's words that says that the others are the number of a task. No [`ConnId`](broker::ConnId) has it.
pub(crate) const TASK: u64 = 1 << 63;

/// How long a task may have one thing after another to do in a turn: what else the loop serves waits for as long.
const TURN: Duration = Duration::from_micros(250);

/// What runs, once it knows where.
pub(crate) type Start = Box<dyn FnOnce(Place) -> Running + Send>;
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Tasks {
    runtime: Handle,
    epoll: Arc<OwnedFd>,
    woken: Arc<Woken>,
    tasks: Slab<Task>,
    /// Numbers of those that have their turn: memory that is used again.
    turn: Vec<usize>,
}

struct Task {
    running: Running,
    alarm: Arc<Alarm>,
    waker: Waker,
    readiness: Arc<Readiness>,
    turn: Arc<Turn>,
}

/// When the turn of a task began.
#[derive(Default)]
struct Turn(Mutex<Option<Instant>>);

impl Turn {
    fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn has_lasted(&self, time: Duration) -> bool {
        let began = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        began.is_some_and(|began| began.elapsed() >= time)
    }
}

/// Which tasks were woken since their last turn. A number may be of a task that has ended, and of another one since.
struct Woken {
    numbers: Mutex<Vec<usize>>,
    /// Whether there may be any.
    is_any: AtomicBool,
    bell: Arc<Bell>,
}

impl Woken {
    fn add(&self, number: usize) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        self.is_any.store(true, Ordering::Release);
        self.bell.ring();
    }

    fn take(&self, into: &mut Vec<usize>) {
        self.is_any.store(false, Ordering::Relaxed);
        mem::swap(&mut *self.numbers.lock().unwrap_or_else(PoisonError::into_inner), into);
    }
}

/// Wakes one task.
struct Alarm {
    number: usize,
    has_rung: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.has_rung.swap(true, Ordering::AcqRel) {
            self.woken.add(self.number);
        }
    }
}

impl Tasks {
    pub(crate) fn new(runtime: Handle, epoll: Arc<OwnedFd>, bell: Arc<Bell>) -> Self {
        let woken = Woken {
            numbers: Mutex::default(),
            is_any: AtomicBool::new(false),
            bell,
        };
        Self {
            runtime,
            epoll,
            woken: Arc::new(woken),
            tasks: Slab::new(),
            turn: Vec::new(),
        }
    }

    /// Has a task run from now on.
    pub(crate) fn start(&mut self, start: Start) {
        let place = self.tasks.vacant_entry();
        let alarm = Arc::new(Alarm {
            number: place.key(),
            has_rung: AtomicBool::new(false),
            woken: Arc::clone(&self.woken),
        });
        let readiness = Arc::new(Readiness(AtomicU8::new(READ | WRITE)));
        let turn = Arc::new(Turn::default());
        let running = start(Place {
            number: place.key(),
            epoll: Arc::clone(&self.epoll),
            readiness: Arc::clone(&readiness),
            turn: Arc::clone(&turn),
        });
        alarm.wake_by_ref();
        place.insert(Task {
            running,
            waker: Waker::from(Arc::clone(&alarm)),
            alarm,
            readiness,
            turn,
        });
    }

    /// The socket of a task is ready. One that was replaced meanwhile finds that its own is not.
    pub(crate) fn hear_socket(&self, word: u64, flags: EventFlags) {
        if let Some(task) = self.tasks.get((word & !TASK) as usize) {
            task.readiness.hear(flags);
            task.alarm.wake_by_ref();
        }
    }

    pub(crate) fn has_woken(&self) -> bool {
        self.woken.is_any.load(Ordering::Acquire)
    }

    /// Gives each task that was woken its turn. One that panics is given up, and harms nobody else.
    pub(crate) fn take_turns(&mut self) {
        self.woken.take(&mut self.turn);
        let _context = self.runtime.enter();
        for number in self.turn.drain(..) {
            let Some(task) = self.tasks.get_mut(number) else {
                continue;
            };
            task.alarm.has_rung.store(false, Ordering::Release);
            task.turn.begin();
            let Task { running, waker, .. } = task;
            let mut context = Context::from_waker(waker);
            let turn = std::panic::catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut context)));
            if !matches!(turn, Ok(Poll::Pending)) {
                drop(self.tasks.remove(number));
            }
        }
    }
}

/// Where a task runs.
pub struct Place {
    number: usize,
    epoll: Arc<OwnedFd>,
    readiness: Arc<Readiness>,
    turn: Arc<Turn>,
}

impl Place {
    /// Gives up the turn of the task if it has lasted long enough: connections and other tasks have theirs then.
    /// Whoever has many things to do asks after each.
    pub async fn give_way(&self) {
        if self.turn.has_lasted(TURN) {
            tokio::task::yield_now().await;
        }
    }

    /// Has the loop watch a connected socket for the task. A task has one at a time.
    ///
    /// # Errors
    /// It cannot be made non-blocking, or cannot be watched.
    pub(crate) fn watch(&self, socket: impl AsFd) -> io::Result<Arc<Readiness>> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(TASK | self.number as u64),
            flags,
        )?;
        Ok(Arc::clone(&self.readiness))
    }
}

const READ: u8 = 1;
const WRITE: u8 = 2;
/// The peer says no more: what there is to read never ends for epoll.
const ENDED: u8 = 4;

/// What a socket may be ready for, as far as epoll and the last calls said.
pub(crate) struct Readiness(AtomicU8);

impl Readiness {
    fn hear(&self, flags: EventFlags) {
        let mut news = 0;
        if flags.intersects(EventFlags::IN) {
            news |= READ;
        }
        if flags.intersects(EventFlags::OUT) {
            news |= WRITE;
        }
        if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            news |= READ | WRITE | ENDED;
        }
        self.0.fetch_or(news, Ordering::Relaxed);
    }

    pub(crate) fn may_read(&self) -> bool {
        self.0.load(Ordering::Relaxed) & READ != 0
    }

    pub(crate) fn may_write(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WRITE != 0
    }

    /// All that had come was read: epoll will say when more comes.
    pub(crate) fn has_read_all(&self) {
        if self.0.load(Ordering::Relaxed) & ENDED == 0 {
            self.0.fetch_and(!READ, Ordering::Relaxed);
        }
    }

    /// The socket took no more: epoll will say when it does.
    pub(crate) fn is_full(&self) {
        self.0.fetch_and(!WRITE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use tokio::io::AsyncReadExt;
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::mpsc;

    use super::super::inbox::inbox;
    use super::super::socket::Socket;
    use super::*;

    /// Tasks, and the runtime that they use.
    fn tasks() -> (Tasks, Runtime) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
        let (_, orders) = inbox::<()>().unwrap();
        let tasks = Tasks::new(runtime.handle().clone(), epoll, Arc::clone(orders.bell()));
        (tasks, runtime)
    }

    #[test]
    fn a_task_that_panics_is_given_up_and_the_others_have_their_turns() {
        let (mut tasks, _runtime) = tasks();
        let (send, mut received) = mpsc::channel(8);
        tasks.start(Box::new(|_| Box::pin(async { panic!("a fault of a task") })));
        tasks.start(Box::new(|_| {
            Box::pin(async move {
                for turn in 0..3 {
                    send.send(turn).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        }));
        for turn in 0..3 {
            assert!(tasks.has_woken());
            tasks.take_turns();
            assert_eq!(received.try_recv(), Ok(turn));
        }
        tasks.take_turns();
        assert!(!tasks.has_woken());
        assert!(tasks.tasks.is_empty());
    }

    #[test]
    fn a_socket_wakes_its_task_until_its_stream_has_ended() {
        let (mut tasks, _runtime) = tasks();
        let (near, far) = UnixStream::pair().unwrap();
        let (send, mut received) = mpsc::channel(8);
        tasks.start(Box::new(move |place| {
            Box::pin(async move {
                let mut socket = Socket::new(near.into(), &place).unwrap();
                let mut bytes = [0; 16];
                loop {
                    let len = socket.read(&mut bytes).await.unwrap();
                    send.send(bytes[..len].to_vec()).await.unwrap();
                    if len == 0 {
                        return;
                    }
                }
            })
        }));
        tasks.take_turns();
        let mut turn = || {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(8);
            let waits = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
            epoll::wait(&tasks.epoll, rustix::buffer::spare_capacity(&mut events), Some(&waits)).unwrap();
            for event in events {
                tasks.hear_socket(event.data.u64(), event.flags);
            }
            tasks.take_turns();
        };
        for said in ["one", "and one more"] {
            io::Write::write_all(&mut &far, said.as_bytes()).unwrap();
            turn();
            assert_eq!(received.try_recv().as_deref(), Ok(said.as_bytes()));
        }
        drop(far);
        turn();
        assert_eq!(received.try_recv().as_deref(), Ok(&[][..]));
        assert!(received.try_recv().is_err());
    }
}
