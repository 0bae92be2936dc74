//! Evaluation, counted in steps.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::expr::{Expr, Function, Macro, Operator};
use super::failure::Failure;
use super::value::Value;
use super::{MAX_STEPS, Subject};

/// Bytes of text that one step reads.
const BYTES_PER_STEP: usize = 64;

pub(super) struct Evaluation<'a> {
    subject: &'a Subject<'a>,
    variables: Vec<Value<'a>>,
    steps_left: u32,
}

type Outcome<'a, T> = Result<T, Failure<'a>>;

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

    fn spend(&mut self, bytes: usize) -> Outcome<'a, ()> {
        let steps = u32::try_from(1 + bytes / BYTES_PER_STEP).unwrap_or(u32::MAX);
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Failure::TooExpensive)?;
        Ok(())
    }

    fn value(&mut self, expr: &'a Expr) -> Outcome<'a, Value<'a>> {
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
                Ok(Value::Bool(regex.is_match(&operand)))
            }
            Expr::Macro(found, list, body) => self.macro_call(*found, list, body),
        }
    }

    fn bool(&mut self, expr: &'a Expr, operation: &'static str) -> Outcome<'a, bool> {
        match self.value(expr)? {
            Value::Bool(b) => Ok(b),
            other => Err(Failure::WrongTypes {
                operation,
                left: other.words(),
                right: "",
            }),
        }
    }

    fn text(&mut self, expr: &'a Expr, operation: &'static str) -> Outcome<'a, Cow<'a, str>> {
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

    /// Counted in steps all the way down: lists made by `map` can be far larger than what made them.
    fn equal(&mut self, left: &Value<'a>, right: &Value<'a>) -> Outcome<'a, bool> {
        self.spend(left.bytes())?;
        if let (Value::Object(left), Value::Object(right)) = (left, right) {
            return self.equal_objects(left, right);
        }
        match (left.len(), right.len()) {
            (Some(len), Some(other)) if len == other => {
                for at in 0..len {
                    if !self.equal(&left.at(at), &right.at(at))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(left.equals_scalar(right)),
        }
    }

    fn equal_objects(&mut self, left: &'a Map<String, Json>, right: &'a Map<String, Json>) -> Outcome<'a, bool> {
        if left.len() != right.len() {
            return Ok(false);
        }
        for (name, value) in left {
            self.spend(name.len())?;
            let Some(other) = right.get(name) else { return Ok(false) };
            if !self.equal(&Value::of(value), &Value::of(other))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_in(&mut self, value: &Value<'a>, container: &Value<'a>) -> Outcome<'a, Value<'a>> {
        match (container, value) {
            (Value::Object(members), Value::Text(name)) => return Ok(Value::Bool(members.contains_key(name.as_ref()))),
            // Other keys that maps of CEL may have; objects of JSON have none of them.
            (Value::Object(_), Value::Bool(_) | Value::Int(_) | Value::Double(_)) => return Ok(Value::Bool(false)),
            _ => {}
        }
        let Some(len) = container.len() else {
            return Err(value.no(Operator::In, container));
        };
        for at in 0..len {
            if self.equal(&container.at(at), value)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }

    fn call(&mut self, function: Function, operands: &'a [Expr]) -> Outcome<'a, Value<'a>> {
        let operation = function.name();
        if let [text, part] = operands {
            let (text, part) = (self.text(text, operation)?, self.text(part, operation)?);
            return Ok(Value::Bool(match function {
                Function::Contains => text.contains(part.as_ref()),
                Function::StartsWith => text.starts_with(part.as_ref()),
                _ => text.ends_with(part.as_ref()),
            }));
        }
        let operand = self.value(&operands[0])?;
        self.spend(operand.bytes())?;
        let wrong = Failure::WrongTypes {
            operation,
            left: operand.words(),
            right: "",
        };
        convert(function, operand).unwrap_or(Err(wrong))
    }

    fn macro_call(&mut self, found: Macro, list: &'a Expr, body: &'a Expr) -> Outcome<'a, Value<'a>> {
        let list = self.elements(list)?;
        let Some(len) = list.len() else {
            return Err(Failure::WrongTypes {
                operation: "all, exists, filter, map",
                left: list.words(),
                right: "",
            });
        };
        match found {
            Macro::All => self
                .any(&list, len, body, false)
                .map(|any_false| Value::Bool(!any_false)),
            Macro::Exists => self.any(&list, len, body, true).map(Value::Bool),
            Macro::ExistsOne => self.filter(&list, len, body).map(|kept| Value::Bool(kept.len() == 1)),
            Macro::Filter => self.filter(&list, len, body).map(|kept| Value::List(Rc::new(kept))),
            Macro::Map => {
                let items = (0..len).map(|at| self.with(list.at(at), |this| this.value(body)));
                Ok(Value::List(Rc::new(items.collect::<Outcome<'a, Vec<_>>>()?)))
            }
        }
    }

    /// A list as it is, an object as the list of its names.
    fn elements(&mut self, list: &'a Expr) -> Outcome<'a, Value<'a>> {
        let members = match self.value(list)? {
            Value::Object(members) => members,
            list => return Ok(list),
        };
        self.spend(BYTES_PER_STEP * members.len())?;
        Ok(Value::List(Rc::new(members.keys().map(|name| text(name)).collect())))
    }

    fn with<T>(&mut self, variable: Value<'a>, body: impl FnOnce(&mut Self) -> T) -> T {
        self.variables.push(variable);
        let result = body(self);
        self.variables.pop();
        result
    }

    /// As with `&&` and `||`, an element that decides outweighs those that fail.
    fn any(&mut self, list: &Value<'a>, len: usize, body: &'a Expr, sought: bool) -> Outcome<'a, bool> {
        let mut failed = None;
        for at in 0..len {
            match self.with(list.at(at), |this| this.bool(body, "all, exists")) {
                Ok(found) if found == sought => return Ok(true),
                Ok(_) => {}
                Err(Failure::TooExpensive) => return Err(Failure::TooExpensive),
                Err(failure) => failed = Some(failure),
            }
        }
        failed.map_or(Ok(false), Err)
    }

    fn filter(&mut self, list: &Value<'a>, len: usize, body: &'a Expr) -> Outcome<'a, Vec<Value<'a>>> {
        let mut kept = Vec::new();
        for at in 0..len {
            let element = list.at(at);
            if self.with(element.clone(), |this| this.bool(body, "filter, exists_one"))? {
                kept.push(element);
            }
        }
        Ok(kept)
    }
}

fn get<'a>(members: &'a Map<String, Json>, name: &str) -> Option<Value<'a>> {
    members.get(name).map(Value::of)
}

fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

/// A name that was computed is not repeated in the failure.
fn missing<'a>(what: &'static str, name: &'a Expr) -> Failure<'a> {
    let name = if let Expr::Text(name) = name { name } else { "…" };
    Failure::Missing { what, name }
}

/// `None`: not for this type.
fn convert<'a>(function: Function, operand: Value<'a>) -> Option<Outcome<'a, Value<'a>>> {
    let no_result = || Failure::NoResult {
        operation: function.name(),
    };
    let int = |i: Option<i64>| i.map(Value::Int).ok_or_else(no_result);
    Some(match (function, operand) {
        (Function::Size, Value::Text(text)) => int(i64::try_from(text.chars().count()).ok()),
        (Function::Size, Value::Object(members)) => int(i64::try_from(members.len()).ok()),
        (Function::Size, list) => int(Some(i64::try_from(list.len()?).ok()?)),
        (Function::Int, Value::Int(i)) => int(Some(i)),
        (Function::Int, Value::Double(d)) => int(truncated(d)),
        (Function::Int, Value::Text(text)) => int(text.parse().ok()),
        #[expect(clippy::cast_precision_loss, reason = "what double() of CEL does")]
        (Function::Double, Value::Int(i)) => Ok(Value::Double(i as f64)),
        (Function::Double, Value::Double(d)) => Ok(Value::Double(d)),
        (Function::Double, Value::Text(text)) => text.parse().map(Value::Double).map_err(|_| no_result()),
        (Function::String, Value::Text(text)) => Ok(Value::Text(text)),
        (Function::String, Value::Int(i)) => Ok(Value::Text(i.to_string().into())),
        (Function::String, Value::Double(d)) => Ok(Value::Text(d.to_string().into())),
        (Function::String, Value::Bool(b)) => Ok(Value::Text(b.to_string().into())),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncated(d: f64) -> Option<i64> {
    (d > -9_223_372_036_854_775_808.0 && d < 9_223_372_036_854_775_808.0).then_some(d as i64)
}
