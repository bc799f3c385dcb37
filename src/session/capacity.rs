//! The choice of what a session launches: its terms, and fallbacks where EC2 has no capacity for
//! them.
//!
//! Prices and types are looked up during the first sweeps of the drive. A session leaves its
//! volume's zone only with `--leave-zone`, and launches on demand only if a flag or an answer
//! allows it.

use super::request::Request;
use super::state::Session;
use crate::cloud::Cloud;
use crate::config::launch::Fallback;
use crate::drive::pools::{self, Like, Refused, Requirements, Reserved, Terms};
use crate::drive::reconcile::{Choosing, RunError, RunFailure};
use crate::drive::{Goal, Outcome, tags};
use crate::ec2::{Market, Ownership, Zone};
use crate::failure::Failure;
use crate::launch::terms::{stays_on_spot, terms};
use crate::opener::DriveFacts;
use crate::signals::End;

/// The question if there is no spot capacity.
const QUESTION: &str = "launch on demand instead? [y/N]";

/// The line before it, where the caller may not read AWS's price list.
const ON_DEMAND: &str = "on demand costs several times what spot does: \
                         https://aws.amazon.com/ec2/pricing/on-demand/ has the prices";

impl Session {
    /// Settles what is launched for the drive.
    pub(super) fn settle_terms(&mut self, drive: &DriveFacts) -> Result<(), Failure> {
        let mut terms = self.request.terms(drive, &self.drive.cloud)?;
        // By the drive's setting alone no command is begun without input.
        let setting = drive.settings.freezing();
        let setting = setting.filter(|_| self.request.has_no_input());
        let launch = &mut self.request.options.launch;
        launch.freezes = launch.freezes.or(setting);
        if launch.may_freeze() {
            terms.like = drive.last().map(|last| {
                let owner = tags::owner(&last.tags);
                let ownership = Ownership::from_tag(owner, &self.drive.identity.caller);
                Like::host(last, ownership == Ownership::Own)
            });
        }
        let options = &self.request.options;
        let markets = terms.markets.clone();
        if let (Some(host), Some(Requirements::Types(types))) =
            (&drive.host, &options.launch.requirements)
            && !types.contains(&host.instance_type)
        {
            self.drive.report.print(&format!(
                "{} is up on {}: {} is for its next launch",
                self.request.drive,
                host.instance_type,
                types.join(", ")
            ));
        }
        // `check_for` has refused one that cannot be parsed.
        let own = drive.settings.speed().unwrap_or_default();
        self.speed.set(options.launch.speed.or(own));
        self.carry(&drive.settings);
        self.terms = Some(terms);
        self.choose(&markets, drive.host.is_some());
        Ok(())
    }

