//! IAM policy documents: parsed whole, and decided on.
//!
//! Sources: IAM user guide, *IAM JSON policy elements reference*, *IAM JSON policy elements: Condition
//! operators*, *Single-valued vs. multivalued context keys*, *Policy evaluation logic*. An element,
//! operator or variable that is not known here is an error, since to ignore one would allow too much or
//! too little.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// The context of a request: each key with its values.
pub(crate) type Context = BTreeMap<String, Vec<String>>;

/// A policy document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document(Vec<Statement>);

/// The decision of a document about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// A statement allows it, and none denies it.
    Allowed,
    /// A statement denies it.
    Denied,
    /// No statement is about it.
    NotAllowed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Statement {
    denies: bool,
    actions: Matches,
    resources: Matches,
    conditions: Vec<Condition>,
}

/// Patterns of which one must match, or with `inverted` none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Matches {
    patterns: Vec<Pattern>,
    inverted: bool,
}

/// A text with wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern(Vec<Part>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// `*`.
    Any,
    /// `?`.
    One,
    /// A character as it is: also `${*}`, `${?}` and `${$}`.
    Is(char),
}

/// A condition: a key, an operator and the values to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    operator: Operator,
    set: Set,
    if_exists: bool,
    key: String,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equals,
    NotEquals,
    EqualsIgnoringCase,
    Like,
    NotLike,
    Bool,
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Single,
    AllValues,
    AnyValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Written {
    version: String,
    #[serde(rename = "Id")]
    _id: Option<String>,
    statement: OneOrMore<WrittenStatement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct WrittenStatement {
    #[serde(rename = "Sid")]
    _sid: Option<String>,
    effect: String,
    action: Option<OneOrMore<String>>,
    not_action: Option<OneOrMore<String>>,
    resource: Option<OneOrMore<String>>,
    not_resource: Option<OneOrMore<String>>,
    #[serde(default)]
    condition: BTreeMap<String, BTreeMap<String, OneOrMore<Value>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    More(Vec<T>),
    One(T),
}

impl<T> OneOrMore<T> {
    fn all(self) -> Vec<T> {
        match self {
            Self::More(all) => all,
            Self::One(one) => vec![one],
        }
    }
}

impl Document {
    /// Parses a document.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let written: Written = serde_json::from_str(text).context("not a policy document")?;
        let version = &written.version;
        ensure!(version == "2012-10-17", "a policy of the version {version}");
        let statements = written.statement.all().into_iter().map(statement);
        Ok(Self(statements.collect::<anyhow::Result<_>>()?))
    }

    /// Decides on an action on a resource.
    pub(super) fn decide(&self, action: &str, resource: &str, context: &Context) -> Decision {
        let about = self
            .0
            .iter()
            .filter(|it| it.is_about(action, resource, context));
        about.fold(Decision::NotAllowed, |known, statement| {
            if statement.denies || known == Decision::Denied {
                Decision::Denied
            } else {
                Decision::Allowed
            }
        })
    }
}

fn statement(written: WrittenStatement) -> anyhow::Result<Statement> {
    let denies = match written.effect.as_str() {
        "Allow" => false,
        "Deny" => true,
        other => bail!("an effect is {other:?}"),
    };
    let mut conditions = Vec::new();
    for (operator, keys) in written.condition {
        let (set, name) = match operator.split_once(':') {
            Some(("ForAllValues", name)) => (Set::AllValues, name),
            Some(("ForAnyValue", name)) => (Set::AnyValue, name),
            Some(_) => bail!("a condition is {operator:?}"),
            None => (Set::Single, operator.as_str()),
        };
        let (name, if_exists) = match name.strip_suffix("IfExists") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let operator = match name {
            "StringEquals" => Operator::Equals,
            "StringNotEquals" => Operator::NotEquals,
            "StringEqualsIgnoreCase" => Operator::EqualsIgnoringCase,
            "StringLike" | "ArnLike" | "ArnEquals" => Operator::Like,
            "StringNotLike" | "ArnNotLike" => Operator::NotLike,
            "Bool" => Operator::Bool,
            "Null" if set == Set::Single && !if_exists => Operator::Null,
            _ => bail!("a condition is {operator:?}"),
        };
        for (key, values) in keys {
            let values = values.all().into_iter().map(|value| match value {
                Value::String(text) => Ok(text),
                Value::Bool(value) => Ok(value.to_string()),
                other => bail!("{key} is compared with {other}"),
            });
            let values: Vec<String> = values.collect::<anyhow::Result<_>>()?;
            if let Some(value) = values.iter().find(|value| value.contains("${")) {
                bail!("{value:?} has a variable, which is not known here");
            }
            conditions.push(Condition {
                operator,
                set,
                if_exists,
                key,
                values,
            });
        }
    }
    Ok(Statement {
        denies,
        actions: matches("Action", written.action, written.not_action)?,
        resources: matches("Resource", written.resource, written.not_resource)?,
        conditions,
    })
}

