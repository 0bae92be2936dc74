//! Starts a container of an image: puts its layers together where nobody else sees them, and has its runner start it.
//!
//! The file system is mounted for the container alone: it goes with its last process, however that ends.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use oci_spec::runtime::{LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType, Mount, Spec};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::Running;
use super::users::{COUNT, Users};
use crate::image::unpack::place::Place;
use crate::image::users::{self, Ids};
use crate::instance::{Bind, Bundle, Identity};
use crate::local::bundle::{ROOT, UPPER, bind};
use crate::local::runner::{CONTAINER, state_dir};
use crate::network::attach;
use crate::sockets::{self, Listening};

/// Of what a runner complains about.
const WORDS_BYTES: u64 = 4 << 10;
/// What a runner puts before the reason.
const PREAMBLES: [&str; 3] = [
    "runc run failed: ",
    "unable to start container process: ",
    "error during container init: ",
];

/// Its sockets are the shim's, which has them where the container is to have them.
pub(super) fn start(directory: &Path, bundle: &Bundle, sockets: &[Listening]) -> io::Result<Running> {
    let shared_with = bundle.network.as_ref().and_then(|network| network.shared_with);
    let users = bundle.first_user.map(|first| Users::from(first, shared_with));
    let users = users.transpose().map_err(of("its users"))?;
    if let Some(attachment) = &bundle.network {
        let of_users = users.as_ref().and_then(|users| users.network.as_ref());
        attach::enter(attachment, of_users).map_err(of("its network"))?;
    }
    let of_host = File::open("/proc/self/ns/mnt")?;
    put_together(directory, &bundle.layers, users.as_ref())?;
    let ids = ids(&directory.join(ROOT), &bundle.identity)?;
    if users.is_some() && ids.uid.max(ids.gid) >= COUNT {
        let message = format!(
            "user {}, group {}: with hostUsers: false there are those below {}",
            ids.uid, ids.gid, COUNT
        );
        return Err(io::Error::other(message));
    }
    let sources = sources(directory, &bundle.binds)?;
    let mut config = bundle.config.clone();
    let sources = match &users {
        None => sources,
        Some(users) => {
            let wanted = sources.iter().zip(&bundle.binds);
            let seen = wanted.map(|(source, wanted)| users.seen(source, wanted.is_for_all).map_err(naming(source)));
            let seen = seen.collect::<io::Result<Vec<_>>>()?;
            let (root, sources) = Users::place(&directory.join(ROOT), &seen)?;
            users.write(&mut config, &root)?;
            sources
        }
    };
    let binds = bundle.binds.iter().zip(sources);
    let binds = binds.map(|(wanted, source)| {
        let mount = bind(&source, &wanted.target, wanted.is_read_only);
        match users {
            Some(_) => Users::limited(mount, &source).map_err(naming(&source)),
            None => Ok(mount),
        }
    });
    let binds = binds.collect::<io::Result<_>>()?;
    write_config(directory, config, bundle.network.is_some(), &ids, binds, sockets)?;
    let pid_file = state_dir(directory).join("container.pid");
    let mut runner = Command::new(&bundle.runner);
    runner
        .args(["--log", "/dev/null", "--root"])
        .arg(state_dir(directory))
        .args([
            "run",
            "--detach",
            "--preserve-fds",
            &sockets.len().to_string(),
            "--bundle",
        ])
        .arg(directory)
        .arg("--pid-file")
        .arg(&pid_file)
        .arg(CONTAINER)
        .env_clear()
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor takes a lock.
    unsafe {
        // Whoever gave up waiting for the shim has ended it.
        runner.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let mut running = runner.spawn().map_err(naming(&bundle.runner))?;
    let (output, mut errors) = (
        running.stdout.take().expect("it is piped"),
        running.stderr.take().expect("it is piped"),
    );
    let status = running.wait()?;
    if !status.success() {
        let mut words = String::new();
        let _ = (&mut errors).take(WORDS_BYTES).read_to_string(&mut words);
        return Err(io::Error::other(match reason(&words) {
            "" => format!("{} ended: {status}", bundle.runner.display()),
            reason => reason.to_owned(),
        }));
    }
    // A namespace keeps all that the host had mounted when it was made: a disk that the host lets go could not be had
    // back.
    move_into_link_name_space(of_host.as_fd(), Some(LinkNameSpaceType::Mount))?;
    let text = fs::read_to_string(&pid_file).map_err(naming(&pid_file))?;
    let pid = text.trim().parse().ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other(format!("{}: {text:?} is no process", pid_file.display())))?;
    Ok(Running {
        pid,
        address: bundle.network.as_ref().map(|attachment| attachment.address),
        output,
        errors,
    })
}

