//! The cost of a session so far, for `~$`.
//!
//! Prices are read once, in background tasks: nothing waits for them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::drive::tags::{self, Settings, VolumeTags};
use crate::ec2::{Ec2, Instance, Market, Volume};
use crate::ids::{DriveName, InstanceId};
use crate::launch::cost::{Disks, burst_cost_note, dollars};

/// How long prices are waited for, where they are: three calls at once, from half around the world.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The running cost of one instance and its drive.
pub(crate) struct Cost {
    instance_type: String,
    market: Market,
    launched: Timestamp,
    clock: Clock,
    /// The price in US dollars an hour, once EC2 has answered.
    price: Arc<OnceLock<f64>>,
    /// The disks, once EC2 has answered.
    disks: Arc<OnceLock<Disks>>,
    /// The line on a burstable type's surplus credits, once EC2 has answered.
    surplus: Arc<OnceLock<String>>,
    /// The questions.
    asking: JoinSet<()>,
}

impl Cost {
    /// Begins to read the prices of `instance` and of the volume of `drive` on it.
    pub(crate) fn ask(instance: &Instance, drive: &DriveName, ec2: &Ec2, clock: &Clock) -> Self {
        let mut asking = JoinSet::new();
        let price = Arc::new(OnceLock::new());
        let (asked, ec2_too) = (Arc::clone(&price), ec2.clone());
        let (instance_type, zone) = (instance.instance_type.clone(), instance.zone.clone());
        let market = instance.market;
        asking.spawn(async move {
            let price = ec2_too.hourly_price(&instance_type, &zone, market);
            if let Ok(Some(dollars)) = price.await {
                let _known = asked.set(dollars);
            }
        });
        let disks = Arc::new(OnceLock::new());
        let (asked, ec2_too) = (Arc::clone(&disks), ec2.clone());
        let (host, drive) = (instance.id.clone(), drive.clone());
        asking.spawn(async move {
            let (volumes, prices) = tokio::join!(ec2_too.volumes(&drive), ec2_too.storage_prices());
            let volumes = volumes.unwrap_or_default();
            if let Some(volume) = volumes.iter().find(|volume| is_drive_on(&host, volume)) {
                // A speed that cannot be parsed was not bought by xdrive.
                let speed = Settings::read(&volume.tags).speed().unwrap_or_default();
                let size = volume.size;
                let _known = asked.set(Disks {
                    size,
                    speed,
                    prices,
                });
            }
        });
        let surplus = Arc::new(OnceLock::new());
        let (asked, ec2) = (Arc::clone(&surplus), ec2.clone());
        let named = [instance.instance_type.clone()];
        asking.spawn(async move {
            let types = ec2.instance_types(&named).await.unwrap_or_default();
            if let Some(words) = types.first().and_then(burst_cost_note) {
                let _known = asked.set(words);
            }
        });
        Self {
            instance_type: instance.instance_type.clone(),
            market: instance.market,
            launched: instance.launched,
            clock: clock.clone(),
            price,
            disks,
            surplus,
            asking,
        }
    }

    /// Waits until EC2 has answered, or for [`TIMEOUT`].
    pub(crate) async fn known(mut self) -> Self {
        let answers = async { while self.asking.join_next().await.is_some() {} };
        let _late = tokio::time::timeout(TIMEOUT, answers).await;
        self
    }

    /// The cost of `instance` an hour, as the end of a sentence; empty if EC2 does not answer.
    pub(crate) async fn hourly(instance: &Instance, ec2: &Ec2) -> String {
        let price = ec2.hourly_price(&instance.instance_type, &instance.zone, instance.market);
        match price.await {
            Ok(Some(hour)) => format!(", at about ${hour:.4} an hour"),
            Ok(None) | Err(_) => String::new(),
        }
    }

    /// The cost of the instance until now in US dollars, if its price is known; its address, its
    /// disk and the drive come to that.
    pub(crate) fn so_far(&self) -> Option<f64> {
        let hour = self.price.get()?;
        Some(dollars_for(self.seconds(), *hour))
    }

    /// How long the instance has run, in seconds.
    fn seconds(&self) -> u64 {
        let ran = self.clock.now().duration_since(self.launched);
        u64::try_from(ran.as_secs()).unwrap_or(0)
    }

    /// The cost until now, as lines of text.
    pub(crate) fn text(&self) -> String {
        let seconds = self.seconds();
        let market = self.market;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let since = format!(
            "{} {market}, {hours} h {minutes:02} min",
            self.instance_type
        );
        let so_far = match self.price.get() {
            Some(hour) => {
                let beside = self.disks.get();
                let beside = beside.map(|disks| format!(", {}", disks.beside_words()));
                format!(
                    ": ${:.4} so far, ${hour:.4} an hour{}",
                    dollars_for(seconds, *hour),
                    beside.unwrap_or_default()
                )
            }
            None => ": price not known".to_owned(),
        };
        let drive = self.disks.get().map(|disks| {
            let month = dollars(disks.prices.volume(disks.size, disks.speed));
            format!("\nthe drive: about {month} a month while it is a volume")
        });
        let surplus = self.surplus.get().map(|words| format!("\n{words}"));
        [Some(since + &so_far), surplus, drive]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The US dollars for so many seconds of an instance at this price an hour. EC2 bills by the second,
/// 60 at least (EC2 user guide, *Billing for Linux*).
fn dollars_for(seconds: u64, hour: f64) -> f64 {
    let billed = Duration::from_secs(seconds.max(60)).as_secs_f64();
    hour * billed / 3600.0
}

/// Whether `volume` is attached to `host` and is the drive's, not the root disk.
fn is_drive_on(host: &InstanceId, volume: &Volume) -> bool {
    let attachment = volume.attachment.as_ref();
    attachment.is_some_and(|attachment| attachment.instance == *host)
        && matches!(
            tags::read_volume(&volume.tags),
            Ok(VolumeTags::Drive { .. } | VolumeTags::Throwaway { .. })
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_billed_by_the_second_and_for_a_minute_at_least() {
        let is = |seconds, dollars: f64| (dollars_for(seconds, 0.36) - dollars).abs() < 1e-9;
        assert!(is(3600, 0.36) && is(100, 0.01) && is(60, 0.006));
        assert!(is(0, 0.006) && is(59, 0.006));
    }
}
