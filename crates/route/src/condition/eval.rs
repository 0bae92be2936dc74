//! Evaluation, counted in steps.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::expr::{Expr, Operator};
use super::failure::Failure;
use super::value::Value;
use super::{MAX_STEPS, Subject};

/// Bytes of text that one step reads.
pub(super) const BYTES_PER_STEP: usize = 64;

/// How much more a byte costs a pattern than other operations: at worst all of the pattern is tried at each.
const MATCHING: usize = 128;

pub(super) struct Evaluation<'a> {
    subject: &'a Subject<'a>,
    pub(super) variables: Vec<Value<'a>>,
    steps_left: u32,
}

pub(super) type Outcome<'a, T> = Result<T, Failure<'a>>;

impl<'a> Evaluation<'a> {
    pub(super) fn new(subject: &'a Subject<'a>) -> Self {
        Evaluation {
            subject,
            variables: Vec::new(),
            steps_left: MAX_STEPS,
        }
    }

    pub(super) fn condition(mut self, expr: &'a Expr) -> Outcome<'a, bool> {
        self.bool(expr, "a condition")
    }

    pub(super) fn spend(&mut self, bytes: usize) -> Outcome<'a, ()> {
        let steps = u32::try_from(1 + bytes / BYTES_PER_STEP).unwrap_or(u32::MAX);
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Failure::TooExpensive)?;
        Ok(())
    }

    pub(super) fn value(&mut self, expr: &'a Expr) -> Outcome<'a, Value<'a>> {
        self.spend(0)?;
        match expr {
            Expr::Null => Ok(Value::Null),
            Expr::Bool(b) => Ok(Value::Bool(*b)),
            Expr::Int(i) => Ok(Value::Int(*i)),
            Expr::Double(d) => Ok(Value::Double(*d)),
            Expr::Text(text) => Ok(Value::Text(Cow::Borrowed(text))),
            Expr::List(items) => {
                let items = items
                    .iter()
                    .map(|item| self.value(item))
                    .collect::<Outcome<'a, Vec<_>>>()?;
                Ok(Value::List(Rc::new(items)))
            }
            Expr::Topic => Ok(Value::Text(Cow::Borrowed(self.subject.topic))),
            Expr::Payload => Ok(Value::of(self.subject.json()?)),
            Expr::DeviceId => self.device().map(|device| Value::Text(Cow::Borrowed(device))),
            Expr::Property(name) => self.property(name)?.ok_or(missing("property", name)).map(text),
            Expr::Label(name) => self.label(name)?.ok_or(missing("label", name)).map(text),
            Expr::HasProperty(name) => Ok(Value::Bool(self.property(name)?.is_some())),
            Expr::HasLabel(name) => Ok(Value::Bool(self.label(name)?.is_some())),
            Expr::Variable(at) => Ok(self.variables[*at].clone()),
            Expr::Member(object, name) => self
                .member(object, name)?
                .ok_or(Failure::Missing { what: "member", name }),
            Expr::HasMember(object, name) => Ok(Value::Bool(self.member(object, name)?.is_some())),
            Expr::Index(list, index) => self.index(list, index),
            Expr::Not(operand) => Ok(Value::Bool(!self.bool(operand, "!")?)),
            Expr::Negate(operand) => self.negate(operand),
            Expr::And(left, right) => self.logical(left, right, "&&", false),
            Expr::Or(left, right) => self.logical(left, right, "||", true),
            Expr::If(condition, yes, no) => {
                let chosen = if self.bool(condition, "?:")? { yes } else { no };
                self.value(chosen)
            }
            Expr::Binary(operator, left, right) => self.binary(*operator, left, right),
            Expr::Call(function, operands) => self.call(*function, operands),
            Expr::Matches(operand, regex) => {
                let operand = self.text(operand, "matches")?;
                self.spend(operand.len() * MATCHING)?;
                Ok(Value::Bool(regex.is_match(&operand)))
            }
            Expr::Macro(found, list, body) => self.macro_call(*found, list, body),
        }
    }

    pub(super) fn bool(&mut self, expr: &'a Expr, operation: &'static str) -> Outcome<'a, bool> {
        match self.value(expr)? {
            Value::Bool(b) => Ok(b),
            other => Err(Failure::WrongTypes {
                operation,
                left: other.words(),
                right: "",
            }),
        }
    }

    pub(super) fn text(&mut self, expr: &'a Expr, operation: &'static str) -> Outcome<'a, Cow<'a, str>> {
        match self.value(expr)? {
            Value::Text(text) => self.spend(text.len()).map(|()| text),
            other => Err(Failure::WrongTypes {
                operation,
                left: other.words(),
                right: "",
            }),
        }
    }

    fn device(&self) -> Outcome<'a, &'a str> {
        self.subject.device.ok_or(Failure::NoDevice)
    }

    fn property(&mut self, name: &'a Expr) -> Outcome<'a, Option<&'a str>> {
        let name = self.text(name, "properties")?;
        Ok(self.subject.lookup.property(&name))
    }

    fn label(&mut self, name: &'a Expr) -> Outcome<'a, Option<&'a str>> {
        let device = self.device()?;
        let name = self.text(name, "device.labels")?;
        Ok(self.subject.lookup.label(device, &name))
    }

    fn member(&mut self, object: &'a Expr, name: &'a str) -> Outcome<'a, Option<Value<'a>>> {
        match self.value(object)? {
            Value::Object(members) => Ok(get(members, name)),
            other => Err(Failure::WrongTypes {
                operation: "a member",
                left: other.words(),
                right: "",
            }),
        }
    }

    fn index(&mut self, list: &'a Expr, index: &'a Expr) -> Outcome<'a, Value<'a>> {
        let (list, at) = (self.value(list)?, self.value(index)?);
        if let (Value::Object(members), Value::Text(name)) = (&list, &at) {
            return get(members, name).ok_or(missing("member", index));
        }
        let (Some(len), Some(at)) = (list.len(), at.as_index()) else {
            return Err(Failure::WrongTypes {
                operation: "[]",
                left: list.words(),
                right: at.words(),
            });
        };
        let inside = usize::try_from(at).ok().filter(|at| *at < len);
        inside
            .map(|at| list.at(at))
            .ok_or(Failure::OutOfList { index: at, len })
    }

    fn negate(&mut self, operand: &'a Expr) -> Outcome<'a, Value<'a>> {
        match self.value(operand)? {
            Value::Int(i) => i
                .checked_neg()
                .map(Value::Int)
                .ok_or(Failure::NoResult { operation: "-" }),
            Value::Double(d) => Ok(Value::Double(-d)),
            other => Err(Failure::WrongTypes {
                operation: "-",
                left: other.words(),
                right: "",
            }),
        }
    }

    /// CEL's `&&` and `||`: whichever operand decides, the other may have failed.
    fn logical(
        &mut self,
        left: &'a Expr,
        right: &'a Expr,
        operation: &'static str,
        decisive: bool,
    ) -> Outcome<'a, Value<'a>> {
        let left = self.bool(left, operation);
        if left == Ok(decisive) || left == Err(Failure::TooExpensive) {
            return left.map(Value::Bool);
        }
        let right = self.bool(right, operation);
        match (left, right) {
            (_, Ok(right)) if right == decisive => Ok(Value::Bool(decisive)),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
            _ => Ok(Value::Bool(!decisive)),
        }
    }

    fn binary(&mut self, operator: Operator, left: &'a Expr, right: &'a Expr) -> Outcome<'a, Value<'a>> {
        let (left, right) = (self.value(left)?, self.value(right)?);
        self.spend(left.bytes() + right.bytes())?;
        let ordered = |test: fn(Ordering) -> bool| left.order(&right, operator).map(|order| Value::Bool(test(order)));
        match operator {
            Operator::Equal => self.equal(&left, &right).map(Value::Bool),
            Operator::NotEqual => self.equal(&left, &right).map(|equal| Value::Bool(!equal)),
            Operator::Less => ordered(Ordering::is_lt),
            Operator::LessOrEqual => ordered(Ordering::is_le),
            Operator::Greater => ordered(Ordering::is_gt),
            Operator::GreaterOrEqual => ordered(Ordering::is_ge),
            Operator::In => self.is_in(&left, &right),
            _ => {
                self.spend(BYTES_PER_STEP * (left.len().unwrap_or(0) + right.len().unwrap_or(0)))?;
                left.arithmetic(operator, right)
            }
        }
    }
}

fn get<'a>(members: &'a Map<String, Json>, name: &str) -> Option<Value<'a>> {
    members.get(name).map(Value::of)
}

pub(super) fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

/// A name that was computed is not repeated in the failure.
fn missing<'a>(what: &'static str, name: &'a Expr) -> Failure<'a> {
    let name = if let Expr::Text(name) = name { name } else { "…" };
    Failure::Missing { what, name }
}
