//! The cost of the instances and disks that a run has ended: lines at its end.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::asleep::leaves_aws;
use super::drive::Drive;
use super::snapshot_cost::{cost_a_month, is_reported};
use crate::asleep::Reading;
use crate::drive::kept::Kept;
use crate::drive::tags::Settings;
use crate::drive::{Ended, EndedInstance, Hosts, Reconciler};
use crate::ec2::{Ec2, Market, StoragePrices};
use crate::launch::bill::Span;
use crate::report::Text;

/// How long the end of a session waits for prices.
const PATIENCE: Duration = Duration::from_secs(5);

/// EC2 bills nothing for a spot instance that it takes in its first hour (EC2 user guide, *Billing for interrupted
/// Spot Instances*).
const FIRST_HOUR: Duration = Duration::from_hours(1);

/// The price of what leaves AWS for the internet, beyond the first 100 GB a month of an account, in US dollars a byte
/// (EC2 On-Demand pricing, *Data transfer*, us-east-1).
const OUT: f64 = 0.09 / 1e9;

/// The least that is shown of it, in US dollars.
const SHOWN_OUT: f64 = 0.001;

/// The cost of what is over.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Receipt {
    /// US dollars in all, about; null where an instance's price is not known.
    dollars: Option<f64>,
    /// Instances, by type and market.
    instances: Vec<Ran>,
    /// US dollars for public addresses.
    address_dollars: f64,
    /// US dollars for disks: the instances' own, and the drive's.
    disks_dollars: f64,
    /// US dollars for what came to this computer over SSH, at most, and not in the sum: the account's first 100 GB a
    /// month are free.
    transfer_dollars: f64,
    /// US dollars for calls that read snapshots.
    reads_dollars: f64,
    #[serde(skip)]
    kept: Kept,
    #[serde(skip)]
    prices: StoragePrices,
    /// Whether it may be less: an instance has switched itself off, and EC2 does not say when.
    #[serde(skip)]
    is_most: bool,
}

/// Instances of one type in one market.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Ran {
    /// Instance type.
    instance_type: String,
    /// How it was paid for.
    #[cfg_attr(test, schemars(extend("enum" = ["spot", "on-demand"])))]
    market: &'static str,
    /// Seconds that are billed.
    seconds: u64,
    /// US dollars; null where the price is not known.
    dollars: Option<f64>,
}

impl Drive {
    /// The cost of what is over; none where no instance is.
    pub(crate) async fn receipt<H: Hosts>(&self, reconciler: &Reconciler<H>) -> Option<Receipt> {
        let (mut ended, kept) = (reconciler.endings(), reconciler.kept_snapshots());
        if ended.instances.is_empty() {
            return None;
        }
        let mut asking = JoinSet::new();
        for (number, it) in ended.instances.iter().cloned().enumerate() {
            let ec2 = self.cloud.ec2.clone();
            asking.spawn(async move {
                let it = find_end(it, &ec2).await;
                let cost = cost_of(&it, &ec2).await;
                (number, it, cost)
            });
        }
        let mut dollars = vec![None; ended.instances.len()];
        let answers = async {
            while let Some(Ok((number, it, cost))) = asking.join_next().await {
                dollars[number] = cost;
                ended.know(number, it);
            }
        };
        let _late = timeout(PATIENCE, answers).await;
        let prices = self.cloud.ec2.storage_prices().await;
        let mut receipt = Receipt::new(&ended, &dollars, kept, prices);
        receipt.add_reads(self.read.get());
        if leaves_aws() {
            let here = reconciler.received() + self.read.get().bytes();
            receipt.transfer_dollars = transfer(here);
        }
        Some(receipt)
    }

    /// Prints the cost of what is over, and returns it.
    pub(crate) async fn report_cost<H: Hosts>(
        &self,
        reconciler: &Reconciler<H>,
    ) -> Option<Receipt> {
        let cost = self.receipt(reconciler).await?;
        self.report.note(&Text::block(&cost.words()));
        Some(cost)
    }
}

/// The instance with the end that its spot request tells, where it has not told one itself: EC2 took it, and this run
/// may have looked hours later.
async fn find_end(ended: EndedInstance, ec2: &Ec2) -> EndedInstance {
    let EndedInstance { instance, at, .. } = &ended;
    if ended.is_known || instance.market != Market::Spot {
        return ended;
    }
    let status = ec2.spot_status(&instance.id).await.unwrap_or_default();
    match status.and_then(|status| status.interruption()) {
        Some(end) => EndedInstance {
            at: end.min(*at),
            is_known: true,
            ..ended
        },
        None => ended,
    }
}

