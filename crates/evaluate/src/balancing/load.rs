//! Clients of HTTP/1.1 that keep their connection, each a thread on the host of the node that it asks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::pod::end_of_head;
use super::record::Seen;
use crate::capacity::pause;
use crate::interrupt;

const PATH: &str = "/";
/// Then an answer is lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// After a request that was lost, before the next.
const REST: Duration = Duration::from_millis(5);
/// A head and a name.
const ANSWER_BYTES: usize = 4 << 10;
/// Who asks in an open loop: as many may be under way at once.
const CLIENTS: usize = 256;
const STACK_BYTES: usize = 256 << 10;

/// When what counts begins and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begins: Instant,
    pub(super) ends: Instant,
}

/// A client with its connection.
struct Client {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

/// What became of a request.
struct Outcome {
    /// None: lost.
    took_us: Option<u32>,
    is_here: bool,
    /// Whether its answer came in the time that counts.
    is_in_time: bool,
    /// Whether its own time is that.
    counts: bool,
}

impl Client {
    fn new(address: SocketAddr) -> Client {
        Client { address, stream: None }
    }

    /// Asks once; whether the node that is called so answered. A connection that has failed is made anew.
    fn ask(&mut self, here: &[u8]) -> io::Result<bool> {
        let answer = self.converse();
        if answer.is_err() {
            self.stream = None;
        }
        answer.map(|name| name == here)
    }

    fn converse(&mut self) -> io::Result<Vec<u8>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                none.insert(stream)
            }
        };
        send(stream, PATH)?;
        read(stream)
    }
}

/// Asks a pod once for what is at a path.
///
/// # Errors
/// No answer with 200 comes in time.
pub(super) fn tell(address: SocketAddr, path: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    send(&mut stream, path)?;
    read(&mut stream).map(drop)
}

/// In one piece.
fn send(stream: &mut impl Write, path: &str) -> io::Result<()> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: pods\r\n\r\n").as_bytes())
}

/// Reads an answer with 200; its body.
fn read(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut buffer, mut filled) = ([0; ANSWER_BYTES], 0);
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        filled += count;
        let Some(body) = end_of_head(&buffer[..filled]) else {
            continue;
        };
        let ends = body + length(&buffer[..body]).ok_or(ErrorKind::InvalidData)?;
        if filled >= ends {
            return Ok(buffer[body..ends].to_vec());
        }
    }
}

/// Of the body of an answer with 200.
fn length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head)
        .ok()
        .filter(|head| head.starts_with("HTTP/1.1 200"))?;
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, length) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    length.trim().parse().ok()
}

/// Closed loop: so many clients, each of which asks again once it is answered. `here`: what pods of this node answer.
///
/// # Errors
/// No thread can be had, or the run was told to end; in words.
pub(super) fn closed(address: SocketAddr, here: &[u8], clients: u32, window: Window) -> Result<Seen, String> {
    let client = || {
        let (mut client, mut outcomes) = (Client::new(address), Vec::new());
        while Instant::now() < window.ends && interrupt::told().is_none() {
            let asked = Instant::now();
            let answer = client.ask(here);
            let answered = Instant::now();
            let counts = answered >= window.begins && (answer.is_err() || answered < window.ends);
            outcomes.push(outcome(&answer, (answered, answered - asked), counts, window));
            if answer.is_err() {
                pause(REST);
            }
        }
        outcomes
    };
    let outcomes = at_once(clients as usize, client)?;
    interrupt::check()?;
    Ok(seen(outcomes.into_iter().flatten(), window))
}

