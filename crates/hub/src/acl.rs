//! Who may publish and subscribe where: the contract of the topics, as a pure function of party and topic.
//!
//! | party | publishes | subscribes |
//! | --- | --- | --- |
//! | device | under its own `devices/{id}/`, never calls, desired state or what the hub answers | under its own `devices/{id}/` |
//! | app | requests to devices (`twin/get`, `twin/desired/set`, calls), its own `apps/{name}/`, topics outside both trees | its whole tenant |
//! | anonymous | everything but `$` topics | everything |

use device::topic::{Channel, DeviceTopic};
use identity::{Principal, PrincipalKind};

/// Whether `who` may publish to `topic`, which is a valid topic name and is taken apart in `parsed`.
pub(crate) fn may_publish(who: &Principal, topic: &str, parsed: Option<&DeviceTopic<'_>>) -> bool {
    if topic.starts_with('$') {
        return false;
    }
    match who.kind {
        PrincipalKind::Anonymous => true,
        PrincipalKind::Device => parsed.is_some_and(|parsed| device_may_publish(&who.id, parsed)),
        PrincipalKind::App => app_may_publish(&who.id, topic, parsed),
        // It has a door of its own.
        PrincipalKind::Edge => false,
    }
}

/// Whether `who` may subscribe to `filter`, a valid topic filter without its `$share/{group}/`.
pub(crate) fn may_subscribe(who: &Principal, filter: &str) -> bool {
    match who.kind {
        PrincipalKind::Anonymous | PrincipalKind::App => true,
        PrincipalKind::Device => tree_of(filter, "devices") == Some(&*who.id),
        PrincipalKind::Edge => false,
    }
}

/// Whether the hub may answer `who` on `topic`, the Response Topic of a request: where `who` may publish, but for what
/// only the device or the hub says there.
pub(crate) fn may_be_answered_on(who: &Principal, topic: &str) -> bool {
    let parsed = DeviceTopic::parse(topic);
    let is_plain = parsed.is_none_or(|parsed| matches!(parsed.channel, Channel::Telemetry | Channel::Other));
    is_plain && may_publish(who, topic, parsed.as_ref())
}

/// The root of topics where `who` may be answered, for the Response Information of its CONNACK (section 4.10.1); an
/// anonymous client has all to choose from.
pub(crate) fn response_root(who: &Principal) -> Option<String> {
    match who.kind {
        PrincipalKind::Anonymous | PrincipalKind::Edge => None,
        PrincipalKind::Device => Some(format!("devices/{}/responses", who.id)),
        PrincipalKind::App => Some(format!("apps/{}/responses", who.id)),
    }
}

fn device_may_publish(own_id: &str, topic: &DeviceTopic<'_>) -> bool {
    let is_for_devices = !matches!(
        topic.channel,
        Channel::MethodCall { .. }
            | Channel::TwinDesired
            | Channel::TwinDesiredSet
            | Channel::TwinDesiredSetResult
            | Channel::TwinGetResult
    );
    topic.device == own_id && is_for_devices
}

fn app_may_publish(own_name: &str, topic: &str, parsed: Option<&DeviceTopic<'_>>) -> bool {
    if let Some(name) = tree_of(topic, "apps") {
        return name == own_name;
    }
    match parsed {
        Some(parsed) => {
            matches!(
                parsed.channel,
                Channel::MethodCall { .. } | Channel::TwinGet | Channel::TwinDesiredSet
            )
        }
        None => tree_of(topic, "devices").is_none(),
    }
}

