//! `selvedge image`: what containers are made of, in an edge's data directory. An edge that runs there finds what is
//! new.

use std::fs;
use std::path::{Path, PathBuf};

use agent::image::archive;
use agent::image::build::{self, Start};
use agent::image::registry::Login;
use agent::image::retention::{Policy, Pruned};
use agent::image::store::Images;
use agent::local;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::{Asked, Where, taken_in};
use crate::images_kept;
use crate::node::unix_now_s;
use crate::output::{note, table};
use crate::registries::registries;
use crate::retention::Retention;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Images that are here
    #[command(visible_alias = "ls")]
    List(Asked),
    /// Take in images from a file of `docker save`, `podman save` or `skopeo copy … oci-archive:…`
    #[command(visible_alias = "load")]
    Import(Import),
    /// Bring an image here from its registry
    Pull(Pull),
    /// Make an image of a folder, or of one program that needs nothing else (FROM scratch)
    Build(Build),
    /// Take names away from images, and remove what nobody needs any more
    #[command(visible_alias = "rm")]
    Remove(Remove),
    /// Remove all images that no application needs
    Prune(Prune),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::List(asked) => list(&asked),
            Command::Import(import) => import.run(),
            Command::Pull(pull) => pull.run(),
            Command::Build(build) => build.run(),
            Command::Remove(remove) => remove.run(),
            Command::Prune(prune) => prune.run(),
        }
    }
}

/// The images of an edge that has run there.
fn open(edge: &Where) -> anyhow::Result<Images> {
    Ok(Images::open(&edge.absolute()?.join("images"))?)
}

#[derive(Serialize)]
struct Listed {
    name: String,
    digest: String,
    /// Of its layers, as they were brought.
    bytes: u64,
    layers: usize,
    /// Applications that need it; `null`: that is not known.
    used_by: Option<Vec<String>>,
    /// Since when none does, as far as it was looked at, in s since 1970 UTC.
    unused_since_s: Option<i64>,
}

fn list(asked: &Asked) -> anyhow::Result<()> {
    let images = open(&asked.edge)?;
    let needs = images_kept::needs(&asked.edge.absolute()?);
    let needs = needs.inspect_err(|error| note(format_args!("it is not known what needs them: {error}")));
    let is_known = needs.is_ok();
    let mut all = Vec::new();
    for kept in images.inventory(&needs.unwrap_or_default(), unix_now_s())? {
        // One for another machine is listed, too.
        let image = images.find(&kept.name).ok();
        all.push(Listed {
            digest: kept.digest.to_string(),
            bytes: image.as_ref().map_or(0, |image| images.bytes(image)),
            layers: image.map_or(0, |image| image.configuration.rootfs().diff_ids().len()),
            name: kept.name,
            used_by: is_known.then_some(kept.used_by),
            unused_since_s: kept.unused_since_s.filter(|_| is_known),
        });
    }
    asked.output.show(&all, |all| match all.is_empty() {
        true => "no images; take some in: selvedge image import FILE\n".to_owned(),
        false => table(
            ["NAME", "DIGEST", "SIZE", "LAYERS", "LAST USED", "USED BY"],
            &all.iter().map(row).collect::<Vec<_>>(),
        ),
    });
    Ok(())
}

fn row(image: &Listed) -> [String; 6] {
    let digest: String = image.digest.chars().take("sha256:".len() + 12).collect();
    let size = format!("{:.1} MB", image.bytes as f64 / 1e6);
    let last_used = match (&image.used_by, image.unused_since_s) {
        (None, _) => "?".to_owned(),
        (Some(_), None) => "now".to_owned(),
        (Some(_), Some(since)) => ago(unix_now_s() - since),
    };
    let used_by = match image.used_by.as_deref() {
        None => "?".to_owned(),
        Some([]) => "nothing".to_owned(),
        Some(used_by) => used_by.join(" "),
    };
    [
        image.name.clone(),
        digest,
        size,
        image.layers.to_string(),
        last_used,
        used_by,
    ]
}