/// The cost of this instance in US dollars, beside its address; none where its price is not known.
async fn cost_of(ended: &EndedInstance, ec2: &Ec2) -> Option<f64> {
    let EndedInstance {
        instance,
        at,
        by_this_run,
        ..
    } = ended;
    let span = Span::new(instance.launched, *at);
    let kind = &instance.instance_type;
    match instance.market {
        Market::OnDemand => Some(span.at(ec2.on_demand_price(kind).await.ok()??)),
        Market::Spot => {
            let is_young = span.duration().unsigned_abs() < FIRST_HOUR;
            if !by_this_run && is_young && ec2.was_taken_back(&instance.id).await.ok()? {
                return Some(0.0);
            }
            let names = [kind.clone()];
            let changes = ec2
                .spot_price_history(&names, instance.launched)
                .await
                .ok()?;
            let there = changes.iter().filter(|it| it.to.zone == instance.zone);
            let there: Vec<_> = there.map(|it| (it.since, it.to.price)).collect();
            span.at_each(&there)
        }
    }
}

impl Receipt {
    /// For what is over, with what each instance cost.
    fn new(ended: &Ended, dollars: &[Option<f64>], kept: Kept, prices: StoragePrices) -> Self {
        let mut instances: Vec<Ran> = Vec::new();
        let mut address_dollars = 0.0;
        for (EndedInstance { instance, at, .. }, dollars) in ended.instances.iter().zip(dollars) {
            let span = Span::new(instance.launched, *at);
            let seconds = span.duration().unsigned_abs().as_secs();
            let (kind, market) = (&instance.instance_type, instance.market.as_str());
            let same = |it: &&mut Ran| it.instance_type == *kind && it.market == market;
            match instances.iter_mut().find(same) {
                Some(known) => {
                    known.seconds += seconds;
                    known.dollars = known.dollars.zip(*dollars).map(|(sum, more)| sum + more);
                }
                None => instances.push(Ran {
                    instance_type: kind.clone(),
                    market,
                    seconds,
                    dollars: *dollars,
                }),
            }
            if instance.has_public {
                address_dollars += span.of_address();
            }
        }
        let disks = ended.volumes.iter().map(|(volume, at)| {
            // A speed that cannot be parsed was not bought by xdrive.
            let speed = Settings::read(&volume.tags).speed().unwrap_or_default();
            Span::new(volume.created, *at).of_disk(prices.volume(volume.size, speed))
        });
        let disks_dollars = disks.sum();
        let of_instances: Option<f64> = instances.iter().map(|it| it.dollars).sum();
        Self {
            dollars: of_instances.map(|sum| sum + address_dollars + disks_dollars),
            instances,
            address_dollars,
            disks_dollars,
            transfer_dollars: 0.0,
            reads_dollars: 0.0,
            kept,
            prices,
            is_most: ended.instances.iter().any(|it| !it.is_known),
        }
    }

    fn add_reads(&mut self, read: Reading) {
        self.reads_dollars = read.dollars();
        self.dollars = self.dollars.map(|sum| sum + self.reads_dollars);
    }

    /// All of it in words, such as `about $0.5312`.
    pub(crate) fn sum(&self) -> String {
        let known = self.instances.iter().filter_map(|it| it.dollars);
        let known = known.sum::<f64>() + self.address_dollars + self.disks_dollars;
        let known = known + self.reads_dollars;
        match (self.dollars, self.is_most) {
            (Some(all), false) => format!("about {}", in_dollars(all)),
            (Some(all), true) => format!("at most {}", in_dollars(all)),
            (None, _) => format!("{} and what is not known", in_dollars(known)),
        }
    }

    /// The receipt in lines, with what is kept.
    pub(crate) fn words(&self) -> String {
        let mut words = format!("cost: {}", self.sum());
        let (kept, prices) = (self.kept, self.prices);
        if let Some(cost) = cost_a_month(kept, prices).filter(|_| !is_reported(kept, prices)) {
            let _ = write!(words, "; kept: {cost} a month");
        }
        for ran in &self.instances {
            let (hours, minutes) = (ran.seconds / 3600, ran.seconds / 60 % 60);
            let time = match hours {
                0 => format!("{minutes} min"),
                hours => format!("{hours} h {minutes} min"),
            };
            let dollars = ran.dollars.map(in_dollars);
            let dollars = dollars.unwrap_or_else(|| "price not known".to_owned());
            let _ = write!(
                words,
                "\n  {} {} {time} {dollars}",
                ran.instance_type, ran.market
            );
        }
        let (address, disks) = (self.address_dollars, self.disks_dollars);
        let (address, disks) = (in_dollars(address), in_dollars(disks));
        let _ = write!(words, ", address {address}, disks {disks}");
        if self.reads_dollars > 0.0 {
            let _ = write!(words, ", reads {}", in_dollars(self.reads_dollars));
        }
        if self.transfer_dollars >= SHOWN_OUT {
            let most = in_dollars(self.transfer_dollars);
            let _ = write!(words, "\n  transfer out at most {most} more");
        }
        words
    }
}

/// The price of so many bytes that leave AWS, in US dollars, at most.
#[expect(clippy::cast_precision_loss, reason = "fractions of a cent")]
fn transfer(bytes: u64) -> f64 {
    bytes as f64 * OUT
}

fn in_dollars(dollars: f64) -> String {
    format!("${dollars:.4}")
}
