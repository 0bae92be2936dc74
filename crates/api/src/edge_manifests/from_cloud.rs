//! The edge's side: what its cloud wants is applied here, and what became of it is told.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use link::Talk;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::records::Records;
use super::wire::{
    Applied, Entries, FromCloud as Said, FromEdge, Key, MANIFESTS_MAX, TEXT_BYTES_MAX, There, Verdict, bounded, digest,
    part, to_json,
};
use crate::applying::{self, Terms};
use crate::desk::Desk;
use crate::wrong::{Done, Wrong};

/// Where they are kept, in the data directory.
const DIRECTORY: &str = "manifests-of-cloud";

/// How often what was refused is tried again: a disk may have room, a twin another version.
const RETRY_INTERVAL: Duration = Duration::from_secs(15);
/// How long after a change of the registry: a device may have been added, and others may follow.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// What is kept of a manifest that came from the cloud. What is in effect is among the edge's own manifests, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    applied: Applied,
    there: There,
}

/// The manifests that came from the cloud.
#[derive(Debug)]
pub(crate) struct FromCloud {
    records: Records<Kept>,
    /// Told where somebody here has changed what the cloud knows of.
    changed: watch::Sender<()>,
}

impl FromCloud {
    /// Those in the data directory `data`.
    pub(crate) fn new(data: &Arc<Path>) -> Self {
        Self {
            records: Records::new(data, DIRECTORY),
            changed: watch::Sender::new(()),
        }
    }

    /// Why nobody here may change a manifest; `None`: it is the edge's own.
    pub(crate) async fn refusal(&self, key: &Key) -> Done<Option<String>> {
        let kept = self.records.get(key).await?;
        let is_the_clouds = kept.is_some_and(|kept| kept.there.verdict != Verdict::TakenOver);
        Ok(is_the_clouds.then(|| {
            let title = key.title();
            format!("{title} is the cloud's; change it there with --edge NAME, or take it over here with --take-over")
        }))
    }

    /// A manifest of the edge's own, or none, has the place of the cloud's, if there is one.
    pub(crate) async fn take_over(&self, key: &Key) -> Done<()> {
        self.end_effect(
            key,
            Verdict::TakenOver,
            "it was taken over at the edge; applied again, it takes effect again",
        )
        .await
    }

    /// Its device is gone; it is tried again, should there be another one.
    pub(crate) async fn device_is_gone(&self, key: &Key) -> Done<()> {
        self.end_effect(key, Verdict::Refused, "the device was removed at the edge")
            .await
    }

    async fn end_effect(&self, key: &Key, verdict: Verdict, why: &str) -> Done<()> {
        let kept = self.records.get(key).await?;
        let Some(mut kept) = kept.filter(|kept| kept.there.verdict != Verdict::TakenOver) else {
            return Ok(());
        };
        kept.there = There {
            revision: kept.there.revision,
            verdict,
            in_effect: None,
            error: Some(why.to_owned()),
        };
        self.records.put(key, &kept).await?;
        self.changed.send_replace(());
        Ok(())
    }

    async fn entries(&self) -> Done<Entries> {
        let kept = self.records.all().await?.into_iter();
        Ok(kept.map(|(key, kept)| (key, kept.there)).collect())
    }
}

/// Speaks with the cloud for an edge.
pub struct ManifestsFromCloud {
    desk: Arc<Desk>,
    runtime: Handle,
}

impl ManifestsFromCloud {
    /// Applies at this desk, on the current tokio runtime: the link does not wait for it.
    pub fn new(desk: Arc<Desk>) -> Self {
        let runtime = Handle::current();
        Self { desk, runtime }
    }
}

impl link::edge::Correspondent for ManifestsFromCloud {
    fn begin(&self, talk: Talk) {
        let desk = Arc::clone(&self.desk);
        self.runtime.spawn(async move {
            let mut taking = Taking { desk, say: talk.say };
            if let Err(wrong) = taking.run(talk.heard).await {
                let error = wrong.message();
                tracing::error!(%error, "what the cloud wants applied waits until the link connects again");
            }
        });
    }
}

struct Taking {
    desk: Arc<Desk>,
    say: mpsc::Sender<Vec<u8>>,
}

impl Taking {
    /// Takes what the cloud wants until the connection ends.
    async fn run(&mut self, mut heard: mpsc::Receiver<Vec<u8>>) -> Done<()> {
        let desk = Arc::clone(&self.desk);
        let mut changes = desk.from_cloud.changed.subscribe();
        let mut refreshes = desk.hub().await?.refreshes();
        let mut retry_at = Instant::now();
        self.tell_digest().await?;
        loop {
            tokio::select! {
                heard = heard.recv() => match heard {
                    Some(said) => self.take(&said).await?,
                    None => return Ok(()),
                },
                _ = changes.changed() => self.tell_digest().await?,
                Ok(()) = refreshes.changed() => retry_at = retry_at.min(Instant::now() + RETRY_SOON),
                () = tokio::time::sleep_until(retry_at) => {
                    retry_at = Instant::now() + RETRY_INTERVAL;
                    self.try_again().await?;
                }
            }
        }
    }

