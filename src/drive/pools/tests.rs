//! The choice as a table: requirements, types and prices, and the pools tried in their order.

use super::*;
use crate::ec2::SpotPrice;

pub(super) fn kind(name: &str, cpus: u32, gib: u32, gpus: u32, arch: Arch) -> InstanceType {
    InstanceType {
        name: name.to_owned(),
        cpus,
        memory: gib * 1024,
        gpus,
        part_of_gpu: false,
        has_accelerator: gpus > 0,
        is_neuron: false,
        arch,
        burstable: name.starts_with('t'),
        free_tier: false,
        spot: true,
        on_demand: true,
    }
}

fn types() -> Vec<InstanceType> {
    vec![
        kind("t3.medium", 2, 4, 0, Arch::X86_64),
        kind("m5.large", 2, 8, 0, Arch::X86_64),
        kind("m7g.large", 2, 8, 0, Arch::Arm64),
        kind("g4dn.xlarge", 4, 16, 1, Arch::X86_64),
        kind("g5g.xlarge", 4, 8, 1, Arch::Arm64),
    ]
}

fn prices() -> Vec<SpotPrice> {
    let rows = [
        ("t3.medium", "a", "0.0140"),
        ("t3.medium", "b", "0.0125"),
        ("t3.medium", "c", "0.0150"),
        ("m5.large", "a", "0.0300"),
        ("m5.large", "b", "0.0350"),
        ("m7g.large", "a", "0.0250"),
        ("m7g.large", "c", "0.0320"),
        ("g4dn.xlarge", "a", "0.1600"),
        ("g5g.xlarge", "b", "0.1300"),
    ];
    rows.map(|(name, zone, price)| SpotPrice {
        instance_type: name.to_owned(),
        zone: Zone(zone.to_owned()),
        zone_id: Some(format!("use1-az-{zone}")),
        price: price.parse().unwrap(),
    })
    .to_vec()
}

pub(super) fn terms(requirements: &str) -> Terms {
    Terms {
        requirements: requirements.parse().unwrap(),
        markets: vec![Market::Spot],
        max_price: None,
        needs_price: false,
        image: None,
        arch: None,
        arch_by: ArchBy::Drive,
        like: None,
        scores: Scores::Unasked,
        reserved: None,
        is_free: false,
    }
}

/// The pools as words: type, market, zone.
pub(super) fn order(chosen: &Chosen) -> Vec<String> {
    let words = |pool: &Pool| {
        let market = match pool.market {
            Market::Spot => "",
            Market::OnDemand => "!",
        };
        let zone = pool.zone.as_ref().map_or("-", |zone| zone.0.as_str());
        format!("{market}{} {zone}", pool.instance_type)
    };
    chosen.pools().iter().map(words).collect()
}

