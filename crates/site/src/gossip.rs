//! Who is there, and what each says: learnt from each other, whoever is connected with whom.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use identity::Bans;
use serde::{Deserialize, Serialize};

use crate::record::{Keys, Number, Record, Refused, Unwanted};

/// How often a node tells some others what it has.
pub const ROUND: Duration = Duration::from_millis(500);
/// A node of which nobody has heard for so long is silent: it may be gone.
pub const SILENT_AFTER: Duration = Duration::from_secs(3);
/// And is not known any more after this.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(86_400);
/// Bits of an incarnation that are random.
pub const RANDOM_BITS: u32 = 16;
/// Nodes of a site, this one among them.
pub const MAX_NODES: usize = 256;

/// Bytes of a message, and what records have of them: the digest of [`MAX_NODES`] fits beside those, and as many bans.
pub(crate) const MAX_MESSAGE_BYTES: usize = 256 * 1024;
const MAX_RECORDS_BYTES: usize = 192 * 1024;
/// A message, its answer, and what that asked for.
const LAST_STEP: u8 = 2;
/// Of a name that is told to be refused.
const SHOWN_CHARS: usize = 64;

/// What one node tells another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// 0: what somebody has. 1: an answer to that. 2: to the answer; it has none.
    step: u8,
    /// What who sends it has, of whom.
    digest: Vec<Heard>,
    /// What the other lacks.
    records: Vec<Record>,
    /// Which bans it has.
    bans_number: u64,
    /// Those, where the other lacks them.
    bans: Option<Bans>,
}

/// What somebody has of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Heard {
    node: String,
    number: Number,
    /// Counts the node's rounds since it started.
    beats: u64,
    /// For how long nobody has heard of it, as far as who sends this knows.
    silent_s: u32,
}

impl Message {
    /// Reads a message, which has 256 KiB at most.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        match bytes.len() <= MAX_MESSAGE_BYTES {
            true => postcard::from_bytes(bytes),
            false => Err(postcard::Error::DeserializeBadEncoding),
        }
    }

    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("numbers and texts can be written")
    }
}

/// What came of a message.
#[derive(Debug, Default)]
pub struct Received {
    /// Whether some node says something else than before, or there is another one.
    pub is_new: bool,
    /// Whether others are banned than before.
    pub bans_are_new: bool,
    /// What to answer.
    pub answer: Option<Message>,
    /// What was not taken.
    pub refused: Vec<Refused>,
}

/// A node of the site, as it is known here.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub node: &'a str,
    /// What it said last.
    pub content: &'a [u8],
    /// Whether it has been heard of within [`SILENT_AFTER`].
    pub is_alive: bool,
    /// When it was heard of last, by whatever way; `None`: not since it is known.
    pub heard_at: Option<Instant>,
}

struct Other {
    record: Record,
    beats: u64,
    heard_at: Option<Instant>,
    known_since: Instant,
}

/// What a node has of its site.
pub struct Gossip<K> {
    keys: K,
    own: Record,
    beats: u64,
    others: BTreeMap<String, Other>,
    bans: Bans,
}

impl<K: Keys> Gossip<K> {
    /// Of the node of this name, which says `content`. Each start has a higher `incarnation`: the time of it, and below that
    /// [`RANDOM_BITS`] by which no two starts are taken for one. `bans` are those that it knew, which count where the
    /// authority has signed them.
    #[must_use]
    pub fn new(node: &str, incarnation: u64, content: Vec<u8>, bans: Bans, keys: K) -> Self {
        let number = Number {
            incarnation,
            version: 0,
        };
        Gossip {
            own: Record::new(node, number, content, &keys),
            bans: if keys.has_banned(&bans) { bans } else { Bans::default() },
            keys,
            beats: 0,
            others: BTreeMap::new(),
        }
    }

    /// Has this node say something else from now on; the message is for all who are connected.
    pub fn say(&mut self, content: Vec<u8>, now: Instant) -> Message {
        let number = Number {
            version: self.own.number.version + 1,
            ..self.own.number
        };
        self.own = Record::new(&self.own.node, number, content, &self.keys);
        self.message(1, vec![self.own.clone()], now)
    }

    /// Has these nodes be banned from now on, in place of those before; the message is for all who are connected.
    ///
    /// # Errors
    /// The authority has not signed it.
    pub fn ban(&mut self, bans: Bans, now: Instant) -> Result<Message, Unwanted> {
        self.take_bans(bans)?;
        Ok(Message {
            bans: Some(self.bans.clone()),
            ..self.message(1, Vec::new(), now)
        })
    }

