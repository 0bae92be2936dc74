//! From the parser's tree to a checked one: every name, function and type that can be known is.

use cel::common::ast::{CallExpr, Expr as Tree, IdedExpr, LiteralValue, operators};

use super::check::{self, Type};
use super::expr::{Expr, Operator};
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

pub(super) struct Lowering<'p> {
    pub(super) parsed: &'p Parsed,
    /// Those of the macros around, outermost first.
    pub(super) variables: Vec<&'p str>,
    depth: usize,
    pub(super) uses_device: Option<usize>,
}

pub(super) type Typed = (Expr, Type);
pub(super) type Lower<T> = Result<T, ConditionError>;

impl<'p> Lowering<'p> {
    pub(super) fn wrong(&self, node: &IdedExpr, message: impl Into<String>) -> ConditionError {
        ConditionError {
            offset: self.parsed.offset(node),
            message: message.into(),
        }
    }

    pub(super) fn node(&mut self, node: &'p IdedExpr) -> Lower<Typed> {
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

    pub(super) fn json(&mut self, node: &'p IdedExpr, otherwise: &str) -> Lower<Expr> {
        match self.node(node)? {
            (expr, Type::Json | Type::Any) => Ok(expr),
            (_, found) => Err(self.wrong(node, format!("{} {otherwise}", found.words()))),
        }
    }

    pub(super) fn text(&mut self, node: &'p IdedExpr, what: &str) -> Lower<Box<Expr>> {
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

    pub(super) fn bool(&mut self, node: &'p IdedExpr) -> Lower<Box<Expr>> {
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
}
