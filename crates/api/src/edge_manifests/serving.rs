//! The cloud's side of the link: an edge is told what is wanted of it, and what becomes of that is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use identity::ClientName;
use link::Talk;
use tokio::sync::mpsc;

use super::wanted::{OfEdge, Record, Wanted};
use super::wire::{Entries, FromCloud, FromEdge, Key, MANIFESTS_MAX, Revision, There, bounded, digest, to_json};
use crate::desk::Desk;
use crate::wrong::{Done, Wrong};

/// Bytes of manifests that the edge has not answered, at most, or one that is longer: they are in the way of calls and
/// twins, for two seconds where the line has 8 kbit/s.
const WINDOW_BYTES: usize = 2 << 10;
/// Manifests that the edge has not answered, at most: no more than the link lets wait there.
const WINDOW_MANIFESTS: usize = link::WAITING_MAX / 2;

/// Speaks with the edges of a cloud.
pub struct ManifestsForEdges(Arc<Desk>);

impl ManifestsForEdges {
    /// What was applied at this desk.
    pub fn new(desk: Arc<Desk>) -> Self {
        Self(desk)
    }
}

impl link::cloud::Correspondent for ManifestsForEdges {
    fn begin(&self, edge: &Arc<str>, tenants: &[String], talk: Talk) {
        let name = ClientName::from_user_name(edge).expect("an edge that was let in has a name");
        let mut serving = Serving {
            of_edge: self.0.for_edges.of(&name),
            edge: Arc::clone(edge),
            tenants: tenants.to_vec(),
            say: talk.say,
            is_compared: false,
            listing: None,
            due: VecDeque::new(),
            sent: HashMap::new(),
        };
        tokio::spawn(async move {
            if let Err(wrong) = serving.run(talk.heard).await {
                let (edge, error) = (serving.edge, wrong.message());
                tracing::error!(%edge, %error, "an edge gets no manifests until it connects again");
            }
        });
    }
}

struct Serving {
    of_edge: Arc<OfEdge>,
    edge: Arc<str>,
    /// Names of the tenants that it may speak for.
    tenants: Vec<String>,
    say: mpsc::Sender<Vec<u8>>,
    /// What the edge has is known.
    is_compared: bool,
    /// What it has said of that so far, while it is asked.
    listing: Option<Listing>,
    /// What it is to be told.
    due: VecDeque<Key>,
    /// What it was told last of each.
    sent: HashMap<Key, Sent>,
}

#[derive(Default)]
struct Listing {
    entries: Entries,
    /// What it was asked for last.
    after: Option<Key>,
}

struct Sent {
    /// The revision that it is to apply; `None`: it is to remove it.
    revision: Option<Revision>,
    /// Bytes, until it has answered.
    unanswered: Option<usize>,
}

impl Serving {
    async fn run(&mut self, mut heard: mpsc::Receiver<Vec<u8>>) -> Done<()> {
        let mut changes = self.of_edge.changed.subscribe();
        loop {
            tokio::select! {
                said = heard.recv() => match said {
                    Some(said) => self.take(&said).await?,
                    None => return Ok(()),
                },
                _ = changes.changed(), if self.is_compared => self.look().await?,
            }
            self.tell_what_is_due().await?;
        }
    }

    async fn take(&mut self, said: &[u8]) -> Done<()> {
        let said = serde_json::from_slice(said);
        match said.map_err(|error| Wrong::request(format!("the edge said what no edge says: {error}")))? {
            FromEdge::Digest(theirs) => {
                let known = self.of_edge.records.all().await?.into_iter();
                let known = known.filter_map(|(key, record)| Some((key, record.there?)));
                match digest(&known.collect()) == theirs {
                    true => self.look().await?,
                    false => {
                        self.listing = Some(Listing::default());
                        self.tell(&FromCloud::List { after: None }).await;
                    }
                }
            }
            FromEdge::Entries {
                after,
                entries,
                is_last,
            } => self.list(after, entries, is_last).await?,
            FromEdge::Became(key, there) => self.keep(key, there).await?,
        }
        Ok(())
    }

    /// Takes a part of what the edge has, and asks for the next one.
    async fn list(&mut self, after: Option<Key>, part: Vec<(Key, There)>, is_last: bool) -> Done<()> {
        // Another one is of a list that was begun anew.
        let Some(listing) = self.listing.as_mut().filter(|listing| listing.after == after) else {
            return Ok(());
        };
        listing.after = part.last().map(|(key, _)| key.clone());
        listing.entries.extend(part);
        if listing.entries.len() > MANIFESTS_MAX || !is_last && listing.after <= after {
            let message = format!("the edge lists more than {MANIFESTS_MAX} manifests, or in no order");
            return Err(Wrong::request(message));
        }
        if !is_last {
            let after = listing.after.clone();
            self.tell(&FromCloud::List { after }).await;
            return Ok(());
        }
        let listed = std::mem::take(&mut listing.entries);
        self.listing = None;
        self.compare(listed).await?;
        self.look().await
    }

