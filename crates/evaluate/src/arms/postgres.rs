//! A PostgreSQL server for one measurement, of this machine's programs, as it comes: what is committed is on disk.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::{Helper, ServerProcess};

/// Where Debian's packages put a version's programs.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Who runs it where we are root, whom it refuses.
const USER: &str = "postgres";
const DATABASE: &str = "telemetry";
/// How long it may take until it answers, and to stop.
const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(50);

/// One that runs; it ends with this, and its files go.
pub(crate) struct Postgres {
    server: ServerProcess,
    directory: TempDir,
}

impl Postgres {
    /// Starts a new one with an empty database, that listens on a socket in a directory of its own alone.
    ///
    /// # Errors
    /// It is not installed or does not start, in words.
    pub(crate) fn start(helper: &Helper) -> Result<Postgres, String> {
        let programs = programs()?;
        // Not below the run's directory, which no other user may enter; nor a long path, which a socket may not have.
        let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
        let (path, as_user) = (directory.path(), as_user(directory.path())?);
        let run = |program: &str, arguments: &[&str]| {
            let mut words = as_user.clone();
            words.push(programs.join(program).display().to_string());
            words.extend(arguments.iter().map(ToString::to_string));
            output_of(&words)
        };
        let data = path.join("data").display().to_string();
        let socket = path.display().to_string();
        run(
            "initdb",
            &["-D", &data, "-A", "trust", "-U", USER, "-E", "UTF8", "--locale", "C"],
        )?;
        let mut words = as_user.clone();
        words.push(programs.join("postgres").display().to_string());
        words.extend(["-D", &data, "-k", &socket, "-c", "listen_addresses="].map(str::to_owned));
        let mut server = ServerProcess::start(helper, None, Path::new(&words[0]), &words[1..], path)?;
        let create = || run("createdb", &["-h", &socket, "-U", USER, DATABASE]);
        while let Err(error) = create() {
            if server.ended_within(STEP) {
                return Err(server.ended().unwrap_or_default());
            }
            if server.age() > PATIENCE {
                return Err(format!("PostgreSQL is not ready after {PATIENCE:?}: {error}"));
            }
        }
        Ok(Postgres { server, directory })
    }

    /// Where a cloud finds it.
    pub(crate) fn url(&self) -> String {
        let socket = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://{USER}@{socket}/{DATABASE}")
    }

    /// Ends it.
    ///
    /// # Errors
    /// It still runs after 30 s.
    pub(crate) fn stop(self) -> Result<(), String> {
        self.server.stop(PATIENCE)
    }
}

/// Those of the newest version.
fn programs() -> Result<PathBuf, String> {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let installed = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").is_file());
    let newest = installed.max_by_key(|path| version_of(path));
    newest.map(|path| path.join("bin")).ok_or_else(|| {
        format!("PostgreSQL is not installed: no {VERSIONS}/*/bin/initdb; install postgresql or name one with --database URL")
    })
}

fn version_of(path: &Path) -> u32 {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or_default()
}

/// The words before a command that make it run as the directory's owner; the directory becomes PostgreSQL's user's
/// where we are root. It ends with us, as all that we start does: a change of user would undo that.
fn as_user(directory: &Path) -> Result<Vec<String>, String> {
    if !rustix::process::geteuid().is_root() {
        // Anything that runs the rest of its words: there is always a first word to start.
        return Ok(vec!["env".to_owned()]);
    }
    let [user, group] = ["-u", "-g"].map(id_of);
    chown(directory, Some(user?), Some(group?)).map_err(|error| format!("{}: {error}", directory.display()))?;
    let words = [
        "setpriv",
        "--reuid",
        USER,
        "--regid",
        USER,
        "--init-groups",
        "--pdeathsig",
        "INT",
        "--",
    ];
    Ok(words.map(str::to_owned).into())
}

fn id_of(which: &str) -> Result<u32, String> {
    let printed = output_of(&["id", which, USER].map(str::to_owned))?;
    printed
        .trim()
        .parse()
        .map_err(|_| format!("`id {which} {USER}` printed no number"))
}

fn output_of(words: &[String]) -> Result<String, String> {
    // What it is called on: the last word that is a path tells more than the one that changes the user.
    let name = words
        .iter()
        .rev()
        .find(|word| word.contains("/bin/"))
        .unwrap_or(&words[0]);
    let output = Command::new(&words[0])
        .args(&words[1..])
        .current_dir("/")
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed ({}): {}", output.status, said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_one_with_the_greatest_number() {
        let newest = ["9", "17", "15", "old"].map(|name| PathBuf::from("/usr/lib/postgresql").join(name));
        assert_eq!(newest.iter().max_by_key(|path| version_of(path)), Some(&newest[1]));
    }
}
