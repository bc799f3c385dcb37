//! The terms of a launch: flags and configuration first, then the drive's own tags, then the
//! default.

use anyhow::anyhow;

use super::image;
use crate::cloud::{Cloud, NATIVE};
use crate::config::Options;
use crate::config::launch::{ArchChoice, Fallback, LaunchOptions, Preference};
use crate::drive::pools::{ArchBy, Requirements, Reserved, Resources, Scores, Terms};
use crate::drive::tags::Settings;
use crate::ec2::{Arch, Market};
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;

/// The architecture of drives without a tag for it: older versions launched no other.
const UNRECORDED: Arch = Arch::X86_64;

/// The terms for a drive with these `settings`.
pub(crate) fn terms(
    options: &Options,
    drive: &DriveName,
    settings: &Settings,
    is_new: bool,
    cloud: &Cloud,
) -> Result<Terms, Failure> {
    let unusable = |error| {
        let error = anyhow!("{drive}: {error}");
        Failure::new(Exit::Config, error)
    };
    let asked = options.launch.requirements.as_ref();
    let reservation = options.launch.reservation.clone();
    let reserved = reservation.map(|id| Reserved {
        id,
        asked: asked.cloned(),
    });
    let requirements = match asked {
        Some(requirements) => Some(requirements.clone()),
        None => settings
            .requirements()
            .map_err(|error| unusable(error).hint("--type replaces it"))?,
    };
    let (arch, arch_by) = if is_new {
        let has_type = reserved.is_some() || matches!(requirements, Some(Requirements::Types(_)));
        new_arch(options, has_type, cloud)?
    } else {
        let own = settings.arch().map_err(unusable)?;
        let own = own.unwrap_or(UNRECORDED);
        check_image(options.image.as_deref(), own, drive.as_str())?;
        check_arch(&options.launch, own, drive, cloud)?;
        (Some(own), ArchBy::Drive)
    };
    let is_free = options.launch.is_free;
    let requirements = match requirements {
        // The free tier replaces the drive's types.
        Some(Requirements::Types(_)) | None if is_free => {
            Requirements::AtLeast(Resources::default())
        }
        None => Requirements::AtLeast(Resources::DEFAULT),
        Some(requirements) => requirements,
    };
    Ok(Terms {
        requirements,
        is_free,
        markets: markets(&options.launch).to_vec(),
        max_price: options.launch.max_price,
        needs_price: options.launch.budget.is_some(),
        image: options.launch.ami.clone(),
        arch,
        arch_by,
        like: None,
        scores: scores(options.launch.prefer),
        reserved,
    })
}

/// The architecture of a new drive, if one is required, and what requires it. One that `has_type` has that
/// of its type.
fn new_arch(
    options: &Options,
    has_type: bool,
    cloud: &Cloud,
) -> Result<(Option<Arch>, ArchBy), Failure> {
    let image = options.image.as_ref().unwrap_or(&cloud.image);
    let file = image::file(image);
    let asked = options.launch.arch.and_then(ArchChoice::only);
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
    Ok(match (options.launch.arch.or(options.new_arch), has_type) {
        (Some(choice), _) => (choice.only(), ArchBy::Asked),
        (None, true) => (None, ArchBy::Default),
        // A registry has both architectures; an archive has one, most likely this computer's.
        (None, _) if file.is_some() => (Some(NATIVE), ArchBy::Image),
        (None, _) => (Some(cloud.arch), ArchBy::Default),
    })
}

/// Refuses an `--arch` that is not the drive's.
fn check_arch(
    options: &LaunchOptions,
    own: Arch,
    drive: &DriveName,
    cloud: &Cloud,
) -> Result<(), Failure> {
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

/// Refuses an image of another architecture than the drive's.
fn check_image(image: Option<&str>, own: Arch, drive: &str) -> Result<(), Failure> {
    let Some((image, file)) = image.and_then(|image| Some((image, image::file(image)?))) else {
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

/// The use of placement scores by this preference.
pub(crate) fn scores(prefer: Option<Preference>) -> Scores {
    match prefer {
        Some(Preference::Lasting) => Scores::Preferred,
        Some(Preference::Price) | None => Scores::Unasked,
    }
}

/// The markets of a launch, the preferred one first.
fn markets(options: &LaunchOptions) -> &'static [Market] {
    match (options.market, options.fallback) {
        _ if options.reservation.is_some() => &[Market::OnDemand],
        (Some(Market::OnDemand), _) => &[Market::OnDemand],
        (_, Some(Fallback::OnDemand)) => &[Market::Spot, Market::OnDemand],
        (_, Some(Fallback::None) | None) => &[Market::Spot],
    }
}

/// Whether on demand is ruled out.
pub(crate) fn stays_on_spot(options: &LaunchOptions) -> bool {
    let is_bound = options.max_price.is_some() || options.fallback == Some(Fallback::None);
    is_bound && !markets(options).contains(&Market::OnDemand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_demand_is_launched_only_if_it_is_asked_for_and_after_spot() {
        const SPOT: &[Market] = &[Market::Spot];
        const THEN_ON_DEMAND: &[Market] = &[Market::Spot, Market::OnDemand];
        let max_price = "0.05".parse().ok();
        for (market, fallback, max_price, expected) in [
            (None, None, None, SPOT),
            (None, None, max_price, SPOT),
            (None, Some(Fallback::None), None, SPOT),
            (None, Some(Fallback::OnDemand), max_price, THEN_ON_DEMAND),
            (Some(Market::OnDemand), None, max_price, &[Market::OnDemand]),
        ] {
            let options = LaunchOptions {
                market,
                fallback,
                max_price,
                ..LaunchOptions::default()
            };
            assert_eq!(markets(&options), expected, "{options:?}");
        }
    }
}
