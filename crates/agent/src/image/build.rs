//! Makes an image of what lies in a folder, `FROM scratch`: for programs that need nothing else.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

use oci_spec::image::{Arch, ConfigBuilder, Descriptor, Digest, ImageConfiguration, MediaType, Os, RootFs};
use tar::{Builder, EntryType, Header};

use super::store::{DOCUMENT_BYTES_MAX, Error, Images, LAYER, at, manifest};

/// How the program of an image is started.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Program and arguments, with paths in the image.
    pub entrypoint: Vec<String>,
    /// The environment, `NAME=value`.
    pub env: Vec<String>,
    /// Where it starts.
    pub working_dir: Option<String>,
    /// As whom, such as `65534` or `65534:65534`.
    pub user: Option<String>,
}

/// Makes an image of all that lies in `folder`, or of one file, which becomes `/` and its name; its digest. The same
/// content makes the same image.
///
/// # Errors
/// It cannot be read or kept.
pub fn build(images: &Images, name: &str, content: &Path, start: &Start) -> Result<Digest, Error> {
    let _using = images.using()?;
    let workplace = images.workplace()?;
    let path = workplace.0.join("layer");
    let mut archive = File::create_new(&path).map_err(at(&path))?;
    pack(content, &archive).map_err(at(content))?;
    archive.rewind().map_err(at(&path))?;
    let (layer, layer_bytes) = images.put(&mut archive, None, LAYER.bytes)?;
    let mut config = ConfigBuilder::default()
        .entrypoint(start.entrypoint.clone())
        .env(start.env.clone());
    if let Some(directory) = &start.working_dir {
        config = config.working_dir(directory.clone());
    }
    if let Some(user) = &start.user {
        config = config.user(user.clone());
    }
    let mut content = RootFs::default();
    content.set_diff_ids(vec![layer.to_string()]);
    let mut configuration = ImageConfiguration::default();
    configuration
        .set_architecture(Arch::default())
        .set_os(Os::Linux)
        .set_config(config.build().ok())
        .set_rootfs(content);
    let configuration = serde_json::to_vec(&configuration).expect("a configuration is JSON");
    let config = images.put(&mut &*configuration, None, DOCUMENT_BYTES_MAX)?;
    let layers = vec![Descriptor::new(MediaType::ImageLayer, layer_bytes, layer)];
    let (digest, bytes) = images.put(&mut &*manifest(config, layers), None, DOCUMENT_BYTES_MAX)?;
    images.name(name, &digest, bytes)?;
    Ok(digest)
}

/// Owned by root, without times, in the order of names: all that would make two images of one content.
fn pack(content: &Path, into: &File) -> io::Result<()> {
    let mut archive = Builder::new(io::BufWriter::new(into));
    archive.follow_symlinks(false);
    if content.is_dir() {
        pack_directory(&mut archive, content, Path::new(""))?;
    } else {
        let name = content.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        pack_one(&mut archive, content, Path::new(name))?;
    }
    archive
        .into_inner()?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    Ok(())
}

type Archive<'a> = Builder<io::BufWriter<&'a File>>;

fn pack_directory(archive: &mut Archive<'_>, directory: &Path, name: &Path) -> io::Result<()> {
    let entries: io::Result<Vec<_>> = directory.read_dir()?.collect();
    let mut entries = entries?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        pack_one(archive, &entry.path(), &name.join(entry.file_name()))?;
    }
    Ok(())
}

fn pack_one(archive: &mut Archive<'_>, path: &Path, name: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let about = path.symlink_metadata()?;
    let mut header = Header::new_gnu();
    header.set_mode(about.permissions().mode() & 0o7777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    if about.is_dir() {
        header.set_entry_type(EntryType::Directory);
        archive.append_data(&mut header, name, io::empty())?;
        return pack_directory(archive, path, name);
    }
    if about.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        return archive.append_link(&mut header, name, path.read_link()?);
    }
    if !about.is_file() {
        let message = format!("{} is neither a file nor a directory nor a link", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    header.set_entry_type(EntryType::Regular);
    header.set_size(about.len());
    archive.append_data(&mut header, name, File::open(path)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_same_content_makes_the_same_image_which_can_be_unpacked() {
        let place = tempfile::tempdir().unwrap();
        let images = Images::open(&place.path().join("images")).unwrap();
        let mut digests = Vec::new();
        for folder in ["one", "two"] {
            let folder = place.path().join(folder);
            fs::create_dir_all(folder.join("etc")).unwrap();
            fs::write(folder.join("etc/name"), "edge").unwrap();
            symlink("etc/name", folder.join("alias")).unwrap();
            let start = Start {
                entrypoint: vec!["/bin/site".to_owned()],
                user: Some("65534".to_owned()),
                ..Start::default()
            };
            digests.push(build(&images, "site", &folder, &start).unwrap());
        }
        assert_eq!(digests[0], digests[1]);
        let image = images.find("site:latest").unwrap();
        let config = image.configuration.config().clone().unwrap();
        assert_eq!(config.entrypoint().as_deref(), Some(&["/bin/site".to_owned()][..]));
        assert_eq!(config.user().as_deref(), Some("65534"));
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped from here on: files of root's need root");
            return;
        }
        let layers = images.layers(&image).unwrap();
        assert_eq!(fs::read_to_string(layers[0].join("alias")).unwrap(), "edge");
    }

    #[test]
    fn one_program_is_an_image_too() {
        let place = tempfile::tempdir().unwrap();
        let images = Images::open(&place.path().join("images")).unwrap();
        let program = place.path().join("site");
        fs::write(&program, "#!").unwrap();
        build(&images, "registry.example:5000/site:1", &program, &Start::default()).unwrap();
        assert!(images.find("registry.example:5000/site:1").is_ok());
        assert!(images.find("registry.example:5000/site").is_err());
        assert!(build(&images, "Not A Name", &program, &Start::default()).is_err());
        assert!(build(&images, "site", &place.path().join("none"), &Start::default()).is_err());
    }
}
