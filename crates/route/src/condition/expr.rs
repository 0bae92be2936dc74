//! A condition after all checks.

use regex::Regex;

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
    List(Vec<Expr>),
    Topic,
    Payload,
    DeviceId,
    /// `properties[name]`.
    Property(Box<Expr>),
    /// `device.labels[name]`.
    Label(Box<Expr>),
    HasProperty(Box<Expr>),
    HasLabel(Box<Expr>),
    /// A variable of a macro, counted from the outermost.
    Variable(usize),
    Member(Box<Expr>, Box<str>),
    HasMember(Box<Expr>, Box<str>),
    Index(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
    Matches(Box<Expr>, Regex),
    Macro(Macro, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Int,
    Double,
    String,
}

/// The second operand is evaluated with each element of the first as the innermost variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

impl Operator {
    /// As it is written.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Modulo => "%",
            Operator::In => "in",
        }
    }

    /// From the name that the parser gives it.
    pub(super) fn parse(name: &str) -> Option<Self> {
        use cel::common::ast::operators as cel;
        Some(match name {
            cel::EQUALS => Operator::Equal,
            cel::NOT_EQUALS => Operator::NotEqual,
            cel::LESS => Operator::Less,
            cel::LESS_EQUALS => Operator::LessOrEqual,
            cel::GREATER => Operator::Greater,
            cel::GREATER_EQUALS => Operator::GreaterOrEqual,
            cel::ADD => Operator::Add,
            cel::SUBSTRACT => Operator::Subtract,
            cel::MULTIPLY => Operator::Multiply,
            cel::DIVIDE => Operator::Divide,
            cel::MODULO => Operator::Modulo,
            cel::IN => Operator::In,
            _ => return None,
        })
    }
}

impl Function {
    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Function::Size => "size",
            Function::Contains => "contains",
            Function::StartsWith => "startsWith",
            Function::EndsWith => "endsWith",
            Function::Int => "int",
            Function::Double => "double",
            Function::String => "string",
        }
    }

    const ALL: [Function; 7] = [
        Function::Size,
        Function::Contains,
        Function::StartsWith,
        Function::EndsWith,
        Function::Int,
        Function::Double,
        Function::String,
    ];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// Operands, the one before the dot included.
    pub(super) fn arity(self) -> usize {
        match self {
            Function::Contains | Function::StartsWith | Function::EndsWith => 2,
            Function::Size | Function::Int | Function::Double | Function::String => 1,
        }
    }
}

impl Macro {
    pub(super) fn parse(name: &str) -> Option<Self> {
        use cel::common::ast::operators as cel;
        Some(match name {
            cel::ALL => Macro::All,
            cel::EXISTS => Macro::Exists,
            cel::EXISTS_ONE => Macro::ExistsOne,
            cel::FILTER => Macro::Filter,
            cel::MAP => Macro::Map,
            _ => return None,
        })
    }
}

/// All names that can be called, to suggest one.
pub(super) fn callable() -> impl Iterator<Item = &'static str> {
    let macros = ["matches", "has", "all", "exists", "exists_one", "filter", "map"];
    Function::ALL.into_iter().map(Function::name).chain(macros)
}
