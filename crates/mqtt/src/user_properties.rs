//! User Properties, section 2.2.2.2: walked where they stand, forwarded as they came (MQTT-3.3.2-17, MQTT-3.3.2-18).

use std::fmt;

use crate::property;
use crate::read::Reader;
use crate::write::Sink;

/// User Properties of a packet, section 2.2.2.2: string pairs in their order, names may repeat.
///
/// Borrows the well-formed property block they stand in and walks it on demand, so that a message is forwarded
/// without taking them apart.
#[derive(Clone, Copy, Default)]
pub struct UserProperties<'a> {
    /// From the first User Property to the end of the last; other properties may stand between them.
    block: &'a [u8],
    /// Bytes of `block` that are User Properties.
    encoded_len: usize,
}

impl<'a> UserProperties<'a> {
    pub(crate) fn from_block(block: &'a [u8], encoded_len: usize) -> Self {
        UserProperties { block, encoded_len }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.encoded_len == 0
    }

    /// Bytes that they take in a packet.
    pub fn encoded_len(&self) -> usize {
        self.encoded_len
    }

    /// Names and values, in their order.
    pub fn iter(&self) -> UserPropertiesIter<'a> {
        UserPropertiesIter {
            rest: Reader::new(self.block),
        }
    }

    /// The first value under `name`.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// A copy that outlives the packet.
    pub fn to_buf(&self) -> UserPropertiesBuf {
        let mut encoded = Vec::with_capacity(self.encoded_len);
        self.put(&mut encoded);
        UserPropertiesBuf { encoded }
    }

    /// Writes them: in one piece where nothing stands between them, as is usual.
    #[inline]
    pub(crate) fn put(&self, sink: &mut impl Sink) {
        if self.encoded_len == self.block.len() {
            sink.put(self.block);
        } else {
            self.iter().for_each(|(name, value)| put_pair(sink, name, value));
        }
    }
}

fn put_pair(sink: &mut impl Sink, name: &str, value: &str) {
    sink.put_u8(property::USER_PROPERTY);
    sink.put_str(name);
    sink.put_str(value);
}

impl<'a> IntoIterator for UserProperties<'a> {
    type Item = (&'a str, &'a str);
    type IntoIter = UserPropertiesIter<'a>;

    fn into_iter(self) -> UserPropertiesIter<'a> {
        self.iter()
    }
}

impl PartialEq for UserProperties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.encoded_len == other.encoded_len && self.iter().eq(other.iter())
    }
}

impl Eq for UserProperties<'_> {}

impl fmt::Debug for UserProperties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Names and values of [`UserProperties`].
#[derive(Clone)]
pub struct UserPropertiesIter<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for UserPropertiesIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        property::next_user_property(&mut self.rest)
    }
}

/// User Properties that are put together here, to be sent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserPropertiesBuf {
    encoded: Vec<u8>,
}

impl UserPropertiesBuf {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pair behind the others.
    ///
    /// # Panics
    /// If a string is longer than 65,535 bytes or contains U+0000, which no packet can carry (MQTT-1.5.4-2).
    pub fn push(&mut self, name: &str, value: &str) {
        assert!(
            !name.contains('\0') && !value.contains('\0'),
            "a User Property holds no U+0000"
        );
        put_pair(&mut self.encoded, name, value);
    }

    /// As a packet holds them.
    pub fn as_properties(&self) -> UserProperties<'_> {
        UserProperties {
            block: &self.encoded,
            encoded_len: self.encoded.len(),
        }
    }
}

impl<'p> FromIterator<(&'p str, &'p str)> for UserPropertiesBuf {
    fn from_iter<I: IntoIterator<Item = (&'p str, &'p str)>>(pairs: I) -> Self {
        let mut properties = UserPropertiesBuf::new();
        pairs.into_iter().for_each(|(name, value)| properties.push(name, value));
        properties
    }
}

impl fmt::Debug for UserPropertiesBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_properties().fmt(f)
    }
}
