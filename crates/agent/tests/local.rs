//! One behaviour of containers, whatever runs them: programs of the host (`process`), images (`oci`), and images by a
//! real Docker Engine (`docker`). Images and limits need root, as CI has it; without it those tests say so.

#[path = "local/dockerd.rs"]
mod dockerd;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::cgroup::Limits;
use agent::image::build::{self, Start};
use agent::image::registry::Registries;
use agent::image::store::Images;
use agent::instance::{Ended, How, Instance, LogLimits};
use agent::local::Local;
use agent::logins::{Issuer, Logins};
use agent::network::Network;
use agent::runtime::{Answer, Error, Kind, Launch, Pod, Runtime as _, State};
use agent::runtimes::Runtimes;
use agent::sockets::Sockets;
use tempfile::TempDir;
use tokio::runtime;

/// Has a shell.
const IMAGE: &str = "busybox:1";
const PATIENCE: Duration = Duration::from_secs(20);

/// Nobody logs in.
#[derive(Debug)]
struct NoLogins;

impl Issuer for NoLogins {
    fn issue(&self, _: &str, _: &str) -> io::Result<Option<String>> {
        Ok(None)
    }

    fn variables(&self, _: &Pod, _: bool, _: &Path) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// A runtime whose containers end with it.
struct Host {
    local: Local,
    all: Runtimes,
    kind: Kind,
    place: Arc<TempDir>,
    tokio: runtime::Runtime,
}

impl Host {
    fn new(kind: Kind) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("containers")).unwrap();
        let host = Host::at(kind, Arc::new(place));
        if kind == Kind::Oci {
            build::build(&host.images(), IMAGE, &busybox(host.place.path()), &Start::default()).unwrap();
        }
        host
    }

    /// Another agent over the same containers, as after a restart.
    fn again(&self) -> Self {
        Host::at(self.kind, Arc::clone(&self.place))
    }

    fn at(kind: Kind, place: Arc<TempDir>) -> Self {
        let name = place.path().file_name().unwrap().to_string_lossy();
        let prefix = format!("test{}-", name.replace('.', ""));
        let images = images(place.path());
        let registries = Registries::new(Arc::new(images), Arc::new(|_, _| panic!("no registry is asked")));
        let local = Local::new(
            &place.path().join("containers"),
            &place.path().join("volumes"),
            Network::new(&place.path().join("network"), Vec::new()),
            Arc::new(registries),
            Sockets::new(&place.path().join("sockets"), &place.path().join("containers")),
            &shim(),
            &prefix,
        );
        let logins = Logins::at(&place.path().join("logins"), Arc::new(NoLogins)).unwrap();
        let socket = match kind {
            Kind::Docker => dockerd::socket(),
            Kind::Process | Kind::Oci => Path::new("/no/engine"),
        };
        Host {
            all: Runtimes::new(local.clone(), socket, logins),
            local,
            kind,
            place,
            tokio: runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        }
    }

    fn images(&self) -> Images {
        images(self.place.path())
    }

    fn on<T>(&self, answer: Answer<'_, T>) -> Result<T, Error> {
        self.tokio.block_on(answer)
    }

    fn pause(&self, ms: u64) {
        self.tokio
            .block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await });
    }

    fn state(&self, name: &str) -> State {
        self.on(self.all.state(name)).unwrap()
    }

    fn ask_to_end(&self, name: &str) {
        self.on(self.all.ask_to_end(name)).unwrap();
    }

    fn kill(&self, name: &str) {
        self.on(self.all.kill(name)).unwrap();
    }

    /// A text that is in the command lines of no other test's processes, and in that of no shim.
    fn mark(&self) -> String {
        let name = self.place.path().file_name().unwrap().to_string_lossy();
        name.chars().rev().collect()
    }

    fn launch(&self, command: &[&str], limits: Limits) -> Launch {
        let pod = Pod {
            tenant: "default".to_owned(),
            application: "app".to_owned(),
            replica: 0,
        };
        Launch {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            env: vec![("GREETING".to_owned(), "good morning".to_owned())],
            limits,
            log: LogLimits {
                file_bytes: 64 << 10,
                files: 3,
            },
            ..Launch::of(self.kind, IMAGE, pod)
        }
    }

    fn start(&self, name: &str, script: &str) {
        self.start_within(name, script, Limits::default());
    }

    fn start_within(&self, name: &str, script: &str, limits: Limits) {
        let launch = self.launch(&["/bin/sh", "-c", script], limits);
        self.on(self.all.start(name, launch)).unwrap();
    }

    fn end(&self, name: &str) -> Ended {
        let waiting = async { tokio::time::timeout(PATIENCE, self.all.wait(name)).await };
        match self.tokio.block_on(waiting).expect("it ends in time").unwrap() {
            State::Ended(ended) => ended,
            state => panic!("{name}: {state:?}"),
        }
    }

    fn log(&self, name: &str) -> Vec<String> {
        let text = self.on(self.all.log_tail(name, 100_000)).unwrap().unwrap_or_default();
        let text = String::from_utf8(text).unwrap();
        let words = text.lines().filter_map(|line| line.split_once(' '));
        words.map(|(_, rest)| rest.to_owned()).collect()
    }

    /// What the shim says that somebody starts once more.
    fn second_shim(&self, name: &str) -> String {
        let directory = self.local.instance(name);
        let output = Command::new(shim()).arg(directory.directory()).output().unwrap();
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
        for name in self.on(self.all.names()).unwrap_or_default() {
            let _ = self.on(self.all.kill(&name));
            let _ = self.on(self.all.remove(&name));
        }
    }
}

