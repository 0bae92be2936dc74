//! Applications that sleep until a message comes for them: the hub keeps a session in their place.

use std::num::NonZeroU16;

use broker::ConnId;
use mqtt::{Connect, QoS, RetainHandling, Subscribe, SubscriptionOptions, Unsubscribe, UserProperties, Version, topic};
use tokio::sync::watch;

use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Filters of one application.
const FILTERS_MAX: usize = 16;
/// The connection of who is away: none has this number.
const NOBODY: ConnId = ConnId(u64::MAX);

/// An application that may be asleep when a message comes for it. The message waits in the session of the app that has
/// its name, by a client identifier that is the same, as if the application had connected and subscribed before it fell
/// asleep.
#[derive(Clone, Debug)]
pub struct StandIn {
    /// Its name, that of the app, and the client identifier.
    application: Box<str>,
    /// What it subscribes to, at QoS 1.
    filters: Vec<Box<str>>,
    /// Messages that have come for it since this was made.
    told: watch::Sender<u64>,
    /// It was said that it has no session.
    is_refused: bool,
}

impl StandIn {
    /// For an application, and what wakes it.
    ///
    /// # Errors
    /// In words, which filter cannot be one, or that there are more than 16.
    pub fn new(application: &str, filters: &[&str]) -> Result<Self, String> {
        if filters.len() > FILTERS_MAX {
            return Err(format!(
                "has {} topic filters; an application has at most {FILTERS_MAX}",
                filters.len()
            ));
        }
        for filter in filters {
            if filter.starts_with("$share/") {
                return Err(format!(
                    "{filter:?} is shared; an application has its subscriptions alone"
                ));
            }
            topic::check_filter(filter).map_err(|why| format!("{filter:?} is no topic filter: {}", why.message))?;
        }
        Ok(StandIn {
            application: application.into(),
            filters: filters.iter().map(|filter| (*filter).into()).collect(),
            told: watch::channel(0).0,
            is_refused: false,
        })
    }

