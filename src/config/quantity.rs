//! Sizes, times and numbers, as they are typed and configured: one parser for each, with its range.
//!
//! A size is read by the crate `parse-size`, a time by `jiff`. A plain number of either has the unit
//! that the option names: GiB for sizes, seconds for a notice. Units of sizes are binary, because
//! EBS and EC2 count so: `G`, `GB` and `GiB` are the same 2^30 bytes.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use jiff::fmt::friendly::{Spacing, SpanPrinter};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::ec2::Price;
use crate::ec2::speed::{IOPS, THROUGHPUT, WARM};
use crate::host::closing;

/// The sizes in GiB that a volume can have (Amazon EBS user guide, *EBS volume constraints*).
pub const SIZES: RangeInclusive<u32> = 1..=65_536;

/// The memory in GiB that may be asked for.
const MEMORY: RangeInclusive<u32> = 1..=65_536;

/// The numbers of virtual CPUs that may be asked for.
const CPUS: RangeInclusive<u32> = 1..=4_096;

/// The numbers of GPUs that may be asked for.
const GPUS: RangeInclusive<u32> = 1..=1_024;

/// The numbers of slices that a GPU may be in.
const SLICES: RangeInclusive<u32> = 1..=16;

/// The ports that can be named.
const PORTS: RangeInclusive<u16> = 1..=u16::MAX;

/// The lengths that a lease can have. A shorter one would end sessions on a slow network; a longer
/// one would keep a forgotten instance until the bill.
const LEASES: RangeInclusive<Duration> = Duration::from_secs(10)..=WEEK;

/// The longest that a run can take: longer than a training of weeks, and shorter than what is forgotten.
pub const LONGEST_RUN: Duration = Duration::from_hours(60 * 24);

/// The times for which a host may be idle. A host looks every five seconds at most.
const IDLE: RangeInclusive<Duration> = Duration::from_secs(10)..=WEEK;

/// The times that a run can have.
const LIMITS: RangeInclusive<Duration> = Duration::from_secs(10)..=LONGEST_RUN;

/// The intervals that checkpoints can have: EBS accepts one snapshot of a volume every 15 seconds.
const CHECKPOINTS: RangeInclusive<Duration> = Duration::from_secs(15)..=WEEK;

/// The intervals that syncs of results can have.
const RESULTS: RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(24);

/// The notices that the EC2 in a folder can give; AWS gives two minutes.
const NOTICES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(24);

/// The times that a command can have for its end. To ask for less than all programs have would change
/// nothing.
const ENDINGS: RangeInclusive<Duration> = closing::SHORTEST..=closing::LONGEST;

/// How often a command can be started again.
const TRIES: RangeInclusive<u32> = 1..=1_000;

/// How far back the output of a run can be shown.
const PASTS: RangeInclusive<Duration> = Duration::from_secs(1)..=WEEK;

/// How far back the cost of drives can be shown: a year. Prices of spot are those of its launches beyond EC2's 90 days.
const SPENDINGS: RangeInclusive<Duration> = DAY..=Duration::from_hours(366 * 24);

/// The days that prices can be shown for: EC2 knows the last 90.
const DAYS: RangeInclusive<u8> = 1..=90;

/// The most US dollars that can be given, an hour or for a selftest: more than any instance costs.
const DOLLARS: f64 = 1_000.0;

/// The hint for a time that is none.
const TIMES: &str = "times are such as 90s, 30m, 8h, 1h30m or 3d";

/// The lengths in bytes that the kept output of a command can have: at least what may be in transit
/// when a connection ends.
const SPOOLS: RangeInclusive<u64> = 4 * MIB..=64 * GIB;

const DAY: Duration = Duration::from_hours(24);

const WEEK: Duration = Duration::from_hours(7 * 24);

/// The bytes of a MiB.
const MIB: u64 = 1 << 20;

/// The bytes of a GiB.
const GIB: u64 = 1 << 30;