#[test]
fn what_is_like_the_host_of_a_frozen_program_comes_first_with_its_image() {
    let host = Like {
        family: "m5".to_owned(),
        image: Some("ami-0123".to_owned()),
    };
    let choose = |image: Option<&str>| {
        let terms = Terms {
            image: image.map(str::to_owned),
            like: Some(host.clone()),
            ..terms("cpus=2,memory=8")
        };
        let chosen = super::choose(&terms, &types(), Some(&prices())).unwrap();
        let row = |pool: &Pool| (pool.instance_type.clone(), pool.image.clone());
        chosen.pools().iter().map(row).collect::<Vec<_>>()
    };
    let of_its_type = image_of(Arch::Arm64, false);
    let expected = ["m5.large", "m5.large", "m7g.large", "m7g.large"];
    let with = |images: [&str; 4]| {
        let rows = expected.iter().zip(images);
        rows.map(|(kind, image)| ((*kind).to_owned(), image.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        choose(None),
        with(["ami-0123", "ami-0123", of_its_type, of_its_type])
    );
    assert_eq!(choose(Some("ami-4567")), with(["ami-4567"; 4]));
}

#[test]
fn pools_come_in_the_order_of_liking_and_price() {
    let spot = |requirements: &str| terms(requirements);
    let either = |requirements: &str| Terms {
        markets: vec![Market::Spot, Market::OnDemand],
        ..terms(requirements)
    };
    let on = |arch, requirements: &str| Terms {
        arch: Some(arch),
        ..terms(requirements)
    };
    let most = |price: &str, requirements: &str| Terms {
        max_price: Some(price.parse().unwrap()),
        needs_price: false,
        ..either(requirements)
    };
    let table: [(&str, Terms, &[&str]); 9] = [
        (
            "one type: its zones by price",
            spot("t3.medium"),
            &["t3.medium b", "t3.medium a", "t3.medium c"],
        ),
        (
            "several types: liking before price",
            spot("m5.large,t3.medium"),
            &[
                "m5.large a",
                "m5.large b",
                "t3.medium b",
                "t3.medium a",
                "t3.medium c",
            ],
        ),
        (
            "a need: price alone, both architectures, no GPU that nobody wants",
            spot("cpus=2,memory=8"),
            &["m7g.large a", "m5.large a", "m7g.large c", "m5.large b"],
        ),
        (
            "a need of a drive that has an architecture",
            on(Arch::X86_64, "cpus=2,memory=8"),
            &["m5.large a", "m5.large b"],
        ),
        ("a GPU", spot("gpus=1"), &["g5g.xlarge b", "g4dn.xlarge a"]),
        (
            "on demand after all of spot, in the same order",
            either("g4dn.xlarge,m5.large"),
            &[
                "g4dn.xlarge a",
                "m5.large a",
                "m5.large b",
                "!g4dn.xlarge a",
                "!m5.large a",
                "!m5.large b",
            ],
        ),
        (
            "no more than this, for spot alone",
            most("0.0125", "t3.medium"),
            &[
                "t3.medium b",
                "!t3.medium b",
                "!t3.medium a",
                "!t3.medium c",
            ],
        ),
        (
            "of several types those that the drive can be used on",
            on(Arch::Arm64, "t3.medium,m7g.large"),
            &["m7g.large a", "m7g.large c"],
        ),
        (
            "on demand where a type is not sold as spot: EC2 chooses",
            Terms {
                markets: vec![Market::OnDemand],
                ..spot("c9.huge")
            },
            &["!c9.huge -"],
        ),
    ];
    let mut all = types();
    all.push(kind("c9.huge", 96, 192, 0, Arch::X86_64));
    for (what, terms, expected) in table {
        let chosen = choose(&terms, &all, Some(&prices())).unwrap();
        assert_eq!(order(&chosen), expected, "{what}");
    }
}

#[test]
fn requirements_that_nothing_meets_are_refused_with_the_reason() {
    let refused = |terms: &Terms| {
        choose(terms, &types(), Some(&prices()))
            .unwrap_err()
            .to_string()
    };
    let on = |arch, requirements: &str| Terms {
        arch: Some(arch),
        ..terms(requirements)
    };
    for (terms, reason) in [
        (
            on(Arch::X86_64, "m7g.large"),
            "m7g.large runs arm64 programs, and those on the drive are compiled for x86_64",
        ),
        (
            on(Arch::Arm64, "gpus=2"),
            "no instance type that runs arm64 programs has 2 NVIDIA GPUs",
        ),
        (
            terms("cpus=64,memory=16,gpus=1"),
            "no instance type has 64 CPUs, 16 GiB and 1 NVIDIA GPU",
        ),
        (
            terms("mac1.metal"),
            "mac1.metal runs neither x86_64 nor arm64 programs",
        ),
        (
            Terms {
                max_price: Some("0.01".parse().unwrap()),
                needs_price: false,
                ..terms("t3.medium,m5.large")
            },
            "the cheapest is t3.medium spot in b, at $0.0125 an hour: more than $0.0100",
        ),
    ] {
        assert_eq!(refused(&terms), reason);
    }
    let only_on_demand = InstanceType {
        spot: false,
        ..kind("c9.huge", 96, 192, 0, Arch::X86_64)
    };
    let refused = choose(&terms("c9.huge"), &[only_on_demand], Some(&prices())).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "c9.huge is not sold as spot in this region"
    );
}

#[test]
fn types_and_pools_that_are_left_out_are_reported() {
    let terms = Terms {
        max_price: Some("0.0145".parse().unwrap()),
        needs_price: false,
        arch: Some(Arch::X86_64),
        ..terms("m7g.large,t3.medium")
    };
    let chosen = choose(&terms, &types(), Some(&prices())).unwrap();
    assert_eq!(order(&chosen), ["t3.medium b", "t3.medium a"]);
    let left_out: Vec<String> = chosen.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left_out,
        [
            "m7g.large runs arm64 programs, and those on the drive are compiled for x86_64",
            "1 pool costs more than $0.0145 an hour; the cheapest, t3.medium spot in c, costs $0.0150",
        ]
    );
}

