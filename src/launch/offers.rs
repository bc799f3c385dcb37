//! Offers and prices as text.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::cost::{Disks, burst_cost_note, most_an_hour};
use crate::drive::pools::{self, Chosen, Offer};
use crate::ec2::{InstanceType, Market, Price, Zone};

/// The offers that are tried, in order.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Offers {
    /// Offers, of which the first that has capacity is launched.
    #[serde(rename = "offers")]
    pub(crate) tried: Vec<Tried>,
    /// US dollars an hour that each costs besides, about: its address, its disk and the drive's volume.
    dollars_an_hour_besides: f64,
    /// Seconds that the budget lasts at least on the first; only with a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_seconds: Option<u64>,
    /// Number of further offers, which are not tried.
    not_tried: usize,
    /// Types that were asked for and are not offered, and why; in words.
    left_out: Vec<String>,
    #[serde(skip)]
    besides: String,
    /// The zone that has none of them, if that is so.
    #[serde(skip)]
    nowhere: Option<Zone>,
}

/// An offer that is tried.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Tried {
    #[serde(flatten)]
    kind: InstanceType,
    /// How it is paid for.
    #[cfg_attr(test, schemars(with = "String", extend("enum" = ["spot", "on-demand"])))]
    market: Market,
    /// Id of the capacity reservation that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<String>,
    /// Zone; null if EC2 chooses.
    zone: Option<String>,
    /// Price an hour in US dollars, of spot that of now; null where it is not known.
    dollars_an_hour: Option<f64>,
    /// AWS's spot placement score of the zone for the types that are tried, from 1 to 10; where it was asked for
    /// and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 10)))]
    placement_score: Option<u8>,
    /// Machine image: an AMI's id, or a parameter that EC2 resolves.
    image: String,
    #[serde(skip)]
    row: [String; 5],
}

impl Offers {
    /// The `chosen` offers in `zone`, or in any, each with these disks.
    pub(crate) fn new(chosen: &Chosen, zone: Option<&Zone>, disks: Disks) -> Self {
        let (tried, not_tried) = pools::to_try(&chosen.offers, zone);
        let tried = tried.into_iter().map(|offer| Tried {
            kind: offer.kind.clone(),
            market: offer.pool.market,
            reservation: offer.pool.reservation.as_ref().map(ToString::to_string),
            zone: zone.or(offer.pool.zone.as_ref()).map(ToString::to_string),
            dollars_an_hour: offer.price.map(Price::dollars),
            placement_score: offer.score.known(),
            image: offer.pool.image.clone(),
            row: row(offer, zone),
        });
        let tried: Vec<Tried> = tried.collect();
        Self {
            nowhere: zone.filter(|_| tried.is_empty()).cloned(),
            tried,
            // To a tenth of a cent, as in the text.
            dollars_an_hour_besides: (disks.hourly_cost_beside_price() * 1000.0).round() / 1000.0,
            budget_seconds: None,
            not_tried,
            left_out: chosen.left_out.iter().map(ToString::to_string).collect(),
            besides: disks.beside_words(),
        }
    }

    /// The cost of `count` of the first an hour in US dollars, about; `None` where its price is not known.
    pub(crate) fn dollars_an_hour_for(&self, count: usize) -> Option<f64> {
        let each = self.tried.first()?.dollars_an_hour? + self.dollars_an_hour_besides;
        let all = f64::from(u32::try_from(count).ok()?) * each;
        // To a cent.
        Some((all * 100.0).round() / 100.0)
    }

    /// Says how long this budget lasts on the first, with this bid for spot; returns that, where the price is known.
    pub(crate) fn keep_budget(&mut self, budget: Price, bid: Option<Price>) -> Option<Duration> {
        let first = self.tried.first()?;
        let hour = most_an_hour(first.market, first.dollars_an_hour, bid)?;
        let hour = hour + first.kind.most_surplus() + self.dollars_an_hour_besides;
        let hours = budget.dollars() / hour;
        let lasts = Duration::try_from_secs_f64(hours * 3600.0).ok()?;
        self.budget_seconds = Some(lasts.as_secs());
        Some(lasts)
    }

    /// The list as text.
    pub(crate) fn text(&self) -> String {
        let mut text = match &self.nowhere {
            Some(zone) => format!("nothing that is wanted is sold in {zone}\n"),
            None => "launches the first of these that has capacity:\n".to_owned(),
        };
        let rows = || self.tried.iter().map(|offer| &offer.row);
        let width = |column: usize| rows().map(|row| row[column].len()).max().unwrap_or(0);
        let [first, second, third, fourth] = [0, 1, 2, 3].map(width);
        for (number, [kind, size, market, zone, price]) in (1..).zip(rows()) {
            let _ = writeln!(
                text,
                "  {number:>2}. {kind:first$}  {size:second$}  {market:third$}  {zone:fourth$}  {price}"
            );
        }
        if !self.tried.is_empty() {
            let _ = writeln!(text, "  each {}", self.besides);
        }
        let mut kinds: Vec<&InstanceType> = self.tried.iter().map(|offer| &offer.kind).collect();
        kinds.dedup();
        for surplus in kinds.into_iter().filter_map(burst_cost_note) {
            let _ = writeln!(text, "  {surplus}");
        }
        if self.not_tried > 0 {
            let _ = writeln!(text, "  {} more are not tried", self.not_tried);
        }
        for left_out in &self.left_out {
            let _ = writeln!(text, "left out: {left_out}");
        }
        let mut images: Vec<&str> = Vec::new();
        for offer in &self.tried {
            if !images.contains(&offer.image.as_str()) {
                images.push(&offer.image);
            }
        }
        for image in images {
            let _ = writeln!(text, "machine image: {image}");
        }
        text.push_str("nothing was changed\n");
        text
    }
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
        pool.market_words(),
        zone.map_or("a zone of EC2's choice", |zone| zone.0.as_str())
            .to_owned(),
        offer.price_words(),
    ]
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