/// GPUs of NVIDIA's by name, and the smallest type that has a whole one (EC2 instance types guide,
/// *Accelerated computing*).
const MODELS: [(&str, &str); 10] = [
    ("T4", "g4dn.xlarge"),
    ("T4G", "g5g.xlarge"),
    ("A10G", "g5.xlarge"),
    ("A10", "g5.xlarge"),
    ("L4", "g6.xlarge"),
    ("L40S", "g6e.xlarge"),
    ("V100", "p3.2xlarge"),
    ("A100", "p4d.24xlarge"),
    ("H100", "p5.4xlarge"),
    ("H200", "p5e.48xlarge"),
];

/// A value that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Invalid {
    why: String,
    hint: Option<String>,
}

impl Invalid {
    fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            hint: None,
        }
    }

    pub(crate) fn with(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..Self::new(why)
        }
    }

    /// The value to type in its place, if the reason does not say it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Declares values, each by what it holds and the function that parses it, as a flag and as a key.
macro_rules! values {
    ($($(#[$about:meta])* $name:ident($held:ty), $parse:ident;)*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub $held);

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                $parse(text).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                configured(from)
            }
        }
    )*};
}

values! {
    /// A drive's size, in GiB.
    Size(u32), size;
    /// An amount of memory, in GiB.
    Memory(u32), memory;
    /// A number of virtual CPUs.
    Cpus(u32), cpus;
    /// A number of GPUs.
    Gpus(u32), gpus;
    /// A number of slices of each GPU.
    Slices(u32), slices;
    /// A volume's throughput, in MiB a second.
    Throughput(u32), throughput;
    /// A volume's operations a second.
    Iops(u32), iops;
    /// The rate at which a volume is filled from its snapshot, in MiB a second.
    Warm(u32), warm;
    /// The highest price of a spot instance, an hour.
    MaxPrice(Price), max_price;
    /// The dollars that the hosts of a session or a run may take.
    Budget(Price), positive_budget;
    /// A port.
    Port(u16), port;
    /// How long a host is kept without a sign of life.
    Lease(Duration), lease;
    /// How long a host may be idle; zero for ever.
    IdleLimit(Duration), idle_limit;
    /// How much of a command's output is kept, in bytes.
    Spool(u64), spool;
    /// How long a command may take to end.
    Ending(Duration), ending;
    /// The interval between checkpoints.
    Checkpoint(Duration), checkpoint;
}

impl Spool {
    /// So many `bytes`, or the nearest amount that may be kept.
    #[must_use]
    pub fn nearest(bytes: u64) -> Self {
        Self(bytes.clamp(*SPOOLS.start(), *SPOOLS.end()))
    }
}

/// Parses a drive's size, in GiB.
pub(super) fn size(text: &str) -> Result<u32, Invalid> {
    gibibytes(text, &SIZES, "a drive's size")
}

/// Parses an amount of memory, in GiB.
fn memory(text: &str) -> Result<u32, Invalid> {
    gibibytes(text, &MEMORY, "memory")
}

/// Parses how much of a command's output is kept, in bytes; a plain number is in MiB.
fn spool(text: &str) -> Result<u64, Invalid> {
    const HINT: &str = "such as 64M or 1G; a plain number is in MiB";
    let bytes =
        bytes(text, MIB).ok_or_else(|| Invalid::with("it is not a size such as 64M", HINT))?;
    if SPOOLS.contains(&bytes) {
        return Ok(bytes);
    }
    Err(Invalid::with(
        "what is kept of a command's output is 4 MiB at least and 64 GiB at most",
        HINT,
    ))
}

/// Parses a number of virtual CPUs.
fn cpus(text: &str) -> Result<u32, Invalid> {
    number(text, &CPUS, "")
}

/// Parses a number of GPUs. A model's name is answered with a type that has it.
fn gpus(text: &str) -> Result<u32, Invalid> {
    let model = text.trim().to_ascii_uppercase();
    let model = model.trim_start_matches("NVIDIA").trim_start();
    let known = MODELS.iter().find(|(name, _)| *name == model);
    number(text, &GPUS, "").map_err(|invalid| match known {
        Some((name, kind)) => Invalid::with(
            format!("it names a GPU, and GPUs are counted, {}", span(&GPUS)),
            format!("--type {kind} has the {name}; --gpu 1 takes the cheapest type with any GPU"),
        ),
        None => invalid,
    })
}

