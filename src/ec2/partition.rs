//! Partitions: the parts of AWS whose accounts and rights have nothing to do with each other, and
//! whose ARNs begin differently (AWS fault isolation boundaries, *Partitions*).

use std::fmt;
use std::str::FromStr;

/// A partition that xdrive knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Partition {
    /// The commercial regions.
    #[default]
    Aws,
    /// AWS `GovCloud` (US).
    UsGov,
    /// The regions in China.
    Cn,
    /// The AWS European Sovereign Cloud.
    Eusc,
}

impl Partition {
    /// All partitions that xdrive knows.
    pub const ALL: [Self; 4] = [Self::Aws, Self::UsGov, Self::Cn, Self::Eusc];

    /// The partition of a region, by its name.
    #[must_use]
    pub fn of_region(region: &str) -> Self {
        let begins = |area: &str| region.starts_with(area);
        if begins("us-gov-") {
            Self::UsGov
        } else if begins("cn-") {
            Self::Cn
        } else if begins("eusc-") {
            Self::Eusc
        } else {
            Self::Aws
        }
    }

    /// The partition of an ARN; `None` for any other text or partition.
    #[must_use]
    pub fn of_arn(arn: &str) -> Option<Self> {
        let (name, _) = arn.strip_prefix("arn:")?.split_once(':')?;
        name.parse().ok()
    }

    /// EC2's possible service principals, for `iam:PassRole`. In a partition with its own domain
    /// suffix some services use it and some do not.
    #[must_use]
    pub fn ec2(self) -> &'static [&'static str] {
        match self {
            Self::Aws | Self::UsGov => &["ec2.amazonaws.com"],
            Self::Cn => &["ec2.amazonaws.com", "ec2.amazonaws.com.cn"],
            Self::Eusc => &["ec2.amazonaws.com", "ec2.amazonaws.eu"],
        }
    }

    /// The domain of its endpoints.
    #[must_use]
    pub fn domain(self) -> &'static str {
        match self {
            Self::Aws | Self::UsGov => "amazonaws.com",
            Self::Cn => "amazonaws.com.cn",
            Self::Eusc => "amazonaws.eu",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::UsGov => "aws-us-gov",
            Self::Cn => "aws-cn",
            Self::Eusc => "aws-eusc",
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A partition that xdrive does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of the partitions aws, aws-us-gov, aws-cn and aws-eusc")]
pub struct UnknownPartition(String);

impl FromStr for Partition {
    type Err = UnknownPartition;

    fn from_str(given: &str) -> Result<Self, UnknownPartition> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|partition| partition.name() == given);
        found.ok_or_else(|| UnknownPartition(given.to_owned()))
    }
}

/// The ARN of a KMS key. (That of an alias does not do: a policy has to name the key itself.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyArn(String);

impl KeyArn {
    /// As AWS writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text that is not a key's ARN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key's ARN, such as arn:aws:kms:us-east-1:111122223333:key/…; `aws kms \
     describe-key --key-id KEY --query KeyMetadata.Arn` tells a key's or an alias's"
)]
pub struct InvalidKeyArn(String);

impl FromStr for KeyArn {
    type Err = InvalidKeyArn;

    fn from_str(given: &str) -> Result<Self, InvalidKeyArn> {
        let parts: Vec<&str> = given.splitn(6, ':').collect();
        match parts.as_slice() {
            ["arn", partition, "kms", region, account, key]
                if partition.parse::<Partition>().is_ok()
                    && !region.is_empty()
                    && account.bytes().all(|byte| byte.is_ascii_digit())
                    && account.len() == 12
                    && key.strip_prefix("key/").is_some_and(is_id) =>
            {
                Ok(Self(given.to_owned()))
            }
            _ => Err(InvalidKeyArn(given.to_owned())),
        }
    }
}

fn is_id(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !key.is_empty() && key.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_parsed_from_a_region_and_from_an_arn() {
        for (region, partition) in [
            ("us-east-1", Partition::Aws),
            ("us-gov-west-1", Partition::UsGov),
            ("cn-north-1", Partition::Cn),
            ("eusc-de-east-1", Partition::Eusc),
        ] {
            assert_eq!(Partition::of_region(region), partition);
            let arn = format!("arn:{partition}:iam::111122223333:user/ada");
            assert_eq!(Partition::of_arn(&arn), Some(partition));
        }
        for none in ["", "arn", "arn:aws-moon:iam::1:user/ada", "xdrive"] {
            assert_eq!(Partition::of_arn(none), None, "{none}");
        }
    }

    #[test]
    fn only_a_key_has_a_keys_arn() {
        let key = "arn:aws-cn:kms:cn-north-1:111122223333:key/mrk-1234";
        assert_eq!(key.parse::<KeyArn>().unwrap().as_str(), key);
        for other in [
            "",
            "1234abcd-12ab-34cd-56ef-1234567890ab",
            "arn:aws:kms:us-east-1:111122223333:alias/own",
            "arn:aws:kms:us-east-1:111122223333:key/",
            "arn:aws:kms:us-east-1:111122223333:key/*",
            "arn:aws:kms:us-east-1:1:key/1234",
            "arn:aws:ec2:us-east-1:111122223333:key/1234",
        ] {
            assert!(other.parse::<KeyArn>().is_err(), "{other}");
        }
    }
}
