//! Equality and membership of what has parts, counted in steps.

use serde_json::{Map, Value as Json};

use super::eval::{Evaluation, Outcome};
use super::expr::Operator;
use super::value::Value;

impl<'a> Evaluation<'a> {
    /// Counted in steps all the way down: lists made by `map` can be far larger than what made them.
    pub(super) fn equal(&mut self, left: &Value<'a>, right: &Value<'a>) -> Outcome<'a, bool> {
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

    pub(super) fn is_in(&mut self, value: &Value<'a>, container: &Value<'a>) -> Outcome<'a, Value<'a>> {
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
}
