//! The rights that each call needs of its caller: actions, resources, and the context of each.
//!
//! The rows are AWS's own: Service Authorization Reference, *Actions, resources, and condition keys
//! for Amazon EC2*, *… for Amazon Elastic Block Store*, *… for Amazon EC2 Instance Connect*, *… for
//! Service Quotas*, *… for Amazon Elastic File System* (as of June 2026). Where a row differs from it, it names the page that says so. A
//! resource that the call names and that is not there is left out, since the call itself says that.
//!
//! Of AWS's condition keys those that depend on tags and on the creating call are here, and
//! `ec2:Region`.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::images::resolve;
use super::super::request::{self, Request};
use super::super::reservations::TARGET;
use super::super::tags::tags_of;
use super::arn;
use crate::rights::{Context, Rights};
use crate::wire::ApiError;
use crate::world::World;
use crate::{Local, catalog};

/// A question to the caller's policies: may this action be done to this resource?
pub(super) struct Ask {
    pub(super) action: String,
    pub(super) resource: String,
    pub(super) context: Context,
}

/// A resource of a call.
enum On {
    /// None: the whole service.
    Everything,
    /// The resources whose ids the parameter lists, with their tags.
    Named(&'static str, &'static str),
    /// The resources of this kind that the call creates, with the tags in the request.
    Made(&'static str),
    /// The resources that a launch uses and creates.
    Launch,
    /// The file system that is made, with the tags in the request.
    Share,
    /// The file system of the mount target that the parameter names.
    OfTarget,
    /// The rights in EC2 that the caller needs for what EFS does there (EFS API reference).
    InEc2(&'static [&'static str]),
}

use On::{Everything, InEc2, Launch, Made, Named, OfTarget, Share};

const EFS: &str = "elasticfilesystem";