/// In the largest unit that it has one of.
fn ago(seconds: i64) -> String {
    match seconds {
        ..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[derive(Args)]
pub(crate) struct Import {
    /// The file
    file: PathBuf,
    /// Of an image that has no name in it
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    edge: Where,
}

impl Import {
    fn run(self) -> anyhow::Result<()> {
        let images = open(&self.edge)?;
        let names = taken_in(&self.file, |file| {
            Ok(archive::import(&images, file, self.name.as_deref())?)
        });
        names?.iter().for_each(|name| note(format_args!("{name} is here")));
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Pull {
    /// Its name, such as registry.example/site:1
    name: String,
    /// As whom
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// A file with the password, or a token in its place
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    edge: Where,
}

impl Pull {
    fn run(self) -> anyhow::Result<()> {
        let images = open(&self.edge)?;
        let login = match (self.user, self.password_file) {
            (Some(user), Some(file)) => {
                let password = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
                let password = password.trim_end_matches(['\r', '\n']).to_owned();
                Some(Login { user, password })
            }
            _ => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting tokio")?;
        let registries = registries(images);
        runtime.block_on(registries.fetch(&self.name, login.as_ref()))?;
        note(format_args!("{} is here", self.name));
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Build {
    /// Name of the image, such as site:1
    name: String,
    /// A folder, or one program
    content: PathBuf,
    /// What is run, by its path in the image, and its arguments [default: the one program]
    #[arg(last = true, value_name = "PROGRAM")]
    entrypoint: Vec<String>,
    /// A variable of its environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<String>,
    /// Where it starts
    #[arg(long, value_name = "DIR")]
    working_dir: Option<String>,
    /// As whom it runs
    #[arg(long, value_name = "USER[:GROUP]")]
    user: Option<String>,
    #[command(flatten)]
    edge: Where,
}

fn variable(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

impl Build {
    fn run(self) -> anyhow::Result<()> {
        let Self { name, content, .. } = self;
        let images = open(&self.edge)?;
        let start = Start {
            entrypoint: match self.entrypoint.is_empty() {
                true => only_program(&content),
                false => self.entrypoint,
            },
            env: self.env,
            working_dir: self.working_dir,
            user: self.user,
        };
        let digest = build::build(&images, &name, &content, &start)?;
        note(format_args!("{name} is {digest}"));
        Ok(())
    }
}

/// As it is called in the image; nothing where there are several.
fn only_program(content: &Path) -> Vec<String> {
    let name = content.file_name().filter(|_| content.is_file());
    name.map(|name| format!("/{}", name.to_string_lossy()))
        .into_iter()
        .collect()
}

#[derive(Args)]
pub(crate) struct Remove {
    /// Names of images
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    edge: Where,
}

impl Remove {
    fn run(self) -> anyhow::Result<()> {
        let images = open(&self.edge)?;
        for name in &self.names {
            if !images.forget(name)? {
                bail!("no image {name:?} is here; selvedge image list");
            }
        }
        match local::collect_images(&images, &images_kept::containers(&self.edge.absolute()?))? {
            Some(bytes) => note(format_args!("{:.1} MB were given back", bytes as f64 / 1e6)),
            None => note("images are being taken in: what is not needed any more goes with the next removal"),
        }
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Prune {
    /// Only those that none has needed for so long, such as 7d or 12h
    #[arg(long, value_name = "AGE")]
    unused_for: Option<Retention>,
    /// Say what would go, and remove nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    edge: Where,
}

impl Prune {
    fn run(self) -> anyhow::Result<()> {
        let policy = Policy {
            unused: Some(self.unused_for.and_then(|age| age.age()).unwrap_or_default()),
            bytes: None,
        };
        let pruned = images_kept::prune(&self.edge.absolute()?, policy, self.dry_run)?;
        let Some(Pruned { names, bytes }) = pruned else {
            bail!("images are being taken in; nothing was removed: try again once they are here");
        };
        let megabytes = bytes as f64 / 1e6;
        let (goes, given) = match self.dry_run {
            true => ("would go", "would be given back"),
            false => ("is gone", "were given back"),
        };
        for name in names {
            note(format_args!("{name} {goes}"));
        }
        note(format_args!("{megabytes:.1} MB {given}"));
        Ok(())
    }
}
