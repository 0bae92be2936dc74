//! `selvedge support-bundle`: what helps to help, without secrets. Files that hold any (the registry, keys) are not
//! opened.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Method;

use super::{Where, check};
use crate::output::say;

/// Bytes of the end of the audit log.
const AUDIT_TAIL_BYTES: u64 = 256 * 1024;

/// The file that says how the edge is configured.
const CONFIGURATION: &str = "configuration.toml";

/// What a running edge is asked, and the file that its answer becomes.
const ASKED: [(&str, &str); 5] = [
    ("/v1/edge", "edge.json"),
    ("/v1/configuration", CONFIGURATION),
    ("/v1/log", "log.txt"),
    ("/metrics", "metrics.txt"),
    ("/readyz", "ready.txt"),
];

#[derive(Args)]
pub(crate) struct SupportBundle {
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "selvedge-support.tar.gz")]
    output: PathBuf,
    /// Configuration file of an edge that does not run; one that does says itself how it is configured
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    edge: Where,
}

impl SupportBundle {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let data = self.edge.directory()?;
        let mut files = vec![
            ("version.txt".to_owned(), version().into_bytes()),
            ("check.txt".to_owned(), check::report(&data).into_bytes()),
            ("files.txt".to_owned(), sizes(&data).into_bytes()),
            (
                "audit.log".to_owned(),
                tail(&data.join("audit.log")).unwrap_or_default(),
            ),
        ];
        let asked = self.ask_edge()?;
        let is_running = !asked.is_empty();
        files.extend(asked);
        if let Some(config) = self.config.as_ref().filter(|_| !is_running) {
            let text = std::fs::read(config).with_context(|| config.display().to_string())?;
            files.push((CONFIGURATION.to_owned(), text));
        }
        pack(&self.output, &files).with_context(|| self.output.display().to_string())?;
        say(format_args!("{} written, with\n", self.output.display()));
        for (name, content) in &files {
            say(format_args!("  {name}   {} B\n", content.len()));
        }
        say("It has no passwords, tokens or keys; client names and addresses are in it.\n");
        if !is_running {
            say(format_args!("{}\n", self.missing(&data)));
        }
        Ok(())
    }

    /// What only a running edge could have said.
    fn missing(&self, data: &Path) -> String {
        let is_missing = |name: &&str| *name != CONFIGURATION || self.config.is_none();
        let names: Vec<&str> = ASKED.iter().map(|(_, name)| *name).filter(is_missing).collect();
        let hint = match self.config {
            Some(_) => "",
            None => "; name the configuration file with --config FILE",
        };
        format!(
            "No edge runs on {}, so it lacks {}{hint}. Add the end of what the edge wrote to standard error.",
            data.display(),
            names.join(", ")
        )
    }

    fn ask_edge(&self) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        self.edge.ask(false, async |client| {
            let mut files = Vec::new();
            if client.is_running() {
                for (path, name) in ASKED {
                    files.push((name.to_owned(), client.ask(Method::GET, path, Vec::new()).await?.body));
                }
            }
            Ok(files)
        })
    }
}

fn version() -> String {
    format!("selvedge {}\n{}\n", env!("CARGO_PKG_VERSION"), check::kernel())
}

/// Names and sizes of what the data directory holds.
fn sizes(data: &Path) -> String {
    let mut lines = Vec::new();
    let mut directories = vec![data.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => directories.push(entry.path()),
                Ok(about) => lines.push(format!("{} {} B\n", entry.path().display(), about.len())),
                Err(_) => {}
            }
        }
    }
    lines.sort();
    lines.concat()
}

fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(AUDIT_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn pack(path: &Path, files: &[(String, Vec<u8>)]) -> std::io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(File::create(path)?, Compression::default()));
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        archive.append_data(&mut header, format!("selvedge-support/{name}"), &content[..])?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_a_tar_that_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bundle.tar.gz");
        pack(&path, &[("a.txt".to_owned(), b"hello".to_vec())]).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(File::open(&path).unwrap()));
        let mut entries = archive.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        assert_eq!(
            (entry.path().unwrap().to_str().unwrap(), &*content),
            ("selvedge-support/a.txt", "hello")
        );
    }
}
