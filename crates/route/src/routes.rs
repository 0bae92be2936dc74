//! The routes of a tenant, evaluated for each of its messages.

use std::fmt::Write as _;

use device::topic::{Channel, DeviceTopic, validate_id};

use crate::compile::{CompiledRoute, Target};
use crate::condition::{Lookup, Subject};
use crate::template::{Template, Unfilled, Values};

/// Most routes of a tenant.
pub const MAX_ROUTES: usize = 256;
/// Most routes that a message and its copies go through, one after the other.
pub const MAX_HOPS: u8 = 8;

/// A message to be routed.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its topic, as the tenant's clients see it.
    pub topic: &'a str,
    /// Its payload.
    pub payload: &'a [u8],
    /// Routes that it came through: 0 from a client, [`Delivery::hops`] for a copy.
    pub hops: u8,
}

/// A copy to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// What the copy carries as [`Message::hops`].
    pub hops: u8,
    /// What to do.
    pub action: Action<'a>,
}

/// What a target asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Publish the message again, to this topic.
    Publish {
        /// A valid topic name.
        topic: &'a str,
    },
    /// Call a method of a device.
    Call {
        /// A valid id.
        device: &'a str,
        /// The method.
        name: &'a str,
        /// The call's payload.
        payload: &'a [u8],
    },
    /// Send the message to the cloud, as it is.
    Upstream {
        /// The route that asks for it.
        route: &'a str,
    },
}

/// What a route did since it was applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages whose topic matched.
    pub matched: u64,
    /// Of these, those that the condition was false for.
    pub not_met: u64,
    /// Copies made: one for each target.
    pub delivered: u64,
    /// Conditions without an answer and targets that could not be made of the message.
    pub failed: u64,
    /// Messages that came through [`MAX_HOPS`] routes already: the routes go round.
    pub hop_limit: u64,
}

/// The last message that a route failed for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastFailure {
    /// Its topic.
    pub topic: String,
    /// What happened.
    pub reason: String,
}

/// The tenant has [`MAX_ROUTES`] routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tenant has {MAX_ROUTES} routes, which is the limit")]
pub struct Full;

/// The routes of one tenant, in the order of their names.
#[derive(Debug, Default)]
pub struct Routes {
    entries: Vec<Entry>,
    buffers: Buffers,
}

#[derive(Debug)]
struct Entry {
    route: CompiledRoute,
    counters: Counters,
    last_failure: Option<LastFailure>,
}

/// Where targets are written; used again for each message.
#[derive(Debug, Default)]
struct Buffers {
    name: String,
    payload: String,
}

impl Routes {
    /// Adds a route, or replaces the one of its name, whose counters begin anew unless the new one is the same.
    ///
    /// # Errors
    /// There are too many.
    pub fn put(&mut self, route: CompiledRoute) -> Result<(), Full> {
        let entry = |route| Entry {
            route,
            counters: Counters::default(),
            last_failure: None,
        };
        match self.find(route.name()) {
            Ok(at) if self.entries[at].route.source == route.source => {}
            Ok(at) => self.entries[at] = entry(route),
            Err(_) if self.entries.len() == MAX_ROUTES => return Err(Full),
            Err(at) => self.entries.insert(at, entry(route)),
        }
        Ok(())
    }

    /// Removes a route; false if there is none of that name.
    pub fn remove(&mut self, name: &str) -> bool {
        self.find(name).map(|at| self.entries.remove(at)).is_ok()
    }

    /// The routes' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.route.name())
    }

    /// What a route did, and the last message that it failed for.
    #[must_use]
    pub fn status(&self, name: &str) -> Option<(Counters, Option<&LastFailure>)> {
        let entry = &self.entries[self.find(name).ok()?];
        Some((entry.counters, entry.last_failure.as_ref()))
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.route.name().cmp(name))
    }

    /// Names every copy that the routes make of a message. Allocates nothing but for conditions that read the payload
    /// or make texts, and for failures.
    pub fn evaluate(&mut self, message: Message<'_>, lookup: &dyn Lookup, mut deliver: impl FnMut(Delivery<'_>)) {
        let device = DeviceTopic::parse(message.topic).map(|topic| topic.device);
        let subject = Subject::new(message.topic, device, message.payload, lookup);
        for entry in &mut self.entries {
            if entry.route.filter.matches(message.topic) && entry.is_met(message, &subject) {
                entry.deliver(message, device, &mut self.buffers, &mut deliver);
            }
        }
    }
}

