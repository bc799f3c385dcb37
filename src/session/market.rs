//! What a session launches: from what the user wants and what the drive itself carries to terms,
//! and from there, where nothing is to be had, to the next best.
//!
//! Flags and configuration come first, then the drive's own tags, then the default. Prices and types
//! are looked up beside the first looks at the drive: nobody waits for them twice. A volume that
//! waits in a zone is left there only if that was said, and on demand is launched only if that was
//! said, or answered.

use anyhow::anyhow;

use super::preflight::Found;
use super::{Request, Session, container};
use crate::cloud::{Cloud, NATIVE};
use crate::config::Options;
use crate::config::launch::{ArchChoice, Fallback};
use crate::drive::pools::{self, ArchBy, Need, Refused, Terms, Wish};
use crate::drive::quotas::Reached;
use crate::drive::reconcile::{Choosing, Failure as RunFailure, FreePlan, NoCapacity, RunError};
use crate::drive::stuck::Head;
use crate::drive::{Goal, Outcome};
use crate::ec2::{Arch, Ec2, Market, Zone};
use crate::failure::{Exit, Failure};
use crate::launch::image;
use crate::signals::Signal;

/// What drives from before the architecture was recorded are compiled for: nothing else was
/// launched for them.
const UNRECORDED: Arch = Arch::X86_64;

/// What launches any type, on whatever plan an account is.
const PAID: &str = "a paid plan launches any type: Billing and Cost Management in the AWS console \
                    upgrades to one";

/// The question where no spot is to be had.
const QUESTION: &str = "launch on demand instead? [y/N]";

impl Session {
    /// Settles what is launched for the drive, as it was `found`.
    pub(super) fn settle_terms(
        &mut self,
        request: &Request,
        found: &Found,
        cloud: &Cloud,
    ) -> Result<(), Failure> {
        let terms = terms(request, found, cloud)?;
        let markets = terms.markets.clone();
        if let (Some(live), Some(Wish::Types(types))) = (&found.live, &request.options.wish)
            && !types.contains(live)
        {
            self.report.say(&format!(
                "{} is up on {live}: {} is for its next launch",
                self.drive,
                types.join(", ")
            ));
        }
        // One that cannot be read was refused before.
        let own = found.settings.speed().unwrap_or_default();
        self.speed.set(request.options.speed.or(own));
        self.terms = Some(terms);
        self.choose(&markets, &cloud.ec2, found.live.is_some());
        Ok(())
    }

    /// Begins to choose what to launch in these markets; or, if nothing may be launched at all,
    /// not before it is.
    pub(super) fn choose(&mut self, markets: &[Market], ec2: &Ec2, lazily: bool) {
        let Some(terms) = &self.terms else {
            return;
        };
        let terms = Terms {
            markets: markets.to_vec(),
            ..terms.clone()
        };
        let ec2 = ec2.clone();
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

    /// As [`Session::run`] towards a mounted drive; where nothing is to be had, from the drive's
    /// snapshot in any zone, and on demand, each if that is wanted.
    pub(super) async fn run_where_there_is_room(
        &mut self,
        goal: &Goal,
        options: &Options,
        ec2: &Ec2,
    ) -> (Outcome, Option<Signal>) {
        let mut may_leave = options.leave_zone;
        let mut may_ask = options.fallback.is_none() && crate::terminal::is_interactive();
        loop {
            let (outcome, asked) = self.run(goal.clone()).await;
            if asked.is_none() && is_of_plan(&outcome) && self.go_on_in_the_free_tier(options, ec2)
            {
                continue;
            }
            let Some(lacking) = lacking(&outcome).filter(|_| asked.is_none()) else {
                return (outcome, asked);
            };
            match lacking.zone {
                Some(zone) if may_leave => {
                    may_leave = false;
                    self.report.say(&format!(
                        "there is no capacity in {zone}: {} is saved as a snapshot, and goes on in \
                         any zone",
                        self.drive
                    ));
                    let goal = Goal::Saved {
                        even_if_used: false,
                    };
                    let (saved, asked) = self.run(goal).await;
                    if asked.is_some() || !matches!(saved, Outcome::Saved { .. }) {
                        return (saved, asked);
                    }
                }
                _ if may_ask && !lacking.on_demand => {
                    may_ask = false;
                    if !self.ask(QUESTION, false).await {
                        return (outcome, asked);
                    }
                    self.choose(&[Market::OnDemand], ec2, false);
                }
                _ => return (outcome, asked),
            }
        }
    }
}

impl Session {
    /// Chooses among the types that the free tier has, where a need may be met by others.
    fn go_on_in_the_free_tier(&mut self, options: &Options, ec2: &Ec2) -> bool {
        let Some(terms) = &mut self.terms else {
            return false;
        };
        if terms.is_free || matches!(terms.wish, Wish::Types(_)) {
            return false;
        }
        terms.is_free = true;
        // Credits pay for it; but whoever bound the price, or named the market, meant that.
        let market = match options.market {
            Some(market) => market,
            None if stays_on_spot(options) => Market::Spot,
            None => Market::OnDemand,
        };
        self.report.say(&format!(
            "going on among the types that the free tier has, {}; --free (free = true in the \
             configuration) begins with them",
            pools::words(market)
        ));
        self.choose(&[market], ec2, false);
        true
    }
}

/// Whether a run failed because the account's plan has none of the types, and all that it had made
/// is ended in order.
fn is_of_plan(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Failed(RunFailure {
            error: RunError::FreePlan(_),
            also: Some(also),
            ..
        }) if matches!(**also, Outcome::Saved { .. } | Outcome::Unwound { .. })
    )
}

