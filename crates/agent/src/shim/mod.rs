//! The process beside a container, which outlives the agent: it starts the container, keeps its output and its end.
//!
//! One for each container, so that no other ends with it. It has no threads but for the output, and no memory to speak
//! of.

mod bundle;
mod log;
pub(crate) mod program;
mod users;
pub mod zygote;

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, WaitStatus};
use time::OffsetDateTime;

use self::log::Log;
use crate::cgroup::Cgroup;
use crate::instance::{Ended, How, Instance, Spec, Started, What};

/// Written to standard output once the container has been started, or it is known that it will not be.
pub const READY: &[u8] = b"ready\n";
/// How long output is waited for that a process holds open which outlived its container.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

/// Starts the container whose files are in `directory`, and stays until it has ended. Tells its standard output that it
/// has begun ([`READY`]), and closes it.
///
/// # Errors
/// Of the container's files, among them that it has been started before. That the program could not be started is none:
/// it is kept as the container's end.
pub fn run(directory: &Path) -> io::Result<()> {
    let instance = Instance::at(directory);
    let Some(_hold) = instance.hold()? else {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "it is running already"));
    };
    if instance.started()?.is_some() || instance.ended()?.is_some() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it was started before"));
    }
    let spec = instance.spec()?;
    // What a container leaves behind becomes a child of its shim, and not of the host's first process.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let log = Arc::new(Log::open(&instance.log(), spec.log)?);
    let running = match &spec.what {
        What::Program(program) => program::start(program, spec.cgroup.as_ref(), &spec.sockets),
        What::Bundle(bundle) => bundle::start(directory, bundle, &spec.sockets),
    };
    match running {
        Ok(running) => {
            instance.set_started(&started(&running)?)?;
            tell_ready()?;
            give_memory_back();
            let ended = attend(running, &spec, &log)?;
            instance.set_ended(&ended)
        }
        Err(error) => {
            let reason = error.to_string();
            instance.set_ended(&ended(How::NotStarted { reason }, &spec))?;
            tell_ready()
        }
    }
}

/// What a start took is not needed any more for as long as the container runs.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Says so, and lets nobody wait for more.
fn tell_ready() -> io::Result<()> {
    let mut output = io::stdout();
    // Who started this may be gone.
    let _ = output.write_all(READY).and_then(|()| output.flush());
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(null)?;
    Ok(())
}

/// A container's first process, which is a child of the shim, and what comes of it.
struct Running {
    pid: Pid,
    /// Where it is reached; none: where the host is.
    address: Option<Ipv4Addr>,
    output: ChildStdout,
    errors: ChildStderr,
}

fn started(running: &Running) -> io::Result<Started> {
    let pid = running.pid.as_raw_nonzero().get();
    Ok(Started {
        pid,
        pid_start_ticks: start_ticks(pid)?,
        boot_id: boot_id()?,
        at_ms: unix_now_ms(),
        address: running.address,
    })
}

/// Keeps its output until it ends, and then ends what it left behind.
fn attend(running: Running, spec: &Spec, log: &Arc<Log>) -> io::Result<Ended> {
    let Running {
        pid, output, errors, ..
    } = running;
    let (closing, closed) = mpsc::sync_channel(1);
    let (of_output, of_errors) = (Arc::clone(log), Arc::clone(log));
    keep(move || of_output.keep("stdout", output), closing.clone())?;
    keep(move || of_errors.keep("stderr", errors), closing)?;
    let status = wait_for(pid)?;
    let how = how(status);
    let end = ended(how, spec);
    if let Some(cgroup) = &spec.cgroup {
        // Those that do not end hold up no one but who starts it anew, and who does that is told.
        let _ = cgroup.kill();
    }
    wait_until_closed(&closed);
    Ok(end)
}

fn keep(work: impl FnOnce() + Send + 'static, closing: SyncSender<()>) -> io::Result<()> {
    let run = move || {
        work();
        drop(closing);
    };
    thread::Builder::new()
        .name("output".into())
        .stack_size(128 << 10)
        .spawn(run)
        .map(drop)
}

/// Nobody sends; it ends once all senders are gone.
fn wait_until_closed(closed: &Receiver<()>) {
    let _ = closed.recv_timeout(OUTPUT_PATIENCE);
}

/// Waits for the container; what it left behind and that ends meanwhile is let go as well.
fn wait_for(container: Pid) -> io::Result<WaitStatus> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == container => return Ok(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn how(status: WaitStatus) -> How {
    let status = ExitStatus::from_raw(status.as_raw());
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Exited { code },
        (None, Some(signal)) => How::Killed { signal },
        (None, None) => How::Unseen,
    }
}

fn ended(how: How, spec: &Spec) -> Ended {
    let usage = spec.cgroup.as_ref().and_then(|cgroup| cgroup.usage().ok());
    Ended {
        how,
        is_out_of_memory: usage.is_some_and(|usage| usage.oom_kills > 0),
        is_by_tenant: spec.cgroup.as_ref().is_some_and(Cgroup::is_short_by_parent),
        at_ms: unix_now_ms(),
        boot_id: boot_id().unwrap_or_default(),
    }
}

/// When a process began, in ticks since the host did (`proc(5)`, field 22 of `stat`).
pub(crate) fn start_ticks(pid: i32) -> io::Result<u64> {
    let stat = stat(&pid.to_string())?;
    let ticks = stat.split_whitespace().nth(19).and_then(|field| field.parse().ok());
    ticks.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether a process has ended, and only its parent has not asked how yet (field 3).
pub(crate) fn is_zombie(pid: i32) -> io::Result<bool> {
    Ok(stat(&pid.to_string())?.trim_start().starts_with(['Z', 'X']))
}

/// What the kernel says of a process, from field 3 on. The name, field 2, may contain anything, a parenthesis too.
fn stat(process: &str) -> io::Result<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    Ok(behind_name.to_owned())
}

/// Of the host, since it was switched on.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

pub(crate) fn unix_now_ms() -> i64 {
    (OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000) as i64
}
