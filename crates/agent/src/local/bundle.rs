//! What a container of an image is, as the OCI runtime specification has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oci_spec::image;
use oci_spec::runtime::{
    Capabilities, Capability, LinuxBuilder, LinuxCapabilities, LinuxCapabilitiesBuilder, LinuxDevice,
    LinuxDeviceBuilder, LinuxDeviceCgroup, LinuxDeviceCgroupBuilder, LinuxDeviceType, LinuxNamespace,
    LinuxNamespaceBuilder, LinuxNamespaceType, LinuxResourcesBuilder, Mount, MountBuilder, ProcessBuilder, RootBuilder,
    SpecBuilder, get_default_maskedpaths, get_default_mounts, get_default_readonly_paths,
};
use rustix::fs::{major, minor};
use rustix::process::Signal;

use super::{PATH, seccomp};
use crate::cgroup::Cgroup;
use crate::image::store::Image;
use crate::instance::{Bind, Bundle, Identity};
use crate::network::Attachment;
use crate::runtime::{Launch, Rights, Volume};

/// What all have that it is not taken from: what programs need that start as root and go on as somebody else.
const CAPABILITIES: [&str; 8] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
];
/// Its own: processes, host name, files, messages, groups. Its network is the host's, or is made by its shim.
const NAMESPACES: [LinuxNamespaceType; 5] = [
    LinuxNamespaceType::Pid,
    LinuxNamespaceType::Ipc,
    LinuxNamespaceType::Uts,
    LinuxNamespaceType::Mount,
    LinuxNamespaceType::Cgroup,
];
/// How names of hosts become addresses: as the host has it, or as its own network does.
const NAMES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// Of what the kernel shows, beyond what others hide: how warm the machine is tells what others on it compute.
const MASKED: [&str; 2] = ["/sys/devices/virtual/powercap", "/proc/interrupts"];
/// Of Linux (`HOST_NAME_MAX`), as far as a label of a name has room (RFC 1035, 2.3.4).
const HOSTNAME_BYTES_MAX: usize = 63;
/// What names of services end with.
const DOMAIN: &str = "selvedge.local";
/// Below its bundle.
pub(crate) const ROOT: &str = "rootfs";
/// What the container writes, beside its layers.
pub(crate) const UPPER: &str = "upper";

/// The bundle of a launch.
///
/// # Errors
/// What of it cannot be, in words.
pub(super) fn of(
    launch: &Launch,
    image: &Image,
    layers: Vec<PathBuf>,
    runner: PathBuf,
    group: &Cgroup,
    network: Option<Attachment>,
) -> Result<Bundle, String> {
    let built = image.configuration.config().clone().unwrap_or_default();
    let args = command(launch, &built);
    if args.is_empty() {
        return Err(format!(
            "the image {} does not say what is to be run; write a command",
            launch.image
        ));
    }
    let of_image = built.working_dir().as_deref().filter(|path| !path.is_empty());
    let working_dir = launch.working_dir.as_deref().or(of_image.map(Path::new));
    let capabilities = capabilities(&launch.rights)?;
    let has_32_bits = seccomp::has_32_bits(&layers, &args[0]);
    let none = Capabilities::new();
    let filter = seccomp::filter(capabilities.bounding().as_ref().unwrap_or(&none), has_32_bits);
    let process = ProcessBuilder::default()
        .terminal(false)
        .args(args)
        .env(environment(launch, &built))
        .cwd(working_dir.unwrap_or(Path::new("/")))
        .no_new_privileges(!launch.rights.may_gain)
        .capabilities(capabilities)
        .rlimits(Vec::new())
        .build();
    let root = RootBuilder::default()
        .path(ROOT)
        .readonly(launch.rights.is_root_read_only)
        .build();
    let (devices, allowed) = devices(&launch.devices)?;
    let linux = LinuxBuilder::default()
        .devices(devices)
        .cgroups_path(group.path_for_runner())
        .namespaces(NAMESPACES.map(namespace).to_vec())
        .resources(
            LinuxResourcesBuilder::default()
                .devices(allowed)
                .build()
                .expect("nothing is missing"),
        )
        .seccomp(filter)
        .masked_paths([get_default_maskedpaths(), MASKED.map(str::to_owned).to_vec()].concat())
        .readonly_paths(get_default_readonly_paths())
        .build();
    let config = SpecBuilder::default()
        .version("1.0.2")
        .root(root.expect("nothing is missing"))
        .mounts(mounts(launch))
        .process(process.expect("nothing is missing"))
        .linux(linux.expect("nothing is missing"));
    let mut config = config.build().expect("nothing is missing");
    config.set_hostname(hostname(launch));
    Ok(Bundle {
        runner,
        layers,
        binds: Vec::new(),
        config,
        identity: Identity {
            of_image: built.user().clone().unwrap_or_default(),
            uid: launch.uid,
            gid: launch.gid,
            is_never_root: launch.rights.is_never_root,
            other_gid: launch.volumes_gid,
        },
        first_user: network
            .as_ref()
            .filter(|_| launch.has_own_users)
            .map(|network| first_user(network.address)),
        network,
        stop_signal: built.stop_signal().as_deref().map_or(Signal::TERM.as_raw(), signal),
    })
}

