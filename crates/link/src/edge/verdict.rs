//! What an acknowledgement says of the messages of its packet.

use hub::{Fate, Outgoing};
use mqtt::{Ack, ReasonCode};

use super::load::Sent;
use crate::topics;

/// What the other end says of a packet.
pub(super) enum Verdict {
    /// The same of all of it.
    All(Fate),
    /// Sections of a batch that it cannot take now, and that it never will, by their numbers in it.
    Sections { full: Vec<usize>, refused: Vec<usize> },
}

impl Verdict {
    pub(super) fn of(ack: &Ack<'_>) -> Self {
        let sections = |name| {
            let numbers = ack.user_properties.get(name).unwrap_or_default();
            numbers.split(',').filter_map(|number| number.parse().ok()).collect()
        };
        let (full, refused): (Vec<usize>, Vec<usize>) = (sections(topics::FULL), sections(topics::REFUSED));
        match ack.reason {
            ReasonCode::QuotaExceeded if full.is_empty() => Verdict::All(Fate::Returned),
            ReasonCode::QuotaExceeded => Verdict::Sections { full, refused },
            reason if reason.is_error() => Verdict::All(Fate::Refused),
            _ => Verdict::Sections { full, refused },
        }
    }

    fn fate(&self, section: usize) -> Fate {
        match self {
            Verdict::All(fate) => *fate,
            Verdict::Sections { full, .. } if full.contains(&section) => Fate::Returned,
            Verdict::Sections { refused, .. } if refused.contains(&section) => Fate::Refused,
            Verdict::Sections { .. } => Fate::Delivered,
        }
    }
}

/// What became of the messages of a packet. A section is a row of messages of one epoch.
pub(super) fn fates<'a>(sent: &'a Sent, verdict: &'a Verdict) -> impl Iterator<Item = (&'a Outgoing, Fate)> + 'a {
    let mut section = 0;
    let mut last = sent.messages.first().map(|message| message.ticket.epoch);
    sent.messages.iter().map(move |message| {
        if last != Some(message.ticket.epoch) {
            section += 1;
            last = Some(message.ticket.epoch);
        }
        (message, verdict.fate(section))
    })
}
