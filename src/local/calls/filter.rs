//! `Filter.N`: which resources a Describe call answers.
//!
//! All filters must match, by any of their values; `*` and `?` are wildcards, `\` escapes them,
//! case matters (EC2 user guide, *List and filter using the CLI and API*). A filter that the call
//! does not know is refused.

use std::collections::BTreeMap;

use super::request::Request;
use crate::wire::ApiError;

/// The filters of one call.
pub(super) struct Filters<'a>(Vec<(String, Vec<&'a str>)>);

/// The values of a resource for a filter.
pub(super) enum Field {
    /// The values that are compared with the filter's; a resource without any never matches.
    Values(Vec<String>),
    /// There is no such filter.
    Unknown,
}

impl Field {
    /// A field with a single value.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers have owned and borrowed values alike"
    )]
    pub(super) fn one(value: impl ToString) -> Self {
        Self::Values(vec![value.to_string()])
    }

    /// A field with a single value, or without any.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers have owned and borrowed values alike"
    )]
    pub(super) fn maybe(value: Option<impl ToString>) -> Self {
        Self::Values(value.iter().map(ToString::to_string).collect())
    }

    /// Any number of values.
    pub(super) fn many(values: impl IntoIterator<Item = impl ToString>) -> Self {
        Self::Values(values.into_iter().map(|value| value.to_string()).collect())
    }
}

impl<'a> Filters<'a> {
    /// Reads them, and refuses those that are not in `known` (nor about tags, if `tagged`).
    pub(super) fn new(
        request: Request<'a>,
        known: &[&str],
        tagged: bool,
    ) -> Result<Self, ApiError> {
        let mut filters = Vec::new();
        let params = request.params();
        for index in 1.. {
            let prefix = format!("Filter.{index}");
            let name = params.get(&format!("{prefix}.Name"));
            let values = params.list(&format!("{prefix}.Value"));
            let Some(name) = name else {
                if values.is_empty() {
                    break;
                }
                return Err(ApiError::client(
                    "MissingParameter",
                    "The request must contain the parameter Filter.Name",
                ));
            };
            let about_tags = name.starts_with("tag:") || name == "tag-key" || name == "tag-value";
            if !(known.contains(&name) || tagged && about_tags) {
                return Err(ApiError::client(
                    "InvalidParameterValue",
                    format!("The filter '{name}' is invalid"),
                ));
            }
            if values.is_empty() {
                return Err(ApiError::client(
                    "InvalidParameterValue",
                    format!("The filter '{name}' must have at least one value"),
                ));
            }
            if values.len() > 200 {
                return Err(ApiError::client(
                    "FilterLimitExceeded",
                    "The maximum number of filter values specified on a single call is 200",
                ));
            }
            filters.push((name.to_owned(), values));
        }
        Ok(Self(filters))
    }

    /// Whether a resource with `tags` passes; `field` gives its values for a filter's name.
    pub(super) fn pass(
        &self,
        tags: &BTreeMap<&str, &str>,
        field: impl Fn(&str) -> Field,
    ) -> Result<bool, ApiError> {
        for (name, wanted) in &self.0 {
            let values = match name.as_str() {
                "tag-key" => tags.keys().map(|&key| key.to_owned()).collect(),
                "tag-value" => tags.values().map(|&value| value.to_owned()).collect(),
                name => match name.strip_prefix("tag:") {
                    Some(key) => tags
                        .get(key)
                        .map(|&value| value.to_owned())
                        .into_iter()
                        .collect(),
                    None => match field(name) {
                        Field::Values(values) => values,
                        Field::Unknown => {
                            return Err(ApiError::client(
                                "InvalidParameterValue",
                                format!("The filter '{name}' is invalid"),
                            ));
                        }
                    },
                },
            };
            let passes = values
                .iter()
                .any(|value| wanted.iter().any(|pattern| matches(pattern, value)));
            if !passes {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// An element of a pattern with wildcards.
#[derive(Clone, Copy)]
enum Glob {
    Any,
    One,
    This(char),
}

/// Whether `value` matches `pattern`: `*` any characters, `?` one, `\` the next as it is.
fn matches(pattern: &str, value: &str) -> bool {
    let mut globs = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        globs.push(match character {
            '*' => Glob::Any,
            '?' => Glob::One,
            '\\' => Glob::This(characters.next().unwrap_or('\\')),
            character => Glob::This(character),
        });
    }
    let value: Vec<char> = value.chars().collect();
    // The usual linear match, which backtracks to the last `*` only.
    let (mut at, mut glob, mut back) = (0, 0, None);
    while at < value.len() {
        match globs.get(glob) {
            Some(Glob::Any) => {
                back = Some((glob, at));
                glob += 1;
            }
            Some(Glob::One) => {
                at += 1;
                glob += 1;
            }
            Some(Glob::This(character)) if *character == value[at] => {
                at += 1;
                glob += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    at = from + 1;
                    glob = star + 1;
                }
                None => return false,
            },
        }
    }
    globs[glob..].iter().all(|glob| matches!(glob, Glob::Any))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn wildcards_match_as_ec2_documents_them() {
        for (pattern, value, expected) in [
            ("running", "running", true),
            ("running", "Running", false),
            ("r*", "running", true),
            ("*n*n*", "running", true),
            ("*x*", "running", false),
            ("t?.micro", "t3.micro", true),
            ("t?.micro", "t33.micro", false),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            (r"a\*b", "a*b", true),
            (r"a\*b", "axb", false),
            (r"\\", r"\", true),
            ("ä?ü", "äöü", true),
        ] {
            assert_eq!(matches(pattern, value), expected, "{pattern} {value}");
        }
    }
}
