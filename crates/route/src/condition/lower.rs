//! From the parser's tree to a checked one: every name, function and type that can be known is.

use cel::common::ast::{CallExpr, Expr as Tree, IdedExpr, LiteralValue, SelectExpr, operators};
use regex::Regex;

use super::check::{self, Type};
use super::expr::{Expr, Function, Macro, Operator, callable};
use super::syntax::Parsed;
use super::{ConditionError, MAX_CONDITION_DEPTH};

pub(super) struct Lowered {
    pub(super) expr: Expr,
    /// Where it first asks for the device, in bytes.
    pub(super) uses_device: Option<usize>,
}

pub(super) fn lower(parsed: &Parsed) -> Result<Lowered, ConditionError> {
    let mut lowering = Lowering {
        parsed,
        variables: Vec::new(),
        depth: 0,
        uses_device: None,
    };
    let (expr, found) = lowering.node(&parsed.expr)?;
    if !found.can_be_bool() {
        let message = format!("is {}; a condition is true or false", found.words());
        return Err(lowering.wrong(&parsed.expr, message));
    }
    Ok(Lowered {
        expr,
        uses_device: lowering.uses_device,
    })
}

struct Lowering<'p> {
    parsed: &'p Parsed,
    /// Those of the macros around, outermost first.
    variables: Vec<&'p str>,
    depth: usize,
    uses_device: Option<usize>,
}

type Typed = (Expr, Type);
type Lower<T> = Result<T, ConditionError>;

impl<'p> Lowering<'p> {
    fn wrong(&self, node: &IdedExpr, message: impl Into<String>) -> ConditionError {
        ConditionError {
            offset: self.parsed.offset(node),
            message: message.into(),
        }
    }

    fn node(&mut self, node: &'p IdedExpr) -> Lower<Typed> {
        if self.depth == MAX_CONDITION_DEPTH {
            return Err(self.wrong(node, format!("nested deeper than {MAX_CONDITION_DEPTH} levels")));
        }
        self.depth += 1;
        let lowered = self.dispatch(node);
        self.depth -= 1;
        lowered
    }

    fn dispatch(&mut self, node: &'p IdedExpr) -> Lower<Typed> {
        match &node.expr {
            Tree::Literal(literal) => self.literal(node, literal),
            Tree::Ident(name) => self.name(node, name),
            Tree::Select(select) => self.select(node, select),
            Tree::Call(call) => self.call(node, call),
            Tree::List(list) => {
                let items = list
                    .elements
                    .iter()
                    .map(|item| Ok(self.node(item)?.0))
                    .collect::<Lower<_>>()?;
                Ok((Expr::List(items), Type::List))
            }
            Tree::Map(_) | Tree::Struct(_) => Err(self.wrong(node, "maps in braces are not known here")),
            Tree::Comprehension(_) | Tree::Unspecified => Err(self.wrong(node, "is not known here")),
        }
    }

    fn literal(&self, node: &IdedExpr, literal: &LiteralValue) -> Lower<Typed> {
        Ok(match literal {
            LiteralValue::Boolean(b) => (Expr::Bool(*b.inner()), Type::Bool),
            LiteralValue::Int(i) => (Expr::Int(*i.inner()), Type::Int),
            LiteralValue::Double(d) => (Expr::Double(*d.inner()), Type::Double),
            LiteralValue::String(s) => (Expr::Text(s.inner().into()), Type::Text),
            LiteralValue::Null => (Expr::Null, Type::Null),
            LiteralValue::UInt(_) => {
                return Err(self.wrong(node, "unsigned integers are not known here; leave out the u"));
            }
            LiteralValue::Bytes(_) => return Err(self.wrong(node, "bytes are not known here; leave out the b")),
        })
    }

    fn name(&mut self, node: &IdedExpr, name: &str) -> Lower<Typed> {
        if let Some(variable) = self.variables.iter().rposition(|variable| *variable == name) {
            return Ok((Expr::Variable(variable), Type::Any));
        }
        match name {
            "topic" => Ok((Expr::Topic, Type::Text)),
            "payload" => Ok((Expr::Payload, Type::Json)),
            "properties" => Err(self.wrong(node, "\"properties\" is no value by itself; write properties.NAME")),
            "device" => Err(self.wrong(
                node,
                "\"device\" is no value by itself; write device.id or device.labels.NAME",
            )),
            _ => Err(self.unknown_name(node, name)),
        }
    }