    /// Changes with each message that comes for it, whether it sleeps or not.
    #[must_use]
    pub fn told(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    fn takes(&self, topic: &str) -> bool {
        self.filters.iter().any(|filter| topic::matches(filter, topic))
    }
}

/// Stands in for these from now on, and for no others of the tenant.
pub(crate) fn replace(tenant: &mut Tenant, turn: &mut Turn<'_>, stand_ins: Vec<StandIn>) {
    let before = std::mem::replace(&mut tenant.stand_ins, stand_ins);
    for old in before {
        let new = tenant.stand_ins.iter().find(|new| new.application == old.application);
        let is_kept = |filter: &str| new.is_some_and(|new| new.filters.iter().any(|kept| **kept == *filter));
        let gone: Vec<&str> = old
            .filters
            .iter()
            .map(|filter| &**filter)
            .filter(|filter| !is_kept(filter))
            .collect();
        let is_away = !tenant.broker.is_connected(&old.application, &old.application);
        if !gone.is_empty() && is_away && has_session(tenant, &old.application) {
            let unsubscribe = Unsubscribe {
                packet_id: NonZeroU16::MIN,
                filters: gone,
                user_properties: UserProperties::default(),
            };
            connect(tenant, turn, &old.application);
            tenant.broker.unsubscribe(turn.now, NOBODY, &unsubscribe, turn);
            tenant.broker.closed(turn.now, NOBODY, turn);
        }
    }
}

/// A message is about to go to the subscribers of its topic: those who sleep are made such, and woken.
#[inline]
pub(crate) fn hear(tenant: &mut Tenant, turn: &mut Turn<'_>, topic: &str) {
    if !tenant.stand_ins.is_empty() {
        wake(tenant, turn, topic);
    }
}

#[cold]
fn wake(tenant: &mut Tenant, turn: &mut Turn<'_>, topic: &str) {
    // They are the tenant's own: nobody looks at them while they are taken out.
    let mut stand_ins = std::mem::take(&mut tenant.stand_ins);
    for stand_in in stand_ins.iter_mut().filter(|stand_in| stand_in.takes(topic)) {
        if !tenant.broker.is_connected(&stand_in.application, &stand_in.application) {
            subscribe(tenant, turn, stand_in);
        }
        stand_in.told.send_modify(|told| *told += 1);
    }
    tenant.stand_ins = stand_ins;
}

/// Messages that wait for an application, or that it has not acknowledged.
pub(crate) fn waiting(tenant: &Tenant, application: &str) -> usize {
    let session = tenant.broker.session(application, application);
    session.map_or(0, |session| session.queued_messages + session.in_flight)
}

fn has_session(tenant: &Tenant, application: &str) -> bool {
    tenant.broker.session(application, application).is_some()
}

/// Has its session have its subscriptions.
fn subscribe(tenant: &mut Tenant, turn: &mut Turn<'_>, stand_in: &mut StandIn) {
    let application = &*stand_in.application;
    let missing = |tenant: &Tenant| -> Vec<Box<str>> {
        let has = |filter: &str| {
            let mut subscriptions = tenant.broker.subscriptions(application, application);
            subscriptions.any(|subscription| subscription.filter == filter)
        };
        stand_in.filters.iter().filter(|filter| !has(filter)).cloned().collect()
    };
    let filters = missing(tenant);
    if filters.is_empty() {
        return;
    }
    let options = SubscriptionOptions {
        qos: QoS::AtLeastOnce,
        retain_handling: RetainHandling::DoNotSend,
        ..SubscriptionOptions::default()
    };
    let subscribe = Subscribe {
        packet_id: NonZeroU16::MIN,
        subscription_id: None,
        filters: filters.iter().map(|filter| (&**filter, options)).collect(),
        user_properties: UserProperties::default(),
    };
    connect(tenant, turn, application);
    tenant
        .broker
        .subscribe(turn.now, NOBODY, &subscribe, &mut |_| true, turn);
    tenant.broker.closed(turn.now, NOBODY, turn);
    let is_refused = !missing(tenant).is_empty();
    if is_refused && !stand_in.is_refused {
        let tenant = &tenant.name;
        tracing::warn!(%tenant, application, "messages do not wait for it: its tenant may have no more sessions or subscriptions, or the log is full");
    }
    stand_in.is_refused = is_refused;
}

/// Goes on with its session, or begins one that lasts.
fn connect(tenant: &mut Tenant, turn: &mut Turn<'_>, application: &str) {
    let connect = Connect {
        version: Version::V5,
        clean_start: false,
        keep_alive_s: 0,
        client_id: application,
        will: None,
        user_name: None,
        password: None,
        session_expiry_interval_s: Some(u32::MAX),
        receive_maximum: None,
        maximum_packet_size: None,
        topic_alias_maximum: 0,
        request_response_information: false,
        request_problem_information: false,
        authentication_method: None,
        authentication_data: None,
        user_properties: UserProperties::default(),
    };
    tenant
        .broker
        .connect(turn.now, NOBODY, &connect, application, None, turn);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_filter_of_ones_own_is_refused_by_its_name() {
        let wrong = |filters: &[&str]| StandIn::new("alarm", filters).unwrap_err();
        assert!(wrong(&["a/#/b"]).starts_with("\"a/#/b\" is no topic filter: "));
        assert!(wrong(&["$share/g/a"]).contains("is shared"));
        assert!(wrong(&[""]).contains("is no topic filter"));
        assert_eq!(wrong(&["a"; 17]), "has 17 topic filters; an application has at most 16");
        let right = StandIn::new("alarm", &["devices/+/telemetry", "apps/x/#"]).unwrap();
        assert!(right.takes("devices/pump-7/telemetry") && right.takes("apps/x/y") && !right.takes("apps/y"));
    }
}