fn matches(
    what: &str,
    named: Option<OneOrMore<String>>,
    others: Option<OneOrMore<String>>,
) -> anyhow::Result<Matches> {
    let (patterns, inverted) = match (named, others) {
        (Some(named), None) => (named, false),
        (None, Some(others)) => (others, true),
        _ => bail!("a statement has {what} or Not{what}"),
    };
    let patterns = patterns.all();
    let patterns = patterns.iter().map(|text| Pattern::read(text));
    Ok(Matches {
        patterns: patterns.collect::<anyhow::Result<_>>()?,
        inverted,
    })
}

impl Statement {
    fn is_about(&self, action: &str, resource: &str, context: &Context) -> bool {
        // Names of actions are compared without case.
        self.actions.fit(&action.to_lowercase(), true)
            && self.resources.fit(resource, false)
            && self.conditions.iter().all(|it| it.holds(context))
    }
}

impl Matches {
    fn fit(&self, text: &str, ignores_case: bool) -> bool {
        let is_one = self.patterns.iter().any(|it| it.fits(text, ignores_case));
        is_one != self.inverted
    }
}

impl Pattern {
    fn read(text: &str) -> anyhow::Result<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if let Some(variable) = rest.strip_prefix("${") {
                let mut inner = variable.chars();
                match (inner.next(), inner.next()) {
                    (Some(literal @ ('*' | '?' | '$')), Some('}')) => {
                        parts.push(Part::Is(literal));
                        rest = inner.as_str();
                        continue;
                    }
                    _ => bail!("{text:?} has a variable, which is not known here"),
                }
            }
            parts.push(match next {
                '*' => Part::Any,
                '?' => Part::One,
                literal => Part::Is(literal),
            });
            rest = &rest[next.len_utf8()..];
        }
        Ok(Self(parts))
    }

    fn fits(&self, text: &str, ignores_case: bool) -> bool {
        let text: Vec<char> = text.chars().collect();
        fit(&self.0, &text, ignores_case)
    }
}

fn fit(parts: &[Part], text: &[char], ignores_case: bool) -> bool {
    match (parts.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((Part::Any, rest)), _) => {
            (0..=text.len()).any(|from| fit(rest, &text[from..], ignores_case))
        }
        (Some((Part::One, rest)), Some((_, text))) => fit(rest, text, ignores_case),
        (Some((Part::Is(wanted), rest)), Some((given, text))) => {
            let same = wanted == given || (ignores_case && wanted.eq_ignore_ascii_case(given));
            same && fit(rest, text, ignores_case)
        }
        _ => false,
    }
}

impl Condition {
    fn holds(&self, context: &Context) -> bool {
        // Keys are compared without case.
        let mut known = context.iter();
        let given = known.find(|(key, _)| key.eq_ignore_ascii_case(&self.key));
        let given = given.map(|(_, values)| values.as_slice());
        if self.operator == Operator::Null {
            let is_absent = given.is_none().to_string();
            return self.values.contains(&is_absent);
        }
        let negated = matches!(self.operator, Operator::NotEquals | Operator::NotLike);
        let one = |value: &String| {
            let is_one = self
                .values
                .iter()
                .any(|wanted| self.operator.fits(wanted, value));
            is_one != negated
        };
        match (given, self.set) {
            (None, Set::AllValues) => true,
            (None, Set::Single) => self.if_exists || negated,
            (None, Set::AnyValue) => self.if_exists,
            (Some(given), Set::AllValues) => given.iter().all(one),
            (Some(given), Set::Single | Set::AnyValue) => given.iter().any(one),
        }
    }
}