fn shim() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_agent-shim"))
}

fn images(place: &Path) -> Images {
    Images::open(&place.join("images")).unwrap()
}

/// A folder with one program, which is a shell and all that scripts call.
fn busybox(place: &Path) -> PathBuf {
    let folder = place.join("busybox");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::copy("/bin/busybox", folder.join("bin/busybox")).expect("busybox-static is installed");
    for name in [
        "sh", "sleep", "setsid", "tail", "cat", "id", "ls", "touch", "mount", "grep", "hostname", "mkdir",
    ] {
        std::os::unix::fs::symlink("busybox", folder.join("bin").join(name)).unwrap();
    }
    folder
}

/// Those that start containers by a shim of ours.
fn with_shims() -> impl Iterator<Item = Kind> {
    kinds().iter().copied().filter(|kind| *kind != Kind::Docker)
}

/// The runtimes that can be had here.
fn kinds() -> &'static [Kind] {
    match is_root() {
        true => &[Kind::Process, Kind::Oci, Kind::Docker],
        false => &[Kind::Process],
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped in part: images and control groups need root");
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
    for &kind in kinds() {
        let host = Host::new(kind);
        host.start("talker", "echo \"$GREETING\"; echo $NOTHING >&2; pwd; exit 7");
        assert_eq!(host.end("talker").how, How::Exited { code: 7 });
        let mut log = host.log("talker");
        log.sort();
        assert_eq!(log, ["stderr F ", "stdout F /", "stdout F good morning"]);
    }
}

#[test]
fn a_program_that_does_not_exist_is_an_end_that_says_so() {
    for &kind in kinds() {
        let host = Host::new(kind);
        let launch = host.launch(&["/no/such/program"], Limits::default());
        host.on(host.all.start("nothing", launch)).unwrap();
        let How::NotStarted { reason } = host.end("nothing").how else {
            panic!()
        };
        let reason = reason.to_lowercase();
        assert!(
            reason.contains("/no/such/program") && reason.contains("no such file"),
            "{reason}"
        );
    }
}

