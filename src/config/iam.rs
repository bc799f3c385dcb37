//! IAM's names of what instances and experiments get.

use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// An instance profile's name or ARN (IAM API reference, `InstanceProfile`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceProfile(pub String);

impl FromStr for InstanceProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = match text.strip_prefix("arn:") {
            Some(arn) => arn
                .split_once(":instance-profile/")
                .map_or("", |(_, path)| path.rsplit('/').next().unwrap_or(path)),
            None => text,
        };
        let is_name = (1..=128).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte));
        if is_name && !text.contains(char::is_whitespace) {
            Ok(Self(text.to_owned()))
        } else {
            Err("it is neither an instance profile's name nor its ARN".to_owned())
        }
    }
}

impl<'de> Deserialize<'de> for InstanceProfile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Parses the ARN of an IAM role.
pub fn role(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    match parts[..] {
        ["arn", partition, "iam", "", account, name]
            if partition.starts_with("aws")
                && account.len() == 12
                && account.bytes().all(|byte| byte.is_ascii_digit())
                && name
                    .strip_prefix("role/")
                    .is_some_and(|name| !name.is_empty()) =>
        {
            Ok(text.to_owned())
        }
        _ => Err("it is no role's ARN, such as arn:aws:iam::111122223333:role/fis".to_owned()),
    }
}