/// Open loop: requests at times of chance, so many a second on average, whatever becomes of the answers.
///
/// # Errors
/// As [`closed`].
pub(super) fn open(
    address: SocketAddr,
    here: &[u8],
    (per_s, seed): (u32, u64),
    (began, window): (Instant, Window),
) -> Result<Seen, String> {
    let times = times(per_s, window.ends - began, seed);
    let next = AtomicUsize::new(0);
    let client = || {
        let (mut client, mut outcomes, mut lags_us) = (Client::new(address), Vec::new(), Vec::new());
        // A kernel that gives more slack only makes lags longer, which are seen.
        let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
        while let Some(after) = times.get(next.fetch_add(1, Ordering::Relaxed)) {
            if interrupt::told().is_some() {
                break;
            }
            let intended = began + *after;
            let early = intended.saturating_duration_since(Instant::now());
            pause(early);
            let sent = Instant::now();
            // Whoever has waited for so long for somebody to ask for him has given up.
            let answer = match sent - intended < PATIENCE {
                true => client.ask(here),
                false => Err(ErrorKind::TimedOut.into()),
            };
            let (answered, counts) = (Instant::now(), intended >= window.begins);
            outcomes.push(outcome(&answer, (answered, answered - intended), counts, window));
            lags_us.extend((counts && !early.is_zero()).then(|| micros(sent - intended)));
        }
        (outcomes, lags_us)
    };
    let (outcomes, lags_us): (Vec<_>, Vec<_>) = at_once(CLIENTS, client)?.into_iter().unzip();
    interrupt::check()?;
    let mut lags_us: Vec<u32> = lags_us.into_iter().flatten().collect();
    lags_us.sort_unstable();
    let seen = seen(outcomes.into_iter().flatten(), window);
    Ok(Seen {
        send_lag_p99_us: lags_us.get(lags_us.len() * 99 / 100).copied(),
        ..seen
    })
}

/// When requests are to be sent, since the beginning: of a Poisson process.
fn times(per_s: u32, until: Duration, seed: u64) -> Vec<Duration> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut at_s = 0.0;
    let next = || {
        let chance: f64 = random.random();
        at_s -= (1.0 - chance).ln() / f64::from(per_s);
        Some(Duration::from_secs_f64(at_s))
    };
    std::iter::from_fn(next).take_while(|at| *at < until).collect()
}

/// Does the same on so many threads; what each gave.
fn at_once<T: Send>(count: usize, client: impl Fn() -> T + Sync) -> Result<Vec<T>, String> {
    std::thread::scope(|scope| {
        let builder = || std::thread::Builder::new().stack_size(STACK_BYTES);
        let started: Result<Vec<_>, _> = (0..count).map(|_| builder().spawn_scoped(scope, &client)).collect();
        let started = started.map_err(|error| format!("{count} clients: {error}"))?;
        let gave = started
            .into_iter()
            .map(|thread| thread.join().expect("asking does not panic"));
        Ok(gave.collect())
    })
}

fn outcome(answer: &io::Result<bool>, (at, took): (Instant, Duration), counts: bool, window: Window) -> Outcome {
    Outcome {
        took_us: answer.is_ok().then(|| micros(took)),
        is_here: answer.as_ref().is_ok_and(|is_here| *is_here),
        is_in_time: answer.is_ok() && (window.begins..window.ends).contains(&at),
        counts,
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn seen(outcomes: impl Iterator<Item = Outcome>, window: Window) -> Seen {
    let mut seen = Seen {
        wall_s: (window.ends - window.begins).as_secs_f64(),
        ..Seen::default()
    };
    for outcome in outcomes {
        seen.answered += u64::from(outcome.is_in_time);
        if outcome.counts {
            seen.answers_us.push(outcome.took_us);
            seen.here += u64::from(outcome.is_here);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_an_answer_with_200_is_read_to_its_end_and_any_other_is_lost() {
        let read = |mut words: &[u8]| super::read(&mut words).ok();
        let good = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere";
        assert_eq!(read(good).as_deref(), Some(&b"here"[..]));
        assert_eq!(read(&good[..good.len() - 1]), None, "cut off");
        assert_eq!(read(b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nhere"), None);
        assert_eq!(read(b"HTTP/1.1 200 OK\r\n\r\n"), None, "no length");
    }

    #[test]
    fn an_open_loop_sends_as_many_as_it_is_told_and_a_seed_the_same() {
        let all = times(1_000, Duration::from_secs(10), 7);
        // Five standard deviations around 10,000.
        assert!((9_500..=10_500).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted());
        assert_eq!(all, times(1_000, Duration::from_secs(10), 7));
    }
}