#[test]
fn another_agent_finds_what_runs_and_starts_nothing_twice() {
    for &kind in kinds() {
        let host = Host::new(kind);
        host.start("sleeper", "sleep 1000");
        let State::Running(started) = host.state("sleeper") else {
            panic!()
        };
        let other = host.again();
        assert_eq!(other.on(other.all.names()).unwrap(), ["sleeper"]);
        assert_eq!(other.state("sleeper"), State::Running(started.clone()));
        let again = host.launch(&["/bin/true"], Limits::default());
        let refused = other.on(other.all.start("sleeper", again)).unwrap_err();
        assert!(matches!(refused, Error::Exists(_)), "{refused}");
        let has_shim = kind != Kind::Docker;
        if has_shim {
            assert_eq!(other.second_shim("sleeper"), "it is running already\n");
        }
        assert!(is_alive(started.pid));
        other.kill("sleeper");
        assert_eq!(host.end("sleeper").how, How::Killed { signal: 9 });
        if has_shim {
            assert_eq!(other.second_shim("sleeper"), "it was started before\n");
        }
    }
}

#[test]
fn who_is_asked_to_end_ends_as_it_wants_to() {
    for &kind in kinds() {
        let host = Host::new(kind);
        host.start(
            "polite",
            "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done",
        );
        host.wait_for_line("polite", "stdout F up");
        host.ask_to_end("polite");
        assert_eq!(host.end("polite").how, How::Exited { code: 3 });
        host.wait_for_line("polite", "stdout F bye");
        host.ask_to_end("polite");
        host.on(host.all.remove("polite")).unwrap();
        assert_eq!(host.state("polite"), State::Absent);
    }
}