/// The calls, by service and name.
const ROWS: &[(&str, &str, &[On])] = &[
    ("ec2", "AllocateAddress", &[Made("elastic-ip")]),
    (
        "ec2",
        "AssociateAddress",
        &[
            Named("elastic-ip", "AllocationId"),
            Named("instance", "InstanceId"),
        ],
    ),
    (
        "ec2",
        "AttachVolume",
        &[Named("instance", "InstanceId"), Named("volume", "VolumeId")],
    ),
    (
        "ec2",
        "AuthorizeSecurityGroupIngress",
        &[Named("security-group", "GroupId")],
    ),
    // EBS user guide, *Example: Copying snapshots*, and AWS Storage Blog, *Enhancing resource-level
    // permissions for copying Amazon EBS snapshots*: both are asked about, the source with its own tags.
    // The reference has one row for the two, and no tags of the source.
    (
        "ec2",
        "CopySnapshot",
        &[Made("snapshot"), Named("snapshot", "SourceSnapshotId")],
    ),
    (
        "ec2",
        "CreateSecurityGroup",
        &[Made("security-group"), Named("vpc", "VpcId")],
    ),
    (
        "ec2",
        "CreateSnapshot",
        &[Made("snapshot"), Named("volume", "VolumeId")],
    ),
    // Of every kind that has tags.
    (
        "ec2",
        "CreateTags",
        &[
            Named("instance", "ResourceId"),
            Named("volume", "ResourceId"),
            Named("snapshot", "ResourceId"),
            Named("security-group", "ResourceId"),
            Named("spot-instances-request", "ResourceId"),
        ],
    ),
    (
        "ec2",
        "DeleteTags",
        &[
            Named("instance", "ResourceId"),
            Named("volume", "ResourceId"),
            Named("snapshot", "ResourceId"),
            Named("security-group", "ResourceId"),
            Named("spot-instances-request", "ResourceId"),
        ],
    ),
    (
        "ec2",
        "CreateVolume",
        &[Made("volume"), Named("snapshot", "SnapshotId")],
    ),
    (
        "ec2",
        "DeleteSecurityGroup",
        &[Named("security-group", "GroupId")],
    ),
    ("ec2", "DeleteSnapshot", &[Named("snapshot", "SnapshotId")]),
    ("ec2", "DeleteVolume", &[Named("volume", "VolumeId")]),
    ("ec2", "ModifyVolume", &[Named("volume", "VolumeId")]),
    // The instance is optional, and asked about where it is named.
    (
        "ec2",
        "DetachVolume",
        &[Named("volume", "VolumeId"), Named("instance", "InstanceId")],
    ),
    (
        "ec2",
        "GetConsoleOutput",
        &[Named("instance", "InstanceId")],
    ),
    (
        "ec2",
        "ModifyInstanceAttribute",
        &[
            Named("instance", "InstanceId"),
            Named("security-group", "GroupId"),
        ],
    ),
    ("ec2", "RebootInstances", &[Named("instance", "InstanceId")]),
    (
        "ec2",
        "RevokeSecurityGroupIngress",
        &[Named("security-group", "GroupId")],
    ),
    ("ec2", "RunInstances", &[Launch]),
    (
        "ec2",
        "TerminateInstances",
        &[Named("instance", "InstanceId")],
    ),
    (
        "ec2",
        "UpdateSecurityGroupRuleDescriptionsIngress",
        &[Named("security-group", "GroupId")],
    ),
    (
        "ebs",
        "GetSnapshotBlock",
        &[Named("snapshot", "SnapshotId")],
    ),
    // Both of them (EBS user guide, *Control access to EBS direct APIs using IAM*).
    (
        "ebs",
        "ListChangedBlocks",
        &[
            Named("snapshot", "FirstSnapshotId"),
            Named("snapshot", "SecondSnapshotId"),
        ],
    ),
    (
        "ebs",
        "ListSnapshotBlocks",
        &[Named("snapshot", "SnapshotId")],
    ),
    (
        "ec2-instance-connect",
        "SendSSHPublicKey",
        &[Named("instance", "InstanceId")],
    ),
    (EFS, "CreateFileSystem", &[Share]),
    (EFS, "DescribeFileSystems", &[Everything]),
    (
        EFS,
        "DeleteFileSystem",
        &[Named("file-system", "FileSystemId")],
    ),
    (
        EFS,
        "PutLifecycleConfiguration",
        &[Named("file-system", "FileSystemId")],
    ),
    (
        EFS,
        "DescribeLifecycleConfiguration",
        &[Named("file-system", "FileSystemId")],
    ),
    (
        EFS,
        "CreateMountTarget",
        &[
            Named("file-system", "FileSystemId"),
            InEc2(&[
                "ec2:DescribeSubnets",
                "ec2:DescribeNetworkInterfaces",
                "ec2:CreateNetworkInterface",
            ]),
        ],
    ),
    (EFS, "DescribeMountTargets", &[Everything]),
    (
        EFS,
        "DescribeMountTargetSecurityGroups",
        &[OfTarget, InEc2(&["ec2:DescribeNetworkInterfaceAttribute"])],
    ),
    (
        EFS,
        "DeleteMountTarget",
        &[OfTarget, InEc2(&["ec2:DeleteNetworkInterface"])],
    ),
    // Its resource is a quota, which xdrive's policy names by `*`.
    ("servicequotas", "GetServiceQuota", &[Everything]),
    // AWS Price List has no resources.
    ("pricing", "GetProducts", &[Everything]),
];

/// The questions that the call asks of the policies, in the order in which EC2 is taken to ask
/// them. Calls that describe, and those that are in no row, ask for the whole of EC2; STS's need no
/// right.
pub(super) fn asks(
    local: &Local,
    world: &World,
    now: Timestamp,
    (action, request): (&str, Request<'_>),
) -> Result<Vec<Ask>, ApiError> {
    if matches!(action, "GetCallerIdentity" | "GetSessionToken") {
        return Ok(Vec::new());
    }
    let row = ROWS.iter().find(|(_, name, _)| *name == action);
    let (service, _, on) = row.unwrap_or(&("ec2", "", &[Everything]));
    let asking = Asking {
        local,
        world,
        now,
        action: format!("{service}:{action}"),
        call: action,
        // Of all kinds that the call may make: the call itself refuses wrong ones.
        specified: request.tag_specifications(&KINDS)?,
        request,
    };
    let mut asks = Vec::new();
    for on in *on {
        asking.about(on, &mut asks)?;
    }
    Ok(asks)
}

/// The kinds that a call may tag as it makes them.
const KINDS: [&str; 7] = [
    "elastic-ip",
    "instance",
    "network-interface",
    "security-group",
    "snapshot",
    "spot-instances-request",
    "volume",
];

struct Asking<'a> {
    local: &'a Local,
    world: &'a World,
    now: Timestamp,
    action: String,
    call: &'a str,
    specified: BTreeMap<String, BTreeMap<String, String>>,
    request: Request<'a>,
}

