//! Conditions against the interpreter of the `cel` crate: where both accept an expression, both say the same. It adds
//! objects to lists, which CEL does not, so none are added here; and it rounds an int to a double before it compares
//! the two, which CEL does not either, so those that are compared are such as a double has exactly (`conditions.rs` has
//! others).

mod common;

use cel::{Context, Program, Value};
use common::{TOPIC, answer, when};
use proptest::prelude::*;
use std::collections::HashMap;

const PAYLOAD: &str = r#"{"a": 1, "b": -2.5, "s": "xy", "t": true, "n": null, "l": [1, 2, 3], "o": {"a": 1}}"#;

/// The same message for the oracle; numbers of JSON are doubles in CEL.
fn oracle(condition: &str) -> String {
    let map = |members: Vec<(&str, Value)>| -> Value {
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<HashMap<_, _>>()
            .into()
    };
    let list: Vec<Value> = vec![1.0.into(), 2.0.into(), 3.0.into()];
    let payload = map(vec![
        ("a", 1.0.into()),
        ("b", (-2.5).into()),
        ("s", "xy".into()),
        ("t", true.into()),
        ("n", Value::Null),
        ("l", list.into()),
        ("o", map(vec![("a", 1.0.into())])),
    ]);
    let mut context = Context::default();
    context.add_variable_from_value("payload", payload);
    context.add_variable_from_value("topic", TOPIC);
    context.add_variable_from_value("properties", map(vec![("unit", "m".into())]));
    match Program::compile(condition).unwrap().execute(&context) {
        Ok(Value::Bool(b)) => b.to_string(),
        _ => "no answer".to_owned(),
    }
}

fn one_of(texts: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(texts).prop_map(str::to_owned).boxed()
}

fn joined(
    left: &BoxedStrategy<String>,
    operators: &'static [&'static str],
    right: &BoxedStrategy<String>,
) -> BoxedStrategy<String> {
    let parts = (left.clone(), prop::sample::select(operators), right.clone());
    parts
        .prop_map(|(left, operator, right)| format!("({left} {operator} {right})"))
        .boxed()
}

/// Expressions that are mostly well typed; what is of the payload may be anything.
struct Typed {
    int: BoxedStrategy<String>,
    double: BoxedStrategy<String>,
    text: BoxedStrategy<String>,
    list: BoxedStrategy<String>,
    bool: BoxedStrategy<String>,
}

fn leaves() -> Typed {
    Typed {
        int: one_of(&["0", "1", "2", "-3", "4611686018427387904"]),
        double: one_of(&[
            "payload.a",
            "payload.b",
            "payload.l[0]",
            "payload.o.a",
            "payload.zz",
            "payload.s",
            "0.0",
            "1.0",
            "2.5",
        ]),
        text: one_of(&[
            "payload.s",
            "topic",
            "properties.unit",
            "properties.no",
            "payload[\"s\"]",
            "payload.a",
            "\"xy\"",
            "\"x\"",
            "\"\"",
        ]),
        list: one_of(&[
            "payload.l",
            "[1, 2, 3]",
            "[1.0, 2.0, 3.0]",
            "[]",
            "payload.s",
            "[\"xy\", \"m\"]",
            "[payload.a, payload.b]",
        ]),
        bool: one_of(&[
            "payload.t",
            "true",
            "false",
            "has(payload.a)",
            "has(payload.zz)",
            "has(properties.unit)",
            "\"no\" in properties",
            "payload.n == null",
            "payload.o.all(x, x == \"a\")",
            "payload.o.exists(x, x == 2)",
            "payload.s in payload.o",
            "payload.a in payload.o",
            "payload.o == payload.o",
            "payload.a",
        ]),
    }
}

fn deeper(inner: &Typed) -> Typed {
    let Typed {
        int,
        double,
        text,
        list,
        bool,
    } = inner;
    let call = |name: &'static str, of: &BoxedStrategy<String>| of.clone().prop_map(move |of| format!("{name}({of})"));
    let comparison = &["==", "!=", "<", "<=", ">", ">="];
    let macros = (
        list.clone(),
        one_of(&["all", "exists", "exists_one"]),
        one_of(&[
            "x > 1.0",
            "x == 2",
            "x == payload.a",
            "x < 3.0 || payload.zz",
            "x != null",
        ]),
    );
    let methods = (
        text.clone(),
        one_of(&["contains", "startsWith", "endsWith"]),
        text.clone(),
    );
    // Up to 2^53 on both sides of 0.
    let exact = int
        .clone()
        .prop_map(|int| format!("({int} % 9007199254740993)"))
        .boxed();
    let branches = |of: &BoxedStrategy<String>| {
        (bool.clone(), of.clone(), of.clone()).prop_map(|(c, yes, no)| format!("({c} ? {yes} : {no})"))
    };
    Typed {
        int: prop_oneof![
            int.clone(),
            joined(int, &["+", "-", "*", "/", "%"], int),
            call("int", double),
            call("size", text),
            call("size", list),
            branches(int)
        ]
        .boxed(),
        double: prop_oneof![
            double.clone(),
            joined(double, &["+", "-", "*", "/"], double),
            call("double", int),
            call("-", double)
        ]
        .boxed(),
        text: prop_oneof![
            text.clone(),
            joined(text, &["+"], text),
            call("string", int),
            branches(text)
        ]
        .boxed(),
        list: prop_oneof![
            list.clone(),
            joined(list, &["+"], list),
            list.clone().prop_map(|list| format!("{list}.filter(x, x > 1.0)")),
            list.clone().prop_map(|list| format!("{list}.map(x, x + 1.0)")),
        ]
        .boxed(),
        bool: prop_oneof![
            2 => joined(bool, &["&&", "||", "==", "!="], bool),
            1 => call("!", bool),
            2 => joined(double, comparison, double),
            1 => joined(&exact, comparison, double),
            1 => joined(int, comparison, int),
            1 => joined(text, comparison, text),
            1 => joined(list, &["==", "!="], list),
            1 => joined(double, &["in"], list),
            1 => macros.prop_map(|(list, name, body)| format!("{list}.{name}(x, {body})")),
            1 => methods.prop_map(|(text, method, part)| format!("{text}.{method}({part})")),
        ]
        .boxed(),
    }
}

fn condition() -> BoxedStrategy<String> {
    let levels: Vec<Typed> = std::iter::successors(Some(leaves()), |inner| Some(deeper(inner)))
        .take(4)
        .collect();
    prop::strategy::Union::new(levels.into_iter().map(|level| level.bool)).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_both_accept_both_answer_alike(condition in condition()) {
        // What is refused before any message has no answer here that could be compared.
        if when(&condition).is_ok() {
            let ours = match answer(&condition, PAYLOAD).as_str() {
                answer @ ("true" | "false") => answer.to_owned(),
                _ => "no answer".to_owned(),
            };
            prop_assert_eq!(ours, oracle(&condition), "{}", condition);
        }
    }
}