/// What a run failed for, if nothing was to be had and all that it had made is ended in order.
struct Lacking {
    /// The zone that a waiting volume pinned.
    zone: Option<Zone>,
    /// Whether on demand was tried.
    on_demand: bool,
}

fn lacking(outcome: &Outcome) -> Option<Lacking> {
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
        RunError::NoCapacity(lack) => Some(Lacking {
            zone: lack.zone.clone(),
            on_demand: lack.on_demand,
        }),
        RunError::Pools(
            Refused::TooDear { .. }
            | Refused::NotSold {
                market: Market::Spot,
                ..
            },
        ) => Some(Lacking {
            zone: None,
            on_demand: false,
        }),
        _ => None,
    }
}

/// What is launched for a drive: flags and configuration, then the drive's own, then the default.
pub(super) fn terms(request: &Request, found: &Found, cloud: &Cloud) -> Result<Terms, Failure> {
    let options = &request.options;
    let unusable = |error| {
        let error = anyhow!("{}: {error}", request.drive);
        Failure::new(Exit::Config, error)
    };
    let wish = match &options.wish {
        Some(wish) => Some(wish.clone()),
        None => found.settings.wish().map_err(|error| {
            unusable(error).hint("--type says what to launch, and is recorded in its place")
        })?,
    };
    let is_new = found.is_new || request.from == Some(Head::Empty);
    let (arch, arch_by) = if is_new {
        new_arch(options, wish.as_ref(), cloud)?
    } else {
        let own = found.settings.arch().map_err(unusable)?;
        let own = own.unwrap_or(UNRECORDED);
        check_image(options.image.as_deref(), own, request.drive.as_str())?;
        check_arch(options, own, request, cloud)?;
        (Some(own), ArchBy::Drive)
    };
    let is_free = options.is_free;
    let wish = match wish {
        // Types that the drive carries are no need that the free tier could meet.
        Some(Wish::Types(_)) | None if is_free => Wish::Need(Need::default()),
        None => Wish::Need(Need::DEFAULT),
        Some(wish) => wish,
    };
    Ok(Terms {
        wish,
        is_free,
        markets: markets(options).to_vec(),
        max_price: options.max_price,
        image: options.ami.clone(),
        arch,
        arch_by,
    })
}

