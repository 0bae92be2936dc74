//! Values of readings, which come back as they went in.

use std::borrow::Cow;

/// Numbers farther from zero take no part in down-sampling: their squares would overflow in PostgreSQL's `avg`, and the
/// whole query would fail for one absurd reading.
const GREATEST_AGGREGATED: f64 = 1e140;

/// Digits that every double gives back as they were written.
const SAFE_DIGITS: usize = 15;

/// What a device said.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A number that a double holds exactly, in the sense that its shortest decimal form is the same number again.
    Number(f64),
    /// Any other JSON number, as it was written: more digits than a double has, beyond ±1e140, negative zero.
    Decimal(Cow<'a, str>),
    /// `true` or `false`.
    Boolean(bool),
    /// A JSON string, decoded. It may contain NUL.
    Text(Cow<'a, str>),
    /// Any other JSON, as it was written.
    Json(Cow<'a, str>),
    /// A payload that is not JSON.
    Bytes(Cow<'a, [u8]>),
}

/// How a value is told from others in the column `kind`. The numbers are in databases: never change one.
#[derive(Clone, Copy)]
#[repr(i16)]
enum Kind {
    Number = 0,
    Decimal = 1,
    False = 2,
    True = 3,
    Text = 4,
    Json = 5,
    Bytes = 6,
}

impl<'a> Value<'a> {
    /// A JSON number, from its literal.
    pub(crate) fn number(literal: &'a str) -> Self {
        match literal.parse::<f64>() {
            Ok(number) if number.abs() <= GREATEST_AGGREGATED && is_exact(literal, number) => Value::Number(number),
            _ => Value::Decimal(literal.into()),
        }
    }

    /// The column `kind`.
    pub(crate) fn kind(&self) -> i16 {
        let kind = match self {
            Value::Number(_) => Kind::Number,
            Value::Decimal(_) => Kind::Decimal,
            Value::Boolean(false) => Kind::False,
            Value::Boolean(true) => Kind::True,
            Value::Text(_) => Kind::Text,
            Value::Json(_) => Kind::Json,
            Value::Bytes(_) => Kind::Bytes,
        };
        kind as i16
    }

    /// The column `number`: what down-sampling goes by. The nearest double where none is exact.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Decimal(literal) => literal
                .parse()
                .ok()
                .filter(|number: &f64| number.abs() <= GREATEST_AGGREGATED),
            _ => None,
        }
    }

    /// The column `body`: what `kind` and `number` do not say.
    pub(crate) fn body(&self) -> Option<&[u8]> {
        match self {
            Value::Number(_) | Value::Boolean(_) => None,
            Value::Decimal(text) | Value::Text(text) | Value::Json(text) => Some(text.as_bytes()),
            Value::Bytes(bytes) => Some(bytes),
        }
    }
}

impl Value<'static> {
    /// A value from its columns; none if they do not belong together, as in a database that somebody else wrote to.
    pub(crate) fn from_columns(kind: i64, number: Option<f64>, body: Option<Vec<u8>>) -> Option<Self> {
        let text = |body: Option<Vec<u8>>| String::from_utf8(body?).ok().map(Cow::from);
        Some(match kind {
            kind if kind == Kind::Number as i64 => Value::Number(number?),
            kind if kind == Kind::Decimal as i64 => Value::Decimal(text(body)?),
            kind if kind == Kind::False as i64 => Value::Boolean(false),
            kind if kind == Kind::True as i64 => Value::Boolean(true),
            kind if kind == Kind::Text as i64 => Value::Text(text(body)?),
            kind if kind == Kind::Json as i64 => Value::Json(text(body)?),
            kind if kind == Kind::Bytes as i64 => Value::Bytes(body?.into()),
            _ => return None,
        })
    }
}

/// Whether the shortest decimal form of `number` is the number that `literal` writes.
fn is_exact(literal: &str, number: f64) -> bool {
    let is_short = literal.len() <= SAFE_DIGITS && !literal.contains(['e', 'E', '-']);
    is_short || significant(literal) == significant(&format!("{number:e}"))
}

/// Sign, digits without zeros around them, and the power of ten of the last of them. No two numbers have the same, and
/// no number has two, except that a negative zero is not zero.
fn significant(literal: &str) -> Option<(bool, String, i64)> {
    let (is_negative, rest) = literal.strip_prefix('-').map_or((false, literal), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Some((is_negative, String::new(), i64::from(is_negative)));
    }
    let cut = (digits.len() - kept.len()) as i64;
    let power = exponent
        .parse::<i64>()
        .ok()?
        .checked_add(cut)?
        .checked_sub(fraction.len() as i64)?;
    Some((is_negative, kept.to_owned(), power))
}
