//! Functions and macros, counted in steps.

use std::rc::Rc;

use super::eval::{BYTES_PER_STEP, Evaluation, Outcome, text};
use super::expr::{Expr, Function, Macro};
use super::failure::Failure;
use super::value::Value;

impl<'a> Evaluation<'a> {
    pub(super) fn call(&mut self, function: Function, operands: &'a [Expr]) -> Outcome<'a, Value<'a>> {
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

    pub(super) fn macro_call(&mut self, found: Macro, list: &'a Expr, body: &'a Expr) -> Outcome<'a, Value<'a>> {
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