    async fn take(&mut self, said: &[u8]) -> Done<()> {
        let said = serde_json::from_slice(said);
        match said.map_err(|error| Wrong::here(format!("the cloud said what this version does not know: {error}")))? {
            Said::List { after } => self.tell_entries(after).await?,
            Said::Apply(key, applied) => {
                let there = self.apply(&key, applied).await?;
                self.tell(&FromEdge::Became(key, Some(there))).await;
            }
            Said::Remove(key) => {
                self.remove(&key).await?;
                self.tell(&FromEdge::Became(key, None)).await;
            }
        }
        Ok(())
    }

    async fn tell(&self, what: &FromEdge) {
        // Without a connection nobody is told.
        let _ = self.say.send(to_json(what)).await;
    }

    async fn tell_digest(&self) -> Done<()> {
        let entries = self.desk.from_cloud.entries().await?;
        self.tell(&FromEdge::Digest(digest(&entries))).await;
        Ok(())
    }

    async fn tell_entries(&self, after: Option<Key>) -> Done<()> {
        let (entries, is_last) = part(self.desk.from_cloud.entries().await?, after.as_ref());
        let part = FromEdge::Entries {
            after,
            entries,
            is_last,
        };
        self.tell(&part).await;
        Ok(())
    }

    /// Applies a manifest as an operator here would, and keeps what became of it.
    async fn apply(&self, key: &Key, applied: Applied) -> Done<There> {
        key.check()?;
        let _turn = self.desk.applying.lock().await;
        let records = &self.desk.from_cloud.records;
        let before = records.get(key).await?;
        if before.is_none() && records.count().await? >= MANIFESTS_MAX {
            return Err(Wrong::here(format!(
                "the cloud wants more than {MANIFESTS_MAX} manifests"
            )));
        }
        let in_effect = before.and_then(|kept| kept.there.in_effect);
        let there = enact(&self.desk, key, &applied, in_effect).await;
        log(key, &there);
        let kept = Kept { applied, there };
        records.put(key, &kept).await?;
        Ok(kept.there)
    }

    async fn remove(&self, key: &Key) -> Done<()> {
        key.check()?;
        let _turn = self.desk.applying.lock().await;
        let records = &self.desk.from_cloud.records;
        let Some(kept) = records.get(key).await? else {
            return Ok(());
        };
        // What was taken over, or never took effect, leaves nothing behind.
        if kept.there.in_effect.is_some() {
            applying::withdraw(&self.desk, key).await?;
            tracing::info!(manifest = key.title(), "the cloud removed a manifest");
        }
        records.remove(key).await
    }

    /// Tries what was refused again, and tells what is otherwise now.
    async fn try_again(&self) -> Done<()> {
        let entries = self.desk.from_cloud.entries().await?;
        let refused = entries
            .into_iter()
            .filter(|(_, there)| there.verdict == Verdict::Refused);
        for (key, _) in refused {
            let _turn = self.desk.applying.lock().await;
            let records = &self.desk.from_cloud.records;
            let kept = records.get(&key).await?;
            let Some(kept) = kept.filter(|kept| kept.there.verdict == Verdict::Refused) else {
                continue;
            };
            let there = enact(&self.desk, &key, &kept.applied, kept.there.in_effect).await;
            if there != kept.there {
                log(&key, &there);
                let kept = Kept { there, ..kept };
                records.put(&key, &kept).await?;
                self.tell(&FromEdge::Became(key, Some(kept.there))).await;
            }
        }
        Ok(())
    }
}

fn log(key: &Key, there: &There) {
    let (manifest, revision) = (key.title(), there.revision.number);
    match &there.error {
        None => tracing::info!(manifest, revision, "a manifest of the cloud's is in effect"),
        Some(error) => tracing::warn!(manifest, revision, error, "a manifest of the cloud's is refused"),
    }
}

/// Does what an operator's `apply` here would; `in_effect`: the revision that is, if any.
async fn enact(desk: &Desk, key: &Key, applied: &Applied, in_effect: Option<u64>) -> There {
    let revision = applied.revision;
    match try_to_enact(desk, key, applied).await {
        Ok(()) => There {
            revision,
            verdict: Verdict::Applied,
            in_effect: Some(revision.number),
            error: None,
        },
        Err(error) => There {
            revision,
            verdict: Verdict::Refused,
            in_effect,
            error: Some(bounded(error)),
        },
    }
}

async fn try_to_enact(desk: &Desk, key: &Key, applied: &Applied) -> Result<(), String> {
    if applied.text.len() > TEXT_BYTES_MAX {
        return Err(format!(
            "has {} bytes; one for an edge has at most {TEXT_BYTES_MAX}",
            applied.text.len()
        ));
    }
    let document = applied.excerpt().read().map_err(|errors| errors.to_string())?;
    if Key::of(&document.resource) != *key {
        return Err(format!("{} came as {}", document.resource.title(), key.title()));
    }
    let terms = Terms {
        is_dry_run: false,
        takes_over: true,
    };
    let done = applying::apply_documents(desk, vec![document], terms).await;
    done.map(drop).map_err(|wrong| wrong.message().to_owned())
}
