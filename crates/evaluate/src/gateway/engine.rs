//! A Docker Engine for one run, with its files, its socket and its networks beside those of any other.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::manifests::INNER_PORT;
use super::taken::{Group, Processes};
use crate::arms::{self, Helper, ServerProcess};
use crate::capacity::pause;
use crate::interrupt;
use crate::network::Host;

/// How long it may take until it answers, and to stop.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(100);
/// The network of containers that this program has it run; the edge makes its own.
const NETWORK: &str = "evaluate";
const SUBNET: &str = "192.168.213.0/24";
const ADDRESS: [u8; 4] = [192, 168, 213, 10];

/// One that runs.
pub(super) struct Engine {
    server: ServerProcess,
    command: PathBuf,
    place: PathBuf,
}

impl Engine {
    /// Starts it on a host.
    ///
    /// # Errors
    /// It does not start, with its last words.
    pub(super) fn start(
        helper: &Helper,
        host: &Host,
        (daemon, command): (&Path, PathBuf),
        directory: &Path,
    ) -> Result<Engine, String> {
        let place = directory.join("engine");
        std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let file = |name: &str| place.join(name).display().to_string();
        let url = format!("unix://{}", file("socket"));
        let (data, exec, pid) = (file("data"), file("exec"), file("pid"));
        let words = [
            "--host",
            &url,
            "--data-root",
            &data,
            "--exec-root",
            &exec,
            "--pidfile",
            &pid,
            "--bridge",
            "none",
        ];
        let words: Vec<String> = words
            .into_iter()
            .chain(["--iptables=false"])
            .map(str::to_owned)
            .collect();
        let server = ServerProcess::start(helper, None, daemon, &words, &place)?;
        let mut engine = Engine { server, command, place };
        while engine.docker(&["version"]).is_err() {
            interrupt::check()?;
            if engine.server.ended_within(STEP) || engine.server.age() > PATIENCE {
                return Err(engine
                    .server
                    .ended()
                    .unwrap_or_else(|| format!("dockerd is not ready after {PATIENCE:?}")));
            }
        }
        host.enter(|| engine.docker(&["network", "create", "--subnet", SUBNET, NETWORK]))
            .map_err(|error| error.to_string())??;
        Ok(engine)
    }

    /// Where the edge and the command find it.
    pub(super) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.place.join("socket")
    }

    /// Where a container is that was made or run with [`Engine::at_address`].
    pub(super) fn address() -> SocketAddr {
        SocketAddr::new(IpAddr::from(ADDRESS), INNER_PORT)
    }

    /// The words that give a container that address.
    pub(super) fn at_address() -> [String; 4] {
        let ip = IpAddr::from(ADDRESS).to_string();
        ["--network".to_owned(), NETWORK.to_owned(), "--ip".to_owned(), ip]
    }

    /// A command of Docker; what that printed.
    pub(super) fn docker(&self, words: &[&str]) -> Result<String, String> {
        let url = self.url();
        arms::output_of(&self.command, &[&["--host", &url], words].concat())
    }

    /// What the engine says of its version.
    pub(super) fn version(&self) -> Result<String, String> {
        let said = self.docker(&["version", "--format", "{{.Server.Version}}"])?;
        Ok(format!("dockerd {}", said.trim()))
    }

    /// Has a container `start` or `unpause` as the command does, by the engine's API alone.
    pub(super) fn by_api(&self, container: &str, what: &str) -> Result<(), String> {
        let ask = || {
            let mut stream = UnixStream::connect(self.socket())?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(
                stream,
                "POST /containers/{container}/{what} HTTP/1.1\r\nHost: docker\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().map_err(|error: std::io::Error| format!("the engine's socket: {error}"))?;
        if answer.starts_with("HTTP/1.1 204") {
            return Ok(());
        }
        Err(format!(
            "the engine answers {}",
            answer.lines().next().unwrap_or("nothing")
        ))
    }

    /// Makes an image of a folder that runs `words`.
    pub(super) fn import(&self, folder: &Path, image: &str, words: &[&str]) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("packing the image: {error}");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(folder).args(["-c", "."]).stdout(Stdio::piped());
        let mut tar = tar.spawn().map_err(failed)?;
        let packed = tar.stdout.take().ok_or("tar has no output")?;
        let entry = serde_json::to_string(words).map_err(|error| error.to_string())?;
        let (url, change) = (self.url(), format!("CMD {entry}"));
        let mut import = Command::new(&self.command);
        import.args(["--host", &url, "import", "--change", &change, "-", image]);
        let imported = import.stdin(packed).stdout(Stdio::null()).output().map_err(failed)?;
        let packed = tar.wait().map_err(failed)?;
        if imported.status.success() && packed.success() {
            return Ok(());
        }
        Err(format!(
            "docker import: {}",
            String::from_utf8_lossy(&imported.stderr).trim()
        ))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // What an edge was about to start when it ended: the engine would ask it to stop, and wait.
        let groups = Processes::naming(&self.place.display().to_string()).groups_of_containers();
        let running = self.docker(&["ps", "--quiet"]).unwrap_or_default();
        let ids: Vec<&str> = running.split_whitespace().collect();
        if !ids.is_empty() {
            let _ = self.docker(&[&["kill"], &ids[..]].concat());
        }
        // What stays of it is its directory, with what it has mounted.
        let _ = self.server.stop(PATIENCE);
        groups.iter().for_each(Group::remove);
        pause(STEP);
        let mounted = std::fs::read_dir(self.place.join("exec/netns"))
            .into_iter()
            .flatten()
            .flatten();
        for namespace in mounted {
            let path = namespace.path().display().to_string();
            let _ = arms::output_of(Path::new("umount"), &["--lazy", &path]);
        }
    }
}
