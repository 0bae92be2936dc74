//! What one tenant may use, so that it cannot slow down or fill up another.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// For how long a tenant's telemetry can be kept, in seconds: an hour to a hundred years.
pub const RETENTION_S: RangeInclusive<u64> = 3_600..=36_500 * 86_400;

/// Limits of a tenant, `None` where there is none. The hub enforces all but `devices`, which the registry does,
/// `retention_s`, by which whoever keeps telemetry goes, and those of applications, which whoever runs them does. What
/// exceeds a lowered one stays, but for telemetry; no more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Connections open at one time. One more is refused with CONNACK 0x97, quota exceeded (3.x: 3, server
    /// unavailable), and counted; who takes over its own older connection is let in.
    pub connections: Option<u64>,
    /// Sessions, connected or not. A CONNECT that needs one more is refused in the same way.
    pub sessions: Option<u64>,
    /// Bytes of memory that all its sessions may take: each counts as 1,024 bytes and its names and will, 320 bytes for
    /// each message that waits in it or is in flight, beside the message itself, or 48 where only the log has that, and
    /// 32 for each packet identifier of QoS 2 that its client has not released. A CONNECT that needs more is refused in
    /// the same way; a message that would have to wait is dropped, and counted; those that a log brings back are not.
    pub session_bytes: Option<u64>,
    /// Bytes of memory that the subscriptions of all its sessions may take: each counts as four times its filter, and
    /// 192 bytes for itself and for each level of it. One more is refused in its SUBACK with 0x97, quota exceeded (3.x:
    /// 0x80), and counted; those that a log brings back are not.
    pub subscription_bytes: Option<u64>,
    /// Bytes of messages that wait for sessions or are retained, in memory or in the log, each counted once however
    /// many wait for it. Beyond it a message is delivered to those that take it now, but not queued or retained for
    /// others, and counted.
    pub stored_bytes: Option<u64>,
    /// Bytes of messages that wait in the log to leave the hub by routes with an `upstream`: for the cloud, there for
    /// the database. Beyond it each route's own policy decides, and drops are counted.
    pub upstream_bytes: Option<u64>,
    /// PUBLISH packets a second from all clients of the tenant together, with a burst of one second's worth. A client
    /// whose next PUBLISH would exceed it is not read until its turn comes, so that TCP slows it down; nothing is
    /// dropped, other tenants do not wait.
    pub messages_per_s: Option<u64>,
    /// Bytes of these packets a second, in the same way.
    pub bytes_per_s: Option<u64>,
    /// Devices and apps in the registry, one more is refused; and twins, a change to one more is refused with 0x97.
    pub devices: Option<u64>,
    /// Seconds for which its telemetry is kept from when it was stored, within [`RETENTION_S`], instead of the time
    /// that is configured for all; `None`: that. Longer or shorter; what is older goes, the latest value of each stream
    /// stays.
    pub retention_s: Option<u64>,
    /// Containers that its applications want, replicas and those that run once counted, whether they run now or not. A
    /// manifest with one more is refused.
    pub containers: Option<u64>,
    /// Of the processor, in thousandths of a core, for all its containers together: they wait for more.
    pub app_cpu_millis: Option<u64>,
    /// Bytes of memory for all its containers together, what the kernel keeps of files for them counted. Where they
    /// have no more, one of them is ended.
    pub app_memory_bytes: Option<u64>,
    /// Processes and threads of all its containers together; no further one is made.
    pub app_pids: Option<u64>,
    /// Bytes on the disk of what its containers write: beside their volumes, in volumes that go with them, and in those
    /// that are kept. Images are shared, and do not count. It is looked at again and again: while there is more, the
    /// containers that have most of it are replaced.
    pub app_disk_bytes: Option<u64>,
}

/// Room for the 10,000 devices of a small board with some to spare, some twenty subscriptions for each, and more than a
/// million messages that wait; storage so
/// that one tenant cannot fill its disk, and fewer connections than a hub with its defaults takes of all tenants. Rates
/// are not limited, and of applications only what a board has few of: containers and processes.
impl Default for Quotas {
    fn default() -> Self {
        Quotas {
            connections: Some(12_000),
            sessions: Some(40_000),
            session_bytes: Some(256_000_000),
            subscription_bytes: Some(256_000_000),
            stored_bytes: Some(2_000_000_000),
            upstream_bytes: Some(400_000_000),
            messages_per_s: None,
            bytes_per_s: None,
            devices: Some(20_000),
            retention_s: None,
            containers: Some(500),
            app_cpu_millis: None,
            app_memory_bytes: None,
            app_pids: Some(4_096),
            app_disk_bytes: None,
        }
    }
}