/// Parses a number of slices of each GPU.
pub(super) fn slices(text: &str) -> Result<u32, Invalid> {
    number(text, &SLICES, " slices of a GPU")
}

/// Parses a port.
fn port(text: &str) -> Result<u16, Invalid> {
    number(text, &PORTS, "")
}

/// Parses a number of days.
pub fn days(text: &str) -> Result<u8, Invalid> {
    number(text, &DAYS, " days")
}

/// Parses a volume's throughput, in MiB a second.
pub(super) fn throughput(text: &str) -> Result<u32, Invalid> {
    number(text, &THROUGHPUT, " MiB a second")
}

/// Parses a volume's IOPS.
pub(super) fn iops(text: &str) -> Result<u32, Invalid> {
    number(text, &IOPS, " operations a second")
}

/// Parses the rate at which a volume is filled from its snapshot, in MiB a second.
pub(super) fn warm(text: &str) -> Result<u32, Invalid> {
    number(text, &WARM, " MiB a second")
}

/// Parses the highest price of a spot instance, in US dollars an hour.
pub(super) fn max_price(text: &str) -> Result<Price, Invalid> {
    let range = format!("the most to pay is more than 0 dollars an hour, and {DOLLARS} at most");
    let price = dollars(text, &range)?;
    if price == Price::default() {
        return Err(Invalid::new(range));
    }
    Ok(price)
}

/// Parses what the hosts of a session or a run may take, in US dollars.
pub(super) fn positive_budget(text: &str) -> Result<Price, Invalid> {
    let price = budget(text)?;
    if price.cents() == 0 {
        return Err(Invalid::new("a budget is a cent at least"));
    }
    Ok(price)
}

/// Parses what a selftest may spend, in US dollars.
pub fn budget(text: &str) -> Result<Price, Invalid> {
    let range = format!("a budget is 0 dollars at least, and {DOLLARS} at most");
    dollars(text, &range)
}

/// Parses US dollars; `range` is what the error says of how many there can be.
fn dollars(text: &str, range: &str) -> Result<Price, Invalid> {
    let price = text.trim().parse::<Price>();
    let price = price.map_err(|error| Invalid::new(format!("{error}: {range}")))?;
    if price.dollars() > DOLLARS {
        return Err(Invalid::new(range));
    }
    Ok(price)
}

/// Parses a whole number in `range`; `what` follows the range in the error (" MiB a second").
pub(crate) fn number<T>(text: &str, range: &RangeInclusive<T>, what: &str) -> Result<T, Invalid>
where
    T: FromStr + PartialOrd + Display,
{
    let number: Option<T> = text.trim().parse().ok();
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| Invalid::new(format!("it is not a whole number {}{what}", span(range))))
}

/// Parses how long a host is kept without a sign of life.
fn lease(text: &str) -> Result<Duration, Invalid> {
    within(time(text)?, &LEASES, "a host is kept")
}

/// Parses how long a host may be idle.
fn idle_limit(text: &str) -> Result<Duration, Invalid> {
    if text.trim() == "none" {
        return Ok(Duration::ZERO);
    }
    within(time(text)?, &IDLE, "a host is idle for")
}

/// Parses how long a run may take.
pub fn limit(text: &str) -> Result<Duration, Invalid> {
    within(time(text)?, &LIMITS, "a run takes")
}

/// Parses how far back the output of a run is shown.
pub fn since(text: &str) -> Result<Duration, Invalid> {
    within(time(text)?, &PASTS, "output is shown since")
}

/// Parses how far back the cost of drives is shown.
pub fn spending(text: &str) -> Result<Duration, Invalid> {
    within(time(text)?, &SPENDINGS, "cost is shown since")
}

/// Parses how long a tender goes on without any wanted run.
pub fn idle(text: &str) -> Result<Duration, Invalid> {
    within(time(text)?, &PASTS, "nothing is wanted for")
}

/// Parses the interval between checkpoints.
pub(super) fn checkpoint(text: &str) -> Result<Duration, Invalid> {
    within(time(text)?, &CHECKPOINTS, "checkpoints are apart")
}

