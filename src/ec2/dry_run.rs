//! Dry runs of calls: whether the caller may make them.
//!
//! EC2 looks at the caller's rights and answers `DryRunOperation` instead of carrying the call out
//! (EC2 API reference, *Dry run*). It proves rights and nothing else: no capacity, no quota, no
//! valid parameters. Only AWS itself is trusted not to carry out what would destroy something. A
//! call that acts on resources is tried on existing ones, since a policy that requires tags denies
//! it on any other.
//!
//! The EBS direct APIs have no `DryRun`; they only read, so they are tried by reading. EC2 Instance
//! Connect has none either, and its one call authorizes a key: it is never tried.

use std::net::IpAddr;

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::ResourceType;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;

use super::blocks;
use super::change::tagged;
use super::group::permission;
use super::{
    Cidr, Ec2, Error, Instance, Kind, LaunchOrder, Market, Rule, RuleSource, Tags, Volume, Zone,
};
use crate::ids::{GroupId, SnapshotId};

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DryRun {
    /// The call would be allowed.
    Allowed,
    /// The call would be refused; EC2's message.
    Denied(String),
    /// The dry run does not show it, for this reason.
    Unknown(String),
}

/// The resources that calls are tried on.
#[derive(Debug, Clone, Default)]
pub struct DryRunTargets {
    /// An image and a type to launch.
    pub image: String,
    /// The type.
    pub instance_type: String,
    /// The zone where a volume would be made.
    pub zone: Option<Zone>,
    /// The tags that a new resource would get.
    pub tags: Tags,
    /// An instance of xdrive's.
    pub instance: Option<Instance>,
    /// A volume.
    pub volume: Option<Volume>,
    /// The device name under which it would be attached.
    pub device: String,
    /// A snapshot.
    pub snapshot: Option<SnapshotId>,
    /// A security group.
    pub group: Option<GroupId>,
}

/// The result of a request of the call of that name, as a dry run.
macro_rules! tried {
    ($call:expr, $request:expr) => {
        Some(outcome($call, $request.dry_run(true).send().await))
    };
}

impl Ec2 {
    /// Tries the call of that name. [`DryRun::Unknown`] for one that has no `DryRun`, or that
    /// acts on something of which `targets` has none.
    pub async fn dry_run(&self, call: &'static str, targets: &DryRunTargets) -> DryRun {
        const DESTROYING: [&str; 5] = [
            "DeleteSecurityGroup",
            "DeleteSnapshot",
            "DeleteVolume",
            "DetachVolume",
            "TerminateInstances",
        ];
        let is_aws = self.is_aws() && self.reached().is_ok_and(|ec2| ec2.is_public());
        if DESTROYING.contains(&call) && !is_aws {
            return DryRun::Unknown(
                "not tried: it deletes, and an endpoint that is not AWS's might do so although it \
                 is asked for a dry run"
                    .to_owned(),
            );
        }
        match self.try_one(call, targets).await {
            Some(dry_run) => dry_run,
            None => DryRun::Unknown("there is nothing yet to try it on".to_owned()),
        }
    }

    async fn try_one(&self, call: &'static str, targets: &DryRunTargets) -> Option<DryRun> {
        let ec2 = &self.once;
        let host = targets
            .instance
            .as_ref()
            .map(|instance| instance.id.as_str());
        let volume = targets.volume.as_ref().map(|volume| volume.id.as_str());
        let snapshot = targets.snapshot.as_ref().map(SnapshotId::as_str);
        let group = targets.group.as_ref().map(GroupId::as_str);
        let tags = || tagged(ResourceType::Snapshot, &targets.tags);
        match call {
            "AttachVolume" => {
                let request = ec2.attach_volume().volume_id(volume?).instance_id(host?);
                tried!(call, request.device(&targets.device))
            }
            "CopySnapshot" => {
                let request = ec2.copy_snapshot().source_snapshot_id(snapshot?);
                tried!(
                    call,
                    request
                        .source_region(self.region())
                        .tag_specifications(tags())
                )
            }
            "CreateSnapshot" => {
                let request = ec2.create_snapshot().volume_id(volume?);
                tried!(call, request.tag_specifications(tags()))
            }
            "AuthorizeSecurityGroupIngress" => {
                let request = ec2.authorize_security_group_ingress().group_id(group?);
                tried!(call, request.ip_permissions(permission(&nobody(), None)))
            }
            "RevokeSecurityGroupIngress" => {
                let request = ec2.revoke_security_group_ingress().group_id(group?);
                tried!(call, request.ip_permissions(permission(&nobody(), None)))
            }
            "UpdateSecurityGroupRuleDescriptionsIngress" => {
                let request = ec2.update_security_group_rule_descriptions_ingress();
                let rule = permission(&nobody(), Some("a dry run"));
                tried!(call, request.group_id(group?).ip_permissions(rule))
            }
            "CreateSecurityGroup" => {
                let tags = tagged(ResourceType::SecurityGroup, &targets.tags);
                let request = ec2.create_security_group().group_name("xdrive-try");
                tried!(
                    call,
                    request.description("a dry run").tag_specifications(tags)
                )
            }
            "CreateTags" => tried!(
                call,
                ec2.create_tags().resources(volume.or(snapshot)?).tags(
                    aws_sdk_ec2::types::Tag::builder()
                        .key("xdrive:try")
                        .value("")
                        .build()
                )
            ),
            "CreateVolume" => {
                let request = ec2
                    .create_volume()
                    .availability_zone(&targets.zone.as_ref()?.0);
                let tags = tagged(ResourceType::Volume, &targets.tags);
                tried!(
                    call,
                    request.size(1).encrypted(true).tag_specifications(tags)
                )
            }
            "DeleteSecurityGroup" => tried!(call, ec2.delete_security_group().group_id(group?)),
            "DeleteSnapshot" => tried!(call, ec2.delete_snapshot().snapshot_id(snapshot?)),
            "DeleteVolume" => tried!(call, ec2.delete_volume().volume_id(volume?)),
            "DetachVolume" => {
                tried!(
                    call,
                    ec2.detach_volume().volume_id(volume?).instance_id(host?)
                )
            }
            "GetConsoleOutput" => tried!(call, ec2.get_console_output().instance_id(host?)),
            "ModifyInstanceAttribute" => {
                tried!(call, ec2.modify_instance_attribute().instance_id(host?))
            }
            "ModifyVolume" => {
                // To the size that it has.
                let size = i32::try_from(targets.volume.as_ref()?.size).ok()?;
                tried!(call, ec2.modify_volume().volume_id(volume?).size(size))
            }
            "RunInstances" => tried!(call, self.launch_request(&launch(targets))),
            "TerminateInstances" => tried!(call, ec2.terminate_instances().instance_ids(host?)),
            "GetSnapshotBlock" | "ListChangedBlocks" | "ListSnapshotBlocks" => {
                Some(self.try_reading(call, targets.snapshot.as_ref()?).await)
            }
            "SendSSHPublicKey" => Some(DryRun::Unknown(
                "it cannot be tried without letting a key in; a second laptop needs it to join"
                    .to_owned(),
            )),
            _ => self.try_describing(call).await,
        }
    }

