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

impl Value<'_> {
    /// The value by itself.
    pub(crate) fn to_static(&self) -> Value<'static> {
        let text = |text: &str| Cow::Owned(text.to_owned());
        match self {
            Value::Number(number) => Value::Number(*number),
            Value::Decimal(literal) => Value::Decimal(text(literal)),
            Value::Boolean(is_true) => Value::Boolean(*is_true),
            Value::Text(said) => Value::Text(text(said)),
            Value::Json(json) => Value::Json(text(json)),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.to_vec())),
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
    if number == 0.0 && number.is_sign_negative() {
        // SQLite keeps whole doubles as integers, which have no negative zero.
        return false;
    }
    let is_short = literal.len() <= SAFE_DIGITS && !literal.contains(['e', 'E', '-']);
    is_short || significant(literal) == significant(&format!("{number:e}"))
}

/// Sign, digits without zeros around them, and the power of ten of the last of them: the same for the same number,
/// however it is written.
fn significant(literal: &str) -> Option<(bool, String, i64)> {
    let (is_negative, rest) = literal.strip_prefix('-').map_or((false, literal), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Some((is_negative, String::new(), 0));
    }
    let cut = (digits.len() - kept.len()) as i64;
    let power = exponent
        .parse::<i64>()
        .ok()?
        .checked_add(cut)?
        .checked_sub(fraction.len() as i64)?;
    Some((is_negative, kept.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(literal: &str, expected: &Value<'_>) {
        assert_eq!(Value::number(literal), *expected, "{literal}");
    }

    #[test]
    fn a_number_that_a_double_gives_back_is_one() {
        for (literal, number) in [
            ("0", 0.0),
            ("0.0", 0.0),
            ("0e999999999999999999999", 0.0),
            ("21.5", 21.5),
            ("0.1", 0.1),
            ("0.30000000000000004", 0.300_000_000_000_000_04),
            ("1e3", 1000.0),
            ("1.50E+2", 150.0),
            ("-7", -7.0),
            ("9007199254740992", 9_007_199_254_740_992.0),
            ("1e140", 1e140),
            ("5e-324", 5e-324),
        ] {
            check(literal, &Value::Number(number));
        }
    }

    #[test]
    fn any_other_number_is_kept_as_it_was_written() {
        for literal in [
            "9007199254740993",
            "12345678901234567890",
            "0.1000000000000000000001",
            "1e400",
            "-1e308",
            "1e141",
            "1e-400",
            "-0",
            "-0.0",
            "1e999999999999999999999",
        ] {
            check(literal, &Value::Decimal(literal.into()));
        }
    }

    proptest! {
        #[test]
        fn every_double_and_integer_comes_back(number in any::<f64>(), integer in any::<i128>()) {
            for literal in [format!("{number}"), format!("{number:e}"), format!("{integer}")] {
                match Value::number(&literal) {
                    Value::Number(kept) => prop_assert_eq!(
                        significant(&literal),
                        significant(&format!("{kept}")),
                        "{} became {}", literal, kept
                    ),
                    kept => prop_assert_eq!(kept, Value::Decimal(literal.as_str().into())),
                }
            }
        }

        #[test]
        fn a_value_comes_back_from_its_columns(text in ".*", number in any::<f64>(), bytes in any::<Vec<u8>>()) {
            for value in [
                Value::Number(number),
                Value::Decimal("1e400".into()),
                Value::Boolean(true),
                Value::Boolean(false),
                Value::Text(text.clone().into()),
                Value::Json(text.into()),
                Value::Bytes(bytes.into()),
            ] {
                let body = value.body().map(<[u8]>::to_vec);
                let back = Value::from_columns(value.kind().into(), value.as_number(), body);
                prop_assert_eq!(back, Some(value));
            }
        }
    }

    #[test]
    fn columns_that_do_not_belong_together_are_no_value() {
        assert_eq!(Value::from_columns(0, None, None), None);
        assert_eq!(Value::from_columns(4, Some(1.0), None), None);
        assert_eq!(Value::from_columns(5, None, Some(vec![0xff])), None);
        assert_eq!(Value::from_columns(7, None, None), None);
        assert_eq!(Value::from_columns(i64::MIN, None, None), None);
    }
}
