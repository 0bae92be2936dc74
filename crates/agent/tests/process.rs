//! Programs of the host as containers. Limits need root, as CI has it; without it those tests say so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::cgroup::Limits;
use agent::instance::{Ended, How, LogLimits};
use agent::process::Processes;
use agent::runtime::{Answer, Error, Launch, Runtime as _, State};
use tempfile::TempDir;
use tokio::runtime;

const PATIENCE: Duration = Duration::from_secs(20);

/// A runtime whose containers end with it.
struct Host {
    processes: Processes,
    place: Arc<TempDir>,
    tokio: runtime::Runtime,
}

impl Host {
    fn new() -> Self {
        Host::at(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// Another agent over the same containers, as after a restart.
    fn again(&self) -> Self {
        Host::at(Arc::clone(&self.place))
    }

    fn at(place: Arc<TempDir>) -> Self {
        let name = place.path().file_name().unwrap().to_string_lossy();
        let prefix = format!("test{}-", name.replace('.', ""));
        Host {
            processes: Processes::new(place.path(), &shim(), &prefix),
            place,
            tokio: runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        }
    }

    fn on<T>(&self, answer: Answer<'_, T>) -> Result<T, Error> {
        self.tokio.block_on(answer)
    }

    fn pause(&self, ms: u64) {
        self.tokio
            .block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
    }

    fn state(&self, name: &str) -> State {
        self.on(self.processes.state(name)).unwrap()
    }

    fn ask_to_end(&self, name: &str) {
        self.on(self.processes.ask_to_end(name)).unwrap();
    }

    fn kill(&self, name: &str) {
        self.on(self.processes.kill(name)).unwrap();
    }

    /// A text that is in the command lines of no other test's processes, and in that of no shim.
    fn mark(&self) -> String {
        let name = self.place.path().file_name().unwrap().to_string_lossy();
        name.chars().rev().collect()
    }

    fn start(&self, name: &str, script: &str) {
        self.start_within(name, script, Limits::default());
    }

    fn start_within(&self, name: &str, script: &str, limits: Limits) {
        let launch = launch(&["/bin/sh", "-c", script], limits);
        self.on(self.processes.start(name, launch)).unwrap();
    }

    fn end(&self, name: &str) -> Ended {
        let waiting = async { tokio::time::timeout(PATIENCE, self.processes.wait(name)).await };
        match self.tokio.block_on(waiting).expect("it ends in time").unwrap() {
            State::Ended(ended) => ended,
            state => panic!("{name}: {state:?}"),
        }
    }

    fn log(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.processes.instance(name).log()).unwrap_or_default();
        let words = text.lines().filter_map(|line| line.split_once(' '));
        words.map(|(_, rest)| rest.to_owned()).collect()
    }

    /// What the shim says that somebody starts once more.
    fn second_shim(&self, name: &str) -> String {
        let directory = self.processes.instance(name);
        let output = Command::new(shim())
            .arg("shim")
            .arg(directory.directory())
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap()
    }

    fn wait_for_line(&self, name: &str, line: &str) {
        let start = Instant::now();
        while !self.log(name).iter().any(|kept| kept == line) {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.log(name));
            self.pause(10);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for name in self.on(self.processes.names()).unwrap_or_default() {
            let _ = self.on(self.processes.kill(&name));
            let _ = self.on(self.processes.remove(&name));
        }
    }
}

fn shim() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_agent-shim"))
}

fn launch(command: &[&str], limits: Limits) -> Launch {
    Launch {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        env: vec![
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("GREETING".to_owned(), "good morning".to_owned()),
        ],
        working_dir: PathBuf::from("/"),
        user: None,
        limits,
        log: LogLimits {
            file_bytes: 64 << 10,
            files: 3,
        },
    }
}

fn can_limit() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped: control groups need root");
    }
    is_root
}

/// Processes whose command line has this in it.
fn processes_with(mark: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let command_lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    command_lines
        .filter(|line| String::from_utf8_lossy(line).contains(mark))
        .count()
}

fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).exists()
}

#[test]
fn output_environment_and_the_code_of_the_end_are_kept() {
    let host = Host::new();
    host.start("talker", "echo \"$GREETING\"; echo $HOME >&2; pwd; exit 7");
    assert_eq!(host.end("talker").how, How::Exited { code: 7 });
    let mut log = host.log("talker");
    log.sort();
    assert_eq!(log, ["stderr F ", "stdout F /", "stdout F good morning"]);
}

#[test]
fn a_program_that_does_not_exist_is_an_end_that_says_so() {
    let host = Host::new();
    let launch = launch(&["/no/such/program"], Limits::default());
    host.on(host.processes.start("nothing", launch)).unwrap();
    let How::NotStarted { reason } = host.end("nothing").how else {
        panic!()
    };
    assert!(reason.starts_with("/no/such/program: No such file"), "{reason}");
}

#[test]
fn another_agent_finds_what_runs_and_starts_nothing_twice() {
    let host = Host::new();
    host.start("sleeper", "sleep 1000");
    let State::Running(started) = host.state("sleeper") else {
        panic!()
    };
    let other = host.again();
    assert_eq!(other.on(other.processes.names()).unwrap(), ["sleeper"]);
    assert_eq!(other.state("sleeper"), State::Running(started.clone()));
    let again = launch(&["/bin/true"], Limits::default());
    let refused = other.on(other.processes.start("sleeper", again)).unwrap_err();
    assert!(matches!(refused, Error::Exists(_)), "{refused}");
    assert_eq!(other.second_shim("sleeper"), "it is running already\n");
    assert!(is_alive(started.pid));
    other.kill("sleeper");
    assert_eq!(host.end("sleeper").how, How::Killed { signal: 9 });
    assert_eq!(other.second_shim("sleeper"), "it was started before\n");
}

