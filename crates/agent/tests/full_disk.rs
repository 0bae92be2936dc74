//! Images on a disk that is full: a file system of a few megabytes, which needs root, as CI has it.

use std::fs;
use std::path::Path;
use std::process::Command;

use agent::image::build::{self, Start};
use agent::image::store::Images;
use tempfile::TempDir;

/// A file system in memory, which goes with this.
struct Disk(TempDir);

impl Disk {
    fn of(megabytes: u32) -> Option<Disk> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "CI runs as root");
            eprintln!("skipped: mounting needs root");
            return None;
        }
        let disk = Disk(tempfile::tempdir().unwrap());
        disk.mount(&format!("size={megabytes}m"));
        Some(disk)
    }

    fn grow(&self, megabytes: u32) {
        self.mount(&format!("remount,size={megabytes}m"));
    }

    fn mount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(self.0.path());
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Of a file of so many bytes, which no compression makes smaller.
fn build(images: &Images, name: &str, place: &Path, bytes: usize) -> Result<(), agent::image::store::Error> {
    let content: Vec<u8> = (0..bytes).map(|_| rand::random()).collect();
    let file = place.join("content");
    fs::write(&file, content).unwrap();
    build::build(images, name, &file, &Start::default()).map(drop)
}

/// Files that are not whole.
fn unfinished(root: &Path) -> Vec<String> {
    let directories = ["", "blobs/sha256", "layers"].map(|directory| root.join(directory));
    let entries = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).unwrap());
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".new-")).collect()
}

#[test]
fn an_image_for_which_there_is_no_room_is_refused_and_those_that_are_here_stay() {
    let Some(disk) = Disk::of(4) else { return };
    let place = tempfile::tempdir().unwrap();
    let root = disk.0.path().join("images");
    let images = Images::open(&root).unwrap();
    build(&images, "small", place.path(), 100_000).unwrap();
    let refused = build(&images, "large", place.path(), 6_000_000).unwrap_err();
    assert!(refused.to_string().contains("No space left"), "{refused}");
    assert_eq!(unfinished(&root), [""; 0]);
    assert_eq!(images.names().unwrap().len(), 1);
    images.layers(&images.find("small").unwrap()).unwrap();
    disk.grow(20);
    build(&images, "large", place.path(), 6_000_000).unwrap();
    disk.grow(8);
    let refused = images.layers(&images.find("large").unwrap()).unwrap_err();
    assert!(refused.to_string().contains("No space left"), "{refused}");
    assert_eq!(unfinished(&root), [""; 0]);
    disk.grow(20);
    images.layers(&images.find("large").unwrap()).unwrap();
}
