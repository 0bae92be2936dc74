//! What containers log in by at the edge that runs them: a file for each, renewed in its place. Whoever reads it anew
//! for each connection need not be started again.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::runtime::{Error, Kind, Launch, Mount, Pod, Volume};
use crate::shim::unix_now_ms;
use crate::supervise::Key;
use crate::tree::remove_tree;

/// Where a container of an image sees its file.
const SEEN: &str = "/run/selvedge/hub";
/// Below the directory of a start: what a container of an image sees.
const SHARED: &str = "hub";
/// The file.
const TOKEN: &str = "token";
/// Before it has its name.
const NEW: &str = ".token.new";
/// A file that is older is written anew.
pub const RENEWED_AFTER: Duration = Duration::from_secs(30 * 60);
/// Between two looks at that: a clock that is set makes a file too old, or of the future.
const LOOK: Duration = Duration::from_secs(10);

/// Who gives applications what they log in by. All of it may block.
pub trait Issuer: Send + Sync + fmt::Debug {
    /// What an application of a tenant shows, good for twice [`RENEWED_AFTER`] at least; `None`: it is given nothing.
    ///
    /// # Errors
    /// It cannot be made now.
    fn issue(&self, tenant: &str, application: &str) -> io::Result<Option<String>>;

    /// Variables that tell a container of a pod where it logs in, as whom, and by which `file`.
    fn variables(&self, pod: &Pod, has_own_network: bool, file: &Path) -> Vec<(String, String)>;
}

/// The files of the containers that run.
#[derive(Clone, Debug)]
pub struct Logins {
    root: PathBuf,
    issuer: Arc<dyn Issuer>,
}