/// Whose part of `tree` a topic or filter is in; nobody's, "", if it is its root alone. `apps/dash` is part of what
/// `apps/dash/#` names.
fn tree_of<'a>(path: &'a str, tree: &str) -> Option<&'a str> {
    let below = path.strip_prefix(tree)?;
    let name = below.strip_prefix('/').unwrap_or(below);
    let is_tree = below.is_empty() || below.len() > name.len();
    is_tree.then(|| name.split_once('/').map_or(name, |(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_publish_to(who: &Principal, topic: &str) -> bool {
        may_publish(who, topic, DeviceTopic::parse(topic).as_ref())
    }

    fn check(kind: PrincipalKind, id: &str, yes: &[&str], no: &[&str], allowed: fn(&Principal, &str) -> bool) {
        let who = Principal {
            tenant: "default".into(),
            kind,
            id: id.into(),
        };
        for topic in yes {
            assert!(allowed(&who, topic), "{kind:?} {id} {topic}");
        }
        for topic in no {
            assert!(!allowed(&who, topic), "{kind:?} {id} {topic}");
        }
    }

    #[test]
    fn a_device_publishes_only_under_its_own_tree_and_never_calls_or_desired() {
        let yes = [
            "devices/p7/telemetry",
            "devices/p7/telemetry/a/b",
            "devices/p7/twin/reported",
            "devices/p7/twin/get",
            "devices/p7/methods/stop/1/result",
            "devices/p7/anything",
        ];
        let no = [
            "devices/p70/telemetry",
            "devices/p8/telemetry",
            "devices/p7/methods/stop/1",
            "devices/p7/twin/desired",
            "devices/p7/twin/desired/set",
            "devices/p7/twin/get/result",
            "devices/p7/twin/desired/set/result",
            "devices/p7",
            "apps/p7/x",
            "x",
            "$SYS/x",
        ];
        check(PrincipalKind::Device, "p7", &yes, &no, may_publish_to);
    }

    #[test]
    fn a_device_subscribes_only_under_its_own_tree() {
        let yes = [
            "devices/p7/#",
            "devices/p7/methods/+/+",
            "devices/p7/twin/desired",
            "devices/p7",
        ];
        let no = [
            "#",
            "devices/#",
            "devices/+/telemetry",
            "devices/p8/#",
            "+/p7/telemetry",
            "devices",
            "devices/+",
            "devicesp7/x",
            "$SYS/#",
        ];
        check(PrincipalKind::Device, "p7", &yes, &no, may_subscribe);
    }

    #[test]
    fn an_app_asks_devices_and_writes_its_own_tree_but_reports_for_nobody() {
        let yes = [
            "devices/p7/methods/stop/1",
            "devices/p7/twin/get",
            "devices/p7/twin/desired/set",
            "apps/dash/alarms",
            "apps/dash",
            "application/x",
            "plant/hall-1",
        ];
        let no = [
            "devices/p7/telemetry",
            "devices/p7/twin/reported",
            "devices/p7/twin/desired",
            "devices/p7/methods/stop/1/result",
            "devices/p7",
            "devices",
            "devices/",
            "apps/other/alarms",
            "apps/other",
            "apps",
            "apps/",
            "$SYS/broker",
        ];
        check(PrincipalKind::App, "dash", &yes, &no, may_publish_to);
        check(
            PrincipalKind::App,
            "dash",
            &["#", "devices/+/telemetry", "$SYS/#", "apps/other/#"],
            &[],
            may_subscribe,
        );
    }

    #[test]
    fn without_credentials_the_whole_tree_is_open_except_what_the_hub_says() {
        check(
            PrincipalKind::Anonymous,
            "",
            &["a", "devices/p7/telemetry", "apps/x/y"],
            &["$SYS/x"],
            may_publish_to,
        );
    }

    #[test]
    fn an_answer_goes_where_its_caller_may_publish_and_the_hub_does_not() {
        let reserved = [
            "devices/p7/twin/desired",
            "devices/p7/twin/reported",
            "devices/p7/twin/desired/set",
            "devices/p7/twin/get/result",
            "devices/p7/methods/stop/1",
            "devices/p7/methods/stop/1/result",
            "$SYS/broker/version",
        ];
        let of_others = ["apps/other/answers", "devices/p8/telemetry"];
        let no = [&reserved[..], &of_others[..]].concat();
        check(
            PrincipalKind::App,
            "dash",
            &["apps/dash/answers", "answers"],
            &no,
            may_be_answered_on,
        );
        check(
            PrincipalKind::Device,
            "p7",
            &["devices/p7/answers"],
            &no,
            may_be_answered_on,
        );
        check(
            PrincipalKind::Anonymous,
            "",
            &["answers", "apps/x/y"],
            &reserved,
            may_be_answered_on,
        );
    }
}
