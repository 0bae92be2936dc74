//! A Mosquitto of a proof's own, to be stopped and killed.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::pause;

const PROGRAM: &str = "/usr/sbin/mosquitto";

/// Whether there is no Mosquitto; says so.
pub(crate) fn missing() -> bool {
    let missing = !std::path::Path::new(PROGRAM).is_file();
    if missing {
        eprintln!("not proved here: {PROGRAM} is not installed (apt-get install mosquitto)");
    }
    missing
}

pub(crate) struct Broker {
    child: Child,
    port: u16,
    /// Its files, if it has any.
    directory: Option<TempDir>,
}

/// Starts one on a free port; none where it is not installed.
pub(crate) fn start() -> Option<Broker> {
    if missing() {
        return None;
    }
    let port = free_port();
    Some(run(&["-p", &port.to_string()], port, None))
}

/// Starts one that takes one user, under TLS alone, with a certificate for `localhost`; none where it is not installed.
pub(crate) fn start_secure(user_name: &str, password: &str) -> Option<Broker> {
    if missing() {
        return None;
    }
    let (port, directory) = (free_port(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(path("server.pem"), pair.cert.pem()).unwrap();
    std::fs::write(path("server.key"), pair.signing_key.serialize_pem()).unwrap();
    let set = Command::new("mosquitto_passwd")
        .args(["-b", "-c"])
        .arg(path("passwords"))
        .args([user_name, password])
        .status();
    assert!(set.unwrap().success());
    let at = directory.path().display();
    let configuration = format!(
        "listener {port} 127.0.0.1\nuser root\nallow_anonymous false\npassword_file {at}/passwords\n\
         certfile {at}/server.pem\nkeyfile {at}/server.key\n"
    );
    std::fs::write(path("configuration"), configuration).unwrap();
    let configuration = path("configuration").display().to_string();
    Some(run(&["-c", &configuration], port, Some(directory)))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn run(arguments: &[&str], port: u16, directory: Option<TempDir>) -> Broker {
    let child = Command::new(PROGRAM)
        .args(arguments)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let broker = Broker { child, port, directory };
    for _ in 0..1_000 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return broker;
        }
        pause(Duration::from_millis(10));
    }
    panic!("mosquitto is not ready after 10 s");
}

impl Broker {
    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The file of the authority that its certificate comes from.
    pub(crate) fn authority(&self) -> PathBuf {
        self.directory.as_ref().unwrap().path().join("server.pem")
    }

    /// Stops it after `from` and lets it go on after `to`, both from now.
    pub(crate) fn pause_between(&self, from: Duration, to: Duration) {
        self.signal_after(from, Signal::STOP);
        self.signal_after(to - from, Signal::CONT);
    }

    pub(crate) fn signal_after(&self, wait: Duration, signal: Signal) {
        pause(wait);
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
