//! Takes in images from registries (OCI Distribution Specification 1.1, "Pull").
//!
//! A registry may hang, lie about lengths or cut off: all that it says is bounded, silence is waited for so long and no
//! longer, a blob goes on where it was cut off, and nothing is kept but what has the digest that was asked for.

mod http;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Bytes;
use oci_spec::distribution::Reference;
use oci_spec::image::{Arch, Descriptor, Digest, ImageConfiguration, ImageIndex, ImageManifest};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};

use self::http::Session;
pub use self::http::{Connection, Dial, Dialing};
use super::store::{self, DOCUMENT_BYTES_MAX, Images, LAYER, in_full, is_for_this_machine};

/// A registry that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(60);
/// In each such time a registry brings at least that much of a layer, or is given up: some 270 bytes a second, which
/// the thinnest line has.
const PACE: Duration = Duration::from_secs(60);
const PACE_BYTES: u64 = 16 << 10;
/// Of an image; overlayfs has no more.
const LAYERS_MAX: usize = 127;
/// Times that a blob is asked for again without a byte of it having come.
const TRIES: u32 = 4;
/// Before the first of them; each further one twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// Images that are taken in at once: each has a thread that waits for its registry.
const AT_ONCE: usize = 4;
/// Chunks of a blob between the network and the disk.
const CHUNKS: usize = 8;

/// Who asks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Name.
    pub user: String,
    /// Password, or a token in its place.
    pub password: String,
}

/// Without the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Why an image cannot be had from its registry.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers, or not in time.
    #[error("{registry} cannot be asked: {message}")]
    Unreachable {
        /// Which.
        registry: String,
        /// What was wrong.
        message: String,
    },
    /// It does not give it.
    #[error("{registry} says {status}{}", .message.as_ref().map_or(String::new(), |message| format!(": {message}")))]
    Refused {
        /// Which.
        registry: String,
        /// Of its answer.
        status: StatusCode,
        /// Of its answer, or what would help.
        message: Option<String>,
    },
    /// What it says cannot be understood, or may not be.
    #[error("{registry}: {message}")]
    Wrong {
        /// Which.
        registry: String,
        /// What is wrong.
        message: String,
    },
    /// It cannot be kept, or is not what was asked for.
    #[error(transparent)]
    Images(#[from] store::Error),
}

/// Where images come from that are not here.
pub struct Registries {
    images: Arc<Images>,
    dial: Dial,
    /// One image is not taken in twice at once.
    turns: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
    /// How many more may be taken in at once.
    places: Semaphore,
}

impl fmt::Debug for Registries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registries").finish_non_exhaustive()
    }
}

impl Registries {
    /// Keeps what it is given in `images`; reaches registries by `dial`, those on this machine without TLS.
    #[must_use]
    pub fn new(images: Arc<Images>, dial: Dial) -> Self {
        Registries {
            images,
            dial,
            turns: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
        }
    }

    /// Those that are here.
    #[must_use]
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Has the image of this name here if it is not.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn fetch_absent(&self, name: &str, login: Option<&Login>) -> Result<(), Error> {
        let turn = self.turn(name);
        let _turn = turn.lock().await;
        let wanted = name.to_owned();
        match self.on_disk(move |images| images.find(&wanted)).await {
            Err(store::Error::Absent(_)) => self.take_in(name, login).await,
            found => Ok(found.map(drop)?),
        }
    }

    /// Has the image that now is of this name in its registry here.
    ///
    /// # Errors
    /// It cannot be had; an older one of that name stays.
    pub async fn fetch(&self, name: &str, login: Option<&Login>) -> Result<(), Error> {
        let turn = self.turn(name);
        let _turn = turn.lock().await;
        self.take_in(name, login).await
    }

    fn turn(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = turns.get(name).and_then(Weak::upgrade).unwrap_or_default();
        turns.insert(name.to_owned(), Arc::downgrade(&turn));
        turn
    }

    async fn take_in(&self, name: &str, login: Option<&Login>) -> Result<(), Error> {
        let _place = self.places.acquire().await.expect("it is never closed");
        let reference = in_full(name)?;
        // Nothing of it is cleared away before it has its name.
        let _using = self.on_disk(|images| images.using()).await?;
        let mut source = Source {
            session: Session::new(&self.dial, &reference, login),
            registries: self,
        };
        let (manifest, text) = source.manifest(&reference).await?;
        source.content(&manifest).await?;
        let digest = source.keep_document(text).await?;
        let name = name.to_owned();
        Ok(self
            .on_disk(move |images| images.name(&name, &digest.0, digest.1))
            .await?)
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Images) -> Result<T, store::Error> + Send + 'static,
    ) -> Result<T, store::Error> {
        let images = Arc::clone(&self.images);
        let working = tokio::task::spawn_blocking(move || work(&images));
        working.await.expect("keeping an image does not panic")
    }
}

