//! Starts a program of the host where its container is: as its user, in its group, with its environment.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Pid;

use super::Running;
use crate::cgroup::Cgroup;
use crate::instance::Program;
use crate::sockets::{self, Listening};

/// Its sockets are the shim's, which has them where the program is to have them.
pub(super) fn start(program: &Program, cgroup: Option<&Cgroup>, sockets: &[Listening]) -> io::Result<Running> {
    let mut command = command(program, cgroup)?;
    if !sockets.is_empty() {
        let env = [&*program.env, &sockets::environment(sockets)].concat();
        sockets::tell_pid(&mut command, &program.command, &env)?;
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.command[0])))?;
    Ok(Running {
        pid: Pid::from_child(&child),
        address: None,
        output: child.stdout.take().expect("it is piped"),
        errors: child.stderr.take().expect("it is piped"),
    })
}

/// What starts it.
pub(crate) fn command(program: &Program, cgroup: Option<&Cgroup>) -> io::Result<Command> {
    let [name, arguments @ ..] = program.command.as_slice() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program"));
    };
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&program.working_dir);
    if let Some(user) = program.user {
        command.uid(user.uid).gid(user.gid);
    }
    let groups = cgroup.into_iter().flat_map(Cgroup::process_files);
    let groups = groups.map(|file| File::options().write(true).open(file));
    let groups = groups.collect::<io::Result<Vec<File>>>()?;
    let enter = move || {
        for group in &groups {
            rustix::io::write(group, b"0")?;
        }
        rustix::thread::set_no_new_privs(true)?;
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls alone, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(enter) };
    Ok(command)
}
