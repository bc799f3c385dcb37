//! The failures of a launch, with their hints.

use crate::drive::pools::{ArchBy, Refused, Unreserved};
use crate::drive::quotas::Reached;
use crate::drive::reconcile::{FreePlan, NoCapacity};
use crate::ec2::{Arch, Market};
use crate::failure::{Exit, Failure};

/// The hint for an account on AWS's Free plan.
const PAID: &str = "a paid plan launches any type: Billing and Cost Management in the AWS console \
                    upgrades to one";

/// The hint for a capacity reservation that is of no use.
const OTHER_RESERVATION: &str = "`aws ec2 describe-capacity-reservations` lists those that there are; without \
                                 --reservation it is launched elsewhere";

/// The failure of an account whose Free plan has none of the types.
pub(crate) fn free_plan(plan: FreePlan) -> Failure {
    let mut hints = Vec::new();
    if !plan.eligible.is_empty() {
        hints.push(format!(
            "the free tier has {}: --type names one, --free chooses among them, on demand",
            plan.eligible.join(", ")
        ));
    }
    hints.push(PAID.to_owned());
    Failure::new(Exit::Denied, plan).hint(hints.join("\n      "))
}

/// The failure of requirements that no type meets. `connect` is the command to type again.
pub(crate) fn refused(refused: Refused, connect: &str) -> Failure {
    let (exit, hint) = match &refused {
        Refused::Ec2(error) => return error.clone().into(),
        Refused::Unknown { near, .. } if near.is_empty() => (
            Exit::Usage,
            "types are written like t3.medium; --cpus, --memory and --gpu find one".to_owned(),
        ),
        Refused::Unknown { near, .. } => (Exit::Usage, format!("there are {}", near.join(", "))),
        Refused::OtherArch { only, by, .. } => (Exit::Usage, arch_hint(*only, *by, connect)),
        Refused::Unfit(_) | Refused::Neuron(_) => {
            (Exit::Usage, "--type names another one".to_owned())
        }
        Refused::NothingMeets {
            by: ArchBy::Default,
            arch: Some(_),
            ..
        } => (
            Exit::Usage,
            "ask for less, or --arch any looks among all there are".to_owned(),
        ),
        Refused::NothingMeets { .. } => (Exit::Usage, "ask for less".to_owned()),
        Refused::NoneFree { .. } => (
            Exit::Usage,
            format!("ask for less, or leave --free away; {PAID}"),
        ),
        Refused::NotSold {
            market: Market::Spot,
            ..
        } => (
            Exit::TryAgain,
            "--on-demand launches it on demand; --type names another one".to_owned(),
        ),
        Refused::NotSold { .. } => (Exit::TryAgain, "--type names another one".to_owned()),
        Refused::NotPriced(pool) => (
            Exit::Usage,
            match pool.market {
                Market::Spot => "--max-price DOLLARS bounds what spot costs",
                Market::OnDemand => "without --on-demand, --max-price DOLLARS bounds what spot costs; prices on demand take the right pricing:GetProducts",
            }
            .to_owned(),
        ),
        Refused::TooDear { .. } => (
            Exit::TryAgain,
            "a higher --max-price, another --type, or --on-demand".to_owned(),
        ),
        Refused::Reservation { why, .. } => reservation_hint(why),
    };
    Failure::new(exit, refused).hint(hint)
}

/// The exit code and the hint for a capacity reservation in which nothing can be launched.
fn reservation_hint(why: &Unreserved) -> (Exit, String) {
    let exit = match why {
        Unreserved::Full(_) => Exit::TryAgain,
        Unreserved::Missing | Unreserved::State(_) => Exit::Unavailable,
        Unreserved::Type { .. } | Unreserved::Kind(_) => Exit::Usage,
    };
    let hint = match why {
        Unreserved::Type { .. } => format!("leave --type and the like away; {OTHER_RESERVATION}"),
        _ => OTHER_RESERVATION.to_owned(),
    };
    (exit, hint)
}

/// The hint for types that all have another architecture than the required `only`.
fn arch_hint(only: Arch, by: ArchBy, connect: &str) -> String {
    match by {
        ArchBy::Asked | ArchBy::Default => format!(
            "leave --arch (or the configuration's arch) away, or name a type that runs {only} \
             programs"
        ),
        ArchBy::Image => format!(
            "leave --type (or the configuration's type) away, or name one that runs {only} \
             programs; --image names another image"
        ),
        ArchBy::Drive => format!(
            "leave --type (or the configuration's type) away, or name one that runs {only} \
             programs; {connect} --from empty begins anew on the other architecture, and keeps \
             what there is under another name"
        ),
    }
}

/// The hint for a quota that was reached.
fn quota_hint(reached: &Reached) -> Option<String> {
    let command = reached.command()?;
    Some(format!("`{command}` asks for more"))
}

/// The failure of a launch without capacity.
pub(crate) fn no_capacity(lack: NoCapacity, connect: &str) -> Failure {
    let mut hints = Vec::new();
    if !lack.on_demand {
        hints.push("--fallback on-demand launches on demand where no spot is to be had".to_owned());
    }
    hints.extend(lack.reached.iter().filter_map(quota_hint));
    if !lack.reached.is_empty() {
        hints.push(
            "a larger quota takes hours to days: Service Quotas in the AWS console shows how far \
             it is"
                .to_owned(),
        );
    }
    if lack.zone.is_some() {
        hints.push(format!(
            "{connect} --leave-zone saves the volume as a snapshot, and goes on in \
             any zone"
        ));
    }
    hints.push(if lack.is_reserved {
        OTHER_RESERVATION.to_owned()
    } else {
        "--type names other types, in order of liking".to_owned()
    });
    Failure::new(Exit::TryAgain, lack).hint(hints.join("\n      "))
}