#[test]
fn who_is_asked_to_end_ends_as_it_wants_to() {
    let host = Host::new();
    host.start(
        "polite",
        "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done",
    );
    host.wait_for_line("polite", "stdout F up");
    host.ask_to_end("polite");
    assert_eq!(host.end("polite").how, How::Exited { code: 3 });
    host.wait_for_line("polite", "stdout F bye");
    host.ask_to_end("polite");
    host.on(host.processes.remove("polite")).unwrap();
    assert_eq!(host.state("polite"), State::Absent);
}

#[test]
fn who_ignores_being_asked_is_ended_with_all_that_it_made() {
    if !can_limit() {
        return;
    }
    let host = Host::new();
    let mark = host.mark();
    let child = format!("setsid sh -c 'sleep 1000; : {mark}'");
    host.start(
        "deaf",
        &format!("trap '' TERM; for i in 1 2 3; do {child} & done; echo up; wait"),
    );
    host.wait_for_line("deaf", "stdout F up");
    let start = Instant::now();
    while processes_with(&mark) < 4 {
        assert!(start.elapsed() < PATIENCE);
    }
    host.ask_to_end("deaf");
    host.pause(200);
    assert!(matches!(host.state("deaf"), State::Running(_)));
    host.kill("deaf");
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn what_a_program_leaves_behind_ends_with_it() {
    if !can_limit() {
        return;
    }
    let host = Host::new();
    let mark = host.mark();
    host.start("messy", &format!("setsid sh -c 'sleep 1000; : {mark}' & exit 0"));
    assert_eq!(host.end("messy").how, How::Exited { code: 0 });
    assert_eq!(processes_with(&mark), 0);
}

#[test]
fn a_program_that_takes_more_memory_than_it_may_is_killed_and_that_named() {
    if !can_limit() {
        return;
    }
    let host = Host::new();
    let limits = Limits {
        memory_bytes: Some(32 << 20),
        ..Limits::default()
    };
    host.start_within("hungry", "exec tail /dev/zero", limits);
    let ended = host.end("hungry");
    assert!(ended.is_out_of_memory, "{ended:?}");
    assert_eq!(ended.how, How::Killed { signal: 9 });
}

#[test]
fn a_program_that_forks_for_ever_has_as_many_processes_as_it_may() {
    if !can_limit() {
        return;
    }
    let host = Host::new();
    let limits = Limits {
        pids: Some(20),
        ..Limits::default()
    };
    host.start_within(
        "forker",
        "f() { while :; do f & done; }; echo up; f 2>/dev/null",
        limits,
    );
    host.wait_for_line("forker", "stdout F up");
    host.pause(300);
    if let Ok(Some(usage)) = host.on(host.processes.usage("forker")) {
        assert!(usage.pids <= 20, "{usage:?}");
    }
    host.kill("forker");
    assert!(matches!(host.state("forker"), State::Ended(_)));
}

#[test]
fn a_program_has_no_more_processor_time_than_it_may() {
    if !can_limit() {
        return;
    }
    let host = Host::new();
    let limits = Limits {
        cpu_millis: Some(100),
        ..Limits::default()
    };
    host.start_within("busy", "while :; do :; done", limits);
    let start = Instant::now();
    host.pause(2_000);
    let usage = host.on(host.processes.usage("busy")).unwrap().unwrap();
    // A tenth, and what one period may be over.
    let most_us = start.elapsed().as_micros() as u64 / 10 + 100_000;
    assert!(usage.cpu_us <= most_us, "{usage:?}");
}

#[test]
fn a_container_whose_shim_was_killed_is_ended_and_known_to_be_unseen() {
    let host = Host::new();
    host.start("orphan", "sleep 1000");
    let State::Running(started) = host.state("orphan") else {
        panic!()
    };
    let stat = fs::read_to_string(format!("/proc/{}/stat", started.pid)).unwrap();
    let shim = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    let start = Instant::now();
    while !matches!(host.state("orphan"), State::Ended(_)) {
        assert!(start.elapsed() < PATIENCE);
    }
    assert_eq!(host.end("orphan").how, How::Unseen);
    while is_alive(started.pid) {
        assert!(
            start.elapsed() < PATIENCE,
            "it runs on, and nobody would know how it ends"
        );
    }
}

#[test]
fn a_flood_of_output_is_kept_within_its_bound_and_holds_up_nobody() {
    let host = Host::new();
    host.start(
        "flood",
        "i=0; while [ $i -lt 20000 ]; do echo \"line $i\"; i=$((i+1)); done; exit 5",
    );
    assert_eq!(host.end("flood").how, How::Exited { code: 5 });
    assert_eq!(host.log("flood").last().unwrap(), "stdout F line 19999");
    let files = fs::read_dir(host.processes.instance("flood").directory())
        .unwrap()
        .map(Result::unwrap);
    let logs: Vec<u64> = files
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("log"))
        .map(|entry| entry.metadata().unwrap().len())
        .collect();
    assert!(
        logs.len() == 3 && logs.iter().all(|bytes| *bytes <= 64 << 10),
        "{logs:?}"
    );
}