    /// Who is banned.
    pub fn bans(&self) -> &Bans {
        &self.bans
    }

    /// Whether the node of a certificate is banned with it.
    pub fn is_banned(&self, certificate: &[u8]) -> bool {
        self.keys.is_banned(certificate, &self.bans)
    }

    /// What to tell some of those that are connected, each [`ROUND`].
    pub fn round(&mut self, now: Instant) -> Message {
        self.beats += 1;
        self.others.retain(|_, other| now < other.last_sign() + FORGOTTEN_AFTER);
        self.message(0, Vec::new(), now)
    }

    fn message(&self, step: u8, records: Vec<Record>, now: Instant) -> Message {
        Message {
            step,
            digest: self.digest(now),
            records,
            bans_number: self.bans.number(),
            bans: None,
        }
    }

    /// Takes what the node `from` has sent.
    pub fn receive(&mut self, from: &str, message: Message, now: Instant) -> Received {
        let mut received = Received::default();
        if let Some(bans) = message.bans {
            match self.take_bans(bans) {
                Ok(is_new) => received.bans_are_new = is_new,
                Err(why) => {
                    let node = from.to_owned();
                    received.refused.push(Refused { node, why });
                    return received;
                }
            }
            received.is_new |= received.bans_are_new;
        }
        let silent_s: BTreeMap<&str, u32> = message
            .digest
            .iter()
            .map(|heard| (&*heard.node, heard.silent_s))
            .collect();
        for record in message.records {
            let node = record.node.chars().take(SHOWN_CHARS).collect();
            let silent_s = silent_s.get(&*record.node).copied().unwrap_or(0);
            let since = now.checked_sub(Duration::from_secs(silent_s.into())).unwrap_or(now);
            match self.take(record, since, now) {
                Ok(is_new) => received.is_new |= is_new,
                Err(why) => {
                    received.refused.push(Refused { node, why });
                    // Signatures take time to look at; who sends one that is wrong is not to be believed in the rest.
                    if why == Unwanted::Signature {
                        break;
                    }
                }
            }
        }
        for heard in &message.digest {
            if let Some(other) = self.others.get_mut(&heard.node)
                && other.record.number.incarnation == heard.number.incarnation
                && other.beats < heard.beats
            {
                // What was true when it became known need not be true now.
                if other.beats > 0 {
                    other.heard_at = Some(now);
                }
                other.beats = heard.beats;
            }
        }
        if let Some(other) = self.others.get_mut(from) {
            other.heard_at = Some(now);
        }
        if message.step < LAST_STEP {
            received.answer = self.answer(message.step + 1, &message.digest, message.bans_number, now);
        }
        received
    }

