//! A Mosquitto of a proof's own, to be stopped and killed.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

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
}

/// Starts one on a free port; none where it is not installed.
pub(crate) fn start() -> Option<Broker> {
    if missing() {
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new(PROGRAM)
        .args(["-p", &port.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let broker = Broker { child, port };
    for _ in 0..1_000 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some(broker);
        }
        pause(Duration::from_millis(10));
    }
    panic!("mosquitto is not ready after 10 s");
}

impl Broker {
    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
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

/// Nothing is ever sent here, so that it waits for the whole time.
fn pause(time: Duration) {
    let (_sender, silence) = mpsc::sync_channel::<()>(0);
    let _ = silence.recv_timeout(time);
}
