use std::os::unix::fs::{FileExt, symlink};

use tempfile::TempDir;

use super::*;

/// An edge with one volume, whose application has ended.
struct Edge {
    place: TempDir,
    taken: i64,
}

impl Edge {
    fn new() -> Self {
        let edge = Edge {
            place: tempfile::tempdir().unwrap(),
            taken: 0,
        };
        fs::create_dir_all(edge.volume()).unwrap();
        fs::create_dir_all(edge.data().join("containers")).unwrap();
        edge
    }

    fn data(&self) -> &Path {
        self.place.path()
    }

    fn volume(&self) -> PathBuf {
        self.data().join("volumes/kept/default/files")
    }

    fn snapshots(&self) -> Snapshots {
        Snapshots::open(self.data()).unwrap()
    }

    /// Bytes on disk.
    fn blobs(&self) -> u64 {
        store::bytes_below(&self.snapshots().layout.blobs()).unwrap()
    }

    fn take(&mut self, name: &str, is_scheduled: bool) -> Result<u64, Error> {
        self.take_of("default", name, is_scheduled)
    }

    fn take_of(&mut self, tenant: &str, name: &str, is_scheduled: bool) -> Result<u64, Error> {
        self.taken += 1;
        let request = Request {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            application: "site".to_owned(),
            created_s: self.taken,
            is_scheduled,
            hook: None,
            manifests: "kind: Deployment\n".to_owned(),
            secrets: None,
            images: Vec::new(),
            claims: vec!["files".to_owned()],
            left_out: Vec::new(),
        };
        let images = Images::open(&self.data().join("images")).unwrap();
        let brought = Brought::new(self.snapshots())?;
        let mut draft = Draft::begin(
            self.snapshots(),
            &images,
            &brought,
            &self.data().join("volumes"),
            request,
        )?;
        draft.read_again()?;
        draft.finish(None)
    }

    fn restore(&self, name: &str) -> Result<(), Error> {
        let snapshots = self.snapshots();
        let kept = snapshots.find("default", name)?;
        let target = Target {
            volumes: &self.data().join("volumes"),
            containers: &self.data().join("containers"),
            tenant: "default",
            name: "files",
            is_forced: true,
            may_start: false,
        };
        snapshots.restore_volume(&kept, &kept.about.volumes[0], &target)
    }

    fn names(&self) -> Vec<String> {
        self.snapshots()
            .list()
            .unwrap()
            .into_iter()
            .map(|kept| kept.name)
            .collect()
    }
}

/// Bytes that nothing makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rand::fill(&mut bytes[..]);
    bytes
}

