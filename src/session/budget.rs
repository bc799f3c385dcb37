//! A session's budget, which its hosts keep (`shell/host/budget.py`): dollars become seconds here, by a price that
//! is known or bounded.

use std::time::Duration;

use anyhow::anyhow;

use super::container::ContainerSession;
use super::request::Request;
use super::state::Session;
use crate::attached::in_words;
use crate::cloud::Cloud;
use crate::ec2::{Instance, InstanceType, Market};
use crate::failure::{Exit, Failure};
use crate::host::runs::Limit;
use crate::host::scripts::BudgetOrder;
use crate::launch::cost::{Disks, dollars, most_an_hour};
use crate::launch::offers::Offers;
use crate::opener::{DriveFacts, Ending};

/// The exit code of a run whose time or budget is over, as that of timeout(1).
pub const OVERDUE: u8 = 124;

/// The time between the last signal of a run and the end of its host's budget: for its record.
const SPARE: Duration = Duration::from_secs(15);

impl Session {
    /// Has the host keep the session's budget, if it has one. An ending if that is spent, or no price is known.
    pub(super) async fn keep_budget(
        &mut self,
        instance: &Instance,
        inside: &ContainerSession,
    ) -> Result<(), Ending> {
        let Some(budget) = self.request.options.launch.budget else {
            return Ok(());
        };
        let rate = self.rate(instance).await.map_err(Ending::Failed)?;
        let is_new = self.reconciler.has_launched(&instance.id);
        let age = self
            .drive
            .cloud
            .clock
            .now()
            .duration_since(instance.launched);
        let age = Duration::try_from(age).ok().filter(|_| is_new);
        // One for all hosts: the tries of a run may be of several sessions.
        let run = self.command.as_ref().filter(|_| self.request.is_tried());
        let session = &self.reconciler.session().0;
        let order = BudgetOrder {
            id: run.map_or(session, |id| id.as_str()),
            cents: budget.cents(),
            rate,
            age: age.unwrap_or_default(),
        };
        let kept = inside.host.keep_budget(&order).await;
        let kept = kept.map_err(|error| Ending::Failed(anyhow::Error::new(error).into()))?;
        let left = kept.left;
        let budget = match kept.bound {
            None => dollars(budget),
            Some(first) => format!("${first:.2} that was set here before"),
        };
        if left.is_zero() {
            let spent = format!("the budget of {budget} is spent");
            if self.request.limit(self.drive.cloud.clock.now()).is_none() {
                return Err(Ending::Closed(spent));
            }
            self.drive.report.print(&spent);
            return Err(Ending::Exit(OVERDUE));
        }
        self.drive.report.note(&format!(
            "the budget of {budget} lasts {} from now on, at ${rate:.4} an hour",
            in_words(left)
        ));
        self.budget_left = Some(left);
        Ok(())
    }

    /// How many US dollars this instance takes an hour, at most.
    async fn rate(&self, instance: &Instance) -> Result<f64, Failure> {
        let (ec2, bid) = (&self.drive.cloud.ec2, self.request.options.launch.max_price);
        let (kind, zone, market) = (&instance.instance_type, &instance.zone, instance.market);
        let price = if market == Market::Spot && bid.is_some() {
            None
        } else {
            ec2.hourly_price(kind, zone, market).await?
        };
        let hour = most_an_hour(market, price, bid).ok_or_else(|| {
            let error = anyhow!("the price of {kind} is not known, and so no budget can be kept");
            Failure::new(Exit::Usage, error)
        })?;
        let volume = self.drive.mounted_volume(instance).await?;
        let disks = Disks {
            size: volume.map_or(self.drive.cloud.size, |volume| volume.size),
            speed: self.speed.get(),
            prices: ec2.storage_prices().await,
        };
        let types = ec2.instance_types(std::slice::from_ref(kind)).await?;
        let surplus: f64 = types.iter().map(InstanceType::most_surplus).sum();
        Ok(hour + surplus + disks.hourly_cost_beside_price())
    }

    /// The limit of a run that may take `limit`, or as long as its budget lasts.
    pub(super) fn limit_of_run(&mut self, limit: Duration) -> Limit {
        let notice = self.request.notice();
        let time = self.time_left(limit);
        let budget = self
            .budget_left
            .map(|left| left.saturating_sub(notice + SPARE));
        match budget.filter(|budget| *budget < time) {
            Some(budget) => Limit {
                time: budget,
                notice,
                by: "--budget",
            },
            None => Limit {
                time,
                notice,
                by: "--max",
            },
        }
    }
}

impl Request {
    /// The disks of an instance that would be launched for the drive, as it was found.
    pub(crate) async fn foresee_disks(&self, found: &DriveFacts, cloud: &Cloud) -> Disks {
        let launch = &self.options.launch;
        // `check_for` has refused one that cannot be parsed.
        let own = found.settings.speed().unwrap_or_default();
        Disks {
            size: launch.size.max(found.largest).unwrap_or(cloud.size),
            speed: launch.speed.or(own),
            prices: cloud.ec2.storage_prices().await,
        }
    }

    /// A line that says how long the budget lasts on the first of these offers, if there is one.
    pub(super) fn foresee_budget(&self, offers: &mut Offers) -> String {
        let launch = &self.options.launch;
        let lasts = launch.budget.and_then(|budget| {
            let lasts = offers.keep_budget(budget, launch.max_price)?;
            let (budget, lasts) = (dollars(budget), in_words(lasts));
            Some(format!(
                "the budget of {budget} lasts {lasts} on the first of these\n"
            ))
        });
        lasts.unwrap_or_default()
    }
}