impl Entry {
    fn is_met(&mut self, message: Message<'_>, subject: &Subject<'_>) -> bool {
        self.counters.matched += 1;
        if message.hops >= MAX_HOPS {
            self.counters.hop_limit += 1;
            note(
                &mut self.last_failure,
                message.topic,
                format_args!("it came through {MAX_HOPS} routes already"),
            );
            return false;
        }
        match self
            .route
            .condition
            .as_ref()
            .map_or(Ok(true), |condition| condition.holds(subject))
        {
            Ok(true) => true,
            Ok(false) => {
                self.counters.not_met += 1;
                false
            }
            Err(failure) => {
                self.counters.failed += 1;
                note(
                    &mut self.last_failure,
                    message.topic,
                    format_args!("spec.when: {failure}"),
                );
                false
            }
        }
    }

    fn deliver(
        &mut self,
        message: Message<'_>,
        device: Option<&str>,
        buffers: &mut Buffers,
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        let values = Values {
            topic: message.topic,
            device,
        };
        for (i, target) in self.route.targets.iter().enumerate() {
            match target.action(self.route.name(), values, message.payload, buffers) {
                Ok(action) => {
                    self.counters.delivered += 1;
                    deliver(Delivery {
                        hops: message.hops + 1,
                        action,
                    });
                }
                Err(wrong) => {
                    self.counters.failed += 1;
                    note(
                        &mut self.last_failure,
                        message.topic,
                        format_args!("spec.to[{i}]: {wrong}"),
                    );
                }
            }
        }
    }
}

/// Why a target could not be made of a message.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum Unusable {
    #[error("the topic names no device")]
    NoDevice,
    #[error("the topic has no level {{{0}}}")]
    NoLevel(usize),
    #[error("it gives an empty topic")]
    EmptyTopic,
    #[error("it gives a topic of more than 65535 bytes")]
    LongTopic,
    #[error("it gives a topic that begins with \"$\"; those are the hub's own")]
    HubsTopic,
    #[error("it gives a topic of twins and methods, which routes leave alone")]
    TwinsAndMethods,
    #[error("what the topic gives is no device's id")]
    Device,
}

impl From<Unfilled> for Unusable {
    fn from(unfilled: Unfilled) -> Self {
        match unfilled {
            Unfilled::Device => Unusable::NoDevice,
            Unfilled::Level(n) => Unusable::NoLevel(n),
        }
    }
}

impl Target {
    fn action<'a>(
        &'a self,
        route: &'a str,
        values: Values<'_>,
        message_payload: &'a [u8],
        buffers: &'a mut Buffers,
    ) -> Result<Action<'a>, Unusable> {
        match self {
            Target::Upstream => Ok(Action::Upstream { route }),
            Target::Topic(template) => {
                template.write(values, &mut buffers.name)?;
                check_topic(&buffers.name)?;
                Ok(Action::Publish { topic: &buffers.name })
            }
            Target::Method { device, name, payload } => {
                device.write(values, &mut buffers.name)?;
                validate_id(&buffers.name).map_err(|_| Unusable::Device)?;
                let payload = call_payload(payload.as_ref(), values, message_payload, &mut buffers.payload)?;
                Ok(Action::Call {
                    device: &buffers.name,
                    name,
                    payload,
                })
            }
        }
    }
}

fn call_payload<'a>(
    template: Option<&Template>,
    values: Values<'_>,
    message_payload: &'a [u8],
    out: &'a mut String,
) -> Result<&'a [u8], Unfilled> {
    let Some(template) = template else {
        return Ok(message_payload);
    };
    template.write_payload(values, out)?;
    Ok(out.as_bytes())
}

fn check_topic(topic: &str) -> Result<(), Unusable> {
    match topic {
        "" => Err(Unusable::EmptyTopic),
        _ if topic.len() > usize::from(u16::MAX) => Err(Unusable::LongTopic),
        _ if topic.starts_with('$') => Err(Unusable::HubsTopic),
        _ => match DeviceTopic::parse(topic).map(|topic| topic.channel) {
            None | Some(Channel::Telemetry | Channel::Other) => Ok(()),
            Some(_) => Err(Unusable::TwinsAndMethods),
        },
    }
}

/// Writes over the failure before, so that a route that always fails does not allocate for ever.
fn note(last: &mut Option<LastFailure>, topic: &str, reason: std::fmt::Arguments<'_>) {
    let last = last.get_or_insert_default();
    last.topic.clear();
    last.topic.push_str(topic);
    last.reason.clear();
    write!(last.reason, "{reason}").expect("a String takes all that is written");
}
