//! Conditions: a bounded subset of CEL (Common Expression Language) on a message.
//!
//! The `cel` crate parses; names, types and costs are checked here and evaluation is here too, because its interpreter
//! can be given no bound of steps. What a condition may use: `topic`, `payload`, `properties.NAME`, `device.id`,
//! `device.labels.NAME`; literals and lists; `! && || ?: == != < <= > >= + - * / % in`; `size`, `contains`,
//! `startsWith`, `endsWith`, `matches`, `int`, `double`, `string`; `has`, `all`, `exists`, `exists_one`, `filter`,
//! `map`. As CEL says of JSON, every number of the payload is a double.

mod calls;
mod check;
mod equality;
mod eval;
mod expr;
mod failure;
mod functions;
mod lower;
mod names;
mod syntax;
mod value;

use std::cell::OnceCell;

use serde_json::Value as Json;

pub(crate) use failure::Failure;

use eval::Evaluation;
use expr::Expr;

/// Longest condition in bytes.
pub const MAX_CONDITION_BYTES: usize = 1024;
/// Deepest nesting of a condition.
pub const MAX_CONDITION_DEPTH: usize = 48;
/// Steps that one evaluation may take: a step is an operation, or 64 bytes of text that one reads.
pub const MAX_STEPS: u32 = 20_000;
/// Largest payload that is read for a condition, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024;

/// What a condition may ask of the message beside topic and payload; asked only when it does.
pub trait Lookup {
    /// The first User Property of that name.
    fn property(&self, name: &str) -> Option<&str>;
    /// The label of that device, as it is now.
    fn label(&self, device: &str, name: &str) -> Option<&str>;
}

/// Where a condition is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConditionError {
    /// In bytes.
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// A checked condition.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    expr: Expr,
    uses_device: Option<usize>,
}

impl Condition {
    pub(crate) fn compile(source: &str) -> Result<Self, ConditionError> {
        if source.len() > MAX_CONDITION_BYTES {
            let message = format!(
                "has {} bytes; a condition has at most {MAX_CONDITION_BYTES}",
                source.len()
            );
            return Err(ConditionError { offset: 0, message });
        }
        let parsed = syntax::parse(source)?;
        let lowered = lower::lower(&parsed)?;
        Ok(Condition {
            expr: lowered.expr,
            uses_device: lowered.uses_device,
        })
    }

    /// Where the condition first asks for the device, in bytes.
    pub(crate) fn uses_device(&self) -> Option<usize> {
        self.uses_device
    }

    pub(crate) fn holds<'a>(&'a self, subject: &'a Subject<'a>) -> Result<bool, Failure<'a>> {
        Evaluation::new(subject).condition(&self.expr)
    }
}

/// The message that conditions are about; its payload is read at most once, however many ask for it.
pub(crate) struct Subject<'a> {
    pub(crate) topic: &'a str,
    pub(crate) device: Option<&'a str>,
    pub(crate) lookup: &'a dyn Lookup,
    payload: &'a [u8],
    json: OnceCell<Result<Json, Failure<'static>>>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(topic: &'a str, device: Option<&'a str>, payload: &'a [u8], lookup: &'a dyn Lookup) -> Self {
        Subject {
            topic,
            device,
            lookup,
            payload,
            json: OnceCell::new(),
        }
    }

    fn json(&self) -> Result<&Json, Failure<'static>> {
        self.json
            .get_or_init(|| read(self.payload))
            .as_ref()
            .map_err(Clone::clone)
    }
}

fn read(payload: &[u8]) -> Result<Json, Failure<'static>> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(Failure::PayloadTooLarge { bytes: payload.len() });
    }
    serde_json::from_slice(payload).map_err(|_| Failure::PayloadNotJson)
}
