//! The shard's log: which tenant a record is of and what kind it is, around what the broker and the twins write.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::BorrowedFd;

use broker::{Full, Position, Record};
use rustix::event::{PollFd, PollFlags};
use store::{Kind, Log, Refused};

/// What a record's meta begins with: its kind, then the number of its tenant in this log.
const PREFIX_BYTES: usize = 5;

/// What a record of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A tenant and its number: the body of the meta is its name.
    Tenant(&'a str),
    /// A record of the tenant's broker.
    Broker(&'a [u8]),
    /// A device's twin: the device's id; the record's body is the twin.
    Twin(&'a str),
    /// A device's twin is no more.
    TwinGone(&'a str),
    /// The state of a queue of the outbox.
    OutboxState(&'a [u8]),
    /// All about a message of the outbox but itself, which is the record's body.
    OutboxMessage(&'a [u8]),
    /// What came of an epoch of an edge.
    Arrived(&'a [u8]),
}

impl<'a> Entry<'a> {
    fn kind(self) -> u8 {
        match self {
            Entry::Tenant(_) => 0,
            Entry::Broker(_) => 1,
            Entry::Twin(_) => 2,
            Entry::TwinGone(_) => 3,
            Entry::OutboxState(_) => 4,
            Entry::OutboxMessage(_) => 5,
            Entry::Arrived(_) => 6,
        }
    }

    /// The tenant's number and the entry in a record's meta; `None` if it is none.
    pub(crate) fn decode(meta: &'a [u8]) -> Option<(u32, Entry<'a>)> {
        let (prefix, rest) = meta.split_first_chunk::<PREFIX_BYTES>()?;
        let tenant = u32::from_le_bytes(prefix[1..].try_into().expect("four bytes"));
        let entry = match prefix[0] {
            0 => Entry::Tenant(std::str::from_utf8(rest).ok()?),
            1 => Entry::Broker(rest),
            2 => Entry::Twin(std::str::from_utf8(rest).ok()?),
            3 => Entry::TwinGone(std::str::from_utf8(rest).ok()?),
            4 => Entry::OutboxState(rest),
            5 => Entry::OutboxMessage(rest),
            6 => Entry::Arrived(rest),
            _ => return None,
        };
        Some((tenant, entry))
    }
}

/// Bytes of a session's own record, about.
const SESSION_BYTES: usize = 256;

/// The log with what the shard must remember of it.
pub(crate) struct Journal {
    log: Log,
    meta: Vec<u8>,
    /// Whose bodies are being read back.
    loading: HashMap<Position, u32>,
    /// Reads that wait until the log takes more.
    to_load: VecDeque<Position>,
    /// Tenants with something that waits until more of the log is durable.
    awaiting_commit: BTreeSet<u32>,
    /// While a record moves to the head of the log, what takes its place has the log's reserve.
    is_relocating: bool,
}

impl Journal {
    pub(crate) fn new(log: Log) -> Self {
        Self {
            log,
            meta: Vec::new(),
            loading: HashMap::new(),
            to_load: VecDeque::new(),
            awaiting_commit: BTreeSet::new(),
            is_relocating: false,
        }
    }

    pub(crate) fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    pub(crate) fn event_fd(&self) -> BorrowedFd<'_> {
        self.log.event_fd()
    }

    pub(crate) fn usage(&self) -> store::Usage {
        self.log.usage()
    }

    pub(crate) fn into_log(self) -> Log {
        self.log
    }

    pub(crate) fn durable(&self) -> Position {
        Position(self.log.durable().0)
    }

    pub(crate) fn append(&mut self, tenant: u32, kind: Kind, entry: Entry<'_>, body: &[u8]) -> Result<Position, Full> {
        self.begin_meta(tenant, entry.kind());
        match entry {
            Entry::Tenant(text) | Entry::Twin(text) | Entry::TwinGone(text) => {
                self.meta.extend_from_slice(text.as_bytes());
            }
            Entry::Broker(bytes) | Entry::OutboxState(bytes) | Entry::OutboxMessage(bytes) | Entry::Arrived(bytes) => {
                self.meta.extend_from_slice(bytes);
            }
        }
        self.commit(kind, body)
    }

    pub(crate) fn append_record(&mut self, tenant: u32, record: &Record<'_>) -> Result<Position, Full> {
        let kind = if record.is_tombstone() {
            Kind::Tombstone
        } else if record.frees_space() {
            Kind::Replacement
        } else {
            Kind::Value
        };
        self.append_record_as(tenant, kind, record)
    }

    /// Appends what takes the place of a record that is released next.
    pub(crate) fn replace_record(&mut self, tenant: u32, record: &Record<'_>) -> Result<Position, Full> {
        let kind = if record.is_tombstone() {
            Kind::Tombstone
        } else {
            Kind::Replacement
        };
        self.append_record_as(tenant, kind, record)
    }

    fn append_record_as(&mut self, tenant: u32, kind: Kind, record: &Record<'_>) -> Result<Position, Full> {
        self.begin_meta(tenant, Entry::Broker(&[]).kind());
        let body = record.encode(&mut self.meta);
        self.commit(kind, body)
    }

    /// Whether the log makes room just now, so that what it refuses it may take in a moment: a session's own record,
    /// say.
    pub(crate) fn is_making_room(&self) -> bool {
        let would_take = self.log.would_take(Kind::Replacement, SESSION_BYTES);
        matches!(would_take, Err(Refused::Full | Refused::Behind))
    }

    /// Whether something is to be written anyway.
    pub(crate) fn has_pending(&self) -> bool {
        self.log.has_pending()
    }

    /// Whether a message in a packet of so many bytes, which may leave upstream too, has to wait until the disk has
    /// caught up.
    pub(crate) fn is_behind(&self, packet_bytes: usize) -> bool {
        let takes = |bytes| self.log.would_take(Kind::Value, SESSION_BYTES + bytes);
        match takes(2 * packet_bytes) {
            Ok(()) => false,
            Err(Refused::Behind) => true,
            Err(_) => takes(packet_bytes) == Err(Refused::Behind),
        }
    }

    /// Says whether what is appended from here on takes the place of a record that moves.
    pub(crate) fn set_relocating(&mut self, is_relocating: bool) {
        self.is_relocating = is_relocating;
    }

    fn begin_meta(&mut self, tenant: u32, kind: u8) {
        self.meta.clear();
        self.meta.push(kind);
        self.meta.extend_from_slice(&tenant.to_le_bytes());
    }

    fn commit(&mut self, kind: Kind, body: &[u8]) -> Result<Position, Full> {
        let kind = match kind {
            Kind::Value | Kind::Replacement if self.is_relocating => Kind::Moved,
            kind => kind,
        };
        match self.log.append(kind, &self.meta, body) {
            Ok(position) => Ok(Position(position.0)),
            Err(Refused::Full | Refused::Behind | Refused::TooLarge | Refused::Stopped) => Err(Full),
        }
    }

    pub(crate) fn cancel(&mut self, position: Position) -> bool {
        self.log.cancel(store::Position(position.0))
    }

    pub(crate) fn release(&mut self, position: Position) {
        self.log.release(store::Position(position.0));
    }

    /// The tenant is to go on at the next commit.
    pub(crate) fn await_commit(&mut self, tenant: u32) {
        self.awaiting_commit.insert(tenant);
    }

    /// The tenants that are to go on now. What has to wait on says so again.
    pub(crate) fn take_awaiting_commit(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.awaiting_commit)
    }

    /// Has a body read back for a tenant.
    pub(crate) fn load(&mut self, tenant: u32, position: Position) {
        self.loading.insert(position, tenant);
        self.to_load.push_back(position);
        self.ask();
    }

    /// Asks for as many of the waiting reads as the log takes, but for those that nobody waits for any more.
    pub(crate) fn ask(&mut self) {
        while let Some(position) = self.to_load.front() {
            let is_wanted = self.loading.contains_key(position);
            if is_wanted && !self.log.load(store::Position(position.0)) {
                return;
            }
            self.to_load.pop_front();
        }
    }

    /// Waits until the log has news: only before the shard's loop runs.
    pub(crate) fn wait(&self) {
        let bell = self.log.event_fd();
        // Interrupted or not: the caller looks, and waits again.
        let _ = rustix::event::poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], None);
        let _ = rustix::io::read(bell, &mut [0u8; 8]);
    }

    /// Who asked for the body at `position`.
    pub(crate) fn take_reader(&mut self, position: Position) -> Option<u32> {
        self.loading.remove(&position)
    }
}
