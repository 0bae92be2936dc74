//! Images that a Docker Engine has: taken from it for snapshots, and given back to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::body_try_stream;
use bollard::query_parameters::ImportImageOptions;
use futures_util::{Stream, TryStreamExt, stream};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_util::bytes::Bytes;

use super::{absent, connect, connect_for, is_absent};
use crate::image::name;
use crate::runtime::Error;

/// An engine packs or unpacks an image before it says anything.
const PACKING_S: u64 = 600;
/// Of an archive on its way.
const CHUNK_BYTES: usize = 256 << 10;

/// The images of the engine at a socket.
pub struct EngineImages {
    docker: bollard::Docker,
    socket: PathBuf,
}

impl EngineImages {
    /// # Errors
    /// No engine answers at `socket`.
    pub async fn at(socket: &Path) -> Result<Self, Error> {
        Ok(EngineImages {
            docker: connect(socket).await?,
            socket: socket.to_owned(),
        })
    }

    /// The digest of its configuration, or with some engines of its manifest; `None`: the engine has no such image.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn id(&self, image: &str) -> Result<Option<String>, Error> {
        match self.docker.inspect_image(&whole(image)?).await {
            Ok(found) => Ok(found.id),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(absent(&self.socket, &error)),
        }
    }

    /// Writes it to a file, new or not, as an archive of `docker save` of so many bytes at most.
    ///
    /// # Errors
    /// Of the engine, or of the file; it has more bytes, or its engine says nothing any more.
    pub async fn save(&self, image: &str, path: &Path, bytes_max: u64) -> Result<(), Error> {
        let (mut file, mut left) = (File::create(path).await?, bytes_max);
        let docker = connect_for(&self.socket, PACKING_S).await?;
        let whole = whole(image)?;
        let mut archive = std::pin::pin!(docker.export_image(&whole));
        while let Some(bytes) = next(image, &mut archive).await? {
            let rest = left.checked_sub(bytes.len() as u64);
            left =
                rest.ok_or_else(|| Error::Engine(format!("the disk has no room for four times {bytes_max} bytes")))?;
            file.write_all(&bytes).await?;
        }
        Ok(file.flush().await?)
    }

    /// Gives the engine the images of such an archive.
    ///
    /// # Errors
    /// Of the file, or of the engine, as where it is no such archive.
    pub async fn load(&self, image: &str, path: &Path) -> Result<(), Error> {
        let file = File::open(path).await?;
        let chunks = stream::try_unfold(file, async |mut file| {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = file.read(&mut chunk).await?;
            chunk.truncate(read);
            Ok::<_, std::io::Error>((read > 0).then(|| (Bytes::from(chunk), file)))
        });
        let docker = connect_for(&self.socket, PACKING_S).await?;
        let mut steps = docker.import_image(ImportImageOptions::default(), body_try_stream(chunks), None);
        while let Some(step) = next(image, &mut steps).await? {
            if let Some(why) = step.error_detail.and_then(|detail| detail.message) {
                return Err(Error::Engine(format!("Docker does not take image {image}: {why}")));
            }
        }
        Ok(())
    }
}

/// As the engine names it in a path.
fn whole(image: &str) -> Result<String, Error> {
    Ok(name::parse(image).map_err(Error::Engine)?.whole())
}

/// What comes next from an engine that has begun to answer.
async fn next<T>(
    image: &str,
    answers: &mut (impl Stream<Item = Result<T, bollard::errors::Error>> + Unpin),
) -> Result<Option<T>, Error> {
    let next = timeout(Duration::from_secs(PACKING_S), answers.try_next()).await;
    let next = next.map_err(|_| Error::Engine(format!("Docker says nothing of image {image} for {PACKING_S} s")))?;
    next.map_err(|error| Error::Engine(format!("Docker, of image {image}: {error}")))
}
