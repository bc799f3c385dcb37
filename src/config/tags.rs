//! Tags of the account's own, such as a cost centre, for all that xdrive makes.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::drive::tags::{NAME, OWN_MOST};

/// Parses a flag's `KEY=VALUE`; the value may be empty, and have an `=`.
pub(super) fn tag(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("a tag is KEY=VALUE, such as CostCenter=42")?;
    check(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Deserializes the configuration's tags.
pub(super) fn several<'de, D>(from: D) -> Result<Vec<(String, String)>, D::Error>
where
    D: Deserializer<'de>,
{
    let tags = BTreeMap::<String, String>::deserialize(from)?;
    for (key, value) in &tags {
        check(key, value).map_err(D::Error::custom)?;
    }
    check_count(tags.len()).map_err(D::Error::custom)?;
    Ok(tags.into_iter().collect())
}

/// Refuses more tags than there is room for beside xdrive's.
pub fn check_count(count: usize) -> Result<(), String> {
    if count > OWN_MOST {
        return Err(format!(
            "{count} tags are too many: AWS allows 50 on a resource, and xdrive has room for {OWN_MOST} \
             of one's own"
        ));
    }
    Ok(())
}

/// Refuses what a tag may not be (EC2 user guide, *Tag restrictions*), and xdrive's own.
fn check(key: &str, value: &str) -> Result<(), String> {
    const MARKS: &str = " +-=._:/@";
    let lower = key.to_lowercase();
    if key.is_empty() {
        return Err("a tag's key cannot be empty".to_owned());
    }
    if key == NAME || lower.starts_with("xdrive:") {
        return Err(format!("{key:?} is a tag of xdrive's own"));
    }
    if lower.starts_with("aws:") {
        return Err(format!(
            "{key:?} begins as the tags that only AWS itself gives"
        ));
    }
    for (what, text, most) in [("key", key, 128), ("value", value, 256)] {
        if text.chars().count() > most {
            return Err(format!("a tag's {what} has {most} characters at most"));
        }
        if let Some(wrong) = text
            .chars()
            .find(|it| !it.is_alphanumeric() && !MARKS.contains(*it))
        {
            return Err(format!(
                "a tag's {what} has letters, digits, spaces and + - = . _ : / @ only, not {wrong:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_what_every_service_of_aws_takes_and_none_of_xdrives() {
        let parsed = tag("CostCenter=42").unwrap();
        assert_eq!(parsed, ("CostCenter".to_owned(), "42".to_owned()));
        assert_eq!(tag("team/owner=a=b: ü@x").unwrap().1, "a=b: ü@x");
        assert_eq!(tag("empty=").unwrap().1, "");
        let long = format!("{}=", "k".repeat(129));
        let longer = format!("k={}", "v".repeat(257));
        for (wrong, why) in [
            ("CostCenter", "KEY=VALUE"),
            ("=42", "empty"),
            ("Name=x", "xdrive's own"),
            ("xdrive:drive=x", "xdrive's own"),
            ("XDrive:x=y", "xdrive's own"),
            ("aws:x=y", "only AWS itself"),
            ("AWS:x=y", "only AWS itself"),
            ("a=b*", "not '*'"),
            ("a=b\n", "not '\\n'"),
            ("a\u{1b}=b", "not '\\u{1b}'"),
            (&long, "128 characters"),
            (&longer, "256 characters"),
        ] {
            let error = tag(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong:?}: {error}");
        }
        check_count(OWN_MOST).unwrap();
        assert!(check_count(OWN_MOST + 1).is_err());
    }
}
