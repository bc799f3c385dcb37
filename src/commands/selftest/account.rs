//! Checks of the account, by calls alone.

use std::iter;

use super::Run;
use super::finding::Finding;
use crate::commands::doctor;

/// Checks the caller, the network and every right. Returns the owner of what the caller makes.
pub(super) async fn ask(run: &mut Run<'_>) -> Option<String> {
    let ec2 = &run.cloud.ec2;
    let owner = match ec2.owner().await {
        Ok(owner) => owner,
        Err(error) => {
            // Without a caller every other call fails too.
            add(run, Finding::of_failure("account", &error.into()));
            return None;
        }
    };
    let source = match ec2.source() {
        Some(source) => format!("{owner}, by {source}"),
        None => owner.clone(),
    };
    let network = match ec2.default_vpc().await {
        Ok(Some(vpc)) => Finding::ok("network", format!("default {vpc}")),
        Ok(None) if run.order.options.launch.subnet.is_some() => {
            Finding::not_asked("network", "--subnet names another than the default VPC's")
        }
        Ok(None) => Finding::failed(
            "network",
            "there is no default VPC",
            Some("--subnet names a subnet of another one, or `aws ec2 create-default-vpc`"),
        ),
        Err(error) => Finding::of_failure("network", &error.into()),
    };
    let tried = doctor::try_rights(run.cloud, &owner).await;
    let rights = if tried.denied.is_empty() {
        let found = "no dry run of a call was refused".to_owned();
        let found: Vec<String> = iter::once(found).chain(tried.untried()).collect();
        Finding::ok("rights", found.join("; "))
    } else {
        let hint = format!(
            "{} policy prints the policy that allows it",
            run.cloud.command
        );
        Finding::failed("rights", tried.denied.join("; "), Some(&hint))
    };
    add(run, Finding::ok("account", source));
    add(run, network);
    add(run, rights);
    Some(owner)
}

/// Adds a line. A closed standard output must not stop the run, which still has to clean up.
pub(super) fn add(run: &mut Run<'_>, line: Finding) {
    if let Err(failure) = run.add(line) {
        run.report.print(&failure.text());
    }
}
