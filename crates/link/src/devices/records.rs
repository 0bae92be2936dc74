//! What a device is, as a document whose members have the stamps of the edits that made them: how it becomes one, how
//! the documents of two sides become one, and what of that is not believed.

use std::sync::Arc;

use device::{Author, Document, Limits, Patch};
use identity::{ClientName, DeviceRecord, Identity, Labels, RegistryError, Shared, What};
use serde_json::{Map, Value};

use super::ranges::hash;

/// A record of as many labels and certificates as a device may have, and more.
const LIMITS: Limits = Limits {
    bytes: 48 << 10,
    depth: 2,
    leaves: 256,
    name_bytes: 256,
};
/// Bytes of a document with all that it remembers.
const DOCUMENT_BYTES_MAX: usize = 128 << 10;
/// Bytes of one text of a record.
const TEXT_BYTES_MAX: usize = 512;

/// Members whose names begin so are labels, and certificates by their serial numbers.
const LABEL: &str = "label:";
const CERTIFICATE: &str = "certificate:";

/// A record that is none, or not one that a device may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WrongRecord {
    #[error("a record of {0} bytes; {DOCUMENT_BYTES_MAX} is the most")]
    TooLong(usize),
    #[error("{0}")]
    Document(String),
    #[error("member {0:?} is not one that a device has, or not as it should be")]
    Member(String),
}

/// What became of a record that the other side told.
pub(super) struct Taken {
    /// What the other side lacks.
    pub(super) reply: Option<Vec<u8>>,
    /// Whether the device is there now.
    pub(super) is_there: bool,
    /// Members whose edit was given up for the edge's.
    pub(super) lost: Vec<String>,
    /// What changed here.
    pub(super) changes: Vec<What>,
}

/// The devices of one edge, in the registry of one of the two sides.
#[derive(Clone)]
pub(super) struct Records {
    pub(super) identity: Arc<Identity>,
    /// Whose edits those of the registry are.
    pub(super) author: Author,
    /// Whose devices, as the registry has it: empty at the edge itself.
    pub(super) edge: Arc<str>,
}

impl Records {
    /// The digests of the records of all devices of a tenant; what was changed here is stamped before.
    pub(super) fn digests(&self, tenant: &str, now_unix_s: i64) -> Result<Vec<(String, u64)>, RegistryError> {
        let mut digests = Vec::new();
        for name in names(tenant, &self.identity.registry().shared_ids(&self.edge, tenant)?).chunks(1_000) {
            let read = self.read(name, now_unix_s)?;
            let there = name.iter().zip(read).filter(|(_, read)| read.is_there);
            digests.extend(there.map(|(name, read)| (name.id().to_string(), hash(&read.document))));
        }
        Ok(digests)
    }

    /// What is known of devices here, and whether it was changed since it was read last.
    pub(super) fn read(&self, names: &[ClientName], now_unix_s: i64) -> Result<Vec<Read>, RegistryError> {
        let registry = self.identity.registry();
        let read = registry.share(&self.edge, names, now_unix_s, |_, shared| {
            let stamped = stamped(shared, self.author);
            let read = Read {
                is_changed: stamped.is_changed,
                is_there: shared.record.is_some(),
                document: stamped.document.encode(),
            };
            let is_known = shared.document.is_some() || shared.record.is_some();
            let keep = (stamped.is_changed && is_known).then(|| Shared {
                record: shared.record.clone(),
                document: Some(read.document.clone()),
            });
            (keep, read)
        })?;
        // A document is kept whatever it says: only SQLite fails.
        read.into_iter().map(|read| read.map(|read| read.made)).collect()
    }

    /// Takes in what the other side has of devices; who has nothing of one asks by it what is here.
    pub(super) fn take(
        &self,
        names: &[ClientName],
        theirs: &[Vec<u8>],
        now_unix_s: i64,
    ) -> Result<Vec<Result<Taken, String>>, RegistryError> {
        let registry = self.identity.registry();
        let taken = registry.share(&self.edge, names, now_unix_s, |number, shared| {
            match take_in(shared, self.author, &theirs[number]) {
                Ok((after, taken)) => (Some(after), Ok(taken)),
                Err(wrong) => (None, Err(wrong.to_string())),
            }
        })?;
        let taken = taken.into_iter().map(|shared| {
            let shared = shared.map_err(|error| error.to_string())?;
            Ok(Taken {
                changes: shared.changes,
                ..shared.made?
            })
        });
        Ok(taken.collect())
    }
}

/// What is known of a device here.
pub(super) struct Read {
    pub(super) is_changed: bool,
    pub(super) is_there: bool,
    pub(super) document: Vec<u8>,
}

/// Those that are names.
pub(super) fn names(tenant: &str, ids: &[String]) -> Vec<ClientName> {
    let names = ids.iter().filter_map(|id| ClientName::new(tenant, id).ok());
    names.collect()
}

/// A document with the edits that were made since it was kept.
struct Stamped {
    document: Document,
    is_changed: bool,
}