    /// All but this one, by their names.
    pub fn members(&self, now: Instant) -> impl Iterator<Item = Member<'_>> {
        self.others.iter().map(move |(node, other)| Member {
            node,
            content: &other.record.content,
            is_alive: other.is_alive(now),
            heard_at: other.heard_at,
        })
    }

    /// Whether these are later ones than were known. Nodes that are banned are not known any more.
    fn take_bans(&mut self, bans: Bans) -> Result<bool, Unwanted> {
        if bans.number() <= self.bans.number() {
            return Ok(false);
        }
        if !self.keys.has_banned(&bans) {
            return Err(Unwanted::Bans);
        }
        self.others
            .retain(|_, other| !self.keys.is_banned(&other.record.certificate, &bans));
        self.bans = bans;
        Ok(true)
    }

    /// Whether something is new by it. Its node has been heard of by whoever sent it, last at `since`.
    fn take(&mut self, record: Record, since: Instant, now: Instant) -> Result<bool, Unwanted> {
        if record.node == self.own.node {
            return self.take_own(&record);
        }
        let known = self.others.get(&record.node).map(|other| other.record.number);
        if known.is_some_and(|known| record.number <= known) {
            return Ok(false);
        }
        record.check(&self.keys)?;
        if self.is_banned(&record.certificate) {
            // Who sends it has not heard of the ban.
            return Ok(false);
        }
        if known.is_none() {
            if since + FORGOTTEN_AFTER <= now {
                // Others forget it in this moment.
                return Ok(false);
            }
            self.make_room(now)?;
        }
        let is_restart = known.is_none_or(|known| known.incarnation < record.number.incarnation);
        let before = self.others.remove(&record.node);
        let is_new = before
            .as_ref()
            .is_none_or(|before| before.record.content != record.content);
        let other = Other {
            beats: before.as_ref().filter(|_| !is_restart).map_or(0, |before| before.beats),
            heard_at: before.as_ref().and_then(|before| before.heard_at),
            known_since: before.map_or(since, |before| before.known_since),
            record,
        };
        self.others.insert(other.record.node.clone(), other);
        Ok(is_new)
    }

    /// Others have a later one of this node than it has: it said that before it started, and its clock was set back
    /// since. It says what it says now once more, with a number above that.
    fn take_own(&mut self, record: &Record) -> Result<bool, Unwanted> {
        if record.number <= self.own.number {
            return Ok(false);
        }
        record.check(&self.keys)?;
        let random = (1 << RANDOM_BITS) - 1;
        let above = (record.number.incarnation | random).saturating_add(1);
        let number = Number {
            incarnation: above | self.own.number.incarnation & random,
            version: 0,
        };
        let content = std::mem::take(&mut self.own.content);
        self.own = Record::new(&self.own.node, number, content, &self.keys);
        Ok(false)
    }

    /// Room for one more: the longest silent one goes.
    fn make_room(&mut self, now: Instant) -> Result<(), Unwanted> {
        if self.others.len() + 1 < MAX_NODES {
            return Ok(());
        }
        let silent = self.others.iter().filter(|(_, other)| !other.is_alive(now));
        let longest = silent.min_by_key(|(_, other)| other.last_sign());
        let longest = longest.map(|(node, _)| node.clone()).ok_or(Unwanted::Full)?;
        self.others.remove(&longest);
        Ok(())
    }

    /// What somebody with this digest lacks, or who has what is lacking here; `None`: both have the same. A round is answered
    /// even so: who is connected with one node alone, which tells three of many, hears of all by that.
    fn answer(&self, step: u8, digest: &[Heard], bans_number: u64, now: Instant) -> Option<Message> {
        let theirs: BTreeMap<&str, Number> = digest.iter().map(|heard| (&*heard.node, heard.number)).collect();
        let all = std::iter::once(&self.own).chain(self.others.values().map(|other| &other.record));
        let lacking = all.filter(|record| theirs.get(&*record.node).is_none_or(|known| *known < record.number));
        // Nodes that it knows come first: for others it may have no room, and is sent them in vain.
        let (known, unknown): (Vec<_>, Vec<_>) = lacking.partition(|record| theirs.contains_key(&*record.node));
        let mut bytes = 0;
        let fitting = known.into_iter().chain(unknown).take_while(|record| {
            bytes += record.bytes_max();
            bytes <= MAX_RECORDS_BYTES
        });
        let records: Vec<Record> = fitting.cloned().collect();
        let lacks = theirs
            .iter()
            .any(|(node, number)| self.number(node).is_none_or(|known| known < *number));
        let bans = (bans_number < self.bans.number()).then(|| self.bans.clone());
        let lacks = lacks || self.bans.number() < bans_number;
        let is_to_a_round = step == 1;
        (is_to_a_round || lacks && step < LAST_STEP || !records.is_empty() || bans.is_some()).then(|| Message {
            bans,
            ..self.message(step, records, now)
        })
    }

    fn number(&self, node: &str) -> Option<Number> {
        match node == self.own.node {
            true => Some(self.own.number),
            false => self.others.get(node).map(|other| other.record.number),
        }
    }

    fn digest(&self, now: Instant) -> Vec<Heard> {
        let heard = |record: &Record, beats, silent: Duration| Heard {
            node: record.node.clone(),
            number: record.number,
            beats,
            silent_s: silent.as_secs() as u32,
        };
        let others = self.others.values();
        let others = others.map(|other| heard(&other.record, other.beats, now - other.last_sign()));
        std::iter::once(heard(&self.own, self.beats, Duration::ZERO))
            .chain(others)
            .collect()
    }
}

impl Other {
    fn last_sign(&self) -> Instant {
        self.heard_at.unwrap_or(self.known_since)
    }

    fn is_alive(&self, now: Instant) -> bool {
        self.heard_at.is_some_and(|at| now < at + SILENT_AFTER)
    }
}
