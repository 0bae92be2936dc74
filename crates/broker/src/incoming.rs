//! What a session receives at QoS 2: packet identifiers between PUBLISH and PUBREL (MQTT-4.3.3-9 and -10).

use std::collections::VecDeque;

use mqtt::PacketId;

use crate::Position;

/// Packet identifiers of messages that were delivered onward and not released by their sender, with their records.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    pub(crate) ids: VecDeque<(PacketId, Position)>,
}

impl Incoming {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The record of an identifier that is in use; zero if it has none.
    pub(crate) fn get(&self, packet_id: PacketId) -> Option<Position> {
        self.find(packet_id).ok().map(|at| self.ids[at].1)
    }

    pub(crate) fn insert(&mut self, packet_id: PacketId, position: Position) {
        match self.find(packet_id) {
            Ok(at) => self.ids[at].1 = position,
            Err(at) => self.ids.insert(at, (packet_id, position)),
        }
    }

    pub(crate) fn remove(&mut self, packet_id: PacketId) {
        if let Ok(at) = self.find(packet_id) {
            self.ids.remove(at);
        }
    }

    /// All records.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Position> {
        self.ids
            .iter()
            .map(|(_, position)| *position)
            .filter(|position| *position != Position(0))
    }

    fn find(&self, packet_id: PacketId) -> Result<usize, usize> {
        self.ids.binary_search_by_key(&packet_id, |(id, _)| *id)
    }
}