/// One image in its registry.
struct Source<'a> {
    session: Session<'a>,
    registries: &'a Registries,
}

impl Source<'_> {
    /// The manifest for this machine, and its bytes.
    async fn manifest(&mut self, reference: &Reference) -> Result<(ImageManifest, Bytes), Error> {
        let wanted = match (reference.digest(), reference.tag()) {
            (Some(digest), _) => digest,
            (None, tag) => tag.unwrap_or("latest"),
        };
        let text = self.manifest_bytes(wanted).await?;
        let is_index = |text: &[u8]| {
            let json: Option<serde_json::Value> = serde_json::from_slice(text).ok();
            json.is_some_and(|json| json.get("manifests").is_some())
        };
        if !is_index(&text) {
            return Ok((self.understand("the manifest", &text)?, text));
        }
        let index: ImageIndex = self.understand("the list of manifests", &text)?;
        let here = index.manifests().iter().find(|manifest| {
            let platform = manifest.platform().as_ref();
            platform.is_some_and(|platform| is_for_this_machine(platform.os(), platform.architecture()))
        });
        let here = here.ok_or_else(|| self.wrong(format!("it has no image for linux/{}", Arch::default())))?;
        let text = self.manifest_bytes(here.digest().as_ref()).await?;
        Ok((self.understand("the manifest", &text)?, text))
    }

    /// By its digest, which it has to have, or by a tag.
    async fn manifest_bytes(&mut self, wanted: &str) -> Result<Bytes, Error> {
        let answer = self.session.get(&format!("manifests/{wanted}"), 0).await?;
        let text = self.session.whole(answer, DOCUMENT_BYTES_MAX as usize).await?;
        if let Ok(digest) = Digest::from_str(wanted) {
            check(&text, &digest, "the manifest")?;
        }
        Ok(text)
    }

    /// Configuration and layers; those that are here are not asked for.
    async fn content(&mut self, manifest: &ImageManifest) -> Result<(), Error> {
        let layers = manifest.layers();
        if layers.len() > LAYERS_MAX {
            return Err(self.wrong(format!(
                "it has {} layers; {LAYERS_MAX} can be put together",
                layers.len()
            )));
        }
        let config = manifest.config();
        if !self.registries.images.has(config.digest()) {
            let answer = self.session.get(&format!("blobs/{}", config.digest()), 0).await?;
            let text = self.session.whole(answer, DOCUMENT_BYTES_MAX as usize).await?;
            check(&text, config.digest(), "the configuration")?;
            let configuration: ImageConfiguration = self.understand("the configuration", &text)?;
            let (os, arch) = (configuration.os(), configuration.architecture());
            if !is_for_this_machine(os, arch) {
                return Err(self.wrong(format!("it is for {os}/{arch}; this is linux/{}", Arch::default())));
            }
            self.keep_document(text).await?;
        }
        for layer in layers {
            if !self.registries.images.has(layer.digest()) {
                self.layer(layer).await?;
            }
        }
        Ok(())
    }

    async fn keep_document(&self, text: Bytes) -> Result<(Digest, u64), store::Error> {
        let keep = move |images: &Images| images.put(&mut &*text, None, DOCUMENT_BYTES_MAX);
        self.registries.on_disk(keep).await
    }

    /// From the network to the disk; what is too long, or is something else in the end, is not kept.
    async fn layer(&mut self, layer: &Descriptor) -> Result<(), Error> {
        let (chunks, coming) = mpsc::channel(CHUNKS);
        let (digest, bytes_max) = (layer.digest().clone(), layer.size().min(LAYER.bytes));
        let images = Arc::clone(&self.registries.images);
        let mut coming = Coming {
            chunks: coming,
            chunk: Bytes::new(),
        };
        let keeping = tokio::task::spawn_blocking(move || images.put(&mut coming, Some(&digest), bytes_max));
        let brought = self.bring(layer, &chunks).await;
        drop(chunks);
        let kept = keeping.await.expect("keeping a layer does not panic");
        // Why it did not come whole says more than that it is not whole.
        brought?;
        Ok(kept.map(drop)?)
    }

    /// All bytes of a blob, for as long as somebody takes them; where it is cut off it is asked for the rest.
    async fn bring(&mut self, blob: &Descriptor, chunks: &mpsc::Sender<Bytes>) -> Result<(), Error> {
        let path = format!("blobs/{}", blob.digest());
        let (mut at_bytes, mut tries) = (0, 0);
        let mut pace = Pace::default();
        loop {
            let before = at_bytes;
            let ended = match self.session.get(&path, at_bytes).await {
                Ok(answer) => self.pass_on(answer, &mut at_bytes, &mut pace, chunks).await,
                Err(error @ Error::Unreachable { .. }) => Err(error),
                Err(other) => return Err(other),
            };
            if at_bytes >= blob.size() || chunks.is_closed() {
                return Ok(());
            }
            tries = if at_bytes > before { 0 } else { tries + 1 };
            if !pace.keeps(at_bytes) {
                let slow = self.session.unreachable(format!(
                    "it has brought less than {PACE_BYTES} bytes of layer {} in {} s, {at_bytes} of {} in all",
                    blob.digest(),
                    PACE.as_secs(),
                    blob.size()
                ));
                return ended.and(Err(slow));
            }
            if tries > TRIES {
                let cut = || {
                    self.wrong(format!(
                        "layer {} ends after {at_bytes} of {} bytes",
                        blob.digest(),
                        blob.size()
                    ))
                };
                return ended.and_then(|()| Err(cut()));
            }
            sleep(PAUSE * 2_u32.pow(tries)).await;
        }
    }

    async fn pass_on(
        &self,
        mut answer: http::Answer,
        at_bytes: &mut u64,
        pace: &mut Pace,
        chunks: &mpsc::Sender<Bytes>,
    ) -> Result<(), Error> {
        // Who gives all of it where the rest was asked for is listened to until that comes.
        let mut known_bytes = match answer.response.status() {
            StatusCode::PARTIAL_CONTENT => 0,
            _ => *at_bytes,
        };
        loop {
            let frame = timeout(SILENCE, answer.response.frame()).await;
            let frame = match frame {
                Err(_) => return Err(self.session.silent()),
                Ok(None) => return Ok(()),
                Ok(Some(frame)) => frame.map_err(|error| self.session.unreachable(error.to_string()))?,
            };
            let Ok(mut chunk) = frame.into_data() else { continue };
            let known = usize::try_from(known_bytes).unwrap_or(usize::MAX).min(chunk.len());
            known_bytes -= known as u64;
            drop(chunk.split_to(known));
            *at_bytes += chunk.len() as u64;
            // Whoever asked looks at the pace, too.
            if !pace.keeps(*at_bytes) {
                return Ok(());
            }
            if !chunk.is_empty() && chunks.send(chunk).await.is_err() {
                return Ok(());
            }
        }
    }

    fn understand<T: serde::de::DeserializeOwned>(&self, what: &str, text: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(text).map_err(|error| self.wrong(format!("{what} cannot be understood: {error}")))
    }

    fn wrong(&self, message: String) -> Error {
        self.session.wrong(message)
    }
}

/// How fast a layer comes.
struct Pace {
    since: Instant,
    /// How much there was then.
    from_bytes: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            since: Instant::now(),
            from_bytes: 0,
        }
    }
}

impl Pace {
    /// Whether it is fast enough, now that there are so many bytes.
    fn keeps(&mut self, bytes: u64) -> bool {
        if bytes - self.from_bytes >= PACE_BYTES {
            *self = Pace {
                since: Instant::now(),
                from_bytes: bytes,
            };
        }
        self.since.elapsed() < PACE
    }
}

fn check(text: &[u8], wanted: &Digest, what: &str) -> Result<(), store::Error> {
    let found = store::digest_of(text);
    match found == *wanted {
        true => Ok(()),
        false => Err(store::Error::OtherDigest {
            what: what.to_owned(),
            found: found.to_string(),
            wanted: wanted.to_string(),
        }),
    }
}

/// A blob as it comes, for whoever reads it on a thread of its own.
struct Coming {
    chunks: mpsc::Receiver<Bytes>,
    chunk: Bytes,
}

impl Read for Coming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() {
            self.chunk = self.chunks.blocking_recv().unwrap_or_default();
        }
        let bytes = self.chunk.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.chunk.split_to(bytes));
        Ok(bytes)
    }
}
