//! What the account's calls say, without a host.

use super::Run;
use super::line::Line;
use crate::cloud::Place;
use crate::doctor;

/// Asks who calls, for the network, and for every right; the answer is the owner of what the caller
/// makes.
pub(super) async fn ask(run: &mut Run<'_>) -> Option<String> {
    let ec2 = &run.cloud.ec2;
    let owner = match ec2.owner().await {
        Ok(owner) => owner,
        Err(error) => {
            // Nothing else is worth a call.
            add(run, Line::of_failure("account", &error.into()));
            return None;
        }
    };
    let source = match ec2.source() {
        Some(source) => format!("{owner}, by {source}"),
        None => owner.clone(),
    };
    let network = match ec2.default_vpc().await {
        Ok(Some(vpc)) => Line::ok("network", format!("default {vpc}")),
        Ok(None) if run.order.options.subnet.is_some() => {
            Line::not_asked("network", "--subnet names another than the default VPC's")
        }
        Ok(None) => Line::failed(
            "network",
            "there is no default VPC",
            Some("--subnet names a subnet of another one, or `aws ec2 create-default-vpc`"),
        ),
        Err(error) => Line::of_failure("network", &error.into()),
    };
    let denied = doctor::denied(run.cloud, &owner).await;
    let rights = if denied.is_empty() {
        Line::ok("rights", "no dry run of a call was refused")
    } else {
        let hint = format!(
            "{} policy prints the policy that allows it",
            run.cloud.command
        );
        Line::failed("rights", denied.join("; "), Some(&hint))
    };
    add(run, Line::ok("account", source));
    add(run, network);
    add(run, rights);
    let simulation = match run.cloud.place {
        Place::Aws => {
            "xdrive does not call IAM: `aws iam simulate-principal-policy --policy-source-arn ARN \
             --action-names ec2:RunInstances …` asks it, with --resource-arns and tags as in \
             `xdrive policy`"
        }
        Place::Endpoint => "what answers at an endpoint of its own need not have IAM",
        Place::Folder | Place::Paper => "the local EC2 has no IAM",
    };
    add(run, Line::not_asked("IAM simulation", simulation));
    Some(owner)
}

/// That nobody reads any more keeps nothing from being asked, and from being cleared away.
pub(super) fn add(run: &mut Run<'_>, line: Line) {
    if let Err(failure) = run.add(line) {
        run.report.say(&failure.to_string());
    }
}
