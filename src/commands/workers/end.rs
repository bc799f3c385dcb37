//! Workers that are ended, with what they began with.

use anyhow::anyhow;

use super::super::whole;
use crate::cloud::Cloud;
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::opener::Opening;
use crate::report::Report;
use crate::visit::{self, Disposable, Visitor};

/// Ends a worker. Returns what that has cost, in words for the end of a sentence. Fails if anything of it is still
/// billed.
pub(super) async fn end(
    name: DriveName,
    cloud: &Cloud,
    visitor: Visitor,
) -> Result<String, Failure> {
    let opening = Opening {
        is_one_of_many: true,
        shared: cloud.acts_for_another(),
        ..Opening::new(whole(name.clone()))
    };
    let ended = visit::end_scratch(opening, Disposable::Worker, cloud, visitor).await?;
    let left = ended.left;
    if left.is_empty() {
        let cost = ended
            .cost
            .map(|cost| format!(", and has cost {}", cost.sum()));
        return Ok(cost.unwrap_or_default());
    }
    let error = anyhow!("of {name} there is still {}", left.join(", "));
    let hint = format!("{} list {name} -v shows it", cloud.command);
    Err(Failure::new(Exit::TryAgain, error).hint(hint))
}

/// Ends these workers, at once. Of several failures each is reported, and the last is returned.
pub(super) async fn end_all(
    workers: Vec<DriveName>,
    cloud: &Cloud,
    visitor: &Visitor,
) -> Result<(), Failure> {
    let ending = workers.into_iter().map(|name| {
        let (cloud, visitor) = (cloud.clone(), visitor.clone());
        tokio::task::spawn_local(async move {
            let ended = end(name.clone(), &cloud, visitor).await;
            (name, ended)
        })
    });
    let report = Report::stderr();
    let mut failed: Option<Failure> = None;
    for ended in ending.collect::<Vec<_>>() {
        let (name, ended) = ended.await.map_err(anyhow::Error::from)?;
        match ended {
            Ok(cost) => report.print(&format!("{name} has ended{cost}")),
            Err(failure) => {
                if let Some(before) = failed.replace(failure) {
                    report.print(&before.text());
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
