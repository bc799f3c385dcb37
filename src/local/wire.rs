//! The wire's own types: what a call is given and what it answers.

use std::collections::BTreeMap;

/// The parameters of one Query-protocol call, such as `Filter.1.Value.2=running`.
#[derive(Debug, Clone, Default)]
pub struct Params(BTreeMap<String, String>);

impl Params {
    /// From a decoded form body.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// The parameter `name`, if given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The values of `name.1`, `name.2`, …, in order.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<&str> {
        (1..)
            .map_while(|index| self.get(&format!("{name}.{index}")))
            .collect()
    }

    /// The parameters below `name.1.`, `name.2.`, …, each with that prefix taken off.
    #[must_use]
    pub fn structs(&self, name: &str) -> Vec<Self> {
        (1..)
            .map(|index| self.below(&format!("{name}.{index}")))
            .take_while(|params| !params.0.is_empty())
            .collect()
    }

    /// The parameters below `name.`, with that prefix taken off.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        let prefix = format!("{name}.");
        Self(
            self.0
                .iter()
                .filter_map(|(key, value)| {
                    Some((key.strip_prefix(&prefix)?.to_owned(), value.clone()))
                })
                .collect(),
        )
    }

    /// Every name given, for refusing what is not understood.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// One XML element of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xml {
    /// The element's name.
    pub name: &'static str,
    /// Its text; elements have text or children, not both.
    pub text: Option<String>,
    /// Its children.
    pub children: Vec<Self>,
}

impl Xml {
    /// `<name>text</name>`.
    pub fn text(name: &'static str, text: impl ToString) -> Self {
        Self {
            name,
            text: Some(text.to_string()),
            children: Vec::new(),
        }
    }

    /// `<name>children…</name>`.
    pub fn node(name: &'static str, children: impl IntoIterator<Item = Self>) -> Self {
        Self {
            name,
            text: None,
            children: children.into_iter().collect(),
        }
    }

    /// `<name><item>…</item><item>…</item></name>`, EC2's way of writing a list.
    pub fn list(name: &'static str, items: impl IntoIterator<Item = Vec<Self>>) -> Self {
        Self::node(name, items.into_iter().map(|item| Self::node("item", item)))
    }
}

/// A call refused, as EC2 writes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// AWS's error code, such as `InvalidVolume.NotFound`.
    pub code: String,
    /// AWS's words.
    pub message: String,
}

impl ApiError {
    /// A client error (HTTP 400).
    pub fn client(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status: 400,
            code: code.into(),
            message: message.into(),
        }
    }
}