#[test]
fn pools_that_are_too_expensive_are_reported_in_one_line() {
    let mut all = types();
    all.push(InstanceType {
        spot: false,
        ..kind("c9.huge", 96, 192, 0, Arch::X86_64)
    });
    all.push(InstanceType {
        has_accelerator: true,
        ..kind("g4ad.xlarge", 4, 16, 0, Arch::X86_64)
    });
    let terms = Terms {
        max_price: Some("0.0260".parse().unwrap()),
        needs_price: false,
        ..terms("cpus=2")
    };
    let chosen = choose(&terms, &all, Some(&prices())).unwrap();
    assert_eq!(order(&chosen), ["m7g.large a"]);
    let left_out: Vec<String> = chosen.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left_out,
        ["3 pools cost more than $0.0260 an hour; the cheapest, m5.large spot in a, costs $0.0300"]
    );
}

#[test]
fn without_prices_ec2_chooses_the_zone_and_the_smallest_comes_first() {
    let chosen = choose(&terms("memory=4"), &types(), None).unwrap();
    assert_eq!(order(&chosen), ["m5.large -", "m7g.large -"]);
}

#[test]
fn of_the_free_tier_comes_what_is_enough_then_the_largest_and_of_a_need_what_meets_it() {
    let free = |name, cpus, gib| InstanceType {
        free_tier: true,
        ..kind(name, cpus, gib, 0, Arch::X86_64)
    };
    let mut all = types();
    all.extend([
        free("t3.micro", 2, 1),
        free("t3.small", 2, 2),
        free("m7i-flex.large", 2, 8),
        free("c7i-flex.large", 2, 4),
    ]);
    let of = |requirements: Requirements| {
        let terms = Terms {
            requirements,
            markets: vec![Market::OnDemand],
            is_free: true,
            ..terms("cpus=1")
        };
        choose(&terms, &all, None).map(|chosen| order(&chosen))
    };
    let anything = of(Requirements::AtLeast(Resources::default())).unwrap();
    let expected = ["c7i-flex.large", "m7i-flex.large", "t3.small", "t3.micro"];
    assert_eq!(anything, expected.map(|name| format!("!{name} -")));
    let resources = of("cpus=2,memory=2".parse().unwrap()).unwrap();
    let expected = ["c7i-flex.large", "m7i-flex.large", "t3.small"];
    assert_eq!(resources, expected.map(|name| format!("!{name} -")));
    let refused = of("gpus=1".parse().unwrap()).unwrap_err().to_string();
    assert!(refused.ends_with("none has 1 NVIDIA GPU"), "{refused}");
}

#[test]
fn the_image_is_that_of_the_type_unless_one_is_named() {
    let images = |terms: &Terms| -> Vec<String> {
        let chosen = choose(terms, &types(), Some(&prices())).unwrap();
        chosen.pools().into_iter().map(|pool| pool.image).collect()
    };
    let gpus = images(&terms("gpus=1"));
    assert!(gpus[0].contains("/deeplearning/ami/arm64/"), "{gpus:?}");
    assert!(
        gpus[1].contains("/amazon-linux-2023/gpu/recommended/"),
        "{gpus:?}"
    );
    let plain = images(&terms("m7g.large,m5.large"));
    assert!(
        plain[0].contains("/amazon-linux-2023/arm64/recommended/"),
        "{plain:?}"
    );
    assert!(
        plain[2].contains("/amazon-linux-2023/recommended/"),
        "{plain:?}"
    );
    let named = Terms {
        image: Some("ami-1".into()),
        ..terms("t3.medium")
    };
    assert_eq!(images(&named), ["ami-1"; 3]);
}

#[test]
fn tries_are_bounded_in_each_market_and_stay_in_a_pinned_zone() {
    let pools: Vec<Pool> = [Market::Spot, Market::OnDemand]
        .into_iter()
        .flat_map(|market| {
            (0..30).map(move |number| Pool {
                instance_type: format!("t{number}.large"),
                zone: Some(Zone(if number % 3 == 0 { "a" } else { "b" }.into())),
                market,
                image: "ami-1".into(),
                max_price: None,
                reservation: None,
            })
        })
        .collect();
    let (tried, more) = to_try(&pools, None);
    assert_eq!((tried.len(), more), (2 * TRIES, 60 - 2 * TRIES));
    let zone = Zone("a".into());
    let (tried, more) = to_try(&pools, Some(&zone));
    assert_eq!((tried.len(), more), (20, 0));
    assert!(tried.iter().all(|pool| pool.zone.as_ref() == Some(&zone)));
}

