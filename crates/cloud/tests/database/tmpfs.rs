//! A small disk that can fill up.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

pub(crate) struct Tmpfs {
    path: PathBuf,
}

impl Tmpfs {
    /// Of this size, as `mount` takes it; none, with a word of why, where the test may not mount.
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let path = tempfile::Builder::new()
            .prefix("selvedge-disk")
            .tempdir()
            .unwrap()
            .keep();
        let options = std::ffi::CString::new(format!("size={size},mode=0755")).unwrap();
        if let Err(error) = mount("tmpfs", &path, "tmpfs", MountFlags::empty(), options.as_c_str()) {
            std::fs::remove_dir(&path).unwrap();
            eprintln!("skipped: no tmpfs may be mounted here ({error}); as root it may");
            assert!(std::env::var_os("CI").is_none(), "CI runs the tests as root");
            return None;
        }
        Some(Tmpfs { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        unmount(&self.path, UnmountFlags::DETACH).unwrap();
        std::fs::remove_dir(&self.path).unwrap();
    }
}
