//! A real Docker Engine of the tests' own, beside any that the machine has.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Starts the engine, and ends it once the tests are over, however they end.
const WATCHED: &str = r#"
mkdir -p "$1"
cd "$1" || exit 1
dockerd --host "unix://$1/engine.sock" --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" \
    --bridge none --iptables=false >"$1/log" 2>&1 &
engine=$!
while kill -0 "$2" 2>/dev/null; do sleep 0.2; done
kill "$engine"
wait "$engine"
umount "$1"/exec/netns/*
rm -rf "$1"
"#;
const PATIENCE: Duration = Duration::from_secs(60);

/// Where it is asked. It has the image of the tests.
pub(crate) fn socket() -> &'static Path {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    SOCKET.get_or_init(|| {
        let tests = std::process::id().to_string();
        let place = std::env::temp_dir().join(format!("selvedge-dockerd-{tests}"));
        let watched = Command::new("setsid")
            .args(["sh", "-c", WATCHED, "sh"])
            .arg(&place)
            .arg(&tests)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        drop(watched.expect("setsid is here"));
        let socket = place.join("engine.sock");
        let start = Instant::now();
        while !docker(&socket, "docker version") {
            let log = std::fs::read_to_string(place.join("log")).unwrap_or_default();
            assert!(
                start.elapsed() < PATIENCE,
                "dockerd (apt-get install docker.io) does not start: {log}"
            );
        }
        let folder = super::busybox(&place);
        let import = format!("tar -C {} -c . | docker import - {}", folder.display(), super::IMAGE);
        assert!(docker(&socket, &import), "docker does not import {}", folder.display());
        socket
    })
}

/// Whether a command that asks the engine does well.
fn docker(socket: &Path, script: &str) -> bool {
    let done = Command::new("sh")
        .args(["-c", script])
        .env("DOCKER_HOST", format!("unix://{}", socket.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    done.is_ok_and(|status| status.success())
}