#[test]
fn every_type_that_is_named_is_tried_somewhere() {
    let names: Vec<String> = (0..10).map(|number| format!("t{number}.large")).collect();
    let types: Vec<InstanceType> = names
        .iter()
        .map(|name| kind(name, 2, 8, 0, Arch::X86_64))
        .collect();
    let place = |name: &String, zone: &str, price: &str| SpotPrice {
        instance_type: name.clone(),
        zone: Zone(zone.to_owned()),
        zone_id: Some(format!("use1-az-{zone}")),
        price: price.parse().unwrap(),
    };
    let zones = [("a", "0.03"), ("b", "0.01"), ("c", "0.02"), ("d", "0.04")];
    let prices: Vec<SpotPrice> = names
        .iter()
        .flat_map(|name| zones.map(|(zone, price)| place(name, zone, price)))
        .collect();
    let terms = Terms {
        markets: vec![Market::Spot, Market::OnDemand],
        ..terms(&names.join(","))
    };
    let chosen = choose(&terms, &types, Some(&prices)).unwrap();
    let pools = chosen.pools();
    let (tried, more) = to_try(&pools, None);
    assert_eq!(more, 80 - 2 * TRIES);
    let places: Vec<String> = tried
        .iter()
        .map(|pool| {
            let zone = pool.zone.as_ref().map_or("-", |zone| zone.0.as_str());
            format!("{} {zone}", pool.instance_type)
        })
        .collect();
    let mut expected = ["t0.large b", "t0.large c", "t0.large a"]
        .map(str::to_owned)
        .to_vec();
    expected.extend(names[1..].iter().map(|name| format!("{name} b")));
    assert_eq!(places[..TRIES], expected);
    assert_eq!(places[TRIES..], expected);
}

#[test]
fn a_wish_reads_back_as_it_was_written() {
    for text in [
        "t3.medium",
        "t3.medium,m5.large",
        "cpus=4",
        "cpus=4,memory=16,gpus=1",
    ] {
        let requirements: Requirements = text.parse().unwrap();
        assert_eq!(requirements.to_string(), text);
    }
    let several = Requirements::types(&["t3.medium, m5.large", "t3.medium"]).unwrap();
    assert_eq!(several.to_string(), "t3.medium,m5.large");
}

#[test]
fn invalid_types_and_needs_are_refused() {
    let many: Vec<String> = (0..11).map(|number| format!("t{number}.nano")).collect();
    for text in [
        "",
        "t3",
        "t3.",
        ".medium",
        "T3.medium",
        "t3.*",
        "a b.c",
        "cpus=x",
        "disks=3",
        // The fault: these were taken, and written as a text that is refused.
        "cpus=0",
        "cpus=0,memory=0,gpus=0",
    ] {
        assert!(text.parse::<Requirements>().is_err(), "{text}");
    }
    assert!(Requirements::types(&many).is_err());
}

#[test]
fn accelerated_types_meet_no_need_without_a_gpu_and_neuron_types_are_refused_by_name() {
    let accelerated = |name: &str, is_neuron| InstanceType {
        has_accelerator: true,
        is_neuron,
        ..kind(name, 4, 16, 0, Arch::X86_64)
    };
    let mut types = types();
    types.extend([
        accelerated("inf2.xlarge", true),
        accelerated("vt1.3xlarge", false),
    ]);
    let mut prices = prices();
    prices.extend(["inf2.xlarge", "vt1.3xlarge"].map(|name| SpotPrice {
        instance_type: name.to_owned(),
        zone: Zone("a".to_owned()),
        zone_id: None,
        price: "0.001".parse().unwrap(),
    }));
    let chosen = choose(&terms("cpus=2"), &types, Some(&prices)).unwrap();
    assert_eq!(order(&chosen)[0], "m7g.large a");
    let named = choose(&terms("vt1.3xlarge"), &types, Some(&prices)).unwrap();
    assert_eq!(order(&named), ["vt1.3xlarge a"]);
    let refused = choose(&terms("m5.large,inf2.xlarge"), &types, Some(&prices)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "inf2.xlarge has Trainium or Inferentia devices, which xdrive does not give to containers"
    );
}