#[test]
fn a_volume_comes_back_as_it_was() {
    let mut edge = Edge::new();
    let volume = edge.volume();
    let large = noise(5_000_000);
    fs::write(volume.join("large"), &large).unwrap();
    fs::create_dir(volume.join("empty")).unwrap();
    fs::write(volume.join("exact"), noise(1 << 21)).unwrap();
    fs::write(volume.join(".wh.name"), "kept").unwrap();
    symlink("large", volume.join("link")).unwrap();
    edge.take("one", false).unwrap();
    fs::remove_file(volume.join("large")).unwrap();
    fs::write(volume.join("new"), "goes").unwrap();
    edge.restore("one").unwrap();
    assert_eq!(fs::read(volume.join("large")).unwrap(), large);
    assert!(volume.join("empty").is_dir() && volume.join(".wh.name").exists() && !volume.join("new").exists());
    assert_eq!(fs::read_link(volume.join("link")).unwrap(), Path::new("large"));
    assert_eq!(fs::read_dir(volume.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn what_is_unchanged_takes_nothing_and_a_change_what_is_around_it() {
    let mut edge = Edge::new();
    let volume = edge.volume();
    for number in 0..500 {
        fs::write(volume.join(format!("{number}")), noise(10_000)).unwrap();
    }
    fs::write(volume.join("large"), noise(20 << 20)).unwrap();
    assert!(edge.take("one", false).unwrap() > 24 << 20);
    assert!(edge.take("two", false).unwrap() < 20_000);
    let large = fs::File::options().write(true).open(volume.join("large")).unwrap();
    let modified = large.metadata().unwrap().modified().unwrap();
    large.write_all_at(b"changed", 10 << 20).unwrap();
    // Its entry, which is in the piece before, says the second.
    large.set_modified(modified).unwrap();
    let bytes = edge.take("three", false).unwrap();
    assert!((1 << 20..(2 << 20) + 20_000).contains(&bytes), "{bytes}");
    fs::write(volume.join("250-more"), noise(10_000)).unwrap();
    let bytes = edge.take("four", false).unwrap();
    assert!(bytes < 5_000_000, "{bytes}");
    for name in ["one", "two", "three"] {
        edge.snapshots().remove("default", name).unwrap();
    }
    let expected = fs::read(volume.join("large")).unwrap();
    edge.restore("four").unwrap();
    assert_eq!(fs::read(volume.join("large")).unwrap(), expected);
    edge.snapshots().remove("default", "four").unwrap();
    assert_eq!(edge.blobs(), 0);
}

#[test]
fn a_damaged_piece_is_found_and_the_volume_stays_as_it_is() {
    let mut edge = Edge::new();
    fs::write(edge.volume().join("large"), noise(3 << 20)).unwrap();
    edge.take("one", false).unwrap();
    let kept = edge.snapshots().find("default", "one").unwrap();
    let piece = kept
        .manifest
        .layers()
        .iter()
        .rfind(|layer| is_a(layer, PIECE) && layer.size() > 1 << 19)
        .unwrap();
    let path = edge.snapshots().layout.blob_path(piece.digest()).unwrap();
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .write_all_at(b"x", 1_000)
        .unwrap();
    fs::write(edge.volume().join("note"), "stays").unwrap();
    let error = edge.restore("one").unwrap_err().to_string();
    assert!(error.contains("is not what it was"), "{error}");
    assert!(edge.volume().join("note").exists());
    assert_eq!(fs::read_dir(edge.volume().parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn the_oldest_scheduled_go_beyond_their_number_and_for_room_and_the_last_never() {
    let mut edge = Edge::new();
    for name in ["a", "b", "hand", "c", "d"] {
        fs::write(edge.volume().join("large"), noise(2 << 20)).unwrap();
        edge.take(name, name != "hand").unwrap();
    }
    let gone = edge.snapshots().prune(|_| Some(3), None).unwrap();
    assert_eq!(
        (gone, edge.names()),
        (
            vec!["a".to_owned()],
            ["b", "hand", "c", "d"].map(str::to_owned).to_vec()
        )
    );
    assert!(edge.snapshots().prune(|_| None, Some(9 << 20)).unwrap().is_empty());
    assert_eq!(edge.snapshots().prune(|_| None, Some(7 << 20)).unwrap(), ["b"]);
    assert_eq!(edge.snapshots().prune(|_| None, Some(1)).unwrap(), ["c"]);
    assert_eq!(edge.names(), ["hand", "d"]);
}

#[test]
fn what_one_tenant_has_takes_no_room_of_another() {
    let mut edge = Edge::new();
    let of_other = edge.data().join("volumes/kept/other/files");
    fs::create_dir_all(&of_other).unwrap();
    for name in ["a", "b"] {
        fs::write(edge.volume().join("large"), noise(2 << 20)).unwrap();
        fs::write(of_other.join("small"), name).unwrap();
        edge.take(name, true).unwrap();
        edge.take_of("other", name, true).unwrap();
    }
    let bytes_of = |tenant: &str| edge.snapshots().bytes_of(tenant).unwrap();
    assert!(bytes_of("default") > 4 << 20 && bytes_of("other") < 1 << 20);
    assert_eq!(edge.snapshots().prune(|_| None, Some(3 << 20)).unwrap(), ["a"]);
    assert!(edge.snapshots().find("other", "a").is_ok());
}

#[test]
fn a_name_is_used_once_and_another_is_found() {
    let mut edge = Edge::new();
    edge.take("one", false).unwrap();
    assert!(matches!(edge.take("one", false), Err(Error::Exists(_))));
    assert_eq!(edge.snapshots().free_name("default", "one").unwrap(), "one-2");
    assert_eq!(edge.snapshots().free_name("other", "one").unwrap(), "one");
    assert!(matches!(
        edge.snapshots().find("other", "one"),
        Err(Error::Absent { .. })
    ));
}

#[test]
fn what_is_refused_is_named_and_leaves_nothing() {
    let mut edge = Edge::new();
    let mut deep = edge.volume();
    for _ in 0..210 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    let error = edge.take("one", false).unwrap_err().to_string();
    assert!(error.contains("is nested deeper than 200"), "{error}");
    assert_eq!(edge.blobs(), 0);
    let left = fs::read_dir(edge.data().join("snapshots")).unwrap();
    assert!(
        left.flatten()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with(".new-"))
    );
}
