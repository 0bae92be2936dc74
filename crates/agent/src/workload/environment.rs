//! The environment of a container, and what `$(NAME)` stands for in what it is given.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding};
use manifest::workload::{ConfigMap, Container, EnvFrom, EnvVar, EnvVarSource, KeyRef, Secret, SourceRef};

use super::{Configuration, Finding};

/// The variables of a container by their names.
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Of the container at `path` in its manifest; what is wrong goes to `wrong`.
    pub(super) fn of(
        container: &Container,
        given: &Configuration,
        path: &str,
        wrong: &mut Vec<Finding>,
    ) -> Environment {
        let mut variables = BTreeMap::new();
        for (index, from) in container.env_from.iter().enumerate() {
            match given.all_of(from) {
                Ok(values) => variables.extend(values),
                Err(message) => wrong.push(Finding::at(format!("{path}.envFrom[{index}]"), message)),
            }
        }
        for (index, variable) in container.env.iter().enumerate() {
            match given.value_of(variable) {
                Ok(Some(Value::Text(text))) => {
                    let text = expand(&text, &variables);
                    variables.insert(variable.name.clone(), text);
                }
                Ok(Some(Value::Kept(text))) => drop(variables.insert(variable.name.clone(), text)),
                Ok(None) => {}
                Err(message) => wrong.push(Finding::at(format!("{path}.env[{index}]"), message)),
            }
        }
        for (name, value) in &variables {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let message =
                    format!("no variable can be {name:?}, or have that value: there is a = or a zero byte in it");
                wrong.push(Finding::at(format!("{path}.env"), message));
            }
        }
        Environment(variables)
    }

    /// With its variables in place of `$(NAME)`.
    pub(super) fn expand(&self, text: &str) -> String {
        expand(text, &self.0)
    }

    pub(super) fn into_variables(self) -> Vec<(String, String)> {
        self.0.into_iter().collect()
    }
}

/// What a variable is.
enum Value {
    /// Written in the manifest: variables before it may stand in it.
    Text(String),
    /// Kept elsewhere, and taken as it is.
    Kept(String),
}

impl Configuration {
    /// `None`: it is kept nowhere, and need not be there.
    fn value_of(&self, variable: &EnvVar) -> Result<Option<Value>, String> {
        let Some(source) = &variable.value_from else {
            return Ok(Some(Value::Text(variable.value.clone().unwrap_or_default())));
        };
        let kept = match source {
            EnvVarSource {
                config_map_key_ref: Some(key),
                ..
            } => one_of("ConfigMap", key, self.config_maps.get(&key.name).map(texts))?,
            EnvVarSource {
                secret_key_ref: Some(key),
                ..
            } => one_of("Secret", key, self.secrets.get(&key.name).map(opened).transpose()?)?,
            EnvVarSource { .. } => None,
        };
        Ok(kept.map(Value::Kept))
    }

    fn all_of(&self, from: &EnvFrom) -> Result<BTreeMap<String, String>, String> {
        let values = match from {
            EnvFrom {
                config_map_ref: Some(source),
                ..
            } => all("ConfigMap", source, self.config_maps.get(&source.name).map(texts))?,
            EnvFrom {
                secret_ref: Some(source),
                ..
            } => all(
                "Secret",
                source,
                self.secrets.get(&source.name).map(opened).transpose()?,
            )?,
            EnvFrom { .. } => BTreeMap::new(),
        };
        let prefixed = values
            .into_iter()
            .map(|(name, value)| (from.prefix.clone() + &name, value));
        Ok(prefixed.collect())
    }
}

fn one_of(kind: &str, key: &KeyRef, values: Option<BTreeMap<String, String>>) -> Result<Option<String>, String> {
    let KeyRef { name, key, optional } = key;
    match values {
        _ if *optional && values.as_ref().is_none_or(|values| !values.contains_key(key)) => Ok(None),
        None => Err(absent(kind, name)),
        Some(mut values) => {
            let value = values.remove(key);
            value.map(Some).ok_or_else(|| {
                let near = manifest::nearest(key, values.keys().map(String::as_str));
                let meant = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
                format!("the {kind} {name} has no {key:?}{meant}")
            })
        }
    }
}

fn all(
    kind: &str,
    source: &SourceRef,
    values: Option<BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, String> {
    match values {
        Some(values) => Ok(values),
        None if source.optional => Ok(BTreeMap::new()),
        None => Err(absent(kind, &source.name)),
    }
}

fn absent(kind: &str, name: &str) -> String {
    format!("there is no {kind} {name}; apply one")
}

/// Those of its values that are texts: a variable is none else.
fn texts(map: &ConfigMap) -> BTreeMap<String, String> {
    map.data.clone()
}

/// Its values as texts; of one that is given twice the text counts.
pub(super) fn opened(secret: &Secret) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for (key, value) in &secret.data {
        let bytes = Base64::decode_vec(value).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let text =
            text.ok_or_else(|| format!("the value {key:?} of the Secret {} is no text", secret.metadata.name))?;
        values.insert(key.clone(), text);
    }
    values.extend(secret.string_data.clone());
    Ok(values)
}

/// `$(NAME)` stands for a variable, `$$` for `$`; what names no variable stays as it is, as in Kubernetes.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded += &rest[..at];
        let behind = &rest[at + 1..];
        let named = behind.strip_prefix('(').and_then(|name| name.split_once(')'));
        (expanded, rest) = match (named, behind.strip_prefix('$')) {
            (Some((name, after)), _) => match variables.get(name) {
                Some(value) => (expanded + value, after),
                None => (expanded + "$(" + name + ")", after),
            },
            (None, Some(after)) => (expanded + "$", after),
            (None, None) => (expanded + "$", behind),
        };
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let variables =
            BTreeMap::from([("A", "1"), ("B", "$(A)")].map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(expand(text, &variables), expected, "{text}");
    }

    #[test]
    fn variables_stand_in_texts_as_kubernetes_has_it() {
        check("", "");
        check("no variable", "no variable");
        check("$(A)", "1");
        check("a$(A)b$(A)", "a1b1");
        // What a variable holds is not looked through again.
        check("$(B)", "$(A)");
        check("$(C)", "$(C)");
        check("$$(A)", "$(A)");
        check("$$$(A)", "$1");
        check("$A ${A} $", "$A ${A} $");
        check("$(A", "$(A");
        check("$()", "$()");
    }
}
