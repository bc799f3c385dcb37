//! The explanation for a caller without a drive: what a session launches, costs, and how it ends.
//!
//! Nothing remembers whether that was read: a caller without any drive in the region begins their
//! first one.

use super::request::Leases;
use super::state::Session;
use crate::attached::in_words;
use crate::cloud::Place;
use crate::drive::pools::{Requirements, Terms};
use crate::drive::tags;
use crate::ec2::{GibiBytes, Market, Ownership, Price};
use crate::launch::cost::dollars;
use crate::opener::DriveFacts;
use crate::report::Text;

impl Session {
    /// Explains a session in four lines, if this is a shell on the caller's first drive on AWS.
    pub(super) async fn explain_first(&self, found: &DriveFacts) {
        let is_aws = matches!(self.drive.cloud.place, Place::Aws | Place::Endpoint);
        let is_new = found.host.is_none() && found.volumes.is_empty() && found.snapshots.is_empty();
        let is_shell = self.request.is_shell();
        let Some(terms) = self.terms.as_ref().filter(|_| is_aws && is_new && is_shell) else {
            return;
        };
        // A list that is denied is reported by what needs it.
        let Ok((instances, volumes, snapshots)) = self.drive.cloud.ec2.everything().await else {
            return;
        };
        let instances = instances.iter().map(|instance| &instance.tags);
        let volumes = volumes.iter().map(|volume| &volume.tags);
        let snapshots = snapshots.iter().map(|snapshot| &snapshot.tags);
        let mut all = instances.chain(volumes).chain(snapshots);
        if all.any(|tags| {
            Ownership::from_tag(tags::owner(tags), &self.drive.identity.caller) != Ownership::Other
        }) {
            return;
        }
        let options = &self.request.options;
        let size = options.launch.size.unwrap_or(self.drive.cloud.size);
        let drive = self.request.drive.as_str();
        let month = self.drive.cloud.ec2.storage_prices().await.snapshot(size);
        let words = explanation(drive, terms, (size, month), self.leases);
        self.drive.report.print(&Text::block(&words));
    }
}

/// The four lines, under one that says what they are about; each fits a terminal with the defaults.
fn explanation(
    drive: &str,
    terms: &Terms,
    (size, month): (GibiBytes, Price),
    leases: Leases,
) -> String {
    let what = match (&terms.reserved, &terms.requirements) {
        (Some(reserved), _) => format!("what {} is for", reserved.id),
        (None, Requirements::Types(types)) => types.join(" or "),
        (None, Requirements::AtLeast(resources)) => format!("the cheapest type with {resources}"),
    };
    let market = match terms.markets.first() {
        Some(Market::OnDemand) => "on demand",
        Some(Market::Spot) | None => "as spot",
    };
    let month = dollars(month);
    let (lease, detached) = (in_words(leases.session), in_words(leases.command));
    format!(
        "{drive} is your first drive here. A session in short:\n\
         launches  {what}, {market}; a volume of {size} GiB\n\
         costs     the price below by the second; first snapshot at most {month} a month\n\
         ends      by exit: saved; {lease} without this computer: saved by the next run\n\
         to leave  ~d keeps it running for {detached}; Ctrl-C before the prompt cancels"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::drive::pools::{ArchBy, Resources, Scores};
    use crate::ec2::StoragePrices;

    #[test]
    fn the_explanation_is_four_lines_that_fit_a_terminal() {
        let terms = Terms {
            requirements: Requirements::AtLeast(Resources::DEFAULT),
            markets: vec![Market::Spot],
            max_price: None,
            needs_price: false,
            image: None,
            arch: None,
            arch_by: ArchBy::Default,
            like: None,
            scores: Scores::Unasked,
            reserved: None,
            is_free: false,
        };
        let explanation = |session, command| {
            let leases = Leases { session, command };
            super::explanation(
                "demo",
                &terms,
                (32, StoragePrices::default().snapshot(32)),
                leases,
            )
        };
        let text = explanation(Duration::from_mins(15), Duration::from_hours(8));
        assert_eq!(text.lines().count(), 5, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for words in ["2 CPUs and 4 GiB, as spot", "$1.60", "15 min", "8 h"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let kept = explanation(Duration::from_mins(90), Duration::from_mins(90));
        assert!(kept.contains("running for 90 min"), "{kept}");
        let kept = explanation(Duration::from_secs(45), Duration::from_secs(45));
        assert!(kept.contains("running for 45 s"), "{kept}");
    }
}