fn put_together(directory: &Path, layers: &[PathBuf], users: Option<&Users>) -> io::Result<()> {
    // SAFETY: no other thread of the shim is there yet.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS)? };
    // What the host mounts later is seen here, and nothing of here by the host.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let [root, upper, work, links] = [ROOT, UPPER, "work", "layers"].map(|name| directory.join(name));
    for directory in [&root, &upper, &work, &links] {
        fs::create_dir(directory).map_err(naming(directory))?;
    }
    if let Some(users) = users {
        users.give(&upper)?;
    }
    // The names of all layers have to be in a page of memory together.
    std::env::set_current_dir(directory)?;
    let mut below = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let link = format!("layers/{number}");
        match users {
            None => symlink(layer, &link)?,
            Some(users) => Users::put(&users.seen(layer, false).map_err(naming(layer))?, Path::new(&link))?,
        }
        below.insert(0, link);
    }
    if below.is_empty() {
        below.push("layers".to_owned());
    }
    // It is never used again once the host has been switched off, so that it need not be on disk then.
    let options = format!("lowerdir={},upperdir={UPPER},workdir=work,volatile", below.join(":"));
    let options = CString::new(options).expect("there is no zero in it");
    mount("overlay", ROOT, "overlay", MountFlags::NODEV, Some(options.as_c_str())).map_err(|errno| {
        io::Error::other(format!(
            "its {} layers could not be put together: {errno}",
            layers.len()
        ))
    })
}

fn ids(root: &Path, identity: &Identity) -> io::Result<Ids> {
    // Another user is not in the groups of the image's, whom nobody need know then.
    let user = identity
        .uid
        .map_or_else(|| identity.of_image.clone(), |uid| uid.to_string());
    let of_user = users::of(root, &user).map_err(io::Error::other)?;
    let ids = Ids {
        uid: of_user.uid,
        gid: identity.gid.unwrap_or(of_user.gid),
        others: of_user.others.into_iter().chain(identity.other_gid).collect(),
    };
    match identity.is_never_root && ids.uid == 0 {
        true => Err(io::Error::other(
            "runAsNonRoot is true, and the image is run by root; write securityContext.runAsUser",
        )),
        false => Ok(ids),
    }
}

/// Where what is bound is found. Parts of volumes are mounted here, where no link in a volume leads out of it, by the
/// container's hand or before its time.
fn sources(directory: &Path, binds: &[Bind]) -> io::Result<Vec<PathBuf>> {
    let mut sources = Vec::new();
    for (number, wanted) in binds.iter().enumerate() {
        sources.push(match &wanted.sub_path {
            None => wanted.source.clone(),
            Some(part) => {
                let place = directory.join(format!("part-{number}"));
                bind_part(&wanted.source, part, &place).map_err(naming(&wanted.source.join(part)))?;
                place
            }
        });
    }
    Ok(sources)
}

fn bind_part(volume: &Path, part: &str, place: &Path) -> io::Result<()> {
    let volume = Place::open(volume)?;
    let part = volume.part(part)?;
    match part.metadata()?.is_dir() {
        true => fs::create_dir(place)?,
        false => drop(File::create_new(place)?),
    }
    let source = format!("/proc/self/fd/{}", part.as_raw_fd());
    Ok(mount_bind(source, place)?)
}

fn write_config(
    directory: &Path,
    mut config: Spec,
    has_own_network: bool,
    ids: &Ids,
    binds: Vec<Mount>,
    sockets: &[Listening],
) -> io::Result<()> {
    if let Some(mounts) = config.mounts_mut() {
        mounts.extend(binds);
    }
    if let Some(process) = config.process_mut() {
        let user = process.user_mut();
        user.set_uid(ids.uid);
        user.set_gid(ids.gid);
        user.set_additional_gids(Some(ids.others.clone()));
        if let (Some(env), false) = (process.env_mut(), sockets.is_empty()) {
            let told = sockets::environment(sockets);
            env.extend(told.map(|(name, value)| format!("{name}={value}")));
            // It is the first process of the container.
            env.push("LISTEN_PID=1".to_owned());
        }
    }
    if has_own_network
        && let Some(linux) = config.linux_mut()
        && let Some(namespaces) = linux.namespaces_mut()
    {
        // Whoever runs a command in it later is led there by this, too.
        namespaces.push(own_network()?);
    }
    let path = directory.join("config.json");
    let mut file = BufWriter::new(File::create(&path).map_err(naming(&path))?);
    serde_json::to_writer(&mut file, &config)?;
    file.flush().map_err(naming(&path))
}

/// The one that the shim is in, for as long as it is there.
fn own_network() -> io::Result<LinuxNamespace> {
    let namespace = LinuxNamespaceBuilder::default()
        .typ(LinuxNamespaceType::Network)
        .path(format!("/proc/{}/ns/net", std::process::id()))
        .build();
    namespace.map_err(io::Error::other)
}

/// Its last words, without what says no more than that it failed.
fn reason(words: &str) -> &str {
    let mut reason = words.trim().lines().last().unwrap_or_default();
    for preamble in PREAMBLES {
        reason = reason.strip_prefix(preamble).unwrap_or(reason);
    }
    reason
}

fn naming(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    of(&path.display().to_string())
}

fn of(what: &str) -> impl FnOnce(io::Error) -> io::Error + use<> {
    let what = what.to_owned();
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}
