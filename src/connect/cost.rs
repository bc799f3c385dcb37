//! What a session costs so far, for whoever asks with `~$`.
//!
//! The price is asked for once, beside everything else: nobody waits for it.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;

use super::words::{beside_words, dollars, surplus_words};
use crate::clock::Clock;
use crate::drive::stuck::volume_cents;
use crate::ec2::{Ec2, GibiBytes, Instance, Market};

/// The running cost of one instance and its drive.
pub(super) struct Cost {
    instance_type: String,
    market: Market,
    launched: Timestamp,
    volume: GibiBytes,
    clock: Clock,
    /// US dollars an hour, once they are known.
    price: Arc<OnceLock<f64>>,
    /// What its type costs besides, once that is known.
    surplus: Arc<OnceLock<String>>,
}

impl Cost {
    /// Begins to ask for the price of `instance`; the drive has `volume` GiB.
    pub(super) fn of(instance: &Instance, volume: GibiBytes, ec2: &Ec2, clock: &Clock) -> Self {
        let price = Arc::new(OnceLock::new());
        if instance.market == Market::Spot {
            let (asked, ec2) = (Arc::clone(&price), ec2.clone());
            let (instance_type, zone) = (instance.instance_type.clone(), instance.zone.clone());
            tokio::spawn(async move {
                if let Ok(Some(dollars)) = ec2.spot_price(&instance_type, &zone).await {
                    let _known = asked.set(dollars);
                }
            });
        }
        let surplus = Arc::new(OnceLock::new());
        let (asked, ec2) = (Arc::clone(&surplus), ec2.clone());
        let named = [instance.instance_type.clone()];
        tokio::spawn(async move {
            let types = ec2.instance_types(&named).await.unwrap_or_default();
            if let Some(words) = types.first().and_then(surplus_words) {
                let _known = asked.set(words);
            }
        });
        Self {
            surplus,
            instance_type: instance.instance_type.clone(),
            market: instance.market,
            launched: instance.launched,
            volume,
            clock: clock.clone(),
            price,
        }
    }

    /// What `instance` costs an hour, as the end of a sentence; nothing where that is not known.
    pub(super) async fn hourly(instance: &Instance, ec2: &Ec2) -> String {
        if instance.market != Market::Spot {
            return String::new();
        }
        let price = ec2.spot_price(&instance.instance_type, &instance.zone);
        match price.await {
            Ok(Some(hour)) => format!(", at about ${hour:.4} an hour"),
            Ok(None) | Err(_) => String::new(),
        }
    }

    /// Some lines of text, as of now.
    pub(super) fn text(&self) -> String {
        let ran = self.clock.now().duration_since(self.launched);
        let seconds = u64::try_from(ran.as_secs()).unwrap_or(0);
        let market = match self.market {
            Market::Spot => "spot",
            Market::OnDemand => "on demand",
        };
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let since = format!(
            "{} {market}, {hours} h {minutes:02} min",
            self.instance_type
        );
        let so_far = match self.price.get() {
            Some(hour) => {
                // EC2 bills by the second, 60 at least (EC2 user guide, *Billing for Linux*).
                let billed = std::time::Duration::from_secs(seconds.max(60)).as_secs_f64();
                format!(
                    ": ${:.4} so far, ${hour:.4} an hour, {}",
                    hour * billed / 3600.0,
                    beside_words(self.volume)
                )
            }
            None => ": price not known".to_owned(),
        };
        let drive = dollars(volume_cents(self.volume));
        let surplus = self.surplus.get().map(|words| format!("\n{words}"));
        let so_far = so_far + &surplus.unwrap_or_default();
        format!("{since}{so_far}\nthe drive: about {drive} a month while it is a volume")
    }
}
