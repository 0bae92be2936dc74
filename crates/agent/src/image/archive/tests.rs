use std::fs::{self, File};
use std::io::Cursor;
use std::path::Path;

use oci_spec::image::Arch;
use serde_json::json;
use tar::{Builder, Header};
use tempfile::TempDir;

use super::*;
use crate::image::build::{Start, build};

fn images(place: &TempDir, name: &str) -> Images {
    Images::open(&place.path().join(name)).unwrap()
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: an image's files belong to root");
    }
    is_root
}

/// An image's layout as one file.
fn packed(layout: &Path) -> Cursor<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for name in ["oci-layout", "index.json", "blobs"] {
        let path = layout.join(name);
        match path.is_dir() {
            true => archive.append_dir_all(name, path).unwrap(),
            false => archive.append_path_with_name(path, name).unwrap(),
        }
    }
    Cursor::new(archive.into_inner().unwrap())
}

fn archive(files: &[(&str, &[u8])]) -> Cursor<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, name, *content).unwrap();
    }
    Cursor::new(archive.into_inner().unwrap())
}

fn said_to_be(configuration: &serde_json::Value) -> Vec<u8> {
    configuration.to_string().into_bytes()
}

fn configuration(arch: &str) -> Vec<u8> {
    said_to_be(&json!({
        "architecture": arch, "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", "0".repeat(64))]},
    }))
}

#[test]
fn a_layout_that_was_packed_has_the_same_images() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (images(&place, "from"), images(&place, "to"));
    let program = place.path().join("site");
    fs::write(&program, "#!").unwrap();
    let digest = build(&from, "site:1", &program, &Start::default()).unwrap();
    let names = import(&to, packed(&place.path().join("from")), None).unwrap();
    assert_eq!(names, ["docker.io/library/site:1"]);
    let image = to.find("site:1").unwrap();
    assert_eq!(image.digest, digest);
    assert_eq!(
        fs::read_to_string(to.layers(&image).unwrap()[0].join("site")).unwrap(),
        "#!"
    );
}

#[test]
fn a_blob_that_is_not_what_its_name_says_is_refused() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (images(&place, "from"), images(&place, "to"));
    let program = place.path().join("site");
    fs::write(&program, "#!").unwrap();
    let digest = build(&from, "site", &program, &Start::default()).unwrap();
    let manifest = place.path().join("from/blobs/sha256").join(digest.digest());
    let changed = fs::read_to_string(&manifest).unwrap() + " ";
    fs::write(&manifest, changed).unwrap();
    let refused = import(&to, packed(&place.path().join("from")), None)
        .unwrap_err()
        .to_string();
    assert!(refused.contains(&format!("where {digest} was expected")), "{refused}");
    assert!(to.names().unwrap().is_empty());
}

#[test]
fn what_docker_saves_is_taken_in_by_its_names_and_only_for_this_machine() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let images = images(&place, "images");
    let list = json!([
        {"Config": "mine.json", "RepoTags": ["site:1", "site:2"], "Layers": ["l/layer.tar"]},
        {"Config": "other.json", "RepoTags": ["other:1"], "Layers": ["l/layer.tar"]},
    ]);
    let saved = archive(&[
        ("manifest.json", &said_to_be(&list)),
        ("mine.json", &configuration(&Arch::default().to_string())),
        ("other.json", &configuration("s390x")),
        ("l/layer.tar", b"a layer"),
    ]);
    assert_eq!(import(&images, saved, None).unwrap(), ["site:1", "site:2"]);
    assert_eq!(images.names().unwrap().len(), 2);
    assert!(images.find("site:2").is_ok());
    // Its content is not the one that its configuration has.
    assert!(images.layers(&images.find("site:1").unwrap()).is_err());
}

#[test]
fn an_archive_leads_to_nothing_outside_of_it() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let images = images(&place, "images");
    let secret = place.path().join("secret");
    fs::write(&secret, "hidden").unwrap();
    let list = said_to_be(&json!([{"Config": "mine.json", "RepoTags": ["site:1"], "Layers": ["way"]}]));
    let mut archive = Builder::new(Vec::new());
    for (name, content) in [
        ("manifest.json", &list),
        ("mine.json", &configuration(&Arch::default().to_string())),
    ] {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, name, &**content).unwrap();
    }
    let mut header = Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    header.set_mode(0o777);
    archive.append_link(&mut header, "way", &secret).unwrap();
    let refused = import(&images, Cursor::new(archive.into_inner().unwrap()), None).unwrap_err();
    assert!(refused.to_string().contains("cannot be read"), "{refused}");
    for entry in fs::read_dir(place.path().join("images/blobs/sha256")).unwrap() {
        assert_ne!(fs::read(entry.unwrap().path()).unwrap(), b"hidden");
    }
}

#[test]
fn what_is_no_image_is_said() {
    let place = tempfile::tempdir().unwrap();
    let images = images(&place, "images");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(place.path().join("x"))
        .unwrap();
    std::io::Write::write_all(&mut file, b"no archive").unwrap();
    file.rewind().unwrap();
    assert!(import(&images, file, None).is_err());
    if !is_root() {
        return;
    }
    let refused = import(&images, archive(&[("readme", b"x")]), None)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("neither of `docker save` nor an OCI image layout"),
        "{refused}"
    );
    let list = said_to_be(&json!([{"Config": "none.json", "RepoTags": ["site:1"], "Layers": []}]));
    let refused = import(&images, archive(&[("manifest.json", &list)]), None)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("\"none.json\", which it refers to, cannot be read"),
        "{refused}"
    );
    let left = fs::read_dir(place.path().join("images")).unwrap();
    let names: Vec<String> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.starts_with(".new-")), "{names:?}");
}
