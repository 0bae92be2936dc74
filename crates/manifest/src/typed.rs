//! From nodes to types that derive `Deserialize`. Known fields only, each once; every mistake has its line and path.
//!
//! Unknown fields and fields given twice are all found; of other mistakes the first, since serde gives up at it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

use crate::error::Error;
use crate::hints;
use crate::names::nearest;
use crate::node::{Content, Entry, Kind, Node};
use crate::tree::join;

/// Reads `node`, a document of `file`.
///
/// # Errors
/// All mistakes that were found.
pub(crate) fn read<T: DeserializeOwned>(file: &str, node: &Node) -> Result<T, Vec<Error>> {
    let found = RefCell::new(Vec::new());
    let root = At {
        node,
        path: String::new(),
        found: &found,
    };
    let read = T::deserialize(root);
    let mut found = found.into_inner();
    let error = |wrong: Wrong| {
        let (line, path) = wrong.place.unwrap_or((node.line, String::new()));
        Error {
            file: file.to_owned(),
            line,
            path,
            message: wrong.message,
        }
    };
    match read {
        Ok(value) if found.is_empty() => Ok(value),
        Ok(_) => Err(found.into_iter().map(error).collect()),
        Err(wrong) => {
            found.push(wrong);
            Err(found.into_iter().map(error).collect())
        }
    }
}

/// A mistake, once it is known where.
#[derive(Debug)]
struct Wrong {
    place: Option<(usize, String)>,
    /// A field of the place that is missing.
    missing: Option<&'static str>,
    message: String,
}

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: Display>(message: T) -> Self {
        Wrong {
            place: None,
            missing: None,
            message: message.to_string(),
        }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        match found {
            Unexpected::Signed(number) => Self::custom(format!("{number} is out of range")),
            Unexpected::Unsigned(number) => Self::custom(format!("{number} is out of range")),
            found => Self::custom(format!("{found} is not {expected}")),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Wrong {
            missing: Some(field),
            ..Self::custom(hints::missing(field))
        }
    }
}

/// A node and where it stands.
struct At<'n, 'e> {
    node: &'n Node,
    path: String,
    found: &'e RefCell<Vec<Wrong>>,
}

impl<'n, 'e> At<'n, 'e> {
    fn member(&self, entry: &'n Entry) -> At<'n, 'e> {
        At {
            node: &entry.node,
            path: join(&self.path, &entry.name),
            found: self.found,
        }
    }

    fn item(&self, index: usize, node: &'n Node) -> At<'n, 'e> {
        At {
            node,
            path: format!("{}[{index}]", self.path),
            found: self.found,
        }
    }

    fn wrong(&self, message: impl Into<String>) -> Wrong {
        Wrong {
            place: Some((self.node.line, self.path.clone())),
            missing: None,
            message: message.into(),
        }
    }

    fn expected<T>(&self, what: &str) -> Result<T, Wrong> {
        Err(self.wrong(format!("expected {what}, found {}", self.node.describe())))
    }

    /// Puts a mistake that was found in this value at its place.
    fn here<T>(line: usize, path: &str, read: Result<T, Wrong>) -> Result<T, Wrong> {
        read.map_err(|wrong| match (&wrong.place, wrong.missing) {
            (Some(_), _) => wrong,
            (None, Some(field)) => Wrong {
                place: Some((line, join(path, field))),
                ..wrong
            },
            (None, None) => Wrong {
                place: Some((line, path.to_owned())),
                ..wrong
            },
        })
    }

    fn kind(&self) -> Option<Kind<'n>> {
        match &self.node.content {
            Content::Scalar(scalar) => Some(scalar.kind()),
            _ => None,
        }
    }

    fn integer<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.kind() {
            Some(Kind::Int(number)) => Self::here(self.node.line, &self.path, visitor.visit_i64(number)),
            _ => self.expected("a whole number"),
        }
    }

    fn string<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match (self.kind(), &self.node.content) {
            (Some(Kind::Str(text)), _) => Self::here(self.node.line, &self.path, visitor.visit_borrowed_str(text)),
            (Some(kind), Content::Scalar(scalar)) if kind != Kind::Null => {
                let quoted = serde_json::Value::from(scalar.text.as_str());
                self.expected("a string")
                    .map_err(|wrong: Wrong| self.wrong(format!("{}; write {quoted}", wrong.message)))
            }
            _ => self.expected("a string"),
        }
    }

    /// The members, but for those that are given twice.
    fn members(&self) -> Result<Vec<&'n Entry>, Wrong> {
        let Content::Map(entries) = &self.node.content else {
            return self.expected("a mapping");
        };
        let mut first_lines = BTreeMap::new();
        let once = entries.iter().filter(|entry| {
            let Some(first) = first_lines.insert(&entry.name, entry.line) else {
                return true;
            };
            self.find(entry, format!("given twice, first in line {first}"));
            false
        });
        Ok(once.collect())
    }

    /// Notes a mistake in a member; reading goes on.
    fn find(&self, entry: &Entry, message: String) {
        self.found.borrow_mut().push(Wrong {
            place: Some((entry.line, join(&self.path, &entry.name))),
            missing: None,
            message,
        });
    }

    fn visit_members<V: Visitor<'n>>(self, members: Vec<&'n Entry>, visitor: V) -> Result<V::Value, Wrong> {
        let (line, path) = (self.node.line, self.path.clone());
        let access = Members {
            at: self,
            rest: members.into_iter(),
            value: None,
        };
        Self::here(line, &path, visitor.visit_map(access))
    }
}

