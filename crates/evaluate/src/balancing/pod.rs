//! A service of known cost: it takes one request at a time, each for the same time, and lets others wait in the order
//! in which they came. Waiting takes no processor, so that many fit a small machine.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::record::Work;
use crate::capacity::pause;

/// A head may be so long.
const HEAD_BYTES: usize = 16 << 10;
/// Connections at once; one more is closed.
const CONNECTIONS: usize = 1_024;
/// For a thread that reads, waits and writes.
const STACK_BYTES: usize = 64 << 10;
/// Nanoseconds by which the kernel may wake a thread later than it asked, to wake several at once.
const SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// What it is told.
#[derive(Debug, clap::Args)]
pub struct Pod {
    /// Address to listen at
    #[arg(long)]
    listen: SocketAddr,
    /// Milliseconds that each request takes
    #[arg(long)]
    service_ms: u32,
    /// What it does meanwhile
    #[arg(long, value_enum, default_value_t)]
    work: Work,
    /// What it answers
    #[arg(long)]
    name: String,
}

/// Who of those that wait is done when.
struct Line {
    work: Work,
    state: Mutex<State>,
    has_moved: Condvar,
}

struct State {
    service: Duration,
    /// When the last of those is done that wait by the clock.
    free_at: Instant,
    /// Places given to those that calculate.
    places: u64,
    /// The place of the one that does.
    turn: u64,
}

impl Line {
    fn new(service: Duration, work: Work, now: Instant) -> Line {
        Line {
            work,
            state: Mutex::new(State {
                service,
                free_at: now,
                places: 0,
                turn: 0,
            }),
            has_moved: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the last place, and returns once its request is done.
    fn serve(&self) {
        match self.work {
            Work::Wait => {
                let done_at = self.take(Instant::now());
                pause(done_at.saturating_duration_since(Instant::now()));
            }
            Work::Calculate => self.in_turn(calculate),
            Work::None => {}
        }
    }

    /// Does so once all are done that came before.
    fn in_turn(&self, work: impl FnOnce(Duration)) {
        let mut state = self.state();
        let place = state.places;
        state.places += 1;
        while state.turn != place {
            state = self.has_moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let service = state.service;
        drop(state);
        work(service);
        self.state().turn += 1;
        self.has_moved.notify_all();
    }

    /// Takes the last place of those that wait by the clock; when its request is done.
    fn take(&self, now: Instant) -> Instant {
        let mut state = self.state();
        state.free_at = now.max(state.free_at) + state.service;
        state.free_at
    }

    /// Has requests take another time from now on; whoever waits has nobody who comes later wait for him.
    fn change(&self, service: Duration) {
        let mut state = self.state();
        (state.service, state.free_at) = (service, Instant::now());
    }
}

impl Pod {
    /// Serves HTTP/1.1 until the process ends.
    ///
    /// # Errors
    /// It cannot listen, or the kernel gives it no thread.
    pub(crate) fn serve(&self) -> io::Result<()> {
        let listener = TcpListener::bind(self.listen)?;
        let service = Duration::from_millis(self.service_ms.into());
        let line = Line::new(service, self.work, Instant::now());
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{}",
            self.name.len(),
            self.name
        );
        let open = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            loop {
                // One that has gone again by now is no reason to end.
                let Ok((stream, _)) = listener.accept() else { continue };
                if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                    open.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let serving = || {
                    // Whoever asked has gone, or asked for what is no HTTP.
                    let _ = converse(stream, &line, answer.as_bytes());
                    open.fetch_sub(1, Ordering::Relaxed);
                };
                std::thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, serving)?;
            }
        })
    }
}

/// Answers each request of a connection.
fn converse(mut stream: TcpStream, line: &Line, answer: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::thread::set_current_timer_slack(Some(SLACK_NS))?;
    let (mut buffer, mut filled) = (vec![0; HEAD_BYTES], 0);
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        while let Some(end) = end_of_head(&buffer[..filled]) {
            if let Some(service_ms) = told(&buffer[..end]) {
                line.change(Duration::from_millis(service_ms.into()));
            } else {
                line.serve();
            }
            buffer.copy_within(end..filled, 0);
            filled -= end;
            stream.write_all(answer)?;
        }
    }
}

/// Uses the processor for so long, whoever else does.
fn calculate(service: Duration) {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let began = used();
    while used().saturating_sub(began) < service {}
}

/// What a request is for that changes how long requests take.
pub(super) const CHANGE: &str = "/service-ms/";

/// How long they are to take, where it is such a request.
fn told(head: &[u8]) -> Option<u32> {
    let head = std::str::from_utf8(head).ok()?;
    let (service_ms, _) = head.strip_prefix("GET ")?.strip_prefix(CHANGE)?.split_once(' ')?;
    service_ms.parse().ok()
}

/// Where what follows a head begins: requests here have no body.
pub(super) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(end + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_their_time_one_after_the_other_and_one_that_comes_later_does_not_wait_for_nobody() {
        let began = Instant::now();
        let ms = Duration::from_millis;
        let line = Line::new(ms(8), Work::Wait, began);
        assert_eq!(line.take(began), began + ms(8));
        assert_eq!(line.take(began + ms(1)), began + ms(16));
        assert_eq!(line.take(began + ms(40)), began + ms(48));
    }

    #[test]
    fn those_that_calculate_do_so_one_after_the_other_in_the_order_in_which_they_came() {
        let (line, order) = (
            Line::new(Duration::ZERO, Work::Calculate, Instant::now()),
            Mutex::new(Vec::new()),
        );
        line.state().turn = u64::MAX;
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn({
                    let (line, order) = (&line, &order);
                    move || line.in_turn(|_| order.lock().unwrap().push(number))
                });
                while line.state().places <= number {
                    std::thread::yield_now();
                }
            }
            line.state().turn = 0;
            line.has_moved.notify_all();
        });
        assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<u64>>());
    }

    #[test]
    fn a_request_may_change_how_long_later_ones_take() {
        assert_eq!(told(b"GET /service-ms/80 HTTP/1.1\r\n\r\n"), Some(80));
        assert_eq!(told(b"GET / HTTP/1.1\r\n\r\n"), None);
    }

    #[test]
    fn a_head_ends_with_an_empty_line() {
        assert_eq!(end_of_head(b"GET / HTTP/1.1\r\nHost: a\r\n"), None);
        assert_eq!(end_of_head(b"GET / HTTP/1.1\r\n\r\nGET"), Some(18));
    }
}
