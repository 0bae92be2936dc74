//! Programs of the host.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::PATH;
use crate::cgroup::Cgroup;
use crate::instance::{Program, User};
use crate::runtime::{Done, Error, Launch};
use crate::shim;

/// Of what a command complains about.
const WORDS_BYTES: u64 = 1 << 10;

/// What a launch comes to. A user whose group is not said has the one of its own number.
pub(super) fn of(launch: &Launch) -> Program {
    let program = match launch.command.is_empty() {
        true => std::slice::from_ref(&launch.image),
        false => &*launch.command,
    };
    let mut env = launch.env.clone();
    if env.iter().all(|(name, _)| name != PATH.0) {
        env.push((PATH.0.to_owned(), PATH.1.to_owned()));
    }
    Program {
        command: program.iter().chain(&launch.args).cloned().collect(),
        env,
        working_dir: launch.working_dir.clone().unwrap_or_else(|| PathBuf::from("/")),
        user: launch.uid.map(|uid| User {
            uid,
            gid: launch.gid.unwrap_or(uid),
        }),
    }
}

/// Runs another command where a program is.
pub(super) async fn exec(program: Program, command: Vec<String>, cgroup: Option<&Cgroup>) -> Result<Done, Error> {
    run(Command::from(command_in(program, command, cgroup)?)).await
}

pub(super) fn command_in(
    program: Program,
    command: Vec<String>,
    cgroup: Option<&Cgroup>,
) -> io::Result<std::process::Command> {
    shim::program::command(&Program { command, ..program }, cgroup)
}

/// What comes of a command; it is ended where this is given up.
pub(super) async fn run(mut command: Command) -> Result<Done, Error> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut complaint = Vec::new();
    if let Some(errors) = child.stderr.take() {
        let mut errors = errors.take(WORDS_BYTES);
        errors.read_to_end(&mut complaint).await?;
        // It is not held up by what nobody reads.
        tokio::io::copy(&mut errors.into_inner(), &mut tokio::io::sink()).await?;
    }
    let status = child.wait().await?;
    let words = String::from_utf8_lossy(&complaint).trim().to_owned();
    Ok(Done {
        is_good: status.success(),
        words: match words.is_empty() {
            true => status.to_string(),
            false => format!("{status}: {words}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Kind, Pod};

    fn check(command: &[&str], args: &[&str], expected: &[&str]) {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let pod = Pod {
            tenant: "default".to_owned(),
            application: "app".to_owned(),
            replica: 0,
        };
        let program = of(&Launch {
            command: words(command),
            args: words(args),
            uid: Some(65_534),
            ..Launch::of(Kind::Process, "/bin/web", pod)
        });
        assert_eq!(program.command, expected);
        assert_eq!(program.env, [(PATH.0.to_owned(), PATH.1.to_owned())]);
        assert_eq!(program.user.map(|user| user.gid), Some(65_534));
    }

    #[test]
    fn a_program_is_its_image_with_its_arguments_or_the_command_in_its_place() {
        check(&[], &[], &["/bin/web"]);
        check(&[], &["-p", "80"], &["/bin/web", "-p", "80"]);
        check(&["/bin/sh", "-c"], &["echo"], &["/bin/sh", "-c", "echo"]);
    }
}
