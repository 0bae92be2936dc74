//! A recorded data set, ready to be sent: what `--replay FILE` becomes.

/// Readings of a data set in the order of their times.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Where it came from, for the record.
    pub source: String,
    /// SHA-256 of its file, in hexadecimal.
    pub sha256: String,
    /// The readings; devices repeat them from the start when a block outlasts them.
    pub readings: Vec<Reading>,
}

/// One row of a data set as a device sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Nanoseconds after the first reading, already scaled by the speed of the replay.
    pub at_ns: u64,
    /// Number of the device that sends it, from 0.
    pub device: u32,
    /// A JSON object with at least one member. The generator puts its sequence in front as the member `seq`.
    pub json: String,
}
