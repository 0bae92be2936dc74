//! How fast a control group may read from disks and write to them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup::write;

/// Bytes each second, of each disk of the host by itself; `None`: as fast as it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) read_bytes_per_s: Option<u64>,
    pub(crate) write_bytes_per_s: Option<u64>,
}

/// A disk of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// `MAJOR:MINOR`.
    number: String,
    /// In `/dev`.
    pub(crate) path: PathBuf,
}

/// Those that are there, whole: the kernel limits no partition.
pub(crate) fn disks() -> Vec<Disk> {
    let of_kernel = Path::new("/sys/block");
    let names = fs::read_dir(of_kernel).into_iter().flatten().filter_map(Result::ok);
    let disk = |name: &str| {
        let about = |what: &str| fs::read_to_string(of_kernel.join(name).join(what)).ok();
        let is_empty = about("size")?.trim() == "0";
        // The kernel writes "!" for the "/" of a name such as `cciss/c0d0`.
        let path = Path::new("/dev").join(name.replace('!', "/"));
        let number = about("dev")?.trim().to_owned();
        (!is_empty && path.exists()).then_some(Disk { number, path })
    };
    names.filter_map(|entry| disk(entry.file_name().to_str()?)).collect()
}

impl Rates {
    pub(crate) fn is_none(self) -> bool {
        self == Rates::default()
    }

    /// Keeps the group of version 1 with this directory in `blkio` within them.
    pub(crate) fn keep_1(self, directory: &Path) -> io::Result<()> {
        for (name, rate) in [
            ("blkio.throttle.read_bps_device", self.read_bytes_per_s),
            ("blkio.throttle.write_bps_device", self.write_bytes_per_s),
        ] {
            let file = directory.join(name);
            // 0 lifts a limit.
            keep(&file, rate.is_none(), |disk| {
                format!("{} {}", disk.number, rate.unwrap_or(0))
            })?;
        }
        Ok(())
    }

    /// The same for version 2.
    pub(crate) fn keep_2(self, directory: &Path) -> io::Result<()> {
        let word = |rate: Option<u64>| rate.map_or("max".to_owned(), |rate| rate.to_string());
        let (read, written) = (word(self.read_bytes_per_s), word(self.write_bytes_per_s));
        let line = |disk: &Disk| format!("{} rbps={read} wbps={written}", disk.number);
        keep(&directory.join("io.max"), self.is_none(), line)
    }
}

/// Writes a line for each disk to a file of the kernel's; where nothing is asked for, only if something is limited.
fn keep(file: &Path, is_free: bool, line: impl Fn(&Disk) -> String) -> io::Result<()> {
    if is_free && fs::read_to_string(file).unwrap_or_default().is_empty() {
        return Ok(());
    }
    if !file.exists() {
        let message = format!(
            "{}: this kernel limits no disks; it needs CONFIG_BLK_DEV_THROTTLING",
            file.display()
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    for disk in disks() {
        match write(file, &line(&disk)) {
            // One that has gone meanwhile needs no limit.
            Err(error) if disk.path.exists() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disk_is_one_that_the_kernel_knows_and_that_is_in_dev() {
        for disk in disks() {
            let about = format!("/sys/dev/block/{}/size", disk.number);
            assert!(fs::read_to_string(&about).is_ok(), "{disk:?} is known to the kernel");
            assert!(disk.path.exists(), "{disk:?}");
        }
    }
}
