//! A price, as AWS writes it and as people read it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::sync::Mutex;

use super::error::Error;

/// Answers that are asked for once, by what they are about; or why they are not to be had.
pub(super) type Known<K, V> = Mutex<BTreeMap<K, Result<V, Error>>>;

/// US dollars, of an instance an hour, to the millionth: AWS writes no more digits that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Price(u64);

impl Price {
    /// So many millionths of a dollar.
    #[must_use]
    pub(super) const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// The price of `count`.
    #[must_use]
    pub(super) fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// The price of `count` of the `parts` that one has.
    #[must_use]
    pub(super) fn part(self, count: u64, parts: u64) -> Self {
        Self(self.0.saturating_mul(count) / parts)
    }

    /// So many US cents.
    #[must_use]
    pub fn from_cents(cents: u64) -> Self {
        Self(cents.saturating_mul(10_000))
    }

    /// In US cents, rounded.
    #[must_use]
    pub fn cents(self) -> u64 {
        self.0.saturating_add(5_000) / 10_000
    }

    /// In dollars, rounded to a cent.
    #[must_use]
    pub fn to_a_cent(self) -> f64 {
        Self::from_cents(self.cents()).dollars()
    }

    /// In dollars, for arithmetic that need not be exact.
    #[must_use]
    pub fn dollars(self) -> f64 {
        // Below a million dollars an hour nothing is lost.
        f64::from(u32::try_from(self.0 / 1_000_000).unwrap_or(u32::MAX))
            + f64::from(u32::try_from(self.0 % 1_000_000).unwrap_or(0)) / 1e6
    }

    /// As `RunInstances` takes it: a decimal number without a sign of the currency.
    #[must_use]
    pub fn decimal(self) -> String {
        format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl Add for Price {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
}

/// In dollars, with four digits after the point, or more where they are needed.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = self.decimal();
        let (short, rest) = decimal.split_at(decimal.len() - 2);
        f.pad(&format!("${short}{}", rest.trim_end_matches('0')))
    }
}

/// The price that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not a number of dollars such as 0.05")]
pub struct NoPrice;

impl FromStr for Price {
    type Err = NoPrice;

    /// Digits, and at most one point; digits after the sixth decimal are cut off.
    fn from_str(given: &str) -> Result<Self, NoPrice> {
        let (whole, part) = given.split_once('.').unwrap_or((given, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || (whole.is_empty() && part.is_empty()) {
            return Err(NoPrice);
        }
        let dollars: u64 = match whole {
            "" => 0,
            whole => whole.parse().map_err(|_| NoPrice)?,
        };
        let part: String = part.chars().chain("000000".chars()).take(6).collect();
        let millionths: u64 = part.parse().map_err(|_| NoPrice)?;
        dollars
            .checked_mul(1_000_000)
            .and_then(|whole| whole.checked_add(millionths))
            .map(Self)
            .ok_or(NoPrice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_read_exactly_and_written_shortly() {
        for (given, shown, decimal) in [
            ("0.0125", "$0.0125", "0.012500"),
            ("0.012480", "$0.01248", "0.012480"),
            ("0.0000100000", "$0.00001", "0.000010"),
            ("3", "$3.0000", "3.000000"),
            (".5", "$0.5000", "0.500000"),
            ("12.", "$12.0000", "12.000000"),
            ("0.1234567", "$0.123456", "0.123456"),
        ] {
            let price: Price = given.parse().unwrap();
            assert_eq!(price.to_string(), shown, "{given}");
            assert_eq!(price.decimal(), decimal, "{given}");
        }
    }

    #[test]
    fn invalid_amounts_of_dollars_are_refused() {
        for given in [
            "", ".", "-1", "+1", "1,5", "$1", "1e3", "NaN", "inf", "1.2.3", " 1",
        ] {
            assert_eq!(given.parse::<Price>(), Err(NoPrice), "{given}");
        }
        assert!("99999999999999999999".parse::<Price>().is_err());
    }

    #[test]
    fn dollars_are_those_that_were_read() {
        let price: Price = "1.006".parse().unwrap();
        assert!((price.dollars() - 1.006).abs() < 1e-9);
    }
}
