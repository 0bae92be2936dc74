//! Users of a container's own (`user_namespaces(7)`): who is root in it is nobody on the host.
//!
//! On disk files keep the numbers that they have in the container, whichever users of the host it is given: they are
//! mounted so that each is seen as its user's (`mount_setattr(2)`, `MOUNT_ATTR_IDMAP`).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process;

use oci_spec::runtime::{
    LinuxIdMapping, LinuxIdMappingBuilder, LinuxNamespaceBuilder, LinuxNamespaceType, Mount, Spec,
};
use rustix::fs::{CWD, StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// So many users there are in it, as in a host without others.
pub(super) const COUNT: u32 = 1 << 16;
/// Whoever is root in it may pass through there; the host has nothing there that a container needs.
const PLACE: &str = "/run/selvedge";
/// Below that.
const ROOT: &str = "rootfs";

/// The users of one container.
pub(super) struct Users {
    /// Who is root.
    first: u32,
    space: File,
    /// Theirs; none: that of another container of the pod.
    pub(super) network: Option<File>,
}

impl Users {
    /// Those of the host from `first` on, as a process of the same pod has them, if there is one. This process has one
    /// thread.
    pub(super) fn from(first: u32, shared_with: Option<i32>) -> io::Result<Self> {
        if let Some(pid) = shared_with {
            return Ok(Users {
                first,
                space: File::open(format!("/proc/{pid}/ns/user"))?,
                network: None,
            });
        }
        let (mut told, mut tell) = io::pipe()?;
        // SAFETY: no other thread is there; the child makes system calls alone.
        let child = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: neither takes a pointer.
                let is_apart = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } == 0;
                if is_apart && tell.write_all(b"1").is_ok() {
                    // SAFETY: it takes none. It is ended there.
                    unsafe { libc::pause() };
                }
                // SAFETY: it runs nothing else of this process.
                unsafe { libc::_exit(1) }
            }
            child => Pid::from_raw(child).expect("it is a child"),
        };
        drop(tell);
        let spaces = (|| -> io::Result<(File, File)> {
            told.read_exact(&mut [0])
                .map_err(|_| io::Error::other("the kernel allows no more user namespaces"))?;
            let of_child = PathBuf::from(format!("/proc/{}", child.as_raw_nonzero()));
            for map in ["uid_map", "gid_map"] {
                fs::write(of_child.join(map), format!("0 {first} {COUNT}"))?;
            }
            // It is theirs: who runs another command in the container becomes one of them first, and then enters it.
            Ok((
                File::open(of_child.join("ns/user"))?,
                File::open(of_child.join("ns/net"))?,
            ))
        })();
        kill_process(child, Signal::KILL)?;
        waitpid(Some(child), WaitOptions::empty())?;
        let (space, network) = spaces?;
        Ok(Users {
            first,
            space,
            network: Some(network),
        })
    }

    /// A mount of a file or directory, which is nowhere yet, in which each file is its user's. What is for all may be
    /// seen as nobody's, where its file system does not show files as those of others: those in memory do since Linux
    /// 6.3.
    pub(super) fn seen(&self, source: &Path, is_for_all: bool) -> io::Result<OwnedFd> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let seen = open_tree(CWD, source, flags)?;
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_IDMAP,
            attr_clr: 0,
            propagation: 0,
            userns_fd: self.space.as_raw_fd() as u64,
        };
        // SAFETY: both pointers are to what is there for as long as the call takes, of the length that is said.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                seen.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        let error = io::Error::last_os_error();
        match done {
            0 => Ok(seen),
            _ if is_for_all && error.raw_os_error() == Some(libc::EINVAL) => Ok(seen),
            _ => Err(io::Error::other(format!(
                "its file system does not show files as those of other users ({error}), which hostUsers: false needs"
            ))),
        }
    }

    /// Gives what a container is to write to its root.
    pub(super) fn give(&self, directory: &Path) -> io::Result<()> {
        chown(directory, Some(self.first), Some(self.first))
    }

    /// Has `root` and the mounts be where whoever is root in the container finds them, in this mount name space.
    pub(super) fn place(root: &Path, mounts: &[OwnedFd]) -> io::Result<(PathBuf, Vec<PathBuf>)> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let root = open_tree(CWD, root, flags)?;
        let place = Path::new(PLACE);
        // Whoever runs another command in it later begins there, outside, where it is empty.
        fs::create_dir_all(place.join(ROOT))?;
        mount("tmpfs", place, "tmpfs", MountFlags::NODEV, Some(c"mode=0755,size=1m"))?;
        let root_place = place.join(ROOT);
        Self::put(&root, &root_place)?;
        let mounts = mounts.iter().enumerate().map(|(number, mount)| {
            let place = place.join(format!("part-{number}"));
            Self::put(mount, &place).map(|()| place)
        });
        Ok((root_place, mounts.collect::<io::Result<_>>()?))
    }

    /// Has a mount that is nowhere yet be at `place`, which is made for it.
    pub(super) fn put(mount: &OwnedFd, place: &Path) -> io::Result<()> {
        let is_directory = File::from(mount.try_clone()?).metadata()?.is_dir();
        match is_directory {
            true => fs::create_dir(place)?,
            false => drop(File::create_new(place)?),
        }
        Ok(move_mount(
            mount,
            "",
            CWD,
            place,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )?)
    }

    /// Has a mount of what is at `source` allow no more than that does, which nobody among them may change
    /// (`mount_namespaces(7)`).
    pub(super) fn limited(mut mount: Mount, source: &Path) -> io::Result<Mount> {
        if statvfs(source)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            let mut options = mount.options().clone().unwrap_or_default();
            options.push("noexec".to_owned());
            mount.set_options(Some(options));
        }
        Ok(mount)
    }

    /// Has a container be among them.
    pub(super) fn write(&self, config: &mut Spec, root: &Path) -> io::Result<()> {
        if let Some(of) = config.root_mut() {
            of.set_path(root.to_owned());
        }
        let mapping = || -> io::Result<Vec<LinuxIdMapping>> {
            let mapping = LinuxIdMappingBuilder::default()
                .container_id(0_u32)
                .host_id(self.first)
                .size(COUNT)
                .build();
            Ok(vec![mapping.map_err(io::Error::other)?])
        };
        if let Some(linux) = config.linux_mut() {
            linux.set_uid_mappings(Some(mapping()?));
            linux.set_gid_mappings(Some(mapping()?));
            if let Some(spaces) = linux.namespaces_mut() {
                let own = LinuxNamespaceBuilder::default()
                    .typ(LinuxNamespaceType::User)
                    .path(format!("/proc/{}/fd/{}", process::id(), self.space.as_raw_fd()))
                    .build();
                spaces.push(own.map_err(io::Error::other)?);
            }
        }
        Ok(())
    }
}
