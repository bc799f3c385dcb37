//! Launch options on a line, written and read.

use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

fn requirements() -> impl Strategy<Value = Requirements> {
    let types = vec![
        "t3.micro",
        "m5.large",
        "g4dn.xlarge",
        "u-6tb1.metal",
        "c7gn.16xlarge",
    ];
    let types = subsequence(types, 1..=5).prop_shuffle();
    let resources = (0..=64_u32, 0..=64_u32, 0..=8_u32);
    prop_oneof![
        types.prop_map(|types| Requirements::types(&types).unwrap()),
        resources
            .prop_map(|(cpus, memory, gpus)| Resources { cpus, memory, gpus })
            .prop_filter("something", |it| *it != Resources::default())
            .prop_map(Requirements::AtLeast),
    ]
}

fn speed() -> impl Strategy<Value = Speed> {
    let parts = (
        of(3_000..=80_000_u32),
        of(125..=2_000_u32),
        of(100..=300_u32),
    );
    parts.prop_map(|(iops, throughput, warm)| Speed {
        iops,
        throughput,
        warm,
    })
}

/// Times of whole milliseconds within seconds.
fn time(seconds: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    let milliseconds = prop_oneof![3 => Just(0), 1 => 0..1_000_u64];
    (seconds, milliseconds)
        .prop_map(|(seconds, more)| Duration::from_millis(seconds * 1_000 + more))
}

/// Dollars of so many millionths at least.
fn price(least: u64) -> impl Strategy<Value = Price> {
    (least..=1_000_000_000).prop_map(|it| {
        format!("{}.{:06}", it / 1_000_000, it % 1_000_000)
            .parse()
            .unwrap()
    })
}

fn options() -> impl Strategy<Value = LaunchOptions> {
    let architectures = vec![ArchChoice::X86_64, ArchChoice::Arm64, ArchChoice::Any];
    let markets = vec![Market::Spot, Market::OnDemand];
    let ami = prop_oneof!["ami-[0-9a-f]{8,17}", "resolve:ssm:/[!-~]{1,40}"];
    let profile = prop_oneof![
        "[a-zA-Z0-9_+=,.@-]{1,60}",
        "arn:aws:iam::111122223333:instance-profile/[a-z/]{0,20}[a-z]"
    ];
    let machine = (
        of(requirements()),
        of(select(architectures)),
        of(ami),
        of(profile),
        of("cr-[0-9a-f]{8,17}"),
    );
    let terms = (
        of(select(markets)),
        of(select(vec![Fallback::OnDemand, Fallback::None])),
        (of(price(1)), of(price(10_000))),
        of(select(vec![Preference::Price, Preference::Lasting])),
        any::<bool>(),
        any::<bool>(),
        of("subnet-[0-9a-f]{8,17}"),
    );
    let drive = (
        of(1..=65_536_u32),
        speed(),
        of(time(10..60)),
        of(time(15..604_800)),
        of(any::<bool>()),
        of(1..=16_u32),
    );
    (machine, terms, drive).prop_map(|(machine, terms, drive)| {
        let (requirements, arch, ami, instance_profile, reservation) = machine;
        let (market, fallback, (max_price, budget), prefer, is_free, leave_zone, subnet) = terms;
        let (size, speed, notice, checkpoint, freezes, slices) = drive;
        LaunchOptions {
            requirements,
            arch,
            market,
            fallback,
            max_price,
            budget,
            prefer,
            is_free,
            ami,
            leave_zone,
            subnet: subnet.map(|it| it.parse().unwrap()),
            instance_profile,
            reservation: reservation.map(|it| it.parse().unwrap()),
            size,
            speed,
            notice,
            checkpoint,
            freezes,
            slices,
        }
    })
}

proptest! {
    #[test]
    fn launch_options_on_a_line_are_read_as_they_were_written(options in options()) {
        let line = options.to_string();
        let length = line.chars().count();
        prop_assert!(!line.contains('\n'), "{line}");
        if length <= LONGEST_LINE {
            prop_assert_eq!(line.parse(), Ok(options), "{}", line);
        } else {
            prop_assert_eq!(line.parse::<LaunchOptions>(), Err(InvalidLine::TooLong(length)));
        }
    }

    #[test]
    fn launch_options_that_were_read_mean_the_same_when_written(options in options(), cut in 0..16_usize) {
        let line = options.to_string();
        let words: Vec<&str> = line.split(' ').take(cut).collect();
        let mut words: Vec<&str> = words.into_iter().rev().collect();
        words.truncate(6);
        if let Ok(read) = words.join("  ").parse::<LaunchOptions>() {
            prop_assert_eq!(read.to_string().parse(), Ok(read));
        }
    }

    #[test]
    fn no_line_panics(line in "((type|size|arch|notice|max_price|free|cpus)=[ -~]{0,9} ?){0,5}") {
        if let Ok(read) = line.parse::<LaunchOptions>() {
            prop_assert_eq!(read.to_string().parse(), Ok(read));
        }
    }
}

#[test]
fn a_line_that_is_none_says_why() {
    let why = |line: &str| line.parse::<LaunchOptions>().unwrap_err().to_string();
    assert_eq!(why("speed=1"), "\"speed\" is no launch option");
    assert_eq!(why("free"), "\"free\" is no launch option");
    assert_eq!(why("size=9 size=9"), "size is there twice");
    assert_eq!(why("size=0").split_once(": ").unwrap().0, "size");
    assert_eq!(
        why("market=cheap"),
        "market: \"cheap\" is neither spot nor on-demand"
    );
    assert_eq!(
        why(&"x".repeat(257)),
        "it has 257 characters, and 256 are the most"
    );
    assert_eq!("".parse(), Ok(LaunchOptions::default()));
    let line = "type=cpus=4,gpus=1 arch=any market=spot notice=45s checkpoint=30m";
    assert_eq!(line.parse::<LaunchOptions>().unwrap().to_string(), line);
}

#[test]
fn options_lie_over_others_as_flags_over_the_configuration() {
    let over = |these: &str, others: &str| {
        let read = |line: &str| line.parse::<LaunchOptions>().unwrap();
        read(these).over(read(others)).to_string()
    };
    let other = "type=m5.large market=spot max_price=0.500000 leave_zone=true iops=4000 notice=7s";
    assert_eq!(over("", other), other);
    assert_eq!(over(other, "type=c5.large notice=9s"), other);
    assert_eq!(
        over("type=cpus=2 market=on-demand throughput=200", other),
        "type=cpus=2 market=on-demand max_price=0.500000 leave_zone=true throughput=200 iops=4000 \
         notice=7s"
    );
    let reserved = "reservation=cr-0123456789abcdef0";
    assert_eq!(over("notice=9s", reserved), format!("{reserved} notice=9s"));
    for bound in ["type=m5.large", "market=spot"] {
        assert_eq!(over(bound, reserved), bound);
    }
    assert_eq!(over("free=true", "type=m5.large"), "free=true");
    assert_eq!(over("type=m5.large", "free=true"), "type=m5.large");
}