    /// Tries a call that only lists.
    async fn try_describing(&self, call: &'static str) -> Option<DryRun> {
        let ec2 = &self.once;
        match call {
            "DescribeImages" => tried!(call, ec2.describe_images().owners("self")),
            "DescribeInstanceStatus" => tried!(call, ec2.describe_instance_status()),
            "DescribeInstanceTypes" => tried!(call, ec2.describe_instance_types()),
            "DescribeInstances" => tried!(call, ec2.describe_instances()),
            "DescribeRouteTables" => tried!(call, ec2.describe_route_tables()),
            "DescribeSecurityGroups" => tried!(call, ec2.describe_security_groups()),
            "DescribeSnapshots" => tried!(call, ec2.describe_snapshots().owner_ids("self")),
            "DescribeSpotInstanceRequests" => tried!(call, ec2.describe_spot_instance_requests()),
            "DescribeSpotPriceHistory" => tried!(call, ec2.describe_spot_price_history()),
            "DescribeSubnets" => tried!(call, ec2.describe_subnets()),
            "DescribeVolumes" => tried!(call, ec2.describe_volumes()),
            "DescribeVolumesModifications" => tried!(call, ec2.describe_volumes_modifications()),
            "DescribeVpcs" => tried!(call, ec2.describe_vpcs()),
            _ => Some(DryRun::Unknown("it cannot be tried".to_owned())),
        }
    }

    /// Asks for the first block of a snapshot, as a save does.
    async fn try_reading(&self, call: &'static str, snapshot: &SnapshotId) -> DryRun {
        let tried = match call {
            "ListSnapshotBlocks" => self.block_token(snapshot, 0).await.map(|_| true),
            // With itself: nothing differs.
            "ListChangedBlocks" => {
                let listed = self
                    .changed_blocks(snapshot, snapshot, 0, blocks::PAGE)
                    .await;
                listed.map(|_| true)
            }
            _ => self
                .snapshot_block(snapshot, 0)
                .await
                .map(|it| it.is_some()),
        };
        match tried {
            Ok(true) => DryRun::Allowed,
            Ok(false) => DryRun::Unknown(format!("nothing was ever written to {snapshot}")),
            Err(error) if error.call != call => {
                DryRun::Unknown(format!("it needs what {} answers", error.call))
            }
            Err(error) if error.kind == Kind::Denied => DryRun::Denied(error.message),
            Err(error) => DryRun::Unknown(error.to_string()),
        }
    }
}

/// A session's launch order, with the fields that rights can depend on.
fn launch(targets: &DryRunTargets) -> LaunchOrder {
    LaunchOrder {
        client_token: "xdrive-doctor".to_owned(),
        image: targets.image.clone(),
        instance_type: targets.instance_type.clone(),
        zone: targets.zone.clone(),
        subnet: None,
        public_address: false,
        root_device: None,
        groups: targets.group.iter().cloned().collect(),
        instance_profile: None,
        market: Market::Spot,
        max_price: None,
        reservation: None,
        user_data: Vec::new(),
        tags: targets.tags.clone(),
        root_tags: targets.tags.clone(),
        interface_tags: targets.tags.clone(),
    }
}

/// A rule for an address of documentation, which no host has (RFC 5737).
fn nobody() -> Rule {
    Rule {
        protocol: "tcp".to_owned(),
        ports: Some((22, 22)),
        from: RuleSource::Cidr(Cidr::one(IpAddr::from([192, 0, 2, 1]))),
        description: String::new(),
    }
}

fn outcome<T, E>(call: &'static str, answer: Result<T, SdkError<E, HttpResponse>>) -> DryRun
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let error = match answer {
        Ok(_) if call.starts_with("Describe") || call.starts_with("Get") => {
            return DryRun::Allowed;
        }
        Ok(_) => {
            return DryRun::Unknown(
                "it was carried out, dry run or not: `xdrive list` shows what came of it"
                    .to_owned(),
            );
        }
        Err(error) => Error::from_sdk(call, &error),
    };
    match error.kind {
        Kind::DryRun => DryRun::Allowed,
        Kind::Denied => DryRun::Denied(error.message),
        _ => DryRun::Unknown(error.to_string()),
    }
}
