//! Checks of the account, by calls alone.

use anyhow::anyhow;

use super::Run;
use super::finding::Finding;
use crate::cloud::Place;
use crate::commands::doctor;
use crate::failure::{Exit, Failure};

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
        Ok(None) if run.order.options.subnet.is_some() => {
            Finding::not_asked("network", "--subnet names another than the default VPC's")
        }
        Ok(None) => Finding::failed(
            "network",
            "there is no default VPC",
            Some("--subnet names a subnet of another one, or `aws ec2 create-default-vpc`"),
        ),
        Err(error) => Finding::of_failure("network", &error.into()),
    };
    let denied = doctor::denied(run.cloud, &owner).await;
    let rights = if denied.is_empty() {
        Finding::ok("rights", "no dry run of a call was refused")
    } else {
        let hint = format!(
            "{} policy prints the policy that allows it",
            run.cloud.command
        );
        Finding::failed("rights", denied.join("; "), Some(&hint))
    };
    add(run, Finding::ok("account", source));
    add(run, network);
    add(run, rights);
    let simulated = simulation(run, &owner).await;
    add(run, simulated);
    Some(owner)
}

/// Checks every call by IAM's own simulation.
async fn simulation(run: &Run<'_>, owner: &str) -> Finding {
    const NAME: &str = "IAM simulation";
    let ec2 = &run.cloud.ec2;
    match run.cloud.place {
        Place::Folder | Place::Paper => {
            return Finding::not_asked(NAME, "the local EC2 has no IAM");
        }
        Place::Endpoint if !ec2.has_iam() => {
            let why = "what answers at an endpoint of its own need not have IAM: \
                       AWS_ENDPOINT_URL_IAM says where it is";
            return Finding::not_asked(NAME, why);
        }
        Place::Endpoint | Place::Aws => {}
    }
    let command = &run.cloud.command;
    match ec2.simulate(owner).await {
        Ok((count, forbidden)) if forbidden.is_empty() => {
            Finding::ok(NAME, format!("all of {count} rights are there"))
        }
        Ok((_, forbidden)) => {
            let words = forbidden
                .iter()
                .map(|it| format!("{} on {} ({})", it.action, it.on, it.decision));
            let error = anyhow!("missing: {}", words.collect::<Vec<_>>().join(", "));
            let hint = format!("{command} policy prints the policy that allows it");
            Finding::of_failure(NAME, &Failure::new(Exit::Denied, error).hint(hint))
        }
        Err(error) if error.is_denied() => Finding::not_asked(
            NAME,
            format!("{error}; {command} policy --selftest prints the policy that allows it"),
        ),
        // A denied simulation proves nothing about the rights, and no other line needs it.
        Err(error) => Finding::not_asked(NAME, error.to_string()),
    }
}

/// Adds a line. A closed standard output must not stop the run, which still has to clean up.
pub(super) fn add(run: &mut Run<'_>, line: Finding) {
    if let Err(failure) = run.add(line) {
        run.report.print(&failure.text());
    }
}
