//! What was told of devices and taken, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many of what, since the start.
#[derive(Debug, Default)]
pub struct DeviceFigures {
    parts: AtomicU64,
    devices: AtomicU64,
    records: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
    lost: AtomicU64,
}

impl DeviceFigures {
    /// Numbers told that stand for many devices.
    pub fn parts(&self) -> u64 {
        self.parts.load(Ordering::Relaxed)
    }

    /// Devices told in short.
    pub fn devices(&self) -> u64 {
        self.devices.load(Ordering::Relaxed)
    }

    /// Records told.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Records of the other side that changed something here.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Records and twins of the other side that were not believed.
    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Edits of records that were given up for others.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn told_parts(&self, count: usize) {
        self.parts.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn told_devices(&self, count: usize) {
        self.devices.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn told_records(&self, count: usize) {
        self.records.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn taken_records(&self, count: usize) {
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost_edits(&self, count: usize) {
        self.lost.fetch_add(count as u64, Ordering::Relaxed);
    }
}
