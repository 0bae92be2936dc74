//! A throwaway PostgreSQL cluster of the machine's own PostgreSQL, on a Unix socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Ends when it is dropped, and when the test's process does.
pub(crate) struct Cluster {
    directory: PathBuf,
    bin: PathBuf,
    driver: Mutex<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Cluster {
    /// The one that the tests share which do it no harm; none, with a word of why, if there is no PostgreSQL.
    pub(crate) fn shared() -> Option<&'static Cluster> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(Cluster::start_new).as_ref()
    }

    /// One of the test's own, running.
    pub(crate) fn start_new() -> Option<Cluster> {
        let Some(bin) = programs() else {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI has PostgreSQL: apt-get install postgresql"
            );
            eprintln!("skipped: no PostgreSQL under /usr/lib/postgresql; apt-get install postgresql");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("selvedge-pg").tempdir().unwrap().keep();
        let mut driver = Command::new("sh")
            .args(["-c", include_str!("cluster.sh"), "cluster"])
            .args([&directory, &bin])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (
            driver.stdin.take().unwrap(),
            BufReader::new(driver.stdout.take().unwrap()),
        );
        let cluster = Cluster {
            directory,
            bin,
            driver: Mutex::new((driver, stdin, stdout)),
        };
        cluster.order("start -c fsync=off");
        Some(cluster)
    }

    /// `start`, `stop`, `kill` (-9, every process), `pause`, `resume`.
    pub(crate) fn order(&self, order: &str) {
        let mut driver = self.driver.lock().unwrap();
        writeln!(driver.1, "{order}").unwrap();
        let mut answer = String::new();
        driver.2.read_line(&mut answer).unwrap();
        let log = || std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        assert_eq!(answer, "done\n", "{order}: {}", log());
    }

    /// Makes an empty database; its URL.
    pub(crate) fn make_database(&self, name: &str) -> String {
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(name)
    }

    pub(crate) fn url(&self, name: &str) -> String {
        let host = self.directory.to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{host}/{name}")
    }

    /// The user that the server runs as.
    pub(crate) fn owner(&self) -> u32 {
        std::fs::metadata(self.data()).unwrap().uid()
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Runs SQL as the operator would; its output.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        let output = Command::new(self.bin.join("psql"))
            .args([
                "-X",
                "-A",
                "-t",
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                "postgres",
                "-d",
                database,
                "-c",
                sql,
                "-h",
            ])
            .arg(&self.directory)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{sql}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut driver = self.driver.lock().unwrap();
        // Its stdin ends with a driver that takes its place.
        let mut nobody = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        driver.1 = nobody.stdin.take().unwrap();
        nobody.wait().unwrap();
        driver.0.wait().unwrap();
    }
}

/// Of the newest version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    programs
        .filter(|bin: &PathBuf| Path::join(bin, "initdb").exists())
        .max()
}
