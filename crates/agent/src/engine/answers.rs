//! What answers of an engine mean.

use std::fs;
use std::io;

use bollard::container::LogOutput;
use bollard::errors::Error as Refused;
use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::instance::{Ended, How, Started};
use crate::runtime::{Error, State};
use crate::shim::{boot_id, is_zombie, start_ticks, unix_now_ms};

/// What a shell adds to the number of a signal.
const OF_SIGNAL: i64 = 128;
/// The largest number of a signal.
const SIGNAL_MAX: i64 = 64;

pub(super) fn is_absent(error: &Refused) -> bool {
    matches!(error, Refused::DockerResponseServerError { status_code: 404, .. })
}

/// Whether a registry could not be asked, which the engine says in words alone.
pub(super) fn is_unreachable(error: &Error) -> bool {
    let words = error.to_string();
    [
        "dial tcp",
        "no such host",
        "timeout",
        "connection refused",
        "unexpected EOF",
    ]
    .iter()
    .any(|part| words.contains(part))
}

pub(super) fn has_memory_limit(found: &ContainerInspectResponse) -> bool {
    let config = found.host_config.as_ref();
    config.and_then(|config| config.memory).is_some_and(|bytes| bytes > 0)
}

/// Of the user that an image says.
pub(super) fn check_never_root(user: &str) -> Result<(), String> {
    let name = user.split(':').next().unwrap_or_default();
    match name.parse() {
        Ok(0_u32) => Err("runAsNonRoot is true, and its image says root; write securityContext.runAsUser".to_owned()),
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "runAsNonRoot is true, and its image says the user {name:?}, who may be root; write \
             securityContext.runAsUser"
        )),
    }
}

/// Of a container that the engine may have forgotten, or never begun; `None`: it has just ended, and the engine is to
/// say how.
pub(super) fn state(found: ContainerState) -> io::Result<Option<State>> {
    if found.running == Some(true) {
        return Ok(match process_now(found.pid.unwrap_or_default()) {
            Ok(process) => Some(State::Running(Started {
                at_ms: found.started_at.as_deref().and_then(unix_ms).unwrap_or_default(),
                ..process
            })),
            Err(_) => None,
        });
    }
    let code = found.exit_code.unwrap_or_default();
    let reason = found.error.filter(|reason| !reason.is_empty());
    let how = match (found.status, reason) {
        (Some(ContainerStateStatusEnum::CREATED), Some(reason)) => How::NotStarted { reason },
        (None | Some(ContainerStateStatusEnum::CREATED | ContainerStateStatusEnum::EMPTY), _) => How::Unseen,
        _ if code > OF_SIGNAL && code <= OF_SIGNAL + SIGNAL_MAX => How::Killed {
            signal: i32::try_from(code - OF_SIGNAL).unwrap_or_default(),
        },
        _ => How::Exited {
            code: i32::try_from(code).unwrap_or(i32::MAX),
        },
    };
    let at_ms = found.finished_at.as_deref().and_then(unix_ms);
    Ok(Some(State::Ended(Ended {
        how,
        is_out_of_memory: found.oom_killed == Some(true),
        is_by_tenant: false,
        at_ms: at_ms.unwrap_or_else(unix_now_ms),
        boot_id: match is_of_this_boot(at_ms)? {
            true => boot_id()?,
            false => String::new(),
        },
    })))
}

/// What never was is of this one.
fn is_of_this_boot(at_ms: Option<i64>) -> io::Result<bool> {
    let uptime = fs::read_to_string("/proc/uptime")?;
    let up_s: f64 = uptime
        .split(' ')
        .next()
        .and_then(|up_s| up_s.parse().ok())
        .unwrap_or(f64::MAX);
    Ok(at_ms.is_none_or(|at_ms| (unix_now_ms() - at_ms) as f64 <= up_s * 1_000.0))
}

/// ms since 1970 UTC; `None` of what never was, which the engine writes as the year 1.
fn unix_ms(text: &str) -> Option<i64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(at.unix_timestamp_nanos() / 1_000_000)
        .ok()
        .filter(|at_ms| *at_ms > 0)
}

/// The process that has this number now. One that has ended, and that the engine has not asked about yet, is none.
pub(super) fn process_now(pid: i64) -> io::Result<Started> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    if is_zombie(pid)? {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(Started {
        pid,
        pid_start_ticks: start_ticks(pid)?,
        boot_id: boot_id()?,
        at_ms: unix_now_ms(),
        address: None,
    })
}

/// As a log of ours has it: time, stream, whether it is a whole line, text.
pub(super) fn add_line(kept: &mut Vec<u8>, line: &LogOutput) {
    let (stream, message) = match line {
        LogOutput::StdErr { message } => ("stderr", message),
        LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message } => {
            ("stdout", message)
        }
    };
    let at = message.iter().position(|byte| *byte == b' ').unwrap_or(message.len());
    let (time, text) = message.split_at(at);
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let (text, kind) = match text.strip_suffix(b"\n") {
        Some(whole) => (whole, "F"),
        None => (text, "P"),
    };
    kept.extend_from_slice(time);
    kept.extend_from_slice(format!(" {stream} {kind} ").as_bytes());
    kept.extend_from_slice(text);
    kept.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{WaitId, WaitIdOptions};

    use super::*;

    #[test]
    fn an_image_that_may_run_as_root_is_refused_where_root_is_not_wanted() {
        for user in ["", "0", "root", "0:0", "web"] {
            assert!(check_never_root(user).is_err(), "{user}");
        }
        for user in ["1000", "1000:1000"] {
            assert_eq!(check_never_root(user), Ok(()));
        }
    }

    #[test]
    fn an_end_is_named_by_what_the_engine_says() {
        let end = |found: ContainerState| match state(found).unwrap() {
            Some(State::Ended(ended)) => ended,
            state => panic!("{state:?}"),
        };
        let exited = |code: i64| ContainerState {
            status: Some(ContainerStateStatusEnum::EXITED),
            exit_code: Some(code),
            finished_at: Some("2020-01-01T00:00:00Z".to_owned()),
            ..ContainerState::default()
        };
        assert_eq!(end(exited(3)).how, How::Exited { code: 3 });
        assert_eq!(end(exited(137)).how, How::Killed { signal: 9 });
        assert_ne!(end(exited(0)).boot_id, boot_id().unwrap(), "the host was off since");
        assert_eq!(end(ContainerState::default()).how, How::Unseen);
    }

    #[test]
    fn a_process_that_has_ended_does_not_run_though_nobody_has_asked_how_it_ended() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(pid), ended).unwrap();
        let running = ContainerState {
            running: Some(true),
            pid: Some(child.id().into()),
            ..ContainerState::default()
        };
        assert_eq!(state(running).unwrap(), None);
        child.wait().unwrap();
    }

    #[test]
    fn output_is_kept_as_a_log_of_ours_has_it() {
        let mut kept = Vec::new();
        let message = |text: &str| text.to_owned().into();
        add_line(
            &mut kept,
            &LogOutput::StdOut {
                message: message("T1 good morning\n"),
            },
        );
        add_line(
            &mut kept,
            &LogOutput::StdErr {
                message: message("T2 half"),
            },
        );
        assert_eq!(
            String::from_utf8(kept).unwrap(),
            "T1 stdout F good morning\nT2 stderr P half\n"
        );
    }
}
