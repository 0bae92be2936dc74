//! What the proofs share.

pub(crate) mod broker;

use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use evaluate::rtt::{Helper, Options, Plan, Progress, Step, run};
use evaluate::run::Run;

/// One device every 10 ms, one short block: the least that shows something.
pub(crate) fn options() -> Options {
    Options {
        interval_us: vec![10_000],
        devices: vec![1],
        blocks: Some(1),
        duration_us: Some(300_000),
        seed: Some(1),
        ..Options::default()
    }
}

/// The program under test holds the hidden commands.
pub(crate) fn helper() -> Helper {
    Helper {
        program: env!("CARGO_BIN_EXE_selvedge-evaluate").into(),
        prefix: Vec::new(),
        network_namespace: None,
    }
}

/// Runs a plan that has to succeed.
pub(crate) fn measure(options: Options, progress: &mut dyn Progress) -> Run {
    run(&Plan::new(options, None).unwrap(), &helper(), progress).unwrap()
}

/// Says nothing.
pub(crate) struct Quiet;

impl Progress for Quiet {
    fn say(&mut self, _: &str) {}
    fn block(&mut self, _: &Step<'_>) {}
    fn done(&mut self) {}
}

/// Tells a thread that the first block begins, so that it can disturb it.
pub(crate) struct Disturbance {
    begun: Option<SyncSender<()>>,
}

impl Disturbance {
    pub(crate) fn at_first_block(begun: SyncSender<()>) -> Disturbance {
        Disturbance { begun: Some(begun) }
    }
}

impl Progress for Disturbance {
    fn say(&mut self, _: &str) {}

    fn block(&mut self, _: &Step<'_>) {}

    fn measuring(&mut self) {
        if let Some(begun) = self.begun.take() {
            begun.send(()).unwrap();
        }
    }

    fn done(&mut self) {}
}

/// Nothing is ever sent here, so that it waits for the whole time.
pub(crate) fn pause(time: Duration) {
    let (_sender, silence) = mpsc::sync_channel::<()>(0);
    let _ = silence.recv_timeout(time);
}
