//! Spot placement scores: how likely a zone has spot capacity for a set of types, from 1 to 10.
//!
//! Sources: EC2 API reference, `GetSpotPlacementScores`; EC2 user guide, *Spot placement score*. A score
//! is of the whole set in one zone, and for so few types that there is no set it is always low: of those
//! it is not asked. It is a recommendation, and no promise of capacity or against interruptions. AWS may
//! limit how many sets are new in a day, so each is asked about once. The right,
//! `ec2:GetSpotPlacementScores`, is optional.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::timeout;

use super::Ec2;
use super::error::{Error, Kind};
use super::pages::read_pages;

const CALL: &str = "GetSpotPlacementScores";

/// The fewest types that AWS scores by their capacity.
pub const FEWEST_SCORED: usize = 3;

/// The best score.
pub const BEST_SCORE: u8 = 10;

/// Scores a page: the least that the call allows, and more than a region has zones.
const PAGE: i32 = 10;

/// How long AWS may take to answer: no launch waits long for a score.
const PATIENCE: Duration = Duration::from_secs(3);

/// Scores by the ids of zones, which are the same in every account (`use1-az1`).
type ByZone = BTreeMap<String, u8>;

impl Ec2 {
    /// The placement scores of the zones of this region for one instance of any of these `types`, by
    /// the zones' ids. Zones that AWS does not list have none.
    pub async fn placement_scores(&self, types: &[String]) -> Result<ByZone, Error> {
        let known = || self.scores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(types) {
            return known.clone();
        }
        let asked = timeout(PATIENCE, self.ask_placement_scores(types)).await;
        let asked = asked.unwrap_or_else(|_| {
            let why = format!("no answer within {} s", PATIENCE.as_secs());
            Err(Error::of_kind(CALL, Kind::Ambiguous, why))
        });
        known().insert(types.to_vec(), asked.clone());
        asked
    }

    async fn ask_placement_scores(&self, types: &[String]) -> Result<ByZone, Error> {
        let pages = self
            .patient
            .get_spot_placement_scores()
            .set_instance_types(Some(types.to_vec()))
            .target_capacity(1)
            .single_availability_zone(true)
            .region_names(self.region())
            .into_paginator()
            .page_size(PAGE)
            .send();
        let scores = read_pages(CALL, pages, |page| {
            let answers = page.spot_placement_scores().iter();
            answers
                .map(|answer| read(answer.availability_zone_id(), answer.score()))
                .collect()
        });
        Ok(scores.await?.into_iter().collect())
    }
}

fn read(zone: Option<&str>, score: Option<i32>) -> Result<(String, u8), String> {
    let zone = zone.ok_or("a score is of no zone")?;
    let read = score.and_then(|score| u8::try_from(score).ok());
    let read = read.filter(|score| (1..=BEST_SCORE).contains(score));
    let read = read.ok_or_else(|| format!("{score:?} is no score from 1 to {BEST_SCORE}"))?;
    Ok((zone.to_owned(), read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_of_a_zone_and_from_one_to_ten() {
        let zone = Some("use1-az1");
        assert_eq!(read(zone, Some(10)), Ok(("use1-az1".to_owned(), 10)));
        for (zone, score) in [
            (None, Some(5)),
            (zone, None),
            (zone, Some(0)),
            (zone, Some(11)),
            (zone, Some(-1)),
            (zone, Some(i32::MAX)),
        ] {
            assert!(read(zone, score).is_err(), "{zone:?} {score:?}");
        }
    }
}