impl Operator {
    /// Whether a value is the one that is asked for, negations left out.
    fn fits(self, wanted: &str, given: &str) -> bool {
        match self {
            Self::Equals | Self::NotEquals | Self::Null => wanted == given,
            Self::EqualsIgnoringCase | Self::Bool => wanted.eq_ignore_ascii_case(given),
            Self::Like | Self::NotLike => {
                Pattern::read(wanted).is_ok_and(|pattern| pattern.fits(given, false))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context(pairs: &[(&str, &[&str])]) -> Context {
        let owned = |values: &[&str]| values.iter().map(|it| (*it).to_owned()).collect();
        pairs
            .iter()
            .map(|(key, values)| ((*key).to_owned(), owned(values)))
            .collect()
    }

    fn decided(statements: &Value, resource: &str, pairs: &[(&str, &[&str])]) -> Decision {
        let document = json!({"Version": "2012-10-17", "Statement": statements});
        let document = Document::read(&document.to_string()).unwrap();
        document.decide("ec2:CopySnapshot", resource, &context(pairs))
    }

    const COPY: &str = "arn:aws:ec2:us-east-1::snapshot/*";
    const SOURCE: &str = "arn:aws:ec2:us-east-1::snapshot/snap-0123456789abcdef0";

    #[test]
    fn a_literal_star_is_the_copy_that_is_not_made_yet_and_a_prefix_its_source() {
        let on = |resource: &str| {
            let resource = format!("arn:aws:ec2:*::snapshot/{resource}");
            json!({"Effect": "Allow", "Action": "ec2:copy*", "Resource": resource})
        };
        for (pattern, copy, source) in [
            ("${*}", Decision::Allowed, Decision::NotAllowed),
            ("snap-*", Decision::NotAllowed, Decision::Allowed),
            ("*", Decision::Allowed, Decision::Allowed),
            (
                "snap-????????????????0",
                Decision::NotAllowed,
                Decision::Allowed,
            ),
        ] {
            assert_eq!(decided(&on(pattern), COPY, &[]), copy, "{pattern}");
            assert_eq!(decided(&on(pattern), SOURCE, &[]), source, "{pattern}");
        }
    }

    #[test]
    fn a_denial_outranks_what_allows() {
        let both = json!([
            {"Effect": "Deny", "Action": "ec2:CopySnapshot", "NotResource": COPY.replace('*', "${*}")},
            {"Effect": "Allow", "NotAction": "ec2:Delete*", "Resource": "*"},
        ]);
        assert_eq!(decided(&both, COPY, &[]), Decision::Allowed);
        assert_eq!(decided(&both, SOURCE, &[]), Decision::Denied);
    }

    #[test]
    fn conditions_hold_as_in_iam_also_where_their_key_is_absent() {
        const TAG: &str = "aws:RequestTag/Cost";
        let none: &[(&str, &[&str])] = &[];
        let one: &[(&str, &[&str])] = &[(TAG, &["42"])];
        let keys: &[(&str, &[&str])] = &[("aws:TagKeys", &["Name", "Cost"])];
        for (operator, key, value, with, holds) in [
            ("StringEquals", TAG, json!("42"), one, true),
            (
                "StringEquals",
                "AWS:requesttag/COST",
                json!(["1", "42"]),
                one,
                true,
            ),
            ("StringEquals", TAG, json!("4"), one, false),
            ("StringEquals", TAG, json!("42"), none, false),
            ("StringEqualsIfExists", TAG, json!("42"), none, true),
            ("StringNotEquals", TAG, json!("42"), one, false),
            ("StringNotEquals", TAG, json!("42"), none, true),
            ("StringLike", TAG, json!("4*"), one, true),
            ("StringNotLike", TAG, json!("4*"), one, false),
            ("Null", TAG, json!("false"), one, true),
            ("Null", TAG, json!(false), none, false),
            ("Null", TAG, json!("true"), none, true),
            ("Bool", TAG, json!("true"), none, false),
            (
                "ForAllValues:StringEquals",
                "aws:TagKeys",
                json!(["Name", "Cost"]),
                keys,
                true,
            ),
            (
                "ForAllValues:StringEquals",
                "aws:TagKeys",
                json!("Cost"),
                keys,
                false,
            ),
            (
                "ForAllValues:StringEquals",
                "aws:TagKeys",
                json!("Cost"),
                none,
                true,
            ),
            (
                "ForAnyValue:StringEquals",
                "aws:TagKeys",
                json!("Cost"),
                keys,
                true,
            ),
            (
                "ForAnyValue:StringEquals",
                "aws:TagKeys",
                json!("Cost"),
                none,
                false,
            ),
        ] {
            let statement = json!({
                "Effect": "Allow", "Action": "*", "Resource": "*",
                "Condition": {operator: {key: value}},
            });
            let is_allowed = decided(&statement, COPY, with) == Decision::Allowed;
            assert_eq!(is_allowed, holds, "{operator} {key} {value} {with:?}");
        }
    }

    #[test]
    fn unknown_parts_of_a_policy_are_errors_and_never_ignored() {
        for wrong in [
            json!({"Effect": "Allow", "Action": "*"}),
            json!({"Effect": "Permit", "Action": "*", "Resource": "*"}),
            json!({"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": "*"}),
            json!({"Effect": "Allow", "Action": "*", "Resource": "a${aws:username}"}),
            json!({"Effect": "Allow", "Action": "*", "Resource": "*",
                "Condition": {"NumericLessThan": {"ec2:VolumeSize": "5"}}}),
            json!({"Effect": "Allow", "Action": "*", "Resource": "*",
                "Condition": {"StringEquals": {"aws:ResourceTag/a": "${aws:username}"}}}),
        ] {
            let document = json!({"Version": "2012-10-17", "Statement": [wrong.clone()]});
            assert!(Document::read(&document.to_string()).is_err(), "{wrong}");
        }
        assert!(Document::read(r#"{"Version": "2008-10-17", "Statement": []}"#).is_err());
    }
}
