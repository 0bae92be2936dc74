//! What one tenant may use, so that it cannot slow down or fill up another.

use serde::{Deserialize, Serialize};

/// Limits of a tenant; the hub enforces all but `devices`, which the registry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Connections open at one time.
    pub connections: u64,
    /// Payload bytes published a second, all clients of the tenant together.
    pub bytes_per_s: u64,
    /// Messages published a second, all clients of the tenant together.
    pub messages_per_s: u64,
    /// Sessions, connected or not.
    pub sessions: u64,
    /// Bytes of queued and retained messages.
    pub stored_bytes: u64,
    /// Devices and apps in the registry.
    pub devices: u64,
}

/// Room for the 10,000 devices of a small board with some to spare; storage so that one tenant cannot fill its disk.
impl Default for Quotas {
    fn default() -> Self {
        Quotas {
            connections: 20_000,
            bytes_per_s: 100_000_000,
            messages_per_s: 200_000,
            sessions: 40_000,
            stored_bytes: 2_000_000_000,
            devices: 20_000,
        }
    }
}
