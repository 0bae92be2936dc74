use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tar::{Builder, Header};
use tempfile::TempDir;

use super::*;

const ROOMY: Bounds = Bounds {
    bytes: 1 << 20,
    entries: 100,
};

/// An archive, entry by entry; names are not looked at.
struct Layer(Builder<Vec<u8>>);

impl Layer {
    fn new() -> Self {
        Layer(Builder::new(Vec::new()))
    }

    fn with(mut self, kind: EntryType, path: &str, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(rustix::process::getegid().as_raw().into());
        header.set_mtime(1_000_000_000);
        header.set_size(content.len() as u64);
        let fields = header.as_old_mut();
        fields.name[..path.len()].copy_from_slice(path.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, path: &str, content: &str) -> Self {
        self.with(EntryType::Regular, path, "", content.as_bytes())
    }

    fn link(self, path: &str, target: &str) -> Self {
        self.with(EntryType::Symlink, path, target, b"")
    }

    fn pax(self, name: &str, value: &str) -> Self {
        // The length counts itself: two digits are enough here.
        let line = format!("{} {name}={value}\n", name.len() + value.len() + 5);
        self.with(EntryType::XHeader, "pax", "", line.as_bytes())
    }

    fn unpack_within(self, bounds: Bounds) -> (TempDir, Result<(), Error>) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("layer")).unwrap();
        let archive = self.0.into_inner().unwrap();
        let unpacked = unpack(&*archive, &place.path().join("layer"), bounds);
        (place, unpacked)
    }

    fn unpack(self) -> TempDir {
        let (place, unpacked) = self.unpack_within(ROOMY);
        unpacked.unwrap();
        place
    }

    fn refused(self) -> String {
        self.unpack_within(ROOMY).1.unwrap_err().to_string()
    }
}

fn read(place: &TempDir, path: &str) -> String {
    fs::read_to_string(place.path().join("layer").join(path)).unwrap()
}

#[test]
fn a_layer_is_unpacked_as_it_was_packed() {
    let layer = Layer::new()
        .with(EntryType::Directory, "./", "", b"")
        .with(EntryType::Directory, "./etc/", "", b"")
        .file("./etc/name", "edge")
        .file("deep/down/below", "made on the way")
        .link("etc/alias", "name")
        .with(EntryType::Link, "etc/same", "etc/name", b"")
        .with(EntryType::Fifo, "pipe", "", b"")
        .file("etc/twice", "first")
        .file("etc/twice", "second");
    let place = layer.unpack();
    assert_eq!(read(&place, "etc/name"), "edge");
    assert_eq!(read(&place, "etc/alias"), "edge");
    assert_eq!(read(&place, "etc/twice"), "second");
    assert_eq!(read(&place, "deep/down/below"), "made on the way");
    let about = |path: &str| fs::metadata(place.path().join("layer").join(path)).unwrap();
    assert_eq!(about("etc/same").ino(), about("etc/name").ino());
    assert_eq!(
        (about("etc/name").mode() & 0o7777, about("etc/name").mtime()),
        (0o644, 1_000_000_000)
    );
}

#[test]
fn long_names_and_attributes_are_those_of_the_headers_before() {
    let name = "n".repeat(70);
    let place = Layer::new()
        .pax("path", &name)
        .pax("mtime", "12.5")
        .file("short", "content")
        .with(EntryType::GNULongName, "././@LongLink", "", b"gnu-name\0")
        .file("short", "other")
        .file("short", "third")
        .unpack();
    assert_eq!(read(&place, &name), "content");
    let about = fs::metadata(place.path().join("layer").join(&name)).unwrap();
    assert_eq!(about.mtime(), 12);
    assert_eq!(
        (read(&place, "gnu-name"), read(&place, "short")),
        ("other".to_owned(), "third".to_owned())
    );
}

#[test]
fn a_directory_stays_where_it_comes_again_and_goes_where_a_file_comes() {
    let again = Layer::new()
        .file("d/a", "a")
        .with(EntryType::Directory, "d", "", b"")
        .file("d/b", "b");
    let place = again.unpack();
    assert_eq!(
        (read(&place, "d/a"), read(&place, "d/b")),
        ("a".to_owned(), "b".to_owned())
    );
    let place = Layer::new().file("d/e/a", "a").file("d", "now a file").unpack();
    assert_eq!(read(&place, "d"), "now a file");
}

#[test]
fn nothing_is_made_outside_whatever_a_layer_is_named() {
    assert!(
        Layer::new()
            .file("../out", "x")
            .refused()
            .contains("../out: leads out of the layer")
    );
    assert!(Layer::new().file("a/../../out", "x").refused().contains("leads out"));
    let place = Layer::new().file("/etc/x", "inside").unpack();
    assert_eq!(read(&place, "etc/x"), "inside");
    for target in ["/", "../..", "../../..", "/.."] {
        let (place, unpacked) = Layer::new()
            .link("way", target)
            .file("way/out", "x")
            .unpack_within(ROOMY);
        unpacked.unwrap();
        assert_eq!(read(&place, "out"), "x", "{target}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "{target}");
    }
    let (place, unpacked) = Layer::new()
        .link("file", "/layer-file")
        .file("file", "x")
        .unpack_within(ROOMY);
    unpacked.unwrap();
    assert_eq!(read(&place, "file"), "x", "the link is replaced, not followed");
}

#[test]
fn nothing_outside_is_linked_to() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    let path = secret.path().to_str().unwrap();
    for target in [path, "../../../../../../etc/passwd", "/etc/passwd"] {
        Layer::new().with(EntryType::Link, "mine", target, b"").refused();
    }
    // A symbolic link that leads there is linked to itself.
    let (place, unpacked) = Layer::new()
        .link("way", path)
        .with(EntryType::Link, "mine", "way", b"")
        .unpack_within(ROOMY);
    unpacked.unwrap();
    let about = fs::symlink_metadata(place.path().join("layer/mine")).unwrap();
    assert!(about.is_symlink());
    assert_eq!(secret.as_file().metadata().unwrap().nlink(), 1);
}

