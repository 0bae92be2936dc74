//! What a twin may grow to.

/// Bounds of one document of a twin; what would pass one is refused and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the state as JSON, and of a patch.
    pub bytes: usize,
    /// Levels of objects and arrays; a state without any nested one has depth 1.
    pub depth: usize,
    /// Leaves: members that are not objects themselves.
    pub leaves: usize,
    /// Bytes of one member's name.
    pub name_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bytes: 32 * 1024,
            depth: 10,
            leaves: 1024,
            name_bytes: 256,
        }
    }
}