#[test]
fn who_ignores_being_asked_is_ended_with_all_that_it_made() {
    if !is_root() {
        return;
    }
    for &kind in kinds() {
        let host = Host::new(kind);
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
}

#[test]
fn what_a_program_leaves_behind_ends_with_it() {
    if !is_root() {
        return;
    }
    for &kind in kinds() {
        let host = Host::new(kind);
        let mark = host.mark();
        host.start("messy", &format!("setsid sh -c 'sleep 1000; : {mark}' & exit 0"));
        assert_eq!(host.end("messy").how, How::Exited { code: 0 });
        assert_eq!(processes_with(&mark), 0);
    }
}

#[test]
fn a_program_that_takes_more_memory_than_it_may_is_killed_and_that_named() {
    if !is_root() {
        return;
    }
    for &kind in kinds() {
        let host = Host::new(kind);
        let limits = Limits {
            memory_bytes: Some(32 << 20),
            ..Limits::default()
        };
        host.start_within("hungry", "exec tail /dev/zero", limits);
        let ended = host.end("hungry");
        assert!(ended.is_out_of_memory, "{ended:?}");
        assert_eq!(ended.how, How::Killed { signal: 9 });
    }
}

#[test]
fn a_program_that_forks_for_ever_has_as_many_processes_as_it_may() {
    if !is_root() {
        return;
    }
    for &kind in kinds() {
        let host = Host::new(kind);
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
        if let Ok(Some(usage)) = host.on(host.all.usage("forker")) {
            assert!(usage.pids <= 20, "{usage:?}");
        }
        host.kill("forker");
        assert!(matches!(host.state("forker"), State::Ended(_)));
    }
}

#[test]
fn a_program_has_no_more_processor_time_than_it_may() {
    if !is_root() {
        return;
    }
    for &kind in kinds() {
        let host = Host::new(kind);
        let limits = Limits {
            cpu_millis: Some(100),
            ..Limits::default()
        };
        host.start_within("busy", "while :; do :; done", limits);
        let start = Instant::now();
        host.pause(2_000);
        let usage = host.on(host.all.usage("busy")).unwrap().unwrap();
        // A tenth, and what one period may be over.
        let most_us = start.elapsed().as_micros() as u64 / 10 + 100_000;
        assert!(usage.cpu_us <= most_us, "{usage:?}");
    }
}

#[test]
fn a_program_reads_from_disks_no_faster_than_it_may() {
    if !is_root() {
        return;
    }
    let bytes = fs::metadata("/bin/busybox").unwrap().len();
    for &kind in kinds() {
        let host = Host::new(kind);
        let limits = Limits {
            read_bytes_per_s: Some(bytes / 2),
            ..Limits::default()
        };
        let start = Instant::now();
        host.start_within(
            "reader",
            "busybox dd if=/bin/busybox of=/dev/null bs=64k iflag=direct || exit 3",
            limits,
        );
        assert_eq!(host.end("reader").how, How::Exited { code: 0 });
        // Two seconds, less what the kernel lets pass at once.
        assert!(start.elapsed() > Duration::from_millis(1_200), "{:?}", start.elapsed());
    }
}

#[test]
fn a_container_whose_shim_was_killed_is_ended_and_known_to_be_unseen() {
    for kind in with_shims() {
        let host = Host::new(kind);
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
}

#[test]
fn a_flood_of_output_is_kept_within_its_bound_and_holds_up_nobody() {
    for &kind in kinds() {
        let host = Host::new(kind);
        host.start(
            "flood",
            "i=0; while [ $i -lt 20000 ]; do echo \"line $i\"; i=$((i+1)); done; exit 5",
        );
        assert_eq!(host.end("flood").how, How::Exited { code: 5 });
        assert_eq!(host.log("flood").last().unwrap(), "stdout F line 19999");
        if kind == Kind::Docker {
            assert!(host.log("flood").len() < 20_000, "the engine keeps all of it");
            continue;
        }
        let files = fs::read_dir(host.local.instance("flood").directory())
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
}

/// A container of an image, and what it says.
fn said_by(host: &Host, name: &str, script: &str, change: impl FnOnce(&mut Launch)) -> (How, Vec<String>) {
    let mut launch = host.launch(&["/bin/sh", "-c", script], Limits::default());
    change(&mut launch);
    host.on(host.all.start(name, launch)).unwrap();
    let how = host.end(name).how;
    let lines = host.log(name).into_iter();
    (
        how,
        lines.map(|line| line.split_once(" F ").unwrap().1.to_owned()).collect(),
    )
}

#[test]
fn what_a_container_writes_is_its_own_and_gone_with_it() {
    if !is_root() {
        return;
    }
    let host = Host::new(Kind::Oci);
    let script = "ls /; echo much > /note; cat /note";
    let files = ["bin", "dev", "etc", "proc", "sys"];
    for name in ["first", "second"] {
        let (_, said) = said_by(&host, name, script, |_| {});
        assert_eq!(said, [&files[..], &["much"]].concat());
    }
    let (how, said) = said_by(&host, "third", script, |launch| launch.rights.is_root_read_only = true);
    assert_ne!(how, How::Exited { code: 0 });
    assert!(
        said.iter().any(|line| line.contains("Read-only file system")),
        "{said:?}"
    );
    assert!(
        fs::read_dir(host.place.path().join("images/layers"))
            .unwrap()
            .all(|layer| !layer.unwrap().path().join("note").exists())
    );
}

#[test]
fn a_container_sees_neither_processes_nor_files_of_the_host_and_may_change_nothing_of_it() {
    if !is_root() {
        return;
    }
    let host = Host::new(Kind::Oci);
    let (_, said) = said_by(&host, "alone", "echo /proc/[0-9]*", |_| {});
    assert_eq!(said, ["/proc/1"]);
    let (_, said) = said_by(&host, "elsewhere", "ls /home", |_| {});
    assert!(said[0].contains("No such file"), "{said:?}");
    for (name, script) in [
        ("mounter", "mount -t tmpfs none /mnt"),
        ("namer", "hostname other"),
        ("tuner", "echo 1 > /proc/sys/vm/swappiness"),
        ("grouper", "touch /sys/fs/cgroup/pids/x /sys/fs/cgroup/x"),
        ("namespacer", "busybox unshare -m true"),
        ("clockmaker", "busybox date -s 2000-01-01"),
        ("maker", "busybox mknod /disk b 254 0"),
    ] {
        let (how, said) = said_by(&host, name, script, |_| {});
        let is_refused = |line: &String| line.contains("not permitted");
        assert!(
            how != How::Exited { code: 0 } || said.iter().any(is_refused),
            "{name}: {said:?}"
        );
    }
    let rights = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status";
    let (_, said) = said_by(&host, "rights", rights, |_| {});
    assert_eq!(
        said,
        [
            "CapEff:\t00000000000004fb",
            "CapBnd:\t00000000000004fb",
            "NoNewPrivs:\t1",
            "Seccomp:\t2"
        ]
    );
    let (_, said) = said_by(&host, "fewer", rights, |launch| {
        launch.rights.dropped = vec!["ALL".to_owned()];
        launch.rights.added = vec!["NET_BIND_SERVICE".to_owned()];
    });
    assert_eq!(said[0], "CapEff:\t0000000000000400");
    // A time that no kernel takes: who may ask is told so, and the clock stays as it is.
    let (_, said) = said_by(&host, "clock", "busybox date -s @9000000000", |launch| {
        launch.rights.added = vec!["SYS_TIME".to_owned()];
    });
    assert!(said.iter().any(|line| line.contains("Invalid argument")), "{said:?}");
}

#[test]
fn a_container_runs_as_whom_its_image_or_its_manifest_says() {
    if !is_root() {
        return;
    }
    let host = Host::new(Kind::Oci);
    let folder = busybox(&host.place.path().join("users"));
    fs::create_dir(folder.join("etc")).unwrap();
    fs::write(
        folder.join("etc/passwd"),
        "root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\n",
    )
    .unwrap();
    fs::write(folder.join("etc/group"), "logs:x:4:web\nweb:x:34:\n").unwrap();
    let start = Start {
        entrypoint: ["/bin/sh", "-c"].map(str::to_owned).to_vec(),
        env: vec!["WHO=of the image".to_owned(), "GREETING=hello".to_owned()],
        working_dir: Some("/etc".to_owned()),
        user: Some("web".to_owned()),
    };
    build::build(&host.images(), "users", &folder, &start).unwrap();
    let run = |name: &str, change: &dyn Fn(&mut Launch)| {
        said_by(&host, name, "", |launch| {
            launch.image = "users".to_owned();
            launch.command.clear();
            launch.args = vec!["id -u; id -g; id -G; pwd; echo $WHO $GREETING".to_owned()];
            change(launch);
        })
    };
    let (_, said) = run("image", &|_| {});
    assert_eq!(said, ["33", "34", "34 4", "/etc", "of the image good morning"]);
    let (_, said) = run("manifest", &|launch| (launch.uid, launch.gid) = (Some(7), Some(8)));
    assert_eq!(said[..3], ["7", "8", "8"].map(str::to_owned));
    let (how, _) = run("root", &|launch| {
        (launch.uid, launch.rights.is_never_root) = (Some(0), true);
    });
    assert!(
        matches!(&how, How::NotStarted { reason } if reason.contains("runAsNonRoot")),
        "{how:?}"
    );
}

/// A whole program of 32 bits that ends with 7: `mov eax, 1; mov ebx, 7; int 0x80`.
#[cfg(target_arch = "x86_64")]
const OF_32_BITS: [u8; 96] = {
    let mut file = *b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0\x01\0\0\0\x54\x80\x04\x08\x34\0\0\0\0\0\0\0\
        \0\0\0\0\x34\0\x20\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x80\x04\x08\0\x80\x04\x08\x60\0\0\0\x60\0\0\0\
        \x05\0\0\0\0\x10\0\0\xb8\x01\0\0\0\xbb\x07\0\0\0\xcd\x80";
    file[95] = 0x80;
    file
};

#[test]
#[cfg(target_arch = "x86_64")]
fn programs_of_32_bits_run_where_their_image_has_them() {
    if !is_root() {
        return;
    }
    let host = Host::new(Kind::Oci);
    let folder = busybox(&host.place.path().join("old"));
    fs::write(folder.join("bin/old"), OF_32_BITS).unwrap();
    fs::set_permissions(folder.join("bin/old"), fs::Permissions::from_mode(0o755)).unwrap();
    build::build(&host.images(), "old", &folder, &Start::default()).unwrap();
    let of_old = |launch: &mut Launch| launch.image = "old".to_owned();
    let (how, _) = said_by(&host, "itself", "", |launch| {
        of_old(launch);
        launch.command = vec!["/bin/old".to_owned()];
    });
    assert_eq!(how, How::Exited { code: 7 });
    // 128 and SIGSYS.
    let (_, said) = said_by(&host, "unseen", "old; echo $?", of_old);
    assert!(said.iter().any(|line| line == "159"), "{said:?}");
    fs::create_dir(folder.join("lib")).unwrap();
    fs::write(folder.join("lib/ld-linux.so.2"), "").unwrap();
    build::build(&host.images(), "old", &folder, &Start::default()).unwrap();
    let (_, said) = said_by(&host, "known", "old; echo $?", of_old);
    assert_eq!(said, ["7"]);
}

#[test]
fn an_image_that_is_not_here_is_said_so_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    let host = Host::new(Kind::Oci);
    let mut launch = host.launch(&[], Limits::default());
    launch.image = "nowhere:7".to_owned();
    let refused = host.on(host.all.start("absent", launch)).unwrap_err();
    assert_eq!(refused.to_string(), "no image \"nowhere:7\" is here");
    assert_eq!(host.on(host.all.names()).unwrap(), [""; 0]);
    let refused = host
        .on(host.all.start("empty", host.launch(&[], Limits::default())))
        .unwrap_err();
    assert!(refused.to_string().contains("write a command"), "{refused}");
}

#[test]
fn nothing_of_a_container_is_left_once_it_is_removed() {
    if !is_root() {
        return;
    }
    let host = Host::new(Kind::Oci);
    host.start("short", "echo done");
    host.end("short");
    host.on(host.all.remove("short")).unwrap();
    let tag = host
        .place
        .path()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .replace('.', "");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*host.place.path().to_string_lossy()), "{mounts}");
    let trees = fs::read_dir("/sys/fs/cgroup").unwrap().map(|tree| tree.unwrap().path());
    let groups: Vec<PathBuf> = trees
        .map(|tree| tree.join("selvedge").join(format!("test{tag}-short")))
        .collect();
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    assert_eq!(fs::read_dir(host.place.path().join("containers")).unwrap().count(), 0);
}

