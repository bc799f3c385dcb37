//! Where a session launches: by its terms, and from there, where nothing is to be had, to the next
//! best.
//!
//! Prices and types are looked up beside the first looks at the drive: nobody waits for them twice. A volume that
//! waits in a zone is left there only if that was said, and on demand is launched only if that was
//! said, or answered.

use super::Session;
use super::preflight::Found;
use crate::drive::pools::{self, Refused, Requirements, Terms};
use crate::drive::reconcile::{Choosing, Failure as RunFailure, RunError};
use crate::drive::stuck::Head;
use crate::drive::{Goal, Outcome};
use crate::ec2::{Market, Zone};
use crate::failure::Failure;
use crate::launch::terms::{stays_on_spot, terms};
use crate::signals::Signal;

/// The question where no spot is to be had.
const QUESTION: &str = "launch on demand instead? [y/N]";

impl Session {
    /// Settles what is launched for the drive, as it was `found`.
    pub(super) fn settle_terms(&mut self, found: &Found) -> Result<(), Failure> {
        let terms = self.terms_of(found)?;
        let options = &self.request.options;
        let markets = terms.markets.clone();
        if let (Some(live), Some(Requirements::Types(types))) = (&found.live, &options.requirements)
            && !types.contains(live)
        {
            self.report.print(&format!(
                "{} is up on {live}: {} is for its next launch",
                self.request.drive,
                types.join(", ")
            ));
        }
        // One that cannot be read was refused before.
        let own = found.settings.speed().unwrap_or_default();
        self.speed.set(options.speed.or(own));
        self.terms = Some(terms);
        self.choose(&markets, found.live.is_some());
        Ok(())
    }

    /// The terms of a launch for the drive, as it was `found`.
    pub(super) fn terms_of(&self, found: &Found) -> Result<Terms, Failure> {
        let request = &self.request;
        let is_new = found.largest.is_none() || request.from == Some(Head::Empty);
        let drive = (&request.drive, &found.settings);
        terms(&request.options, drive, is_new, &self.cloud)
    }

    /// Begins to choose what to launch in these markets; or, if nothing may be launched at all,
    /// not before it is.
    pub(super) fn choose(&mut self, markets: &[Market], lazily: bool) {
        let Some(terms) = &self.terms else {
            return;
        };
        let terms = Terms {
            markets: markets.to_vec(),
            ..terms.clone()
        };
        let ec2 = self.cloud.ec2.clone();
        let look = move || {
            let (ec2, terms) = (ec2.clone(), terms.clone());
            async move { pools::look(&ec2, &terms).await }
        };
        let mut ahead = (!lazily).then(|| tokio::spawn(look()));
        let choose = move || -> Choosing {
            match ahead.take() {
                Some(looking) => Box::pin(async move {
                    let chosen = looking.await;
                    chosen.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
                }),
                None => Box::pin(look()),
            }
        };
        self.reconciler.choose_pools(Box::new(choose));
    }

    /// As [`Session::run`] towards a mounted drive; where nothing is to be had, from the drive's
    /// snapshot in any zone, and on demand, each if that is wanted.
    pub(super) async fn run_where_there_is_room(&mut self) -> (Outcome, Option<Signal>) {
        let goal = Goal::Ready {
            from: self.request.from.clone(),
        };
        let options = &self.request.options;
        let mut may_leave = options.leave_zone;
        let mut may_ask = options.fallback.is_none() && crate::terminal::is_interactive();
        loop {
            let (outcome, asked) = self.run(goal.clone()).await;
            if asked.is_none() && is_of_plan(&outcome) && self.go_on_in_the_free_tier() {
                continue;
            }
            let Some(lacking) = lacking(&outcome).filter(|_| asked.is_none()) else {
                return (outcome, asked);
            };
            match lacking.zone {
                Some(zone) if may_leave => {
                    may_leave = false;
                    self.report.print(&format!(
                        "there is no capacity in {zone}: {} is saved as a snapshot, and goes on in \
                         any zone",
                        self.request.drive
                    ));
                    let goal = Goal::Saved {
                        even_if_used: false,
                    };
                    let (saved, asked) = self.run(goal).await;
                    if asked.is_some() || !matches!(saved, Outcome::Saved { .. }) {
                        return (saved, asked);
                    }
                }
                _ if may_ask && !lacking.on_demand => {
                    may_ask = false;
                    if !self.ask(QUESTION, false).await {
                        return (outcome, asked);
                    }
                    self.choose(&[Market::OnDemand], false);
                }
                _ => return (outcome, asked),
            }
        }
    }
}

impl Session {
    /// Chooses among the types that the free tier has, where a need may be met by others.
    fn go_on_in_the_free_tier(&mut self) -> bool {
        let options = &self.request.options;
        let Some(terms) = &mut self.terms else {
            return false;
        };
        if terms.is_free || matches!(terms.requirements, Requirements::Types(_)) {
            return false;
        }
        terms.is_free = true;
        // Credits pay for it; but whoever bound the price, or named the market, meant that.
        let market = match options.market {
            Some(market) => market,
            None if stays_on_spot(options) => Market::Spot,
            None => Market::OnDemand,
        };
        self.report.print(&format!(
            "going on among the types that the free tier has, {market}; --free (free = true in the \
             configuration) begins with them"
        ));
        self.choose(&[market], false);
        true
    }
}

/// Whether a run failed because the account's plan has none of the types, and all that it had made
/// is ended in order.
fn is_of_plan(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Failed(RunFailure {
            error: RunError::FreePlan(_),
            also: Some(also),
            ..
        }) if matches!(**also, Outcome::Saved { .. } | Outcome::Unwound { .. })
    )
}

/// What a run failed for, if nothing was to be had and all that it had made is ended in order.
struct Lacking {
    /// The zone that a waiting volume pinned.
    zone: Option<Zone>,
    /// Whether on demand was tried.
    on_demand: bool,
}

fn lacking(outcome: &Outcome) -> Option<Lacking> {
    let Outcome::Failed(RunFailure {
        error,
        also: Some(also),
        ..
    }) = outcome
    else {
        return None;
    };
    if !matches!(**also, Outcome::Saved { .. } | Outcome::Unwound { .. }) {
        return None;
    }
    match error {
        RunError::NoCapacity(lack) => Some(Lacking {
            zone: lack.zone.clone(),
            on_demand: lack.on_demand,
        }),
        RunError::Pools(
            Refused::TooDear { .. }
            | Refused::NotSold {
                market: Market::Spot,
                ..
            },
        ) => Some(Lacking {
            zone: None,
            on_demand: false,
        }),
        _ => None,
    }
}
