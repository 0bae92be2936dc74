//! Values while a condition is evaluated: borrowed from message and condition where they can be.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::expr::Operator;
use super::failure::Failure;

#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Cow<'a, str>),
    List(Rc<Vec<Value<'a>>>),
    JsonList(&'a [Json]),
    Object(&'a Map<String, Json>),
}

impl<'a> Value<'a> {
    /// CEL's view of JSON: every number is a double.
    pub(super) fn of(json: &'a Json) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(number) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => Value::Text(Cow::Borrowed(text)),
            Json::Array(items) => Value::JsonList(items),
            Json::Object(members) => Value::Object(members),
        }
    }

    pub(super) fn words(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Double(_) => "a double",
            Value::Text(_) => "a text",
            Value::List(_) | Value::JsonList(_) => "a list",
            Value::Object(_) => "an object",
        }
    }

    /// Bytes that an operation on it may have to read.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            _ => 0,
        }
    }

    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Value::List(items) => Some(items.len()),
            Value::JsonList(items) => Some(items.len()),
            _ => None,
        }
    }

    /// The element at a place that is in the list.
    pub(super) fn at(&self, index: usize) -> Value<'a> {
        match self {
            Value::List(items) => items[index].clone(),
            Value::JsonList(items) => Value::of(&items[index]),
            _ => Value::Null,
        }
    }

    /// A position, as CEL allows it: an integer or a double that is one.
    pub(super) fn as_index(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            #[expect(clippy::cast_possible_truncation, reason = "lists are far shorter than 2^53")]
            Value::Double(d) if d.fract() == 0.0 && d.abs() < 9e15 => Some(*d as i64),
            _ => None,
        }
    }

    /// Equality of what has no parts.
    pub(super) fn equals_scalar(&self, other: &Value<'a>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            _ => numeric_order(self, other) == Some(Ordering::Equal),
        }
    }

    pub(super) fn order(&self, other: &Value<'a>, operator: Operator) -> Result<Ordering, Failure<'a>> {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => Ok(a.as_ref().cmp(b.as_ref())),
            (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
            (Value::Int(_) | Value::Double(_), Value::Int(_) | Value::Double(_)) => {
                numeric_order(self, other).ok_or(Failure::NoResult {
                    operation: operator.symbol(),
                })
            }
            _ => Err(self.no(operator, other)),
        }
    }

    pub(super) fn no(&self, operator: Operator, other: &Value<'a>) -> Failure<'a> {
        Failure::WrongTypes {
            operation: operator.symbol(),
            left: self.words(),
            right: other.words(),
        }
    }

    pub(super) fn arithmetic(self, operator: Operator, other: Value<'a>) -> Result<Value<'a>, Failure<'a>> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => integers(operator, a, b),
            (Value::Double(a), Value::Double(b)) if operator != Operator::Modulo => {
                Ok(Value::Double(doubles(operator, a, b)))
            }
            (Value::Text(a), Value::Text(b)) if operator == Operator::Add => {
                Ok(Value::Text(Cow::Owned(a.into_owned() + &b)))
            }
            (a, b) => match (operator, a.len(), b.len()) {
                (Operator::Add, Some(a_len), Some(b_len)) => {
                    let items = (0..a_len).map(|i| a.at(i)).chain((0..b_len).map(|i| b.at(i)));
                    Ok(Value::List(Rc::new(items.collect())))
                }
                _ => Err(a.no(operator, &b)),
            },
        }
    }
}

fn integers<'a>(operator: Operator, a: i64, b: i64) -> Result<Value<'a>, Failure<'a>> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    result.map(Value::Int).ok_or(Failure::NoResult {
        operation: operator.symbol(),
    })
}

fn doubles(operator: Operator, a: f64, b: f64) -> f64 {
    match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        _ => a / b,
    }
}

/// Integers and doubles on one number line, exact also where a double cannot hold the integer.
fn numeric_order(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Double(b)) => int_double(*a, *b),
        (Value::Double(a), Value::Int(b)) => int_double(*b, *a).map(Ordering::reverse),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only where it is exact or decides")]
fn int_double(int: i64, double: f64) -> Option<Ordering> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() {
        return None;
    }
    if double >= TWO_63 {
        return Some(Ordering::Less);
    }
    if double < -TWO_63 {
        return Some(Ordering::Greater);
    }
    let whole = double.trunc();
    Some(
        int.cmp(&(whole as i64))
            .then_with(|| whole.partial_cmp(&double).unwrap_or(Ordering::Equal)),
    )
}
