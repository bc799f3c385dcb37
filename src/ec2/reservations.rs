//! Capacity reservations: capacity of one type in one zone that the account pays for, used or not.
//!
//! Sources: EC2 API reference, `DescribeCapacityReservations`, `CapacityReservation`; EC2 user guide,
//! *Reserve compute capacity with EC2 On-Demand Capacity Reservations*. The right,
//! `ec2:DescribeCapacityReservations`, is needed by whoever launches into one.

use aws_sdk_ec2::types::{
    CapacityReservation as Answer, CapacityReservationInstancePlatform as Platform,
    CapacityReservationState as State, CapacityReservationTenancy as Tenancy,
    CapacityReservationType as Kind,
};

use super::describe::unless_not_found;
use super::{Ec2, Error, Zone};
use crate::ids::ReservationId;

const CALL: &str = "DescribeCapacityReservations";

/// The state of a reservation whose capacity can be used.
const ACTIVE: &str = "active";

/// A capacity reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityReservation {
    /// The type of its instances.
    pub instance_type: String,
    /// The zone of its instances.
    pub zone: Zone,
    /// The platform of its instances, such as `Linux/UNIX`.
    pub platform: String,
    /// The tenancy of its instances: `default`, or `dedicated`.
    pub tenancy: String,
    /// How many instances more it has room for.
    pub available: u32,
    /// How many it has room for in all.
    pub total: u32,
    /// EC2's word for its state where that is not `active`.
    pub inactive: Option<String>,
    /// Whether it is another kind than an On-Demand Capacity Reservation, or may be taken back.
    pub is_special: bool,
}

impl Ec2 {
    /// Reads a capacity reservation by id; `None` if EC2 does not know it in this region.
    pub async fn capacity_reservation(
        &self,
        id: &ReservationId,
    ) -> Result<Option<CapacityReservation>, Error> {
        let answer = unless_not_found(
            self.patient
                .describe_capacity_reservations()
                .capacity_reservation_ids(id.as_str())
                .send()
                .await
                .map_err(|error| Error::from_sdk(CALL, &error)),
        )?;
        let found = answer
            .as_ref()
            .and_then(|answer| answer.capacity_reservations().first());
        found
            .map(|found| read(found).map_err(|doubt| Error::unreadable(CALL, doubt)))
            .transpose()
    }
}

fn read(answer: &Answer) -> Result<CapacityReservation, String> {
    let text = |what: &str, given: Option<&str>| {
        let given = given.filter(|given| !given.is_empty());
        given
            .map(str::to_owned)
            .ok_or_else(|| format!("a reservation has no {what}"))
    };
    let count = |given: Option<i32>| given.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
    let state = answer.state().map(State::as_str);
    let state = text("state", state)?;
    let kind = answer.reservation_type();
    Ok(CapacityReservation {
        instance_type: text("type", answer.instance_type())?,
        zone: Zone(text("zone", answer.availability_zone())?),
        platform: text("platform", answer.instance_platform().map(Platform::as_str))?,
        tenancy: text("tenancy", answer.tenancy().map(Tenancy::as_str))?,
        available: count(answer.available_instance_count()),
        total: count(answer.total_instance_count()),
        inactive: Some(state).filter(|state| state != ACTIVE),
        is_special: kind.is_some_and(|kind| *kind != Kind::Default)
            || answer.interruptible() == Some(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_on_demand_capacity_reservation_is_a_usual_one() {
        let plain = || {
            Answer::builder()
                .instance_type("m5.large")
                .availability_zone("us-east-1a")
                .instance_platform("Linux/UNIX".into())
                .tenancy("default".into())
                .state("active".into())
        };
        let found = read(&plain().available_instance_count(2).build()).unwrap();
        assert_eq!((found.available, found.total, found.inactive), (2, 0, None));
        assert!(!found.is_special);
        for special in [
            plain().reservation_type(Kind::CapacityBlock),
            plain().interruptible(true),
        ] {
            assert!(read(&special.build()).unwrap().is_special);
        }
        let forged = plain()
            .available_instance_count(-1)
            .state("\u{1b}[2J".into());
        let found = read(&forged.build()).unwrap();
        assert_eq!(
            (found.available, found.inactive),
            (0, Some("\u{1b}[2J".to_owned()))
        );
        assert!(read(&Answer::builder().build()).is_err());
    }
}