/// Parses a notice; a plain number is in seconds.
pub fn notice(text: &str) -> Result<Duration, Invalid> {
    within(seconds_or_time(text)?, &NOTICES, "a notice is given")
}

/// Parses how long a command may take to end; a plain number is in seconds.
pub(super) fn ending(text: &str) -> Result<Duration, Invalid> {
    within(seconds_or_time(text)?, &ENDINGS, "a command has to end in")
}

/// Parses the interval between two syncs of a run's results.
pub fn results_every(text: &str) -> Result<Duration, Invalid> {
    within(time(text)?, &RESULTS, "the syncs of results are apart")
}

fn seconds_or_time(text: &str) -> Result<Duration, Invalid> {
    match text.trim().parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => time(text),
    }
}

/// Parses how often a command is started again.
pub fn tries(text: &str) -> Result<u32, Invalid> {
    number(text, &TRIES, "")
}

/// Parses a size such as `200G`; a plain number is in GiB.
fn gibibytes(text: &str, range: &RangeInclusive<u32>, what: &str) -> Result<u32, Invalid> {
    const HINT: &str =
        "sizes are such as 200G, 1.5T or 1TiB; a plain number is in GiB, and G, GB and GiB are one";
    let bytes =
        bytes(text, GIB).ok_or_else(|| Invalid::with("it is not a size such as 200G", HINT))?;
    let within = u32::try_from(bytes / GIB).ok();
    match within.filter(|size| range.contains(size) && bytes.is_multiple_of(GIB)) {
        Some(size) => Ok(size),
        None => Err(Invalid::with(
            format!(
                "{what} is {} GiB at least and {} GiB at most, in whole GiB",
                range.start(),
                range.end()
            ),
            HINT,
        )),
    }
}

/// Parses a size in bytes; a plain number is in units of `factor` of them.
fn bytes(text: &str, factor: u64) -> Option<u64> {
    let parser = parse_size::Config::new().with_binary();
    parser
        .with_default_factor(factor)
        .parse_size(text.trim())
        .ok()
}

/// Parses a time such as `3d`, `90m` or `1h30m` (jiff's friendly format); a day has 24 hours.
fn time(text: &str) -> Result<Duration, Invalid> {
    let invalid = |why: &str| Invalid::with(why, TIMES);
    let span: Span = text
        .trim()
        .parse()
        .map_err(|_| invalid("it is not a time such as 30m or 8h"))?;
    let length: SignedDuration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| invalid("months and years differ in length"))?;
    Duration::try_from(length).map_err(|_| invalid("a time cannot be negative"))
}

/// A time as [`time`] parses it, without spaces, such as `1h30m`.
pub(super) fn compact(time: Duration) -> String {
    let printer = SpanPrinter::new().spacing(Spacing::None);
    printer.unsigned_duration_to_string(&time)
}

fn within(
    time: Duration,
    range: &RangeInclusive<Duration>,
    what: &str,
) -> Result<Duration, Invalid> {
    if range.contains(&time) {
        return Ok(time);
    }
    let (least, most) = (words(*range.start()), words(*range.end()));
    Err(Invalid::with(
        format!("{what} {least} at least and {most} at most"),
        TIMES,
    ))
}

/// A time in its largest whole unit, such as `7d`.
fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let unit = units
        .iter()
        .find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

fn span<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("from {} to {}", range.start(), range.end())
}

/// A value in the configuration: text, or a plain number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it is neither text nor a number")]
enum Configured {
    Whole(i64),
    Number(f64),
    Text(String),
}

/// Deserializes what can be parsed from text.
fn configured<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = Invalid>,
{
    let text = match Configured::deserialize(from)? {
        Configured::Whole(number) => number.to_string(),
        Configured::Number(number) => number.to_string(),
        Configured::Text(text) => text,
    };
    text.parse()
        .map_err(|invalid: Invalid| match invalid.hint() {
            Some(hint) => D::Error::custom(format!("{text}: {invalid} ({hint})")),
            None => D::Error::custom(format!("{text}: {invalid}")),
        })
}

#[cfg(test)]
mod tests;
