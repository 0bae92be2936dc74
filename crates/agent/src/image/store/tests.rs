use std::io::Write as _;

use serde_json::json;
use tar::{Builder, Header};
use tempfile::TempDir;

use super::*;

fn images() -> (TempDir, Images) {
    let place = tempfile::tempdir().unwrap();
    let images = Images::open(&place.path().join("images")).unwrap();
    (place, images)
}

fn archive(content: &str) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_uid(rustix::process::geteuid().as_raw().into());
    header.set_gid(rustix::process::getegid().as_raw().into());
    header.set_mtime(0);
    builder.append_data(&mut header, "hello", content.as_bytes()).unwrap();
    builder.into_inner().unwrap()
}

fn hash(bytes: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    digest(context)
}

fn put(images: &Images, bytes: &[u8]) -> Digest {
    images.put(&mut &*bytes, None, u64::MAX).unwrap().0
}

/// Puts an image of one layer there, whose content is said to have this digest.
fn image(images: &Images, name: &str, layer: &[u8], content: &Digest, arch: &str) {
    let configuration = json!({
        "architecture": arch, "os": "linux", "config": {"Cmd": ["/hello"]},
        "rootfs": {"type": "layers", "diff_ids": [content.to_string()]},
    });
    let configuration = configuration.to_string();
    let descriptor = |media_type: &str, bytes: &[u8]| json!({"mediaType": media_type, "size": bytes.len(), "digest": put(images, bytes).to_string()});
    let manifest = json!({
        "schemaVersion": 2,
        "config": descriptor("application/vnd.oci.image.config.v1+json", configuration.as_bytes()),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    });
    let manifest = manifest.to_string();
    let digest = put(images, manifest.as_bytes());
    images.name(name, &digest, manifest.len() as u64).unwrap();
}

fn here() -> String {
    Arch::default().to_string()
}

fn read(images: &Images, name: &str) -> String {
    let layers = images.layers(&images.find(name).unwrap()).unwrap();
    fs::read_to_string(layers[0].join("hello")).unwrap()
}

#[test]
fn a_layer_is_unpacked_once_however_it_is_compressed_and_whoever_has_it() {
    let (_place, images) = images();
    let plain = archive("edge");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&plain).unwrap();
    let zstd = zstd::encode_all(&*plain, 1).unwrap();
    for (name, layer) in [("plain", &plain), ("gzip", &gzip.finish().unwrap()), ("zstd", &zstd)] {
        image(&images, name, layer, &hash(&plain), &here());
        assert_eq!(read(&images, name), "edge", "{name}");
        if name != "plain" {
            assert_ne!(layer, &plain);
        }
    }
    assert_eq!(fs::read_dir(images.unpacked()).unwrap().count(), 1);
    let names = images.names().unwrap();
    assert_eq!(names.len(), 3);
}

#[test]
fn each_way_of_compression_is_unpacked() {
    for name in ["gzip", "zstd"] {
        let (_place, images) = images();
        let plain = archive(name);
        let layer = match name {
            "gzip" => {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                gzip.write_all(&plain).unwrap();
                gzip.finish().unwrap()
            }
            _ => zstd::encode_all(&*plain, 1).unwrap(),
        };
        image(&images, name, &layer, &hash(&plain), &here());
        assert_eq!(read(&images, name), name);
    }
}

#[test]
fn a_name_is_that_of_the_last_image_that_was_given_it_also_for_the_next_program() {
    let (place, images) = images();
    for content in ["old", "new"] {
        let layer = archive(content);
        image(&images, "site", &layer, &hash(&layer), &here());
    }
    drop(images);
    let images = Images::open(&place.path().join("images")).unwrap();
    assert_eq!(read(&images, "site"), "new");
    assert_eq!(images.names().unwrap().len(), 1);
    assert_eq!(
        images.find("other").unwrap_err().to_string(),
        "no image \"other\" is here"
    );
}

#[test]
fn what_is_not_what_it_is_said_to_be_is_not_kept() {
    let (_place, images) = images();
    let wanted = hash(b"right");
    let refused = images.put(&mut &b"wrong"[..], Some(&wanted), 100).unwrap_err();
    assert!(
        refused.to_string().contains(&format!("where {wanted} was expected")),
        "{refused}"
    );
    let refused = images.put(&mut io::repeat(0), None, 100).unwrap_err();
    assert_eq!(refused.to_string(), "what was brought has more than 100 bytes");
    assert_eq!(fs::read_dir(images.blobs()).unwrap().count(), 0);
    assert!(!images.has(&wanted));
    images.put(&mut &b"right"[..], Some(&wanted), 5).unwrap();
    assert!(images.has(&wanted));
}

#[test]
fn a_layer_with_another_content_is_refused_and_nothing_of_it_stays() {
    let (_place, images) = images();
    image(&images, "site", &archive("one"), &hash(b"another"), &here());
    let refused = images.layers(&images.find("site").unwrap()).unwrap_err().to_string();
    assert!(refused.contains("the content of layer"), "{refused}");
    assert_eq!(fs::read_dir(images.unpacked()).unwrap().count(), 0);
}

#[test]
fn an_image_for_another_machine_is_refused() {
    let (_place, images) = images();
    let layer = archive("x");
    image(&images, "site", &layer, &hash(&layer), "s390x");
    let refused = images.find("site").unwrap_err().to_string();
    assert_eq!(
        refused,
        format!("\"site\" is for linux/s390x; this is linux/{}", here())
    );
}

#[test]
fn what_was_left_half_done_goes_with_the_next_start() {
    let (place, images) = images();
    fs::write(images.blobs().join(".new-1"), "half").unwrap();
    fs::create_dir_all(images.unpacked().join(".new-2/d")).unwrap();
    drop(images);
    let images = Images::open(&place.path().join("images")).unwrap();
    assert_eq!(fs::read_dir(images.blobs()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(images.unpacked()).unwrap().count(), 0);
}

#[test]
fn a_digest_is_no_path() {
    let (_place, images) = images();
    for text in ["sha512:../../x", "md5:aa", "sha256+b64:x"] {
        if let Ok(digest) = Digest::from_str(text) {
            assert!(!images.has(&digest));
            assert!(images.blob_path(&digest).is_err(), "{text}");
        }
    }
}

#[test]
fn several_may_open_it_for_the_first_time_at_once() {
    for _ in 0..50 {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("images");
        std::thread::scope(|scope| {
            let opening: Vec<_> = (0..4).map(|_| scope.spawn(|| Images::open(&root).map(drop))).collect();
            for opened in opening {
                opened.join().unwrap().unwrap();
            }
        });
    }
}