/// The only architecture that is of use for a new drive, if only one is, and what makes it so.
fn new_arch(
    options: &Options,
    wish: Option<&Wish>,
    cloud: &Cloud,
) -> Result<(Option<Arch>, ArchBy), Failure> {
    let image = options.image.as_ref().unwrap_or(&cloud.image);
    let file = container::file(image);
    let asked = options.arch.and_then(ArchChoice::only);
    if let Some(own) = file.as_deref().and_then(image::arch) {
        return match asked {
            Some(asked) if asked != own => Err(Failure::new(
                Exit::Usage,
                anyhow!("{image} has {own} programs, and --arch asks for {asked}"),
            )
            .hint(format!(
                "leave --arch away, or name an image that has {asked} programs"
            ))),
            _ => Ok((Some(own), ArchBy::Image)),
        };
    }
    Ok(match (options.arch.or(options.new_arch), wish) {
        (Some(choice), _) => (choice.only(), ArchBy::Asked),
        (None, Some(Wish::Types(_))) => (None, ArchBy::Default),
        // A registry has images for both; an archive has one, most likely this computer's.
        (None, _) if file.is_some() => (Some(NATIVE), ArchBy::Image),
        (None, _) => (Some(cloud.arch), ArchBy::Default),
    })
}

/// Refuses `--arch` where the drive's programs are others.
fn check_arch(
    options: &Options,
    own: Arch,
    request: &Request,
    cloud: &Cloud,
) -> Result<(), Failure> {
    let drive = &request.drive;
    match options.arch.and_then(ArchChoice::only) {
        Some(asked) if asked != own => Err(Failure::new(
            Exit::Usage,
            anyhow!("{drive} is used on {own} alone, and --arch asks for {asked}"),
        )
        .hint(format!(
            "leave --arch away; {} connect {drive} --from empty begins anew on the other \
             architecture, and keeps what there is under another name",
            cloud.command
        ))),
        _ => Ok(()),
    }
}

/// Refuses an image whose programs do not run where the drive's do.
fn check_image(image: Option<&str>, own: Arch, drive: &str) -> Result<(), Failure> {
    let Some((image, file)) = image.and_then(|image| Some((image, container::file(image)?))) else {
        return Ok(());
    };
    match image::arch(&file) {
        Some(arch) if arch != own => Err(Failure::new(
            Exit::Usage,
            anyhow!("{image} has {arch} programs, and {drive} is used on {own} alone"),
        )
        .hint(format!(
            "--image names one that has {own} programs; --from empty begins anew, and keeps what \
             there is under another name"
        ))),
        _ => Ok(()),
    }
}

/// In which markets is launched, the preferred one first.
fn markets(options: &Options) -> &'static [Market] {
    match (options.market, options.fallback) {
        (Some(Market::OnDemand), _) => &[Market::OnDemand],
        (_, Some(Fallback::OnDemand)) => &[Market::Spot, Market::OnDemand],
        (_, Some(Fallback::None) | None) => &[Market::Spot],
    }
}

/// Those of `preferred` in which a session whose instance EC2 took back may go on: whoever bounds
/// the price, or rules on demand out, means it for the night as well.
pub(super) fn elsewhere(options: &Options, preferred: [Market; 2]) -> Vec<Market> {
    let stays = stays_on_spot(options);
    let may = |market: &Market| *market == Market::Spot || !stays;
    preferred.into_iter().filter(may).collect()
}

/// Whether nothing may be launched on demand.
fn stays_on_spot(options: &Options) -> bool {
    let is_bound = options.max_price.is_some() || options.fallback == Some(Fallback::None);
    is_bound && !markets(options).contains(&Market::OnDemand)
}

/// The account's plan has none of the types, and what it has.
pub(super) fn free_plan(plan: FreePlan) -> Failure {
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
pub(super) fn no_capacity(lack: NoCapacity, connect: &str) -> Failure {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_bounds_the_price_or_rules_on_demand_out_stays_on_spot() {
        const BOTH: [Market; 2] = [Market::OnDemand, Market::Spot];
        let max_price = "0.05".parse().ok();
        for (market, fallback, max_price, expected) in [
            (None, None, None, &BOTH[..]),
            (None, None, max_price, &[Market::Spot]),
            (None, Some(Fallback::None), None, &[Market::Spot]),
            (None, Some(Fallback::OnDemand), max_price, &BOTH),
            (Some(Market::OnDemand), None, max_price, &BOTH),
            (Some(Market::OnDemand), Some(Fallback::None), None, &BOTH),
        ] {
            let options = Options {
                market,
                fallback,
                max_price,
                ..Options::default()
            };
            assert_eq!(elsewhere(&options, BOTH), expected, "{options:?}");
        }
    }
}