#[test]
fn a_disk_that_the_host_lets_go_is_kept_by_no_container() {
    if !is_root() {
        return;
    }
    let host = Host::new(Kind::Oci);
    let disk = host.place.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = |words: &[&str]| {
        let status = Command::new(words[0]).args(&words[1..]).arg(&disk).status();
        assert!(status.unwrap().success());
    };
    mounted(&["mount", "-t", "tmpfs", "none"]);
    host.start("lasting", "exec sleep 60");
    mounted(&["umount"]);
    let has_it = |process: &fs::DirEntry| {
        let mounts = fs::read_to_string(process.path().join("mountinfo")).unwrap_or_default();
        mounts.contains(&*disk.to_string_lossy())
    };
    // Containers of other tests that start this moment have it for as long as that takes.
    let deadline = Instant::now() + PATIENCE;
    while let Some(process) = fs::read_dir("/proc").unwrap().flatten().find(has_it) {
        assert!(Instant::now() < deadline, "{} keeps it", process.path().display());
        host.pause(20);
    }
    assert!(matches!(host.state("lasting"), State::Running(_)));
}

#[test]
fn a_command_runs_in_a_container_and_ends_where_it_is_given_up() {
    for &kind in kinds() {
        let host = Host::new(kind);
        host.start("asked", "trap 'exit 0' TERM; while :; do sleep 0.05; done");
        let run = |script: &str| {
            host.on(host
                .all
                .exec("asked", ["/bin/sh", "-c", script].map(str::to_owned).to_vec()))
        };
        assert!(run("[ \"$GREETING\" = 'good morning' ]").unwrap().is_good);
        let done = run("echo broken >&2; exit 3").unwrap();
        assert!(!done.is_good && done.words.ends_with("broken"), "{done:?}");
        let mark = host.mark();
        let sleeping = run_for(&host, "asked", &format!("sleep 1000; : {mark}"));
        assert!(sleeping.is_err(), "it was given up");
        let start = Instant::now();
        while processes_with(&mark) > 0 {
            assert!(start.elapsed() < PATIENCE);
        }
        host.kill("asked");
        let refused = host.on(host.all.exec("asked", vec!["true".to_owned()])).unwrap_err();
        assert_eq!(refused.to_string(), "asked does not run");
    }
}