    /// What the edge has is known from now on.
    async fn compare(&self, mut listed: Entries) -> Done<()> {
        let _turn = self.of_edge.turn.lock().await;
        for (key, record) in self.of_edge.records.all().await? {
            let there = listed.remove(&key).map(checked);
            if there != record.there {
                self.put(&key, Record { there, ..record }).await?;
            }
        }
        for (key, there) in listed {
            if key.check().is_ok() && self.tenants.contains(&key.tenant) {
                let (wanted, there) = (Wanted::Unknown, Some(checked(there)));
                self.put(&key, Record { wanted, there }).await?;
            }
        }
        Ok(())
    }

    async fn keep(&mut self, key: Key, there: Option<There>) -> Done<()> {
        key.check()?;
        let is_removed = there.is_none() && self.sent.get(&key).is_some_and(|sent| sent.revision.is_none());
        if is_removed {
            self.sent.remove(&key);
        } else if let Some(sent) = self.sent.get_mut(&key) {
            sent.unanswered = None;
        }
        let there = there.map(checked);
        if let Some(listing) = &mut self.listing
            && listing.entries.remove(&key).is_some()
        {
            // It was listed before this became of it.
            listing.entries.extend(there.clone().map(|there| (key.clone(), there)));
        }
        let _turn = self.of_edge.turn.lock().await;
        let Some(record) = self.of_edge.records.get(&key).await? else {
            return Ok(());
        };
        if let Some(error) = there.as_ref().and_then(|there| there.error.as_ref()) {
            tracing::warn!(edge = %self.edge, manifest = key.title(), %error, "an edge has a manifest not in effect");
        }
        let record = Record { there, ..record };
        if record.is_due() {
            self.due.push_back(key.clone());
        }
        self.put(&key, record).await
    }

    /// Keeps what there is to keep. The turn is held.
    async fn put(&self, key: &Key, record: Record) -> Done<()> {
        match record {
            Record {
                wanted: Wanted::Removed | Wanted::Unknown,
                there: None,
            } => self.of_edge.records.remove(key).await,
            record => self.of_edge.records.put(key, &record).await,
        }
    }

    /// Looks for what the edge is to be told.
    async fn look(&mut self) -> Done<()> {
        self.is_compared = true;
        let records = self.of_edge.records.all().await?.into_iter();
        let mut due: Vec<_> = records.filter(|(_, record)| record.is_due()).collect();
        due.sort_by_key(|(_, record)| record.revision().map(|revision| revision.number));
        self.due = due.into_iter().map(|(key, _)| key).collect();
        Ok(())
    }

    async fn tell_what_is_due(&mut self) -> Done<()> {
        while let Some(key) = self.due.front() {
            let record = self.of_edge.records.get(key).await?;
            let record = record.filter(|record| record.is_due() && self.may_be_sent(key, record));
            let Some(record) = record else {
                self.due.pop_front();
                continue;
            };
            let bytes = match &record.wanted {
                Wanted::Applied(applied) => applied.text.len(),
                Wanted::Removed | Wanted::Unknown => 0,
            };
            if !self.has_room(bytes) {
                return Ok(());
            }
            let key = self.due.pop_front().expect("looked at just now");
            let sent = Sent {
                revision: record.revision(),
                unanswered: Some(bytes),
            };
            self.sent.insert(key.clone(), sent);
            let what = match record.wanted {
                Wanted::Applied(applied) => FromCloud::Apply(key, applied),
                Wanted::Removed | Wanted::Unknown => FromCloud::Remove(key),
            };
            self.tell(&what).await;
        }
        Ok(())
    }

    /// Not while it has not answered, and nothing twice: an edge that answered something else would be asked for ever.
    fn may_be_sent(&self, key: &Key, record: &Record) -> bool {
        let is_new = self
            .sent
            .get(key)
            .is_none_or(|sent| sent.unanswered.is_none() && sent.revision != record.revision());
        is_new && self.tenants.contains(&key.tenant)
    }

    fn has_room(&self, bytes: usize) -> bool {
        let unanswered = || self.sent.values().filter_map(|sent| sent.unanswered);
        let manifests = unanswered().count();
        manifests == 0 || manifests < WINDOW_MANIFESTS && unanswered().sum::<usize>() + bytes <= WINDOW_BYTES
    }

    async fn tell(&self, what: &FromCloud) {
        // Without a connection nobody is told.
        let _ = self.say.send(to_json(what)).await;
    }
}

/// What an edge told, within bounds.
fn checked(there: There) -> There {
    There {
        error: there.error.map(bounded),
        ..there
    }
}
