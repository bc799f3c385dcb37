//! A place in S3.

use std::fmt;
use std::str::FromStr;

use super::quantity::Invalid;

/// The longest prefix, in bytes: an object's key has 1024 (Amazon S3 user guide, *Naming objects*).
const LONGEST: usize = 500;

/// A place in S3 for a run's results: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Prefix {
    /// The bucket's name.
    pub bucket: String,
    /// The beginning of the keys, without a `/` at either end; empty for the whole bucket.
    pub prefix: String,
}

impl FromStr for S3Prefix {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        const HINT: &str = "such as s3://my-bucket/runs/demo";
        let rest = text.strip_prefix("s3://");
        let rest = rest.ok_or_else(|| Invalid::with("it is not a place in S3", HINT))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // Amazon S3 user guide, *General purpose bucket naming rules*.
        let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = (3..=63).contains(&bucket.len())
            && bucket
                .bytes()
                .all(|byte| is_end(byte) || byte == b'.' || byte == b'-')
            && bucket.bytes().next().is_some_and(is_end)
            && bucket.bytes().last().is_some_and(is_end);
        if !is_name {
            return Err(Invalid::with("its bucket has no name that S3 allows", HINT));
        }
        let prefix = prefix.trim_matches('/');
        // Those that the AWS CLI, a shell and a policy read alike (*Safe characters*).
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"/!-_.'()".contains(&byte);
        if prefix.len() > LONGEST || !prefix.bytes().all(is_safe) {
            return Err(Invalid::with(
                format!(
                    "its prefix has {LONGEST} characters at most, of A-Z a-z 0-9 / ! - _ . ' ( )"
                ),
                HINT,
            ));
        }
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

impl fmt::Display for S3Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if self.prefix.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_and_what_its_keys_begin_with() {
        let read = |text: &str| text.parse::<S3Prefix>().map(|place| place.to_string());
        for text in ["s3://a-bucket", "s3://my.bucket/runs/demo"] {
            assert_eq!(read(text).unwrap(), text);
        }
        assert_eq!(read("s3://bucket//runs/").unwrap(), "s3://bucket/runs");
        let long = format!("s3://bucket/{}", "x".repeat(LONGEST + 1));
        for text in [
            "bucket/runs",
            "https://bucket/runs",
            "s3://",
            "s3://ab",
            "s3://Bucket",
            "s3://-bucket",
            "s3://bucket-",
            "s3://bucket/a b",
            "s3://bucket/a\nb",
            "s3://bucket/${aws:username}",
            "s3://bucket/*",
            &long,
        ] {
            read(text).unwrap_err();
        }
    }
}
