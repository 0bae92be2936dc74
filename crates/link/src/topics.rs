//! What is said over a link, by the topics of its PUBLISH packets.
//!
//! | topic | from | what |
//! | --- | --- | --- |
//! | `$link/batch` | edge, QoS 1 | a [batch](crate::batch); its PUBACK says that the cloud keeps all of it |
//! | `$link/call/{tenant}/{device}/{method}/{timeout in ms}` | cloud, QoS 0 | a call; its Correlation Data comes back with the result |
//! | `$link/result` | edge, QoS 0 | the result of the call with this Correlation Data |
//! | `$link/registry` | both | JSON: which registry this side has; of the cloud, which tenants the edge may speak for |
//! | `$link/parts` | both | JSON: what many devices are in short, some such parts |
//! | `$link/devices` | both | JSON: what each device of a part is in short |
//! | `$link/records` | both | JSON: what devices of a tenant are, and each one's twin in short |
//! | `$link/twin/{tenant}/{device}` | both | the twin as this side has it; empty: what does the other have? |
//! | `$link/manifests` | both | what the [talk](crate::Talk) about manifests is, unseen |
//! | `$link/life` | cloud, QoS 1 | nothing: its PUBACK says that the edge is there |
//!
//! What is said of devices and manifests goes up in QoS 0, as the line is free; down in QoS 1, because only its PUBACKs
//! tell the cloud that it has gone. They say nothing of what became of it.

/// Messages for the cloud.
pub(crate) const BATCH: &str = "$link/batch";
/// What came of a call.
pub(crate) const RESULT: &str = "$link/result";
/// The talk about manifests.
pub(crate) const MANIFESTS: &str = "$link/manifests";
/// Asks whether the edge is there.
pub(crate) const LIFE: &str = "$link/life";
/// A call begins so.
const CALL: &str = "$link/call/";

/// Which registry a side has.
pub(crate) const REGISTRY: &str = "$link/registry";
/// What devices are in short: many, and each of a few.
pub(crate) const PARTS: &str = "$link/parts";
pub(crate) const DEVICES: &str = "$link/devices";
/// What devices are.
pub(crate) const RECORDS: &str = "$link/records";
/// A twin begins so.
const TWIN: &str = "$link/twin/";

/// A twin, as its topic has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TwinTopic<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) device: &'a str,
}

impl<'a> TwinTopic<'a> {
    pub(crate) fn parse(topic: &'a str) -> Option<Self> {
        let (tenant, device) = topic.strip_prefix(TWIN)?.split_once('/')?;
        (!device.contains('/')).then_some(Self { tenant, device })
    }
}

impl std::fmt::Display for TwinTopic<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TwinTopic { tenant, device } = self;
        write!(f, "{TWIN}{tenant}/{device}")
    }
}

/// The User Property by which an edge says in its CONNECT, and a cloud in its CONNACK, that it speaks as this module
/// says, and in which version.
pub(crate) const DIALECT: (&str, &str) = ("selvedge-link", "1");
/// The User Property of the CONNECT that tells a start of an edge from all others.
pub(crate) const INSTANCE: &str = "instance";
/// The User Property of the PUBACK of a batch with sections that the cloud will never take: their numbers in the batch.
pub(crate) const REFUSED: &str = "refused";
/// In the same way, of those for which there is no room now; with reason code 0x97.
pub(crate) const FULL: &str = "full";

/// A call of a device, as its topic has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallTopic<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) device: &'a str,
    pub(crate) method: &'a str,
    pub(crate) timeout_ms: u64,
}

impl<'a> CallTopic<'a> {
    pub(crate) fn parse(topic: &'a str) -> Option<Self> {
        let mut levels = topic.strip_prefix(CALL)?.split('/');
        let call = Self {
            tenant: levels.next()?,
            device: levels.next()?,
            method: levels.next()?,
            timeout_ms: levels.next()?.parse().ok()?,
        };
        levels.next().is_none().then_some(call)
    }
}

impl std::fmt::Display for CallTopic<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CallTopic {
            tenant,
            device,
            method,
            timeout_ms,
        } = self;
        write!(f, "{CALL}{tenant}/{device}/{method}/{timeout_ms}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_back_from_its_topic() {
        let call = CallTopic {
            tenant: "acme",
            device: "pump-7",
            method: "stop",
            timeout_ms: 5_000,
        };
        assert_eq!(CallTopic::parse(&call.to_string()), Some(call));
        for wrong in [
            "$link/call/a/b/c",
            "$link/call/a/b/c/x",
            "$link/call/a/b/c/5/d",
            "$link/batch",
        ] {
            assert_eq!(CallTopic::parse(wrong), None, "{wrong}");
        }
    }
}
