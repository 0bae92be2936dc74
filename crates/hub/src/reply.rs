//! Where a request of MQTT 5 wants its answer beside its own result topic (section 4.10).

use broker::ConnId;
use mqtt::{Publish, QoS};

use crate::acl;
use crate::announcements::Announcement;
use crate::pipeline;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Response Topic and Correlation Data of a request.
#[derive(Debug)]
pub(crate) struct ReplyTo {
    topic: Box<str>,
    correlation_data: Option<Box<[u8]>>,
}

/// The sender of a request must not have its answer published where it asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forbidden;

impl ReplyTo {
    /// Where the sender of `request` wants its answer; `None` if that is the result topic alone. Nobody waits for the
    /// answer to a will.
    ///
    /// # Errors
    /// The hub would publish there what its sender may not: counted as a refused PUBLISH.
    pub(crate) fn of(
        request: &Publish<'_>,
        from: Option<ConnId>,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Box<Self>>, Forbidden> {
        let Some((topic, from)) = request.properties.response_topic.zip(from) else {
            return Ok(None);
        };
        if topic.strip_suffix("/result") == Some(request.topic) {
            return Ok(None);
        }
        let sender = turn.connections.get(from).map(|connection| &connection.peer.principal);
        if !sender.is_some_and(|sender| acl::may_be_answered_on(sender, topic)) {
            turn.counters.refused_publishes += 1;
            return Err(Forbidden);
        }
        Ok(Some(Box::new(Self {
            topic: topic.into(),
            correlation_data: request.properties.correlation_data.map(Into::into),
        })))
    }

    /// Bytes of both.
    pub(crate) fn bytes(&self) -> usize {
        self.topic.len() + self.correlation_data.as_ref().map_or(0, |data| data.len())
    }

    /// The answer, as it is to be announced.
    pub(crate) fn announcement<'a>(&'a self, payload: &'a [u8], qos: QoS) -> Announcement<'a> {
        Announcement {
            topic: &self.topic,
            payload,
            qos,
            correlation_data: self.correlation_data.as_deref(),
            retain: false,
        }
    }

    /// Sends the answer.
    pub(crate) fn send(&self, tenant: &mut Tenant, turn: &mut Turn<'_>, payload: &[u8], qos: QoS) {
        let mut publish = pipeline::plain(&self.topic, payload, qos, false);
        publish.properties.correlation_data = self.correlation_data.as_deref();
        pipeline::forward(tenant, turn, None, &publish);
    }
}