    /// Begins to choose what to launch in these `markets`; if `lazily`, only once a launch is due.
    pub(super) fn choose(&mut self, markets: &[Market], lazily: bool) {
        let Some(terms) = &self.terms else {
            return;
        };
        let terms = Terms {
            markets: markets.to_vec(),
            ..terms.clone()
        };
        let ec2 = self.drive.cloud.ec2.clone();
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

    /// As [`Session::run`] towards a mounted drive; without capacity, from the drive's snapshot in
    /// any zone, and on demand, each only if that is allowed.
    pub(super) async fn run_with_fallbacks(&mut self) -> (Outcome, Option<End>) {
        let may_leave =
            self.request.options.launch.leave_zone && !self.request.options.config.once.discard;
        self.fall_back(self.request.goal(), may_leave).await
    }

    /// The markets in which the session may launch, the preferred one first: on demand only if a flag
    /// or an answer has asked for it.
    pub(super) fn markets(&self) -> Vec<Market> {
        let terms = self.terms.as_ref();
        terms.map_or_else(Vec::new, |terms| terms.markets.clone())
    }

    /// As [`Session::run_with_fallbacks`], for a session that resumes: in the preferred market in the
    /// zone of the drive's volume, then in any zone, and on demand after that.
    pub(super) async fn resume_with_fallbacks(&mut self) -> (Outcome, Option<End>) {
        let goal = Goal::Ready { from: None };
        let markets = self.markets();
        self.choose(markets.get(..1).unwrap_or_default(), false);
        let (outcome, asked) = self.run(goal.clone()).await;
        let Some(lack) = lack(&outcome).filter(|_| asked.is_none()) else {
            return (outcome, asked);
        };
        // The end of that run has saved the drive.
        if let Some(zone) = lack.zone {
            self.drive.report.print(&format!(
                "there is no capacity in {zone}: {} goes on from its snapshot, in any zone",
                self.request.drive
            ));
        }
        self.choose(&markets, false);
        self.fall_back(goal, false).await
    }

    async fn fall_back(&mut self, goal: Goal, mut may_leave: bool) -> (Outcome, Option<End>) {
        let options = &self.request.options;
        let may_answer = self.request.yes || crate::terminal::is_interactive();
        let mut may_ask = options.launch.fallback.is_none() && may_answer;
        loop {
            let (outcome, asked) = self.run(goal.clone()).await;
            if asked.is_none() && is_free_plan_refusal(&outcome) && self.choose_free_tier() {
                continue;
            }
            let Some(lack) = lack(&outcome).filter(|_| asked.is_none()) else {
                return (outcome, asked);
            };
            match lack.zone {
                Some(zone) if may_leave => {
                    may_leave = false;
                    self.drive.report.print(&format!(
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
                _ if lack.is_reserved => {
                    let is_told = self.request.options.launch.fallback == Some(Fallback::OnDemand);
                    if !is_told && !may_ask {
                        return (outcome, asked);
                    }
                    let id = self.leave_reservation().await;
                    self.drive
                        .report
                        .print(&format!("there is no room in the capacity reservation{id}"));
                    if !is_told {
                        may_ask = false;
                        let words = self.words_on_demand().await;
                        self.drive.report.print(&words);
                        if !self.drive.ask(QUESTION, false).await {
                            return (outcome, asked);
                        }
                    }
                    self.choose(&[Market::OnDemand], false);
                }
                _ if may_ask && !lack.on_demand => {
                    may_ask = false;
                    let words = self.words_on_demand().await;
                    self.drive.report.print(&words);
                    if !self.drive.ask(QUESTION, false).await {
                        return (outcome, asked);
                    }
                    // That holds for the whole session.
                    if let Some(terms) = &mut self.terms {
                        terms.markets.push(Market::OnDemand);
                    }
                    self.choose(&[Market::OnDemand], false);
                }
                _ => return (outcome, asked),
            }
        }
    }
}

impl Session {
    /// Has the session launch outside of its capacity reservation from now on: the same type, where no other
    /// was asked for. Returns the reservation's id, after a space.
    async fn leave_reservation(&mut self) -> String {
        let Some(terms) = &mut self.terms else {
            return String::new();
        };
        let Some(Reserved { id, asked }) = terms.reserved.take() else {
            return String::new();
        };
        let found = self.drive.cloud.ec2.capacity_reservation(&id).await;
        if let (None, Ok(Some(found))) = (asked, found) {
            terms.requirements = Requirements::Types(vec![found.instance_type]);
        }
        format!(" {id}")
    }

    /// The price of the first offer on demand, in words.
    async fn words_on_demand(&self) -> String {
        let terms = self.terms.as_ref().map(|terms| Terms {
            markets: vec![Market::OnDemand],
            ..terms.clone()
        });
        let chosen = match &terms {
            Some(terms) => pools::look(&self.drive.cloud.ec2, terms).await.ok(),
            None => None,
        };
        let first = chosen.as_ref().and_then(|chosen| chosen.offers.first());
        match first.and_then(|offer| Some((&offer.kind.name, offer.price?))) {
            Some((kind, price)) => format!("{kind} costs {price} an hour on demand"),
            None => ON_DEMAND.to_owned(),
        }
    }

    /// Chooses among the free tier's types instead; false if the user named types, or chose the
    /// free tier.
    fn choose_free_tier(&mut self) -> bool {
        let options = &self.request.options;
        let Some(terms) = &mut self.terms else {
            return false;
        };
        if terms.is_free || matches!(terms.requirements, Requirements::Types(_)) {
            return false;
        }
        terms.is_free = true;
        // On demand, since credits pay for it; unless the options bind the price or name a market.
        let market = match options.launch.market {
            Some(market) => market,
            None if stays_on_spot(&options.launch) => Market::Spot,
            None => Market::OnDemand,
        };
        terms.markets = vec![market];
        self.drive.report.print(&format!(
            "going on among the types that the free tier has, {market}; --free (free = true in the \
             configuration) begins with them"
        ));
        self.choose(&[market], false);
        true
    }
}

impl Request {
    /// The terms of a launch for the drive.
    pub(super) fn terms(&self, drive: &DriveFacts, cloud: &Cloud) -> Result<Terms, Failure> {
        let is_new = self.begins_anew(drive);
        terms(&self.options, &self.drive, &drive.settings, is_new, cloud)
    }
}

/// Whether a run failed because AWS's Free plan has none of the types, and ended in order.
fn is_free_plan_refusal(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Failed(RunFailure {
            error: RunError::FreePlan(_),
            also: Some(also),
            ..
        }) if matches!(**also, Outcome::Saved { .. } | Outcome::Unwound { .. })
    )
}

/// The lack of capacity that a run failed for.
struct Lack {
    /// The zone that an existing volume pinned the launch to.
    zone: Option<Zone>,
    /// Whether on demand was tried.
    on_demand: bool,
    /// Whether it was a capacity reservation that had none.
    is_reserved: bool,
}

/// The lack of capacity that a run failed for, if it was that, and ended in order.
fn lack(outcome: &Outcome) -> Option<Lack> {
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
        RunError::NoCapacity(refused) => Some(Lack {
            zone: refused.zone.clone(),
            on_demand: refused.on_demand,
            is_reserved: refused.is_reserved,
        }),
        RunError::Pools(Refused::Reservation { why, .. }) if why.is_lack() => Some(Lack {
            zone: None,
            on_demand: true,
            is_reserved: true,
        }),
        RunError::Pools(
            Refused::TooDear { .. }
            | Refused::NotSold {
                market: Market::Spot,
                ..
            },
        ) => Some(Lack {
            zone: None,
            on_demand: false,
            is_reserved: false,
        }),
        _ => None,
    }
}