    fn unknown_name(&self, node: &IdedExpr, name: &str) -> ConditionError {
        let known = ["topic", "payload", "properties", "device", "device.id", "device.labels"];
        let message = match manifest::nearest(name, known.into_iter().chain(self.variables.iter().copied())) {
            Some(meant) => format!("unknown name {name:?}; did you mean {meant:?}?"),
            None => format!(
                "unknown name {name:?}; a condition sees topic, payload, properties, device.id and device.labels"
            ),
        };
        self.wrong(node, message)
    }

    /// Names of two parts that are no values: `device.…`.
    fn of_device(&mut self, node: &'p IdedExpr) -> Option<&'p str> {
        let Tree::Select(select) = &node.expr else { return None };
        let device = matches!(&select.operand.expr, Tree::Ident(name) if name == "device");
        if !device || self.variables.contains(&"device") {
            return None;
        }
        let offset = self.parsed.offset(&select.operand);
        self.uses_device = Some(self.uses_device.map_or(offset, |first| first.min(offset)));
        Some(&select.field)
    }

    fn select(&mut self, node: &'p IdedExpr, select: &'p SelectExpr) -> Lower<Typed> {
        match self.of_device(node) {
            Some("id") => return Ok((Expr::DeviceId, Type::Text)),
            Some("labels") => {
                return Err(self.wrong(
                    node,
                    "\"device.labels\" is no value by itself; write device.labels.NAME",
                ));
            }
            Some(other) => return Err(self.unknown_name(&select.operand, &format!("device.{other}"))),
            None => {}
        }
        let name = || Box::new(Expr::Text(select.field.as_str().into()));
        if let Some(attribute) = self.attribute(&select.operand) {
            return Ok((attribute.get(name()), Type::Text));
        }
        let object = self.json(&select.operand, "has no members")?;
        Ok((Expr::Member(Box::new(object), select.field.as_str().into()), Type::Json))
    }

    /// `properties` and `device.labels`, whose members are asked for one by one.
    fn attribute(&mut self, node: &'p IdedExpr) -> Option<Attribute> {
        if matches!(&node.expr, Tree::Ident(name) if name == "properties") && !self.variables.contains(&"properties") {
            return Some(Attribute::Property);
        }
        (self.of_device(node) == Some("labels")).then_some(Attribute::Label)
    }

    fn json(&mut self, node: &'p IdedExpr, otherwise: &str) -> Lower<Expr> {
        match self.node(node)? {
            (expr, Type::Json | Type::Any) => Ok(expr),
            (_, found) => Err(self.wrong(node, format!("{} {otherwise}", found.words()))),
        }
    }

    fn text(&mut self, node: &'p IdedExpr, what: &str) -> Lower<Box<Expr>> {
        match self.node(node)? {
            (expr, found) if found.can_be_text() => Ok(Box::new(expr)),
            (_, found) => Err(self.wrong(node, format!("{what} is a text, not {}", found.words()))),
        }
    }

    fn call(&mut self, node: &'p IdedExpr, call: &'p CallExpr) -> Lower<Typed> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, [left, right]) => self.logical(left, right, Expr::And),
            (operators::LOGICAL_OR, [left, right]) => self.logical(left, right, Expr::Or),
            (operators::LOGICAL_NOT, [operand]) => Ok((Expr::Not(self.bool(operand)?), Type::Bool)),
            (operators::NEGATE, [operand]) => self.negate(operand),
            (operators::CONDITIONAL, [condition, yes, no]) => self.conditional(condition, yes, no),
            (operators::INDEX, [list, index]) => self.index(list, index),
            (operators::IN, [name, container]) => self.is_in(node, name, container),
            (name, [left, right]) if Operator::parse(name).is_some() => {
                let operator = Operator::parse(name).expect("it was parsed");
                self.binary(node, operator, left, right)
            }
            (operators::HAS, args) if call.target.is_none() => self.has(node, args),
            _ => self.function(node, call),
        }
    }

    fn bool(&mut self, node: &'p IdedExpr) -> Lower<Box<Expr>> {
        match self.node(node)? {
            (expr, found) if found.can_be_bool() => Ok(Box::new(expr)),
            (_, found) => Err(self.wrong(node, format!("is {}; true or false belongs here", found.words()))),
        }
    }

    fn logical(
        &mut self,
        left: &'p IdedExpr,
        right: &'p IdedExpr,
        make: fn(Box<Expr>, Box<Expr>) -> Expr,
    ) -> Lower<Typed> {
        Ok((make(self.bool(left)?, self.bool(right)?), Type::Bool))
    }

    fn negate(&mut self, operand: &'p IdedExpr) -> Lower<Typed> {
        match self.node(operand)? {
            (expr, found @ (Type::Int | Type::Double | Type::Json | Type::Any)) => {
                Ok((Expr::Negate(Box::new(expr)), found))
            }
            (_, found) => Err(self.wrong(operand, format!("\"-\" is not possible with {}", found.words()))),
        }
    }

    fn conditional(&mut self, condition: &'p IdedExpr, yes: &'p IdedExpr, no: &'p IdedExpr) -> Lower<Typed> {
        let condition = self.bool(condition)?;
        let ((yes, yes_type), (no, no_type)) = (self.node(yes)?, self.node(no)?);
        let found = if yes_type == no_type { yes_type } else { Type::Any };
        Ok((Expr::If(condition, Box::new(yes), Box::new(no)), found))
    }

    fn index(&mut self, list: &'p IdedExpr, index: &'p IdedExpr) -> Lower<Typed> {
        if let Some(attribute) = self.attribute(list) {
            return Ok((attribute.get(self.text(index, "a name")?), Type::Text));
        }
        let (indexed, list_type) = self.node(list)?;
        let (index, _) = self.node(index)?;
        let found = match list_type {
            Type::Json => Type::Json,
            Type::List | Type::Any => Type::Any,
            other => return Err(self.wrong(list, format!("{} has no elements", other.words()))),
        };
        Ok((Expr::Index(Box::new(indexed), Box::new(index)), found))
    }

    fn is_in(&mut self, node: &'p IdedExpr, name: &'p IdedExpr, container: &'p IdedExpr) -> Lower<Typed> {
        match self.attribute(container) {
            Some(attribute) => Ok((attribute.has(self.text(name, "a name")?), Type::Bool)),
            None => self.binary(node, Operator::In, name, container),
        }
    }

    fn binary(&mut self, node: &IdedExpr, operator: Operator, left: &'p IdedExpr, right: &'p IdedExpr) -> Lower<Typed> {
        let ((left, left_type), (right, right_type)) = (self.node(left)?, self.node(right)?);
        let found = check::binary(operator, left_type, right_type).map_err(|message| self.wrong(node, message))?;
        Ok((Expr::Binary(operator, Box::new(left), Box::new(right)), found))
    }

    fn has(&mut self, node: &'p IdedExpr, args: &'p [IdedExpr]) -> Lower<Typed> {
        let [
            IdedExpr {
                expr: Tree::Select(select),
                ..
            },
        ] = args
        else {
            return Err(self.wrong(node, "has() asks for a member, such as has(payload.level)"));
        };
        if let Some(attribute) = self.attribute(&select.operand) {
            return Ok((
                attribute.has(Box::new(Expr::Text(select.field.as_str().into()))),
                Type::Bool,
            ));
        }
        let object = self.json(&select.operand, "has no members")?;
        Ok((
            Expr::HasMember(Box::new(object), select.field.as_str().into()),
            Type::Bool,
        ))
    }

    fn function(&mut self, node: &'p IdedExpr, call: &'p CallExpr) -> Lower<Typed> {
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
const MAX_REGEX_BYTES: usize = 256 * 1024;

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

#[derive(Clone, Copy)]
enum Attribute {
    Property,
    Label,
}

impl Attribute {
    fn get(self, name: Box<Expr>) -> Expr {
        match self {
            Attribute::Property => Expr::Property(name),
            Attribute::Label => Expr::Label(name),
        }
    }

    fn has(self, name: Box<Expr>) -> Expr {
        match self {
            Attribute::Property => Expr::HasProperty(name),
            Attribute::Label => Expr::HasLabel(name),
        }
    }
}