/// Who is root in a pod that has users of its own: of an edge no two pods that run have any together.
fn first_user(address: Ipv4Addr) -> u32 {
    /// The numbers that systemd leaves to containers end before `0x7000_0000`.
    const FIRST: u32 = 0x6000_0000;
    FIRST + ((u32::from(address) & 0xfff) << 16)
}

/// What it calls itself; `None`: as the host does.
pub(crate) fn hostname(launch: &Launch) -> Option<String> {
    let own = || {
        launch
            .has_own_network
            .then(|| format!("{}-{}", launch.pod.application, launch.pod.replica))
    };
    let mut name = launch.hostname.clone().or_else(own)?;
    name.truncate(HOSTNAME_BYTES_MAX);
    Some(name)
}

/// Files by which a container with a network of its own makes addresses of names; they are written to `directory`.
pub(crate) fn names(launch: &Launch, network: &Attachment, directory: &Path) -> io::Result<Vec<Bind>> {
    let Attachment { address, gateway, .. } = network;
    let (tenant, hostname) = (&launch.pod.tenant, hostname(launch).unwrap_or_default());
    let texts = [
        format!("nameserver {gateway}\nsearch {tenant}.svc.{DOMAIN} svc.{DOMAIN}\noptions ndots:5\n"),
        format!("127.0.0.1 localhost\n::1 localhost\n{address} {hostname}\n"),
    ];
    let mut binds = Vec::new();
    for (target, text) in NAMES.iter().map(Path::new).zip(texts) {
        let source = directory.join(target.file_name().unwrap_or_default());
        fs::write(&source, text)?;
        binds.push(Bind {
            source,
            sub_path: None,
            target: target.to_owned(),
            is_read_only: true,
            is_for_all: true,
        });
    }
    Ok(binds)
}

/// The one of this name, and what it is.
///
/// # Errors
/// There is none; in words.
pub(crate) fn device_of_host(name: &str) -> Result<(PathBuf, Metadata), String> {
    let path = Path::new("/dev").join(name);
    let about = path
        .metadata()
        .map_err(|error| format!("the host's device {}: {error}", path.display()))?;
    match about.file_type() {
        kind if kind.is_char_device() || kind.is_block_device() => Ok((path, about)),
        _ => Err(format!("{} is no device of the host", path.display())),
    }
}

/// Those of the host that it is given, which any user in it may use, and which ones it may: those, and what runners
/// allow by themselves (`/dev/null` and its like, terminals).
fn devices(names: &[String]) -> Result<(Vec<LinuxDevice>, Vec<LinuxDeviceCgroup>), String> {
    let none = LinuxDeviceCgroupBuilder::default().allow(false).access("rwm").build();
    let (mut devices, mut allowed) = (Vec::new(), vec![none.expect("nothing is missing")]);
    for name in names {
        let (path, about) = device_of_host(name)?;
        let kind = match about.file_type().is_block_device() {
            true => LinuxDeviceType::B,
            false => LinuxDeviceType::C,
        };
        let (major, minor) = (i64::from(major(about.rdev())), i64::from(minor(about.rdev())));
        let device = LinuxDeviceBuilder::default()
            .path(path)
            .typ(kind)
            .major(major)
            .minor(minor)
            .file_mode(0o666_u32)
            .build();
        let access = LinuxDeviceCgroupBuilder::default()
            .allow(true)
            .typ(kind)
            .major(major)
            .minor(minor)
            .access("rw")
            .build();
        devices.push(device.expect("nothing is missing"));
        allowed.push(access.expect("nothing is missing"));
    }
    Ok((devices, allowed))
}

