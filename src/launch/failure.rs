//! Why nothing is launched, and what helps.

use crate::drive::pools::{ArchBy, Refused};
use crate::drive::quotas::Reached;
use crate::drive::reconcile::{FreePlan, NoCapacity};
use crate::ec2::{Arch, Market};
use crate::failure::{Exit, Failure};

/// What launches any type, on whatever plan an account is.
const PAID: &str = "a paid plan launches any type: Billing and Cost Management in the AWS console \
                    upgrades to one";

/// The account's plan has none of the types, and what it has.
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

/// Why nothing can be launched as it is wanted, and what helps. `connect` is the command that the
/// user would type again.
pub(crate) fn refused(refused: Refused, connect: &str) -> Failure {
    let (exit, hint) = match &refused {
        Refused::Ec2(error) => return error.clone().into(),
        Refused::Unknown { near, .. } if near.is_empty() => (
            Exit::Usage,
            "types are written like t3.medium; --cpus, --memory and --gpu find one".to_owned(),
        ),
        Refused::Unknown { near, .. } => (Exit::Usage, format!("there are {}", near.join(", "))),
        Refused::OtherArch { only, by, .. } => (Exit::Usage, of_arch(*only, *by, connect)),
        Refused::Unfit(_) => (Exit::Usage, "--type names another one".to_owned()),
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
        Refused::TooDear { .. } => (
            Exit::TryAgain,
            "a higher --max-price, another --type, or --on-demand".to_owned(),
        ),
    };
    Failure::new(exit, refused).hint(hint)
}

/// What helps where all types that are named run other programs than the `only` ones of use.
fn of_arch(only: Arch, by: ArchBy, connect: &str) -> String {
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

/// What asks for more of a quota.
fn more(reached: &Reached) -> Option<String> {
    let command = reached.command()?;
    Some(format!("`{command}` asks for more"))
}

/// Nothing was to be had, and what helps.
pub(crate) fn no_capacity(lack: NoCapacity, connect: &str) -> Failure {
    let mut hints = Vec::new();
    if !lack.on_demand {
        hints.push("--fallback on-demand launches on demand where no spot is to be had".to_owned());
    }
    hints.extend(lack.reached.iter().filter_map(more));
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
    hints.push("--type names other types, in order of liking".to_owned());
    Failure::new(Exit::TryAgain, lack).hint(hints.join("\n      "))
}
