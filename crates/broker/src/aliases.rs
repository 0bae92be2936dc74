//! Topic aliases of one connection, section 3.3.2.3.4: each direction has its own.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;

/// Topics that the client has given aliases to.
#[derive(Debug, Default)]
pub(crate) struct IncomingAliases {
    /// By alias less one; grows with the aliases that are used, up to the maximum.
    topics: Vec<Option<Arc<str>>>,
}

impl IncomingAliases {
    pub(crate) fn set(&mut self, alias: NonZeroU16, topic: &str) {
        let at = usize::from(alias.get()) - 1;
        if self.topics.len() <= at {
            self.topics.resize(at + 1, None);
        }
        if self.topics[at].as_deref() != Some(topic) {
            self.topics[at] = Some(topic.into());
        }
    }

    pub(crate) fn get(&self, alias: NonZeroU16) -> Option<Arc<str>> {
        self.topics.get(usize::from(alias.get()) - 1)?.clone()
    }
}

/// Aliases that the client knows: the first topics that come get them, for the whole connection.
#[derive(Debug, Default)]
pub(crate) struct OutgoingAliases {
    aliases: HashMap<Box<str>, NonZeroU16>,
    maximum: u16,
}

/// How a topic is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alias {
    /// In full.
    None,
    /// In full, with a new alias.
    New(NonZeroU16),
    /// As an alias alone.
    Known(NonZeroU16),
}

impl OutgoingAliases {
    pub(crate) fn new(maximum: u16) -> Self {
        OutgoingAliases {
            aliases: HashMap::new(),
            maximum,
        }
    }

    pub(crate) fn of(&self, topic: &str) -> Alias {
        if self.maximum == 0 {
            return Alias::None;
        }
        match self.aliases.get(topic) {
            Some(alias) => Alias::Known(*alias),
            None if self.aliases.len() < usize::from(self.maximum) => Alias::New(self.next()),
            None => Alias::None,
        }
    }

    /// The new alias has been sent.
    pub(crate) fn learn(&mut self, topic: &str) {
        let alias = self.next();
        self.aliases.insert(topic.into(), alias);
    }

    fn next(&self) -> NonZeroU16 {
        let next = u16::try_from(self.aliases.len())
            .expect("no more than the maximum")
            .saturating_add(1);
        NonZeroU16::new(next).expect("counts from one")
    }
}
