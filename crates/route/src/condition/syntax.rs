//! The parser of the `cel` crate, its limits and its errors in words for people.

use cel::common::ast::{IdedExpr, SourceInfo};
use cel::{Env, ParseError};

use super::ConditionError;

/// Deepest nesting that is parsed; what is deeper but flat is caught when it is checked.
const MAX_PARSER_DEPTH: u16 = 32;

pub(super) struct Parsed {
    pub(super) expr: IdedExpr,
    info: SourceInfo,
}

impl Parsed {
    /// Where a node stands, in bytes.
    pub(super) fn offset(&self, node: &IdedExpr) -> usize {
        let chars = self.info.offset_for(node.id).map_or(0, |(start, _)| start as usize);
        bytes(&self.info.source, chars)
    }
}

/// An environment without macros leaves them as the calls that were written, which is what the checks want to see.
pub(super) fn parse(source: &str) -> Result<Parsed, ConditionError> {
    let parser = Env::default()
        .with_optional_support(false)
        .parser()
        .max_recursion_depth(MAX_PARSER_DEPTH);
    match parser.parse_with_source_info(source) {
        Ok((expr, info)) => Ok(Parsed { expr, info }),
        Err(errors) => Err(first(source, &errors.errors)),
    }
}

fn first(source: &str, errors: &[ParseError]) -> ConditionError {
    let error = &errors[0];
    let line = usize::try_from(error.pos.0).unwrap_or(1).max(1);
    let column = usize::try_from(error.pos.1).unwrap_or(1).max(1);
    let line_chars: usize = source
        .split_inclusive('\n')
        .take(line - 1)
        .map(|line| line.chars().count())
        .sum();
    let offset = bytes(source, line_chars + column - 1);
    ConditionError {
        offset,
        message: explain(&error.msg, &source[offset..]),
    }
}

fn explain(message: &str, rest: &str) -> String {
    let found: String = rest.chars().take(12).collect();
    if message.contains("Recursion limit") {
        return format!("nested deeper than {MAX_PARSER_DEPTH} levels");
    }
    if rest.trim().is_empty() {
        return "ends too early; something is missing at its end".to_owned();
    }
    if found.starts_with('=') && !found.starts_with("==") {
        return "\"=\" is no operator; compare with \"==\"".to_owned();
    }
    if found.starts_with(['"', '\'']) && message.contains("token recognition") {
        return format!("the text that begins with {found} does not end");
    }
    format!("cannot be read from {found:?} on")
}

fn bytes(source: &str, chars: usize) -> usize {
    source.char_indices().nth(chars).map_or(source.len(), |(at, _)| at)
}
