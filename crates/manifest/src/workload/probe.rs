//! How a container is asked whether it has started, lives, and is ready.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::is_default;

/// A question that is asked again and again, in one of three ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// A command in the container, which ends with 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// A request that is answered with a status from 200 to 399.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGet>,
    /// A port that takes a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocket>,
    /// From the start of the container to the first question.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial_delay_seconds: u32,
    /// From one question to the next.
    #[serde(default = "ten")]
    pub period_seconds: u32,
    /// For an answer.
    #[serde(default = "one")]
    pub timeout_seconds: u32,
    /// So many good answers in a row make it good.
    #[serde(default = "one")]
    pub success_threshold: u32,
    /// So many bad ones make it bad.
    #[serde(default = "three")]
    pub failure_threshold: u32,
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

fn ten() -> u32 {
    10
}

/// What a probe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler<'a> {
    /// `exec`.
    Exec(&'a ExecAction),
    /// `httpGet`.
    HttpGet(&'a HttpGet),
    /// `tcpSocket`.
    TcpSocket(&'a TcpSocket),
}

impl Probe {
    /// What it does; none where the manifest says none of the three, or more than one, which it is refused for.
    #[must_use]
    pub fn handler(&self) -> Option<Handler<'_>> {
        match (&self.exec, &self.http_get, &self.tcp_socket) {
            (Some(exec), None, None) => Some(Handler::Exec(exec)),
            (None, Some(get), None) => Some(Handler::HttpGet(get)),
            (None, None, Some(socket)) => Some(Handler::TcpSocket(socket)),
            _ => None,
        }
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecAction {
    /// Program and arguments; no shell.
    pub command: Vec<String>,
}

/// A request by HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpGet {
    /// Path and query.
    #[serde(default = "root")]
    pub path: String,
    /// Of the container.
    pub port: PortRef,
    /// `HTTP` or `HTTPS`, whose certificate is not checked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheme: Scheme,
    /// Sent along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http_headers: Vec<HttpHeader>,
}

fn root() -> String {
    "/".to_owned()
}

/// How a request is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Scheme {
    /// In the clear.
    #[default]
    Http,
    /// Under TLS.
    Https,
}

/// A header of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpSocket {
    /// Of the container.
    pub port: PortRef,
}

/// What is done with a running container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Before it is told to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<PreStop>,
}

/// What is done before a container is told to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreStop {
    /// A command in the container.
    pub exec: ExecAction,
}

/// A port by its number, or by the name that the container gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRef {
    /// From 1 on.
    Number(u16),
    /// Of one of the container's ports.
    Name(String),
}

impl<'de> Deserialize<'de> for PortRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Port;
        impl Visitor<'_> for Port {
            type Value = PortRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port's number or name")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<PortRef, E> {
                let number = u16::try_from(number).ok().filter(|number| *number > 0);
                let number = number.ok_or_else(|| E::custom("a port is a number from 1 to 65535, or a name"))?;
                Ok(PortRef::Number(number))
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<PortRef, E> {
                Ok(PortRef::Name(name.to_owned()))
            }
        }
        deserializer.deserialize_any(Port)
    }
}

impl Serialize for PortRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            PortRef::Number(number) => serializer.serialize_u16(*number),
            PortRef::Name(name) => serializer.serialize_str(name),
        }
    }
}