/// As Kubernetes has it: who gives a command means all of it.
fn command(launch: &Launch, built: &image::Config) -> Vec<String> {
    let of_image = |words: &Option<Vec<String>>| words.clone().unwrap_or_default();
    match (launch.command.is_empty(), launch.args.is_empty()) {
        (true, true) => [of_image(built.entrypoint()), of_image(built.cmd())].concat(),
        (true, false) => [of_image(built.entrypoint()), launch.args.clone()].concat(),
        (false, _) => [launch.command.clone(), launch.args.clone()].concat(),
    }
}

fn environment(launch: &Launch, built: &image::Config) -> Vec<String> {
    let of_image = built
        .env()
        .iter()
        .flatten()
        .filter_map(|variable| variable.split_once('='));
    let own = launch.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all: BTreeMap<&str, &str> = [PATH].into_iter().chain(of_image).chain(own).collect();
    all.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Of Linux.
///
/// # Errors
/// There is none of a name, or all are wanted.
pub(crate) fn capabilities(rights: &Rights) -> Result<LinuxCapabilities, String> {
    let is_all = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case("ALL"));
    if is_all(&rights.added) {
        return Err("capabilities.add has ALL, which is the rights of the host's root; name those it needs".to_owned());
    }
    let mut names: BTreeSet<&str> = match is_all(&rights.dropped) {
        true => BTreeSet::new(),
        false => CAPABILITIES.into(),
    };
    let known = |name: &&str| {
        let known = Capability::from_str(name);
        known.map_err(|_| format!("there is no capability {name:?} of Linux; one is NET_BIND_SERVICE"))
    };
    for dropped in rights.dropped.iter().filter(|name| !name.eq_ignore_ascii_case("ALL")) {
        let dropped = without_prefix(dropped);
        known(&dropped)?;
        names.remove(dropped);
    }
    names.extend(rights.added.iter().map(|name| without_prefix(name)));
    let capabilities: Capabilities = names.iter().map(known).collect::<Result<_, String>>()?;
    let built = LinuxCapabilitiesBuilder::default()
        .bounding(capabilities.clone())
        .effective(capabilities.clone())
        .permitted(capabilities)
        .inheritable(Capabilities::new())
        .ambient(Capabilities::new())
        .build();
    Ok(built.expect("nothing is missing"))
}

fn without_prefix(name: &str) -> &str {
    name.strip_prefix("CAP_").unwrap_or(name)
}

fn namespace(kind: LinuxNamespaceType) -> LinuxNamespace {
    let namespace = LinuxNamespaceBuilder::default().typ(kind).build();
    namespace.expect("nothing is missing")
}

fn mounts(launch: &Launch) -> Vec<Mount> {
    let of_host = NAMES.iter().filter(|_| !launch.has_own_network).map(Path::new);
    let names = of_host.filter(|file| file.is_file()).map(|file| bind(file, file, true));
    let in_memory = launch.mounts.iter().filter_map(|mount| match mount.volume {
        Volume::Memory { bytes_max } => Some(memory(&mount.path, bytes_max)),
        _ => None,
    });
    get_default_mounts().into_iter().chain(names).chain(in_memory).collect()
}

fn memory(path: &Path, bytes_max: Option<u64>) -> Mount {
    let mut options = ["nosuid", "nodev", "mode=1777"].map(str::to_owned).to_vec();
    options.extend(bytes_max.map(|bytes| format!("size={bytes}")));
    let mount = MountBuilder::default()
        .destination(path)
        .source("tmpfs")
        .typ("tmpfs")
        .options(options)
        .build();
    mount.expect("nothing is missing")
}

/// Files of the host; devices among them and other users' rights are of no effect.
pub(crate) fn bind(source: &Path, target: &Path, is_read_only: bool) -> Mount {
    let access = if is_read_only { "ro" } else { "rw" };
    let options = ["bind", "rprivate", "nosuid", "nodev", access]
        .map(str::to_owned)
        .to_vec();
    let mount = MountBuilder::default()
        .destination(target)
        .source(source)
        .typ("bind")
        .options(options)
        .build();
    mount.expect("nothing is missing")
}

/// Of its name or number; those that only some programs have a meaning for are not sent.
fn signal(text: &str) -> i32 {
    let name = text.to_ascii_uppercase();
    let named = match name.strip_prefix("SIG").unwrap_or(&name) {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "ABRT" => Signal::ABORT,
        "KILL" => Signal::KILL,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "WINCH" => Signal::WINCH,
        number => number
            .parse()
            .ok()
            .and_then(Signal::from_named_raw)
            .unwrap_or(Signal::TERM),
    };
    named.as_raw()
}
