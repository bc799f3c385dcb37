//! Offers and prices as text.

use std::fmt::Write as _;

use crate::drive::pools::{self, Chosen, Offer};
use crate::drive::stuck::beside;
use crate::ec2::{GibiBytes, InstanceType, Speed, Zone};

/// The list of offers that are tried, in order, for a drive of `size` and `speed`.
pub(crate) fn list(chosen: &Chosen, zone: Option<&Zone>, size: GibiBytes, speed: Speed) -> String {
    let (tried, more) = pools::to_try(&chosen.offers, zone);
    let mut text = match (tried.len(), zone) {
        (0, Some(zone)) => format!("nothing that is wanted is sold in {zone}\n"),
        _ => "launches the first of these that has capacity:\n".to_owned(),
    };
    let rows: Vec<[String; 5]> = tried.iter().map(|offer| row(offer, zone)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    for (number, [kind, size, market, zone, price]) in (1..).zip(&rows) {
        let [first, second, third, fourth] = widths;
        let _ = writeln!(
            text,
            "  {number:>2}. {kind:first$}  {size:second$}  {market:third$}  {zone:fourth$}  {price}"
        );
    }
    if !tried.is_empty() {
        let _ = writeln!(text, "  each {}", beside_words(size, speed));
    }
    let mut kinds: Vec<&InstanceType> = tried.iter().map(|offer| &offer.kind).collect();
    kinds.dedup();
    for surplus in kinds.into_iter().filter_map(surplus_words) {
        let _ = writeln!(text, "  {surplus}");
    }
    if more > 0 {
        let _ = writeln!(text, "  {more} more are not tried");
    }
    for left_out in &chosen.left_out {
        let _ = writeln!(text, "left out: {left_out}");
    }
    let mut images: Vec<&str> = Vec::new();
    for offer in &tried {
        if !images.contains(&offer.pool.image.as_str()) {
            images.push(&offer.pool.image);
        }
    }
    for image in images {
        let _ = writeln!(text, "machine image: {image}");
    }
    text.push_str("nothing was changed\n");
    text
}

/// An offer's row: type, resources, market, zone, price.
fn row(offer: &Offer, pinned: Option<&Zone>) -> [String; 5] {
    let (kind, pool) = (&offer.kind, &offer.pool);
    let gpus = match kind.gpus {
        0 if kind.part_of_gpu => ", part of a GPU".to_owned(),
        0 => String::new(),
        1 => ", 1 GPU".to_owned(),
        many => format!(", {many} GPUs"),
    };
    let zone = pinned.or(pool.zone.as_ref());
    [
        kind.name.clone(),
        format!(
            "{}, {} CPUs, {} GiB{gpus}",
            kind.arch,
            kind.cpus,
            gib(kind.memory)
        ),
        pool.market.to_string(),
        zone.map_or("a zone of EC2's choice", |zone| zone.0.as_str())
            .to_owned(),
        offer.price_words(),
    ]
}

/// The cost of an instance beside its own price, as the end of a sentence.
pub(crate) fn beside_words(size: GibiBytes, speed: Speed) -> String {
    format!(
        "plus about ${:.3} an hour for address and disks",
        beside(size, speed)
    )
}

/// The cost of a burstable type beside its price; `None` for any other type.
pub(crate) fn surplus_words(kind: &InstanceType) -> Option<String> {
    let cents = kind.surplus_cents()?;
    let name = &kind.name;
    Some(format!(
        "{name} is burstable: each vCPU-hour above its baseline costs {} more",
        dollars(u64::from(cents))
    ))
}

/// US cents as dollars.
pub(crate) fn dollars(cents: u64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// MiB as GiB, with one decimal unless that is 0.
pub(crate) fn gib(mib: u32) -> String {
    let tenths = (u64::from(mib) * 10 + 512) / 1024;
    if tenths.is_multiple_of(10) {
        (tenths / 10).to_string()
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}