/// What is kept of a device, changed to what the device is now: each member that differs is an edit of this side.
fn stamped(shared: &Shared, author: Author) -> Stamped {
    let kept = shared.document.as_deref().map(Document::decode);
    // One that cannot be read is begun anew.
    let mut document = kept.and_then(Result::ok).unwrap_or_default();
    let mut now = shared.record.as_ref().map(members).unwrap_or_default();
    let before = members_of(&document);
    for name in before
        .keys()
        .filter(|name| !now.contains_key(*name))
        .cloned()
        .collect::<Vec<_>>()
    {
        now.insert(name, Value::Null);
    }
    now.retain(|name, value| before.get(name) != Some(value));
    let patch = serde_json::to_vec(&now).expect("JSON values are JSON");
    let edit = Patch::parse(&patch, &LIMITS).and_then(|patch| document.apply(patch, author, &LIMITS));
    let is_changed = match edit {
        Ok(undo) => undo.is_some(),
        Err(error) => {
            tracing::error!(%error, "a device is more than a link can tell");
            false
        }
    };
    if shared.record.is_none() {
        document = document.emptied();
    }
    Stamped { document, is_changed }
}

fn take_in(shared: &Shared, author: Author, bytes: &[u8]) -> Result<(Shared, Taken), WrongRecord> {
    let ours = stamped(shared, author).document;
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(WrongRecord::TooLong(bytes.len()));
    }
    let theirs = Document::decode(bytes).map_err(|error| WrongRecord::Document(error.to_string()))?;
    let merged = ours.merged(author, &theirs);
    let record = record(&members_of(&merged.document))?;
    let document = match record {
        Some(_) => merged.document,
        // What was edited of a device that is removed goes with it.
        None => merged.document.emptied(),
    };
    let taken = Taken {
        reply: (document != theirs).then(|| document.encode()),
        is_there: record.is_some(),
        lost: merged.conflicts.into_iter().map(|conflict| conflict.pointer).collect(),
        changes: Vec::new(),
    };
    Ok((kept(shared, record, &document), taken))
}

/// A device of which nothing was ever known leaves no trace.
fn kept(shared: &Shared, record: Option<DeviceRecord>, document: &Document) -> Shared {
    let is_known = record.is_some() || shared.document.is_some() || *document != Document::default();
    Shared {
        record,
        document: is_known.then(|| document.encode()),
    }
}

/// The members of a document that are there.
fn members_of(document: &Document) -> Map<String, Value> {
    let mut members: Map<String, Value> =
        serde_json::from_slice(&document.to_versioned_json()).expect("a document is a JSON object");
    members.remove("$version");
    members
}

fn members(record: &DeviceRecord) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("life".to_owned(), record.life.as_str().into());
    if record.disabled {
        members.insert("disabled".to_owned(), true.into());
    }
    if record.trusts_subject {
        members.insert("trusted".to_owned(), true.into());
    }
    for (name, text) in [("password", &record.password), ("tokens", &record.token_epoch)] {
        members.extend(text.as_deref().map(|text| (name.to_owned(), text.into())));
    }
    let labels = record.labels.iter();
    members.extend(labels.map(|(name, value)| (format!("{LABEL}{name}"), value.as_str().into())));
    let certificates = record.certificates.iter();
    members.extend(certificates.map(|(serial, end)| (format!("{CERTIFICATE}{serial}"), (*end).into())));
    members
}

/// The device that these members are; `None`: it was removed.
fn record(members: &Map<String, Value>) -> Result<Option<DeviceRecord>, WrongRecord> {
    if !members.contains_key("life") {
        return Ok(None);
    }
    let mut record = DeviceRecord {
        life: String::new(),
        disabled: false,
        labels: Labels::new(),
        password: None,
        token_epoch: None,
        trusts_subject: false,
        certificates: Default::default(),
    };
    for (name, value) in members {
        set(&mut record, name, value).ok_or_else(|| WrongRecord::Member(name.chars().take(80).collect()))?;
    }
    Ok(Some(record))
}

/// `None`: no device has this member, or not with this value.
fn set(record: &mut DeviceRecord, name: &str, value: &Value) -> Option<()> {
    let text = |value: &Value| {
        let text = value.as_str().filter(|text| text.len() <= TEXT_BYTES_MAX)?;
        Some(text.to_owned())
    };
    match name {
        "life" => record.life = text(value)?,
        "disabled" => record.disabled = value.as_bool()?,
        "trusted" => record.trusts_subject = value.as_bool()?,
        "password" => record.password = Some(text(value)?),
        "tokens" => record.token_epoch = Some(text(value)?),
        _ => {
            if let Some(label) = name.strip_prefix(LABEL) {
                record.labels.insert(label.to_owned(), text(value)?);
            } else {
                let serial = name.strip_prefix(CERTIFICATE)?;
                let is_serial = (1..=80).contains(&serial.len()) && serial.bytes().all(is_digit);
                record
                    .certificates
                    .insert(serial.to_owned(), value.as_i64().filter(|_| is_serial)?);
            }
        }
    }
    Some(())
}

/// Of a serial number as the registry has it.
fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests;
