//! The types of a condition, as far as they are known before a message comes.

use super::expr::{Function, Operator};

/// What a value will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Bool,
    Int,
    Double,
    Text,
    List,
    /// From the payload: anything but an integer, because numbers of JSON are doubles.
    Json,
    /// An element of a list or one of two branches: anything.
    Any,
}

impl Type {
    pub(super) fn words(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Bool => "true or false",
            Type::Int => "an integer",
            Type::Double => "a double",
            Type::Text => "a text",
            Type::List => "a list",
            Type::Json => "a value of the payload",
            Type::Any => "a value",
        }
    }

    fn known(self) -> bool {
        !matches!(self, Type::Json | Type::Any)
    }

    fn can_be(self, types: &[Type]) -> bool {
        !self.known() || types.contains(&self)
    }

    pub(super) fn can_be_bool(self) -> bool {
        self.can_be(&[Type::Bool])
    }

    pub(super) fn can_be_list(self) -> bool {
        self.can_be(&[Type::List])
    }

    pub(super) fn can_be_text(self) -> bool {
        self.can_be(&[Type::Text])
    }
}

const NUMBERS: [Type; 2] = [Type::Int, Type::Double];

/// The type of `left operator right`, or why it can never have a value.
pub(super) fn binary(operator: Operator, left: Type, right: Type) -> Result<Type, String> {
    match operator {
        Operator::Equal | Operator::NotEqual => equality(left, right),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            ordered(operator, left, right)
        }
        Operator::In if right.can_be_list() => Ok(Type::Bool),
        Operator::In => Err(format!(
            "\"in\" looks into a list or an object, and this is {}",
            right.words()
        )),
        _ => arithmetic(operator, left, right),
    }
}

fn equality(left: Type, right: Type) -> Result<Type, String> {
    let numbers = NUMBERS.contains(&left) && NUMBERS.contains(&right);
    let comparable = !left.known() || !right.known() || left == right || numbers;
    let never = || format!("{} never equals {}", left.words(), right.words());
    if comparable || left == Type::Null || right == Type::Null {
        Ok(Type::Bool)
    } else {
        Err(never())
    }
}

fn ordered(operator: Operator, left: Type, right: Type) -> Result<Type, String> {
    let both = |types: &[Type]| left.can_be(types) && right.can_be(types);
    if both(&NUMBERS) || both(&[Type::Text]) || both(&[Type::Bool]) {
        Ok(Type::Bool)
    } else {
        Err(no(operator, left, right))
    }
}

fn arithmetic(operator: Operator, left: Type, right: Type) -> Result<Type, String> {
    let mixes = |a, b| a == Type::Int && matches!(b, Type::Double | Type::Json);
    if mixes(left, right) || mixes(right, left) {
        return Err(mixed(operator));
    }
    let allowed: &[Type] = match operator {
        Operator::Add => &[Type::Int, Type::Double, Type::Text, Type::List],
        Operator::Modulo => &[Type::Int],
        _ => &NUMBERS,
    };
    let possible = allowed.iter().any(|one| left.can_be(&[*one]) && right.can_be(&[*one]));
    let json_modulo = operator == Operator::Modulo && (left == Type::Json || right == Type::Json);
    match possible && !json_modulo {
        true if left.known() => Ok(left),
        true if right.known() => Ok(right),
        true => Ok(Type::Any),
        false if json_modulo => Err(mixed(operator)),
        false => Err(no(operator, left, right)),
    }
}

/// The most frequent surprise.
fn mixed(operator: Operator) -> String {
    let advice = match operator {
        Operator::Modulo => "write int(…) around the double",
        _ => "write the integer with a point, such as 1.0, or int(…) around the double",
    };
    let symbol = operator.symbol();
    format!("\"{symbol}\" does not mix integers and doubles, and every number of a payload is a double; {advice}")
}

fn no(operator: Operator, left: Type, right: Type) -> String {
    format!(
        "\"{}\" is not possible with {} and {}",
        operator.symbol(),
        left.words(),
        right.words()
    )
}

/// The type of a function's result, or why it can never have one.
pub(super) fn function(function: Function, operands: &[Type]) -> Result<Type, String> {
    let wrong = |of: Type| Err(format!("{}() is not possible with {}", function.name(), of.words()));
    match function {
        Function::Size if !operands[0].can_be(&[Type::Text, Type::List]) => wrong(operands[0]),
        Function::Int | Function::Double if !operands[0].can_be(&[Type::Int, Type::Double, Type::Text]) => {
            wrong(operands[0])
        }
        Function::String if !operands[0].can_be(&[Type::Int, Type::Double, Type::Text, Type::Bool]) => {
            wrong(operands[0])
        }
        Function::Contains | Function::StartsWith | Function::EndsWith => {
            let not_text = operands.iter().find(|operand| !operand.can_be_text());
            not_text.map_or(Ok(Type::Bool), |operand| wrong(*operand))
        }
        Function::Size | Function::Int => Ok(Type::Int),
        Function::Double => Ok(Type::Double),
        Function::String => Ok(Type::Text),
    }
}