impl<'n> Deserializer<'n> for At<'n, '_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match (&self.node.content, self.kind()) {
            (Content::List(_), _) => self.deserialize_seq(visitor),
            (Content::Map(_), _) => self.deserialize_map(visitor),
            (_, Some(Kind::Bool(_))) => self.deserialize_bool(visitor),
            (_, Some(Kind::Int(_))) => self.integer(visitor),
            (_, Some(Kind::Float(number))) => Self::here(self.node.line, &self.path, visitor.visit_f64(number)),
            (_, Some(Kind::Str(_))) => self.string(visitor),
            (_, Some(Kind::Null) | None) => Self::here(self.node.line, &self.path, visitor.visit_unit()),
        }
    }

    fn deserialize_bool<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.kind() {
            Some(Kind::Bool(is_true)) => visitor.visit_bool(is_true),
            _ => self.expected("true or false"),
        }
    }

    fn deserialize_str<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.string(visitor)
    }

    fn deserialize_string<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.string(visitor)
    }

    fn deserialize_u16<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.integer(visitor)
    }

    fn deserialize_u32<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.integer(visitor)
    }

    /// `field:` with nothing behind it is a field that is not there, as in Kubernetes.
    fn deserialize_option<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.kind() {
            Some(Kind::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let Content::List(items) = &self.node.content else {
            return Err(self.wrong(format!(
                "expected a list, found {}; put \"- \" before each item",
                self.node.describe()
            )));
        };
        let (line, path) = (self.node.line, self.path.clone());
        let items = Items {
            at: self,
            rest: items.iter().enumerate(),
        };
        Self::here(line, &path, visitor.visit_seq(items))
    }

    fn deserialize_map<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let members = self.members()?;
        self.visit_members(members, visitor)
    }

    fn deserialize_struct<V: Visitor<'n>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let (known, unknown): (Vec<_>, Vec<_>) = self
            .members()?
            .into_iter()
            .partition(|entry| fields.contains(&entry.name.as_str()));
        for entry in unknown {
            self.find(entry, hints::unknown(name, &entry.name, fields));
        }
        self.visit_members(known, visitor)
    }

    fn deserialize_enum<V: Visitor<'n>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let Some(Kind::Str(text)) = self.kind() else {
            return self.expected(&format!("one of {}", hints::list(variants, "or")));
        };
        if !variants.contains(&text) {
            let meant = nearest(text, variants.iter().copied());
            let help = meant.map_or_else(
                || format!("it is {}", hints::list(variants, "or")),
                |meant| format!("did you mean {meant:?}?"),
            );
            return Err(self.wrong(format!("{text:?} is not known here; {help}")));
        }
        visitor.visit_enum(Word(text))
    }

    serde::forward_to_deserialize_any! {
        <V: Visitor<'n>>
        i8 i16 i32 i64 i128 u8 u64 u128 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple tuple_struct identifier
        ignored_any
    }
}

struct Members<'n, 'e> {
    at: At<'n, 'e>,
    rest: std::vec::IntoIter<&'n Entry>,
    value: Option<&'n Entry>,
}

impl<'n> MapAccess<'n> for Members<'n, '_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'n>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        self.value = self.rest.next();
        let Some(entry) = self.value else { return Ok(None) };
        let key = seed.deserialize(BorrowedStrDeserializer::new(&entry.name));
        At::here(entry.line, &join(&self.at.path, &entry.name), key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'n>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let entry = self.value.take().expect("a value is asked for after its name");
        let at = self.at.member(entry);
        let (line, path) = (entry.node.line, at.path.clone());
        At::here(line, &path, seed.deserialize(at))
    }
}

struct Items<'n, 'e> {
    at: At<'n, 'e>,
    rest: std::iter::Enumerate<std::slice::Iter<'n, Node>>,
}

impl<'n> SeqAccess<'n> for Items<'n, '_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'n>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        let Some((index, node)) = self.rest.next() else {
            return Ok(None);
        };
        let at = self.at.item(index, node);
        let (line, path) = (node.line, at.path.clone());
        At::here(line, &path, seed.deserialize(at)).map(Some)
    }
}

/// A variant without contents.
struct Word<'n>(&'n str);

impl<'n> EnumAccess<'n> for Word<'n> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'n>>(self, seed: V) -> Result<(V::Value, Self), Wrong> {
        let name: StrDeserializer<'_, Wrong> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'n> VariantAccess<'n> for Word<'n> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'n>>(self, _: T) -> Result<T::Value, Wrong> {
        Err(no_contents())
    }

    fn tuple_variant<V: Visitor<'n>>(self, _: usize, _: V) -> Result<V::Value, Wrong> {
        Err(no_contents())
    }

    fn struct_variant<V: Visitor<'n>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Wrong> {
        Err(no_contents())
    }
}

fn no_contents() -> Wrong {
    de::Error::custom("is a word, and has nothing in it")
}