impl Asking<'_> {
    fn about(&self, on: &On, asks: &mut Vec<Ask>) -> Result<(), ApiError> {
        match on {
            Everything => asks.push(self.ask("*".to_owned(), self.context())),
            Named(kind, parameter) => {
                let listed = self.request.list(parameter);
                for id in listed.into_iter().chain(self.request.text(parameter)) {
                    asks.extend(self.existing(kind, id));
                }
            }
            Made(kind) => self.ask_to_make(kind, asks),
            Launch => self.launch(asks)?,
            Share => self.ask_for_a_share(asks)?,
            OfTarget => {
                let target = self.request.text("MountTargetId");
                let target = target.and_then(|id| self.world.targets.get(id));
                asks.extend(target.and_then(|it| self.existing("file-system", &it.file_system)));
            }
            InEc2(actions) => asks.extend(actions.iter().map(|action| Ask {
                action: (*action).to_owned(),
                resource: "*".to_owned(),
                context: self.context(),
            })),
        }
        Ok(())
    }

    fn ask(&self, resource: String, context: Context) -> Ask {
        Ask {
            action: self.action.clone(),
            resource,
            context,
        }
    }

    fn context(&self) -> Context {
        let region = self.local.region().to_owned();
        Context::from([("ec2:Region".to_owned(), vec![region])])
    }

    /// A resource that is there, with its tags, and with those that a call about tags asks for.
    fn existing(&self, kind: &str, id: &str) -> Option<Ask> {
        if !id.starts_with(prefix(kind)) {
            return None;
        }
        let mut context = self.context();
        if let Some(tags) = tags_of(self.world, id, self.now, self.local) {
            add(&mut context, "aws:ResourceTag", tags);
        } else if !matches!(kind, "capacity-reservation" | "image" | "subnet" | "vpc") {
            return None;
        }
        if self.call.ends_with("Tags") {
            let tags = self.request.params().structs("Tag");
            let pairs = tags.iter().map(|tag| {
                let key = tag.get("Key").unwrap_or_default().to_owned();
                (key, tag.get("Value").unwrap_or_default().to_owned())
            });
            requested(&mut context, pairs.collect());
        }
        Some(self.ask(arn(self.local.region(), kind, id), context))
    }

    /// A resource that is made; and the right to tag it, if it gets tags (EC2 user guide, *Grant
    /// permission to tag Amazon EC2 resources during creation*).
    fn ask_to_make(&self, kind: &str, asks: &mut Vec<Ask>) {
        let tags = self.specified.get(kind);
        let mut context = self.context();
        if let Some(tags) = tags {
            requested(&mut context, tags.clone());
        }
        // It has no id yet.
        let resource = arn(self.local.region(), kind, "*");
        asks.push(self.ask(resource.clone(), context.clone()));
        if tags.is_some() {
            let creating = vec![self.call.to_owned()];
            context.insert("ec2:CreateAction".to_owned(), creating);
            asks.push(Ask {
                action: "ec2:CreateTags".to_owned(),
                resource,
                context,
            });
        }
    }

    /// `CreateFileSystem`, and the right to tag what it makes.
    fn ask_for_a_share(&self, asks: &mut Vec<Ask>) -> Result<(), ApiError> {
        let tags = request::tags(self.request.params())?;
        let mut context = self.context();
        requested(&mut context, tags.clone());
        let resource = arn(self.local.region(), "file-system", "*");
        asks.push(self.ask(resource.clone(), context.clone()));
        if !tags.is_empty() {
            let creating = vec![self.call.to_owned()];
            context.insert("elasticfilesystem:CreateAction".to_owned(), creating);
            asks.push(Ask {
                action: format!("{EFS}:TagResource"),
                resource,
                context,
            });
        }
        Ok(())
    }

    /// `RunInstances`. A request of a spot instance is asked about where it is made (EC2 user guide,
    /// *Example IAM policies*, *Work with Spot Instances*; the reference has no row of it).
    fn launch(&self, asks: &mut Vec<Ask>) -> Result<(), ApiError> {
        let request = self.request;
        let image = request.required("ImageId")?;
        if image.starts_with("resolve:ssm:") {
            let region = self.local.region();
            let name = image.trim_start_matches("resolve:ssm:");
            asks.push(Ask {
                action: "ssm:GetParameters".to_owned(),
                resource: format!("arn:aws:ssm:{region}::parameter{name}"),
                context: self.context(),
            });
        }
        asks.extend(self.existing("image", &resolve(self.local, image)?));
        for kind in ["instance", "network-interface", "volume"] {
            self.ask_to_make(kind, asks);
        }
        if request.text("InstanceMarketOptions.MarketType") == Some("spot") {
            self.ask_to_make("spot-instances-request", asks);
        }
        let reserved = request.text(TARGET);
        asks.extend(reserved.and_then(|id| self.existing("capacity-reservation", id)));
        let zones = catalog::zones(self.local.region());
        let subnet = request
            .text("SubnetId")
            .or(request.text("NetworkInterface.1.SubnetId"))
            .or(zones.first().map(|zone| zone.subnet.as_str()));
        asks.extend(subnet.and_then(|id| self.existing("subnet", id)));
        let groups = request.list("SecurityGroupId").into_iter();
        let groups = groups.chain(request.list("NetworkInterface.1.SecurityGroupId"));
        asks.extend(groups.filter_map(|id| self.existing("security-group", id)));
        let profile = request
            .text("IamInstanceProfile.Name")
            .or(request.text("IamInstanceProfile.Arn"));
        if let Some(profile) = profile {
            let name = profile.rsplit('/').next().unwrap_or(profile);
            let mut context = self.context();
            let service = vec!["ec2.amazonaws.com".to_owned()];
            context.insert("iam:PassedToService".to_owned(), service);
            // Here a profile has the role of its name.
            asks.push(Ask {
                action: "iam:PassRole".to_owned(),
                resource: format!("arn:aws:iam::{}:role/{name}", catalog::ACCOUNT),
                context,
            });
        }
        Ok(())
    }
}

