//! Discards the drives that an earlier, killed run left.

use std::collections::BTreeSet;

use super::super::whole;
use super::Run;
use super::account::add;
use super::finding::Finding;
use crate::drive::tags;
use crate::ec2::Ownership;
use crate::ids::DriveName;
use crate::opener::Opening;
use crate::visit::{self, Disposable, Visitor};

/// Deletes the drives that former selftests left. Keeps those whose instance has a valid lease:
/// another run uses them.
pub(super) async fn clear(run: &mut Run<'_>, owner: &str) {
    let (instances, volumes, snapshots) = match run.cloud.ec2.everything().await {
        Ok(all) => all,
        Err(error) => return add(run, Finding::of_failure("earlier runs", &error.into())),
    };
    let now = run.cloud.clock.now();
    let kept: BTreeSet<&String> = instances
        .iter()
        .filter(|instance| tags::until(&instance.tags).is_some_and(|until| until > now))
        .filter_map(|instance| instance.tags.get(tags::DRIVE))
        .collect();
    let volumes = volumes.iter().map(|volume| &volume.tags);
    let snapshots = snapshots.iter().map(|snapshot| &snapshot.tags);
    let names: BTreeSet<&String> = volumes
        .chain(snapshots)
        .filter(|of| tags::is_scratch(of))
        .filter(|of| Ownership::from_tag(tags::owner(of), owner) == Ownership::Own)
        .filter_map(|of| of.get(tags::DRIVE))
        .filter(|name| !kept.contains(name))
        .collect();
    for name in names {
        let Ok(drive) = name.parse::<DriveName>() else {
            continue;
        };
        let visitor = Visitor {
            key: run.key.clone(),
            reach: run.order.options.reach.clone(),
        };
        let left = visit::end_scratch(
            Opening::new(whole(drive)),
            Disposable::Scratch,
            run.cloud,
            visitor,
        )
        .await;
        let line = match left.map(|ended| ended.left) {
            Ok(left) if left.is_empty() => Finding::ok("earlier runs", format!("{name} is gone")),
            Ok(left) => {
                let why = format!("of {name} there is still {}", left.join(", "));
                run.left.extend(left);
                Finding::failed("earlier runs", why, None)
            }
            Err(failure) => Finding::of_failure("earlier runs", &failure),
        };
        add(run, line);
    }
}
