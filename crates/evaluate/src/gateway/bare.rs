//! Baselines: the same image without an edge, by the commands that everybody has.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::ask;
use super::engine::Engine;
use super::manifests::{INNER_PORT, ROOT, SERVES};
use super::record::Arm;
use super::site::Site;
use crate::arms;

const CONTAINER: &str = "site";

/// A container that is made, and started as often as one likes.
pub(super) enum Bare<'a> {
    /// Of a Docker Engine: by its command, or by its API.
    Docker { engine: &'a Engine, by_api: bool },
    /// Of runc, from a bundle, on the host's network.
    Runc {
        site: &'a Site,
        runc: PathBuf,
        bundle: PathBuf,
    },
}

impl<'a> Bare<'a> {
    /// Makes it.
    ///
    /// # Errors
    /// It cannot be made, in words.
    pub(super) fn make(site: &'a Site, arm: Arm) -> Result<Bare<'a>, String> {
        match arm {
            Arm::RuncRun | Arm::RuncRunAgain => {
                let runc = site.runc.clone().ok_or("runc is not installed")?;
                let bundle = site.make_directory("bundle")?;
                write_bundle(&runc, &bundle, &site.folder)?;
                Ok(Bare::Runc { site, runc, bundle })
            }
            _ => {
                let engine = site.engine.as_ref().ok_or("there is no Docker Engine")?;
                let address = Engine::at_address();
                let mut words = vec!["create", "--name", CONTAINER];
                words.extend(address.iter().map(String::as_str));
                engine.docker(&[&words[..], &[super::manifests::IMAGE]].concat())?;
                let by_api = matches!(arm, Arm::DockerEngine | Arm::DockerUnpauseEngine);
                Ok(Bare::Docker { engine, by_api })
            }
        }
    }

    /// Starts it, and asks until it has answered: from the start of the command, in ms. On a thread of the gateway's
    /// host.
    ///
    /// # Errors
    /// It does not start, in words; or does not answer.
    pub(super) fn start(&self) -> Result<Option<f64>, String> {
        let began = Instant::now();
        match self {
            Bare::Docker { engine, by_api: false } => engine.docker(&["start", CONTAINER]).map(drop)?,
            Bare::Docker { engine, by_api: true } => engine.by_api(CONTAINER, "start")?,
            Bare::Runc { runc, bundle, site } => {
                let root = site.directory.join("runc").display().to_string();
                let bundle = bundle.display().to_string();
                let words = ["--root", &root, "run", "--detach", "--bundle", &bundle, CONTAINER];
                run_silent(runc, &words)?;
            }
        }
        Ok(ask::answered(self.address(), began).ok())
    }

    /// Lets its time stand still.
    ///
    /// # Errors
    /// The engine refuses, in words.
    pub(super) fn pause(&self) -> Result<(), String> {
        self.engine()?.docker(&["pause", CONTAINER]).map(drop)
    }

    /// Lets it go on, and asks until it has answered: as [`Bare::start`].
    ///
    /// # Errors
    /// The engine refuses, in words; or it does not answer.
    pub(super) fn unpause(&self) -> Result<Option<f64>, String> {
        let began = Instant::now();
        match self {
            Bare::Docker { engine, by_api: true } => engine.by_api(CONTAINER, "unpause")?,
            _ => self.engine()?.docker(&["unpause", CONTAINER]).map(drop)?,
        }
        Ok(ask::answered(self.address(), began).ok())
    }

    fn engine(&self) -> Result<&Engine, String> {
        match self {
            Bare::Docker { engine, .. } => Ok(engine),
            Bare::Runc { .. } => Err("runc is paused by no engine".to_owned()),
        }
    }

    /// Ends it.
    pub(super) fn stop(&self) -> Result<(), String> {
        match self {
            Bare::Docker { engine, .. } => engine.docker(&["stop", "--time", "0", CONTAINER]).map(drop),
            Bare::Runc { runc, site, .. } => {
                let root = site.directory.join("runc").display().to_string();
                arms::output_of(runc, &["--root", &root, "delete", "--force", CONTAINER]).map(drop)
            }
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Bare::Docker { .. } => Engine::address(),
            Bare::Runc { .. } => (Ipv4Addr::LOCALHOST, INNER_PORT).into(),
        }
    }
}

impl Drop for Bare<'_> {
    fn drop(&mut self) {
        // What cannot be removed keeps the next one from being made, which says so.
        if let Bare::Docker { engine, .. } = self {
            let _ = engine.docker(&["rm", "--force", CONTAINER]);
            return;
        }
        let _ = self.stop();
        if let Bare::Runc { bundle, .. } = self {
            let _ = std::fs::remove_dir_all(bundle);
        }
    }
}

/// It hands its output on to the container, so that nobody may wait for the end of that.
fn run_silent(program: &Path, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command
        .args(words)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("{}: {status}", program.display()))
}

/// What `runc spec` writes, running the web server on the host's network.
fn write_bundle(runc: &Path, bundle: &Path, root: &Path) -> Result<(), String> {
    arms::output_of(runc, &["spec", "--bundle", &bundle.display().to_string()])?;
    let file = bundle.join("config.json");
    let named = |error: std::io::Error| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(&file).map_err(named)?;
    let mut config: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    config["root"]["path"] = root.display().to_string().into();
    config["process"]["terminal"] = false.into();
    config["process"]["args"] = SERVES.iter().chain([&ROOT]).copied().collect::<Vec<_>>().into();
    let namespaces = config["linux"]["namespaces"].as_array_mut();
    namespaces
        .ok_or("`runc spec` names no namespaces")?
        .retain(|namespace| namespace["type"] != "network");
    // Its own /sys needs a network of its own.
    let mounts = config["mounts"].as_array_mut().ok_or("`runc spec` names no mounts")?;
    mounts.retain(|mount| mount["type"] != "sysfs" && mount["type"] != "cgroup");
    std::fs::write(&file, config.to_string()).map_err(named)
}
