//! Calls of functions and macros, by their names.

use cel::common::ast::{CallExpr, Expr as Tree, IdedExpr, LiteralValue};
use regex::Regex;

use super::ConditionError;
use super::check;
use super::check::Type;
use super::expr::{Expr, Function, Macro, callable};
use super::lower::{Lower, Lowering, Typed};

impl<'p> Lowering<'p> {
    pub(super) fn function(&mut self, node: &'p IdedExpr, call: &'p CallExpr) -> Lower<Typed> {
        let name = call.func_name.as_str();
        let operands: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        if let (Some(found), Some(_)) = (Macro::parse(name), &call.target) {
            return self.macro_call(node, found, &operands);
        }
        if name == "matches" {
            return self.matches(node, &operands);
        }
        let Some(function) = Function::parse(name) else {
            return Err(self.unknown_function(node, name));
        };
        if operands.len() != function.arity() {
            let message = format!("{name}() has {} operands, not {}", function.arity(), operands.len());
            return Err(self.wrong(node, message));
        }
        let typed = operands
            .into_iter()
            .map(|operand| self.node(operand))
            .collect::<Lower<Vec<_>>>()?;
        let (operands, types): (Vec<_>, Vec<_>) = typed.into_iter().unzip();
        let found = check::function(function, &types).map_err(|message| self.wrong(node, message))?;
        Ok((Expr::Call(function, operands), found))
    }

    fn unknown_function(&self, node: &IdedExpr, name: &str) -> ConditionError {
        let message = match manifest::nearest(name, callable()) {
            Some(meant) => format!("unknown function {name:?}; did you mean {meant:?}?"),
            None => format!(
                "unknown function {name:?}; there are {}",
                callable().collect::<Vec<_>>().join(", ")
            ),
        };
        self.wrong(node, message)
    }

    /// The pattern is compiled once, here; its language runs in time linear to the text.
    fn matches(&mut self, node: &IdedExpr, operands: &[&'p IdedExpr]) -> Lower<Typed> {
        let [text, pattern] = operands else {
            return Err(self.wrong(
                node,
                "matches() has a text and a pattern, such as topic.matches(\"^a.*z$\")",
            ));
        };
        let text = self.text(text, "what matches() reads")?;
        let Tree::Literal(LiteralValue::String(source)) = &pattern.expr else {
            return Err(self.wrong(pattern, "the pattern of matches() is written out in quotes"));
        };
        let regex = regex::RegexBuilder::new(source.inner())
            .size_limit(MAX_REGEX_BYTES)
            .build();
        let regex: Regex = regex.map_err(|error| self.wrong(pattern, explain(&error)))?;
        Ok((Expr::Matches(text, regex), Type::Bool))
    }

    fn macro_call(&mut self, node: &IdedExpr, found: Macro, operands: &[&'p IdedExpr]) -> Lower<Typed> {
        let [
            list,
            IdedExpr {
                expr: Tree::Ident(variable),
                ..
            },
            body,
        ] = operands
        else {
            return Err(self.wrong(
                node,
                "has a variable and an expression, such as payload.list.all(x, x > 0.0)",
            ));
        };
        let (over, over_type) = self.node(list)?;
        if !over_type.can_be_list() {
            return Err(self.wrong(list, format!("is {}, not a list", over_type.words())));
        }
        self.variables.push(variable);
        let body = if found == Macro::Map {
            self.node(body).map(|(expr, _)| Box::new(expr))
        } else {
            self.bool(body)
        };
        self.variables.pop();
        let result = if matches!(found, Macro::Map | Macro::Filter) {
            Type::List
        } else {
            Type::Bool
        };
        Ok((Expr::Macro(found, Box::new(over), body?), result))
    }
}

/// A compiled pattern takes at most this much memory.
const MAX_REGEX_BYTES: usize = 128 * 1024;

fn explain(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => format!("the pattern is too large: over {MAX_REGEX_BYTES} bytes compiled"),
        other => {
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default();
            format!("no regular expression: {}", reason.trim_start_matches("error: "))
        }
    }
}
