//! The one pool of a launch into a capacity reservation, whose type and zone are the reservation's.
//!
//! All that EC2 says of the reservation is checked before anything is launched: what does not fit has an
//! error of its own. Between this look and the launch others may take its last place: that is a lack of
//! capacity.

use super::choose::image;
use super::{Chosen, Offer, Pool, Refused, Requirements, Reserved, Score, Terms, Unreserved};
use crate::ec2::{CapacityReservation, Ec2, Market, Zone};

/// The platform of xdrive's images, as EC2 writes it.
const PLATFORM: &str = "Linux/UNIX";

/// The tenancy of instances that xdrive launches.
const TENANCY: &str = "default";

/// Asks EC2 for the reservation and its type.
pub(super) async fn look(ec2: &Ec2, terms: &Terms, reserved: &Reserved) -> Result<Chosen, Refused> {
    let refused = |why| Refused::Reservation {
        id: reserved.id.clone(),
        why,
    };
    let found = ec2.capacity_reservation(&reserved.id).await?;
    let found = found.ok_or_else(|| refused(Unreserved::Missing))?;
    check(&found).map_err(refused)?;
    let name = &found.instance_type;
    let types = ec2.instance_types(std::slice::from_ref(name)).await?;
    let kind = types.into_iter().find(|kind| kind.name == *name);
    let kind = kind.ok_or_else(|| Refused::Unfit(name.clone()))?;
    let meets = match &reserved.asked {
        None => true,
        Some(Requirements::Types(names)) => names.contains(name),
        Some(Requirements::AtLeast(resources)) => resources.is_had_by(&kind),
    };
    if let (false, Some(asked)) = (meets, reserved.asked.clone()) {
        let own = name.clone();
        return Err(refused(Unreserved::Type { own, asked }));
    }
    if kind.is_neuron {
        return Err(Refused::Neuron(name.clone()));
    }
    if let Some(only) = terms.arch.filter(|only| *only != kind.arch) {
        return Err(Refused::OtherArch {
            types: vec![name.clone()],
            arch: kind.arch,
            only,
            by: terms.arch_by,
        });
    }
    // A caller that may not read prices can still launch.
    let price = ec2.on_demand_price(name).await.unwrap_or_default();
    let pool = Pool {
        instance_type: name.clone(),
        zone: Some(found.zone),
        market: Market::OnDemand,
        image: image(terms, &kind),
        max_price: None,
        reservation: Some(reserved.id.clone()),
    };
    if terms.needs_price && price.is_none() {
        return Err(Refused::NotPriced(Box::new(pool)));
    }
    let offer = Offer {
        pool,
        kind,
        price,
        score: Score::default(),
    };
    Ok(Chosen {
        offers: vec![offer],
        left_out: Vec::new(),
    })
}

/// The place of the reservation that these offers are in, in words, if that is not `zone`.
#[must_use]
pub fn reserved_elsewhere(offers: &[Offer], zone: &Zone) -> Option<String> {
    let pool = &offers.first()?.pool;
    let (id, there) = (pool.reservation.as_ref()?, pool.zone.as_ref()?);
    (there != zone).then(|| format!("the capacity reservation {id} is in {there}"))
}

/// Refuses a reservation in which nothing of xdrive's can be launched now.
fn check(found: &CapacityReservation) -> Result<(), Unreserved> {
    if found.is_special {
        let what = "a Capacity Block or one that may be taken back".to_owned();
        return Err(Unreserved::Kind(what));
    }
    if found.platform != PLATFORM || found.tenancy != TENANCY {
        let (platform, tenancy) = (&found.platform, &found.tenancy);
        let what = format!("for {platform} of {tenancy} tenancy");
        return Err(Unreserved::Kind(what));
    }
    if let Some(state) = &found.inactive {
        return Err(Unreserved::State(state.clone()));
    }
    if found.available == 0 {
        return Err(Unreserved::Full(found.total));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_that_is_of_no_use_says_why() {
        let good = CapacityReservation {
            instance_type: "m5.large".to_owned(),
            zone: Zone("a".to_owned()),
            platform: PLATFORM.to_owned(),
            tenancy: TENANCY.to_owned(),
            available: 1,
            total: 2,
            inactive: None,
            is_special: false,
        };
        assert_eq!(check(&good), Ok(()));
        let refused = |of: &dyn Fn(&mut CapacityReservation)| {
            let mut other = good.clone();
            of(&mut other);
            let why = check(&other).unwrap_err();
            (why.is_lack(), why.to_string())
        };
        let words = |is_lack, words: &str| (is_lack, words.to_owned());
        assert_eq!(
            refused(&|it| it.available = 0),
            words(true, "instances run in all of its 2 places")
        );
        assert_eq!(
            refused(&|it| it.inactive = Some("expired".to_owned())),
            words(true, "it is expired, and not active")
        );
        let (is_lack, why) = refused(&|it| it.platform = "Windows".to_owned());
        assert!(
            !is_lack && why.contains("for Windows of default tenancy"),
            "{why}"
        );
        let (is_lack, why) = refused(&|it| it.tenancy = "dedicated".to_owned());
        assert!(!is_lack && why.contains("of dedicated tenancy"), "{why}");
        let (is_lack, why) = refused(&|it| it.is_special = true);
        assert!(!is_lack && why.contains("a Capacity Block"), "{why}");
    }
}