/// Gives up after half a second.
fn run_for(host: &Host, name: &str, script: &str) -> Result<(), tokio::time::error::Elapsed> {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let running = async { tokio::time::timeout(Duration::from_millis(500), host.all.exec(name, command)).await };
    host.tokio.block_on(running).map(drop)
}

#[test]
fn a_container_that_was_begun_and_not_described_is_ended_and_can_be_removed() {
    let host = Host::new(Kind::Process);
    fs::create_dir(host.place.path().join("containers/begun")).unwrap();
    assert!(matches!(host.state("begun"), State::Ended(_)));
    host.on(host.all.remove("begun")).unwrap();
    assert_eq!(host.state("begun"), State::Absent);
}

#[test]
fn a_container_that_is_being_started_is_waited_for_and_not_taken_for_absent() {
    let host = Host::new(Kind::Process);
    let directory = host.place.path().join("containers/slow");
    fs::create_dir(&directory).unwrap();
    let hold = Instance::at(&directory).hold().unwrap().unwrap();
    let began = Instant::now();
    let starting = std::thread::spawn(move || {
        let wait = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 300_000_000,
        };
        rustix::event::poll(&mut [], Some(&wait)).unwrap();
        drop(hold);
    });
    assert!(matches!(host.state("slow"), State::Ended(_)));
    assert!(began.elapsed() >= Duration::from_millis(300));
    starting.join().unwrap();
}