#[test]
fn devices_are_refused_but_those_that_a_container_never_sees() {
    let device = |path: &str| Layer::new().with(EntryType::Block, path, "", b"");
    assert!(device("disk").refused().contains("is a device"));
    assert!(device("dev/deeper/disk").refused().contains("is a device"));
    let place = device("dev/sda").unpack();
    assert!(!place.path().join("layer/dev/sda").exists());
}

#[test]
fn a_layer_comes_to_no_more_than_it_may() {
    let bounds = Bounds {
        bytes: 10_000,
        entries: 3,
    };
    let big = "x".repeat(20_000);
    let refused = |layer: Layer| layer.unpack_within(bounds).1.unwrap_err().to_string();
    assert_eq!(
        refused(Layer::new().file("big", &big)),
        "the layer has more than 10000 bytes"
    );
    let many = (0..4).fold(Layer::new(), |layer, n| layer.file(&format!("f{n}"), ""));
    assert_eq!(refused(many), "the layer has more than 3 entries");
    let (_, unpacked) = Layer::new().file("a", &"x".repeat(8_000)).unpack_within(bounds);
    unpacked.unwrap();
    let long = "n".repeat(2 << 20);
    let layer = Layer::new().with(EntryType::GNULongName, "long", "", long.as_bytes());
    let roomy = Bounds {
        bytes: 8 << 20,
        ..ROOMY
    };
    let refused = layer.file("short", "").unpack_within(roomy).1.unwrap_err().to_string();
    assert!(refused.contains("has 2097152 bytes"), "{refused}");
}

#[test]
fn what_cannot_be_read_is_said() {
    assert!(
        Layer::new()
            .pax("size", "5")
            .file("a", "x")
            .refused()
            .contains("another size")
    );
    assert!(
        Layer::new()
            .pax("GNU.sparse.major", "1")
            .file("a", "x")
            .refused()
            .contains("sparse")
    );
    let broken = Layer::new().with(EntryType::XHeader, "pax", "", b"99 path=x\n");
    assert!(broken.file("a", "x").refused().contains("cannot be read"));
    let place = tempfile::tempdir().unwrap();
    assert!(unpack(&b"no archive at all"[..], place.path(), ROOMY).is_err());
}

/// Attributes of overlayfs would let a layer show what is not its own.
#[test]
fn attributes_of_the_file_system_are_left_out() {
    let place = Layer::new()
        .pax("SCHILY.xattr.trusted.overlay.redirect", "/")
        .file("a", "x")
        .unpack();
    let path = place.path().join("layer/a");
    let mut none = [0_u8; 16];
    let found = rustix::fs::getxattr(&path, "trusted.overlay.redirect", &mut none);
    assert!(found.is_err(), "{found:?}");
}

#[test]
fn what_a_layer_takes_away_is_not_seen_in_overlayfs() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounting overlayfs needs root");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    for name in ["below", "above", "seen"] {
        fs::create_dir(path(name)).unwrap();
    }
    let below = Layer::new()
        .file("gone", "")
        .file("kept", "")
        .file("d/old", "")
        .file("e/old", "");
    let above = Layer::new()
        .file(".wh.gone", "")
        .file("d/.wh..wh..opq", "")
        .file("d/new", "")
        .file(".wh..wh.plnk", "")
        .file("e/.wh.old", "");
    for (layer, name) in [(below, "below"), (above, "above")] {
        unpack(&*layer.0.into_inner().unwrap(), &path(name), ROOMY).unwrap();
    }
    let options = format!("lowerdir={}:{}", path("above").display(), path("below").display());
    let mounted = std::process::Command::new("mount")
        .args(["-t", "overlay", "overlay", "-o", &options])
        .arg(path("seen"))
        .status();
    assert!(mounted.unwrap().success());
    let names = |directory: &str| {
        let entries = fs::read_dir(path("seen").join(directory)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let seen = [names(""), names("d"), names("e")];
    let unmounted = std::process::Command::new("umount").arg(path("seen")).status();
    assert!(unmounted.unwrap().success());
    assert_eq!(seen, [vec!["d", "e", "kept"], vec!["new"], vec![]]);
}

#[test]
fn the_root_of_a_layer_may_be_a_path_through_links() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("real")).unwrap();
    symlink("real", place.path().join("alias")).unwrap();
    let archive = Layer::new().file("a", "x").0.into_inner().unwrap();
    unpack(&*archive, &place.path().join("alias"), ROOMY).unwrap();
    let about = fs::metadata(place.path().join("real/a")).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o644);
}

#[test]
fn paths_that_lead_up_are_found_while_others_rename() {
    let (own, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(own.path().join("a")).unwrap();
    fs::write(own.path().join("b"), "1").unwrap();
    fs::write(others.path().join("0"), "1").unwrap();
    let place = Place::open(own.path()).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in (1..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let at = |number: u32| others.path().join(number.to_string());
                fs::rename(at(number - 1), at(number)).unwrap();
            }
        });
        let opened: Vec<_> = (0..20_000).map(|_| place.file("a/../a/../b").map(drop)).collect();
        is_over.store(true, Ordering::Relaxed);
        let wrong: Vec<_> = opened.into_iter().filter_map(Result::err).collect();
        assert!(wrong.is_empty(), "{} times {}", wrong.len(), wrong[0]);
    });
}