impl Ask {
    /// Why the caller may not ask for this; none if it may.
    pub(super) fn refusal(&self, rights: &Rights) -> Option<&'static str> {
        rights.refusal(&self.action, &self.resource, &self.context)
    }

    /// The use of a key by EBS on the caller's behalf.
    pub(super) fn of_key(action: &str, key: &str) -> Self {
        let for_aws = vec!["true".to_owned()];
        Self {
            action: action.to_owned(),
            resource: key.to_owned(),
            context: Context::from([("kms:GrantIsForAWSResource".to_owned(), for_aws)]),
        }
    }
}

/// Adds the tags of a request to its context.
fn requested(context: &mut Context, tags: BTreeMap<String, String>) {
    let keys: Vec<String> = tags.keys().cloned().collect();
    add(context, "aws:RequestTag", tags);
    context.insert("aws:TagKeys".to_owned(), keys);
}

fn add(context: &mut Context, of: &str, tags: impl IntoIterator<Item = (String, String)>) {
    for (key, value) in tags {
        context.insert(format!("{of}/{key}"), vec![value]);
    }
}

/// The prefix of a resource kind's ids.
fn prefix(kind: &str) -> &'static str {
    match kind {
        "instance" => "i-",
        "volume" => "vol-",
        "snapshot" => "snap-",
        "security-group" => "sg-",
        "elastic-ip" => "eipalloc-",
        "spot-instances-request" => "sir-",
        "subnet" => "subnet-",
        "vpc" => "vpc-",
        "file-system" => "fs-",
        "capacity-reservation" => "cr-",
        _ => "ami-",
    }
}