#[test]
fn a_container_whose_files_a_power_cut_has_emptied_has_ended_and_can_be_removed() {
    for &kind in kinds() {
        let host = Host::new(kind);
        host.start("cut", "exit 0");
        host.end("cut");
        let (files, how) = match kind {
            // The engine knows it.
            Kind::Docker => (&["engine.json"][..], How::Exited { code: 0 }),
            Kind::Process | Kind::Oci => (&["spec.json", "started.json", "ended.json"][..], How::Unseen),
        };
        for file in files {
            fs::write(host.place.path().join("containers/cut").join(file), "").unwrap();
        }
        assert_eq!(host.end("cut").how, how);
        host.on(host.all.remove("cut")).unwrap();
        assert_eq!(host.state("cut"), State::Absent);
    }
}

#[test]
fn a_tree_that_a_container_has_nested_too_deep_for_any_path_goes_with_it() {
    if !is_root() {
        return;
    }
    let host = Host::new(Kind::Oci);
    let script = "i=0; while [ $i -lt 1900 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; echo deep";
    host.start("deep", script);
    host.end("deep");
    assert_eq!(host.log("deep"), ["stdout F deep"]);
    host.on(host.all.remove("deep")).unwrap();
    assert!(!host.place.path().join("containers/deep").exists());
}