impl Logins {
    /// In the directory `root`, which is made where it is not there; in it is a directory for each start.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn at(root: &Path, issuer: Arc<dyn Issuer>) -> io::Result<Self> {
        // Programs of the host come to their own, and nobody sees the names of others.
        DirBuilder::new().recursive(true).mode(0o711).create(root)?;
        fs::set_permissions(root, Permissions::from_mode(0o711))?;
        Ok(Logins {
            root: root.to_owned(),
            issuer,
        })
    }

    /// Adds to what is to be started what it logs in by, and where it is told that; what its manifest says of the same
    /// variables counts.
    pub(crate) fn furnish(&self, name: &str, launch: &mut Launch) -> Result<(), Error> {
        if launch.has_no_login {
            return Ok(());
        }
        let Pod {
            tenant, application, ..
        } = &launch.pod;
        let token = match self.issuer.issue(tenant, application) {
            Ok(Some(token)) => token,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::warn!(container = name, %error, "it has nothing to log in by yet");
                String::new()
            }
        };
        let is_program = launch.kind == Kind::Process;
        let shared = self.make(name, is_program, launch.uid, &token)?;
        let seen = if is_program { shared.as_path() } else { Path::new(SEEN) };
        let told = self
            .issuer
            .variables(&launch.pod, launch.has_own_network, &seen.join(TOKEN));
        let is_new = |(name, _): &(String, String)| launch.env.iter().all(|(known, _)| known != name);
        let told: Vec<_> = told.into_iter().filter(is_new).collect();
        launch.env.extend(told);
        if !is_program {
            launch.mounts.push(Mount {
                volume: Volume::Login(shared),
                path: PathBuf::from(SEEN),
                sub_path: None,
                is_read_only: true,
            });
        }
        Ok(())
    }

    /// A container of an image is alone with its own, whoever it runs as; of the host's users only a program's own
    /// comes to it.
    fn make(&self, name: &str, is_program: bool, uid: Option<u32>, token: &str) -> io::Result<PathBuf> {
        let directory = self.root.join(name);
        self.forget(name)?;
        let make = |path: &Path, mode| {
            DirBuilder::new().create(path)?;
            fs::set_permissions(path, Permissions::from_mode(mode))
        };
        let shared = directory.join(SHARED);
        make(&directory, if is_program { 0o711 } else { 0o700 })?;
        make(&shared, if is_program { 0o711 } else { 0o755 })?;
        let (uid, mode) = match is_program {
            true => (uid, 0o400),
            false => (None, 0o444),
        };
        write(&shared, token, uid, mode)?;
        Ok(shared)
    }

    /// Of a container that is no more.
    pub(crate) fn forget(&self, name: &str) -> io::Result<()> {
        match remove_tree(&self.root.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Those of containers that are not in the directory `containers`, as after a kill in between.
    ///
    /// # Errors
    /// Of a file.
    pub fn forget_others(&self, containers: &Path) -> io::Result<()> {
        for name in self.names()? {
            if !containers.join(&name).exists() {
                self.forget(&name)?;
            }
        }
        Ok(())
    }

    /// Renews all now, as where what signs them has changed.
    pub async fn renew(&self) {
        self.renew_older_than(Duration::ZERO).await;
    }

    /// Renews all now, and each from then on once it is [`RENEWED_AFTER`] old.
    pub async fn keep_renewed(self) {
        self.renew().await;
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.renew_older_than(RENEWED_AFTER).await;
        }
    }

    async fn renew_older_than(&self, age: Duration) {
        let logins = self.clone();
        let renewing = tokio::task::spawn_blocking(move || {
            for name in logins.names().unwrap_or_default() {
                if let Err(error) = logins.renew_one(&name, age) {
                    tracing::warn!(container = name, %error, "what it logs in by is not renewed");
                }
            }
        });
        renewing.await.expect("renewing files does not panic");
    }

    fn renew_one(&self, name: &str, age: Duration) -> io::Result<()> {
        let shared = self.root.join(name).join(SHARED);
        let about = match fs::symlink_metadata(shared.join(TOKEN)) {
            Ok(about) => about,
            // It is being made, or removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // What is of the future was written before the clock was set.
        let old_s = unix_now_ms() / 1_000 - about.mtime();
        let is_fresh = (0..age.as_secs() as i64).contains(&old_s);
        if is_fresh && about.len() > 0 {
            return Ok(());
        }
        let Some(Key { tenant, application }) = Key::of_container(name) else {
            return Ok(());
        };
        match self.issuer.issue(&tenant, &application)? {
            Some(token) => write(&shared, &token, Some(about.uid()), about.mode() & 0o444),
            None => Ok(()),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.root)?;
        let name = |entry: io::Result<fs::DirEntry>| Some(entry.map(|entry| entry.file_name().into_string().ok()));
        entries.filter_map(name).filter_map(Result::transpose).collect()
    }
}

/// In one step: whoever reads it has the one or the other. Nobody but the agent writes in its directory.
fn write(shared: &Path, token: &str, uid: Option<u32>, mode: u32) -> io::Result<()> {
    let new = shared.join(NEW);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(token.as_bytes())?;
    fchown(&file, uid, None)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    fs::rename(&new, shared.join(TOKEN))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts what it gives out.
    #[derive(Debug, Default)]
    struct Counting(AtomicU32);

    impl Issuer for Counting {
        fn issue(&self, tenant: &str, application: &str) -> io::Result<Option<String>> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            Ok((application != "none").then(|| format!("{tenant}/{application} {number}")))
        }

        fn variables(&self, _: &Pod, _: bool, file: &Path) -> Vec<(String, String)> {
            vec![
                ("FILE".to_owned(), file.display().to_string()),
                ("KEPT".to_owned(), "no".to_owned()),
            ]
        }
    }

    fn launch(kind: Kind, application: &str) -> Launch {
        let pod = Pod {
            tenant: "a".to_owned(),
            application: application.to_owned(),
            replica: 0,
        };
        Launch {
            env: vec![("KEPT".to_owned(), "yes".to_owned())],
            ..Launch::of(kind, "/bin/web", pod)
        }
    }

    #[tokio::test]
    async fn a_file_is_renewed_where_it_is_and_goes_with_its_container() {
        let place = tempfile::tempdir().unwrap();
        let logins = Logins::at(&place.path().join("logins"), Arc::<Counting>::default()).unwrap();
        let mut program = launch(Kind::Process, "site");
        logins.furnish("a+site+0+main+0f+0", &mut program).unwrap();
        let file = PathBuf::from(&program.env[1].1);
        assert_eq!(fs::read_to_string(&file).unwrap(), "a/site 0");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o400);
        assert_eq!(
            (program.env.len(), program.mounts.len()),
            (2, 0),
            "what the manifest says counts"
        );
        logins.renew_older_than(RENEWED_AFTER).await;
        assert_eq!(fs::read_to_string(&file).unwrap(), "a/site 0", "it is fresh");
        logins.renew().await;
        assert_eq!(fs::read_to_string(&file).unwrap(), "a/site 1");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o400);
        logins.forget_others(place.path()).unwrap();
        assert!(!file.exists(), "there is no such container");
    }

    #[test]
    fn a_container_of_an_image_sees_its_directory_and_one_without_a_login_none() {
        let place = tempfile::tempdir().unwrap();
        let logins = Logins::at(&place.path().join("logins"), Arc::<Counting>::default()).unwrap();
        let mut image = launch(Kind::Oci, "site");
        logins.furnish("a+site+0+main+0f+0", &mut image).unwrap();
        assert_eq!(image.env[1].1, "/run/selvedge/hub/token");
        assert!(image.mounts[0].is_read_only);
        let mut other = launch(Kind::Oci, "none");
        logins.furnish("a+none+0+main+0f+0", &mut other).unwrap();
        assert!(other.mounts.is_empty());
        let mut without = launch(Kind::Oci, "site");
        without.has_no_login = true;
        logins.furnish("a+site+1+main+0f+0", &mut without).unwrap();
        assert!(without.mounts.is_empty());
    }
}
