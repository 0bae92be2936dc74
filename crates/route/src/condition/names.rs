//! Names: what a condition sees of the message, of properties and of labels.

use cel::common::ast::{Expr as Tree, IdedExpr, SelectExpr};

use super::ConditionError;
use super::check::Type;
use super::expr::Expr;
use super::lower::{Lower, Lowering, Typed};

impl<'p> Lowering<'p> {
    pub(super) fn name(&mut self, node: &IdedExpr, name: &str) -> Lower<Typed> {
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

    pub(super) fn unknown_name(&self, node: &IdedExpr, name: &str) -> ConditionError {
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
    pub(super) fn of_device(&mut self, node: &'p IdedExpr) -> Option<&'p str> {
        let Tree::Select(select) = &node.expr else { return None };
        let device = matches!(&select.operand.expr, Tree::Ident(name) if name == "device");
        if !device || self.variables.contains(&"device") {
            return None;
        }
        let offset = self.parsed.offset(&select.operand);
        self.uses_device = Some(self.uses_device.map_or(offset, |first| first.min(offset)));
        Some(&select.field)
    }

    pub(super) fn select(&mut self, node: &'p IdedExpr, select: &'p SelectExpr) -> Lower<Typed> {
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
    pub(super) fn attribute(&mut self, node: &'p IdedExpr) -> Option<Attribute> {
        if matches!(&node.expr, Tree::Ident(name) if name == "properties") && !self.variables.contains(&"properties") {
            return Some(Attribute::Property);
        }
        (self.of_device(node) == Some("labels")).then_some(Attribute::Label)
    }

    pub(super) fn has(&mut self, node: &'p IdedExpr, args: &'p [IdedExpr]) -> Lower<Typed> {
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
}

#[derive(Clone, Copy)]
pub(super) enum Attribute {
    Property,
    Label,
}

impl Attribute {
    pub(super) fn get(self, name: Box<Expr>) -> Expr {
        match self {
            Attribute::Property => Expr::Property(name),
            Attribute::Label => Expr::Label(name),
        }
    }

    pub(super) fn has(self, name: Box<Expr>) -> Expr {
        match self {
            Attribute::Property => Expr::HasProperty(name),
            Attribute::Label => Expr::HasLabel(name),
        }
    }
}
