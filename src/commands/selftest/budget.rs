//! The budget: nothing is begun whose worst case costs more than is left.
//!
//! The worst case of an instance is its bid, which EC2 never exceeds, for as long as it could live
//! if this computer vanished: half an hour until its first login, then the lease, and a margin
//! (`shell/host/boot`, `watch`).

use std::time::Duration;

use crate::ec2::Price;

/// How long an instance may live at most.
const LONGEST: Duration = Duration::from_mins(55);

/// The cost of an instance besides its price, in US dollars: an address and two disks for an hour,
/// and a snapshot until it is deleted.
const BESIDE: f64 = 0.012;

/// A budget, in US dollars.
#[derive(Debug)]
pub(super) struct Budget {
    total: f64,
    spent: f64,
}

impl Budget {
    pub(super) fn new(total: Price) -> Self {
        Self {
            total: total.dollars(),
            spent: 0.0,
        }
    }

    /// The estimate of what has been spent.
    pub(super) fn spent(&self) -> f64 {
        self.spent
    }

    /// The worst case of so many hosts, one after the other, with the bid `an_hour`.
    pub(super) fn worst(an_hour: f64, hosts: u32) -> f64 {
        (an_hour * LONGEST.as_secs_f64() / 3600.0 + BESIDE) * f64::from(hosts)
    }

    /// Why the budget does not allow so many such hosts, if so.
    pub(super) fn refuses(&self, an_hour: f64, hosts: u32) -> Option<String> {
        let (worst, left) = (Self::worst(an_hour, hosts), self.total - self.spent);
        (worst > left).then(|| {
            format!("it may cost ${worst:.3}, and ${left:.3} are left of the budget: --budget")
        })
    }

    /// Adds the estimated cost of so many hosts that lived for so long together at `an_hour`, and returns it.
    /// EC2 bills by the second, each a minute at least.
    pub(super) fn spend(&mut self, an_hour: f64, hosts: u32, lived: Duration) -> f64 {
        let seconds = lived.max(Duration::from_mins(1) * hosts).as_secs_f64();
        let share = (seconds / LONGEST.as_secs_f64()).min(f64::from(hosts));
        let cost = an_hour * seconds / 3600.0 + BESIDE * share;
        self.spent += cost;
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_begun_that_could_cost_more_than_is_left() {
        let mut budget = Budget::new("0.10".parse().unwrap());
        assert_eq!(budget.refuses(0.05, 1), None);
        assert!(budget.refuses(0.05, 2).is_some());
        assert!(budget.refuses(0.2, 1).unwrap().contains("$0.100 are left"));
        let cost = budget.spend(0.05, 1, Duration::from_mins(55));
        assert!(cost <= Budget::worst(0.05, 1), "{cost}");
        assert!(budget.refuses(0.05, 1).is_some());
        assert!(budget.refuses(0.01, 1).is_none());
    }
}
