//! One block: sends what is due, takes what comes, until all is settled.

use std::io;

use rustix::time::{ClockId, clock_gettime};

use super::clock::Clock;
use super::fleet::Fleet;
use super::payload::Payloads;
use crate::rtt::pacer::{ClosedLoop, Pacer};
use crate::rtt::recorder::{Answered, Recorder};
use crate::run::WarmUp;

/// Messages sent in a row before answers are looked at, when sending is behind its schedule.
const SENDS_IN_A_ROW: usize = 64;

/// How long a place in a closed loop rests whose message could not leave: the server takes no more, or is gone.
const UNSENT_PAUSE_NS: u64 = 1_000_000;

/// Warm-up: round trips in a window, most windows, most time, and how near two medians have to be (rule 7).
const WINDOW_MESSAGES: u64 = 64;
const WINDOWS: u32 = 20;
/// A window ends after this time too: over a line of 30 ms one message at a time is slow.
const WINDOW_NS: u64 = 300_000_000;
const WARM_UP_NS: u64 = 2_000_000_000;
const MEDIANS_AGREE: f64 = 0.10;

/// What the generator itself used in a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GeneratorUsage {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) spin_s: f64,
    pub(crate) client_s: f64,
}

/// Runs `pacer` to its end and until every message is answered or lost. Numbers carry `tag`, so that answers to
/// another block's messages are known as such.
///
/// # Errors
/// The machine refused to wait; failures of connections are in the fleet's `failure` and in the samples.
pub(crate) fn run_block(
    fleet: &mut Fleet,
    pacer: &mut Pacer,
    recorder: &mut Recorder,
    payloads: &mut Payloads,
    tag: u32,
) -> io::Result<GeneratorUsage> {
    fleet.clock = Clock::start();
    fleet.poller.begin(matches!(pacer, Pacer::Closed(_)));
    let cpu_before = thread_cpu_s();
    let mut client_ns = 0;
    loop {
        send_due(fleet, pacer, recorder, payloads, tag);
        for _ in 0..recorder.expire(fleet.clock.now_ns()) {
            pacer.settled(fleet.clock.now_ns());
        }
        let (due_ns, deadline_ns) = (pacer.next().map(|due| due.at_ns), recorder.deadline_ns());
        if due_ns.is_none() && deadline_ns.is_none() {
            break;
        }
        for event in 0..fleet.wait(due_ns, deadline_ns)? {
            let read = fleet.take(event);
            client_ns += take_answers(fleet, pacer, recorder, tag);
            // Of some hundred sockets that are ready, none may delay a message that has become due. One of the
            // connection that was read leaves in one write with what this has to answer.
            send_due(fleet, pacer, recorder, payloads, tag);
            read.into_iter().for_each(|key| fleet.write(key));
        }
    }
    Ok(GeneratorUsage {
        wall_s: fleet.clock.now_ns() as f64 / 1e9,
        cpu_s: thread_cpu_s() - cpu_before,
        spin_s: fleet.poller.spin_ns() as f64 / 1e9,
        client_s: client_ns as f64 / 1e9,
    })
}

fn send_due(fleet: &mut Fleet, pacer: &mut Pacer, recorder: &mut Recorder, payloads: &mut Payloads, tag: u32) {
    for _ in 0..SENDS_IN_A_ROW {
        let Some(due) = pacer.next().filter(|due| due.at_ns <= fleet.clock.now_ns()) else {
            return;
        };
        pacer.take();
        let sent_ns = fleet.send(due.device, payloads.of(tag, recorder.next_message()));
        recorder.sent(due.device, due.at_ns, sent_ns);
        if sent_ns.is_none() {
            pacer.settled(fleet.clock.now_ns() + UNSENT_PAUSE_NS);
        }
    }
}

/// Returns the nanoseconds that the client had the answered messages to itself.
fn take_answers(fleet: &mut Fleet, pacer: &mut Pacer, recorder: &mut Recorder, tag: u32) -> u64 {
    let mut client_ns = 0;
    for answer in fleet.answers.drain(..) {
        let (block, message) = ((answer.number >> 32) as u32, answer.number as u32);
        if block != tag {
            continue;
        }
        if recorder.answered(message, answer.received_ns, answer.server_ns) == Answered::First {
            let free_ns = fleet.clock.now_ns();
            pacer.settled(free_ns);
            client_ns += free_ns - answer.received_ns;
        }
    }
    client_ns
}

/// Round trips one at a time, by the devices in turn, until the medians of two windows agree.
///
/// # Errors
/// As [`run_block`].
pub(crate) fn warm_up(
    fleet: &mut Fleet,
    devices: u32,
    timeout_ns: u64,
    payloads: &mut Payloads,
    tag: u32,
) -> io::Result<WarmUp> {
    let mut warm_up = WarmUp::default();
    let mut median_before: Option<f64> = None;
    let mut elapsed_ns = 0;
    while warm_up.windows < WINDOWS && elapsed_ns < WARM_UP_NS && fleet.failure.is_none() {
        let mut pacer = Pacer::Closed(ClosedLoop::new(1, 0, devices, WINDOW_NS, WINDOW_MESSAGES));
        let mut recorder = Recorder::new(devices, timeout_ns, WINDOW_MESSAGES as usize);
        run_block(fleet, &mut pacer, &mut recorder, payloads, tag + warm_up.windows)?;
        elapsed_ns += fleet.clock.now_ns();
        warm_up.windows += 1;
        let (samples, _) = recorder.finish();
        warm_up.messages += samples.len() as u32;
        let mut service_ns: Vec<u64> = (0..samples.len()).filter_map(|i| samples.service_ns(i)).collect();
        service_ns.sort_unstable();
        let Some(median) = service_ns.get(service_ns.len() / 2).map(|&ns| ns as f64) else {
            continue;
        };
        warm_up.settled = median_before.is_some_and(|before| (median / before - 1.0).abs() <= MEDIANS_AGREE);
        if warm_up.settled {
            break;
        }
        median_before = Some(median);
    }
    Ok(warm_up)
}

/// Numbers that [`warm_up`] uses from its `tag` on.
pub(crate) const WARM_UP_TAGS: u32 = WINDOWS;

fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
