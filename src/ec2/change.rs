//! The calls that change the cloud.
//!
//! A call that destroys, or creates without a token that EC2 honours, is attempted exactly once:
//! after a lost answer the caller looks before it acts again. A call that destroys takes a proof
//! ([`super::proof`]), not an id. Tags are part of the create call, so that nothing is ever without
//! an owner.

use std::time::Duration;

use aws_sdk_ec2::operation::run_instances::RunInstancesOutput;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{
    BlockDeviceMapping, CapacityReservationSpecification, CapacityReservationTarget,
    EbsBlockDevice, EbsInstanceBlockDeviceSpecification, HttpTokensState,
    IamInstanceProfileSpecification, InstanceBlockDeviceMappingSpecification,
    InstanceInterruptionBehavior, InstanceMarketOptionsRequest, InstanceMetadataEndpointState,
    InstanceMetadataOptionsRequest, InstanceNetworkInterfaceSpecification, InstanceType,
    MarketType, Placement, ResourceType, ShutdownBehavior, SpotInstanceType, SpotMarketOptions,
    Tag, TagSpecification, VolumeType,
};

use super::client::unless_throttled;
use super::error::NO_GROUP;
use super::{
    Ec2, Encryption, Error, GibiBytes, Instance, Kind, Market, MayDelete, MayPrune, MayTerminate,
    Permit as _, Price, Snapshot, Speed, Tags, Volume, Zone, convert,
};
use crate::ids::{GroupId, InstanceId, ReservationId, SnapshotId, SubnetId, VolumeId};
use crate::retry::retry;

/// The name of the call that launches.
const LAUNCH: &str = "RunInstances";

/// Pauses before a launch with a new security group is retried: new ids lag by seconds (EC2 user
/// guide, *Eventual consistency in the Amazon EC2 API*).
const UNSEEN: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// An instance to launch.
#[derive(Clone)]
pub struct LaunchOrder {
    /// Makes a repeated call return the first one's instance; at most 60 ASCII characters.
    pub client_token: String,
    /// An AMI id or a `resolve:ssm:` parameter.
    pub image: String,
    /// The instance type, such as `t3.medium`.
    pub instance_type: String,
    /// The zone; none leaves it to EC2.
    pub zone: Option<Zone>,
    /// The subnet; none takes the default subnet of the zone.
    pub subnet: Option<SubnetId>,
    /// Whether it gets a public address even where its subnet gives none. If not, the subnet
    /// decides.
    pub public_address: bool,
    /// The instance's security groups; empty takes the VPC's default group.
    pub groups: Vec<GroupId>,
    /// The device of its image's root disk, which is encrypted then; none leaves the disk as the
    /// image and the account have it. EC2 refuses a name other than the image's
    /// ([`Error::lacks_root_device`]): it would be another disk, without a size.
    pub root_device: Option<String>,
    /// The IAM role it gets, by its instance profile's name or ARN; none by default.
    pub instance_profile: Option<String>,
    /// How it is paid for.
    pub market: Market,
    /// For spot: the price limit; none leaves it at the on-demand price.
    pub max_price: Option<Price>,
    /// On demand: the capacity reservation that it runs in, or nowhere.
    pub reservation: Option<ReservationId>,
    /// Plain user data, 16 KiB at most after encoding.
    pub user_data: Vec<u8>,
    /// Tags for the instance.
    pub tags: Tags,
    /// Tags for its root disk.
    pub root_tags: Tags,
    /// Tags for its network interface, if it is to have some.
    pub interface_tags: Tags,
}

/// Without the user data, which has a private key.
impl std::fmt::Debug for LaunchOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaunchOrder")
            .field("image", &self.image)
            .field("instance_type", &self.instance_type)
            .field("zone", &self.zone)
            .finish_non_exhaustive()
    }
}

/// The volume to make.
#[derive(Debug, Clone)]
pub struct VolumeOrder {
    /// Makes a repeated call return the first one's volume.
    pub client_token: String,
    /// The volume's zone.
    pub zone: Zone,
    /// The volume's size.
    pub size: GibiBytes,
    /// The snapshot to make it from; none makes it empty.
    pub snapshot: Option<SnapshotId>,
    /// The volume's speed. The initialization rate applies only to a volume from a snapshot.
    pub speed: Speed,
    /// The volume's tags.
    pub tags: Tags,
}

impl Ec2 {
    /// `RunInstances`: one instance, one attempt, with `IMDSv2` required at hop limit 1, shutdown
    /// behaviour `terminate`, and tags on instance, root disk and spot request in the same call.
    pub async fn launch(&self, order: &LaunchOrder) -> Result<Instance, Error> {
        let answer = send_launch(&self.launch_request(order)).await;
        let answer = answer.map_err(|error| match (error.kind, error.code.as_str()) {
            // Not final: a group may be made again under another id.
            (Kind::NotFound, NO_GROUP) => error,
            // Otherwise an image or a subnet of the order is missing, whose ids are not new.
            (Kind::NotFound, _) => Error {
                kind: Kind::Invalid,
                ..error
            },
            // "No default subnet for availability zone": nothing else is missing in any order.
            (_, "MissingInput") => Error {
                kind: Kind::Capacity,
                ..error
            },
            _ => error,
        })?;
        let launched = answer
            .instances()
            .first()
            .ok_or_else(|| Error::unreadable(LAUNCH, "no instance is in it"))?;
        convert::instance(launched).map_err(|doubt| Error::unreadable(LAUNCH, doubt))
    }

    pub(super) fn launch_request(&self, order: &LaunchOrder) -> RunInstancesFluentBuilder {
        let mut request = self
            .once
            .run_instances()
            .client_token(&order.client_token)
            .image_id(&order.image)
            .instance_type(InstanceType::from(order.instance_type.as_str()))
            .min_count(1)
            .max_count(1)
            // It goes with one-time spot: EC2 accepts both together.
            .instance_initiated_shutdown_behavior(ShutdownBehavior::Terminate)
            .user_data(aws_smithy_types::base64::encode(&order.user_data))
            .metadata_options(
                InstanceMetadataOptionsRequest::builder()
                    .http_endpoint(InstanceMetadataEndpointState::Enabled)
                    .http_tokens(HttpTokensState::Required)
                    // The default is 2 on ECS images: containers would reach the role's keys.
                    .http_put_response_hop_limit(1)
                    .build(),
            )
            .set_tag_specifications(Some(specified(order)))
            .set_iam_instance_profile(order.instance_profile.as_deref().map(profile));
        if let Some(device) = &order.root_device {
            // All else stays as the image has it.
            let encrypted = EbsBlockDevice::builder().encrypted(true).build();
            request = request.block_device_mappings(
                BlockDeviceMapping::builder()
                    .device_name(device)
                    .ebs(encrypted)
                    .build(),
            );
        }
        let subnet = order.subnet.as_ref().map(ToString::to_string);
        if order.public_address {
            // With an interface, subnet and groups are set on it: EC2 refuses them beside one.
            let groups = order.groups.iter().map(ToString::to_string).collect();
            request = request.network_interfaces(
                InstanceNetworkInterfaceSpecification::builder()
                    .device_index(0)
                    .associate_public_ip_address(true)
                    .delete_on_termination(true)
                    .set_subnet_id(subnet)
                    .set_groups(Some(groups))
                    .build(),
            );
        } else {
            request = request.set_subnet_id(subnet);
            for group in &order.groups {
                request = request.security_group_ids(group.as_str());
            }
        }
        if let Some(zone) = &order.zone {
            request = request.placement(Placement::builder().availability_zone(&zone.0).build());
        }
        if let Some(id) = &order.reservation {
            let target = CapacityReservationTarget::builder().capacity_reservation_id(id.as_str());
            request = request.capacity_reservation_specification(
                CapacityReservationSpecification::builder()
                    .capacity_reservation_target(target.build())
                    .build(),
            );
        }
        match order.market {
            Market::OnDemand => request,
            Market::Spot => request.instance_market_options(
                InstanceMarketOptionsRequest::builder()
                    .market_type(MarketType::Spot)
                    .spot_options(
                        SpotMarketOptions::builder()
                            .spot_instance_type(SpotInstanceType::OneTime)
                            .instance_interruption_behavior(InstanceInterruptionBehavior::Terminate)
                            .set_max_price(order.max_price.map(Price::decimal))
                            .build(),
                    )
                    .build(),
            ),
        }
    }

    /// `CreateVolume`: gp3, encrypted. Repeated by the SDK, under one token.
    pub async fn create_volume(&self, order: &VolumeOrder) -> Result<Volume, Error> {
        const CALL: &str = "CreateVolume";
        let size = i32::try_from(order.size).map_err(|_| Error {
            call: CALL,
            kind: Kind::Invalid,
            code: String::new(),
            message: format!("{} GiB is more than EC2 can count", order.size),
        })?;
        let number = |value: Option<u32>| value.and_then(|value| i32::try_from(value).ok());
        let warm = order.snapshot.as_ref().and(order.speed.warm);
        let answer = self
            .patient
            .create_volume()
            .client_token(&order.client_token)
            .availability_zone(&order.zone.0)
            .volume_type(VolumeType::Gp3)
            .encrypted(true)
            .size(size)
            .set_snapshot_id(order.snapshot.as_ref().map(ToString::to_string))
            .set_iops(number(order.speed.iops))
            .set_throughput(number(order.speed.throughput))
            .set_volume_initialization_rate(number(warm))
            .tag_specifications(tagged(ResourceType::Volume, &order.tags))
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        convert::created_volume(answer).map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// `CreateTags` on one resource (any id). Harmless to repeat.
    pub async fn tag(&self, id: &str, tags: &Tags) -> Result<(), Error> {
        self.patient
            .create_tags()
            .resources(id)
            .set_tags(Some(tag_list(tags)))
            .send()
            .await
            .map_err(|error| Error::from_sdk("CreateTags", &error))?;
        Ok(())
    }

    /// `AttachVolume`: one attempt.
    pub async fn attach(
        &self,
        volume: &VolumeId,
        instance: &InstanceId,
        device: &str,
    ) -> Result<(), Error> {
        let request = self
            .once
            .attach_volume()
            .volume_id(volume.as_str())
            .instance_id(instance.as_str())
            .device(device);
        unless_throttled("AttachVolume", || request.clone().send()).await?;
        Ok(())
    }

    /// `DetachVolume`, never with `Force`: one attempt.
    pub async fn detach(&self, volume: &VolumeId, instance: &InstanceId) -> Result<(), Error> {
        let request = self
            .once
            .detach_volume()
            .volume_id(volume.as_str())
            .instance_id(instance.as_str());
        unless_throttled("DetachVolume", || request.clone().send()).await?;
        Ok(())
    }

    /// `ModifyInstanceAttribute`: the disk at `device` outlives its instance. Harmless to repeat.
    pub async fn keep_on_termination(
        &self,
        instance: &InstanceId,
        device: &str,
    ) -> Result<(), Error> {
        let keep = EbsInstanceBlockDeviceSpecification::builder()
            .delete_on_termination(false)
            .build();
        self.patient
            .modify_instance_attribute()
            .instance_id(instance.as_str())
            .block_device_mappings(
                InstanceBlockDeviceMappingSpecification::builder()
                    .device_name(device)
                    .ebs(keep)
                    .build(),
            )
            .send()
            .await
            .map_err(|error| Error::from_sdk("ModifyInstanceAttribute", &error))?;
        Ok(())
    }

    /// `CreateSnapshot`: one attempt. After [`Kind::Ambiguous`] or [`Kind::Server`] look for the
    /// `xdrive:op` tag before trying again.
    pub async fn create_snapshot(&self, volume: &VolumeId, tags: &Tags) -> Result<Snapshot, Error> {
        const CALL: &str = "CreateSnapshot";
        let request = self
            .once
            .create_snapshot()
            .volume_id(volume.as_str())
            .tag_specifications(tagged(ResourceType::Snapshot, tags));
        let answer = unless_throttled(CALL, || request.clone().send()).await?;
        convert::created_snapshot(answer).map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// `CopySnapshot` of a snapshot of the region `from`, this one or another, to this region: one
    /// attempt, as [`Self::create_snapshot`]; returns the copy's id. Within a region and under the same
    /// key no data is copied, and nothing is billed (EBS user guide, *Copy an Amazon EBS snapshot*): it
    /// is named, since EC2 takes the account's default one otherwise. The copy of a snapshot that is not
    /// encrypted is: the first save under encryption would be a whole copy all the same.
    pub async fn copy_snapshot(
        &self,
        from: &str,
        source: &SnapshotId,
        tags: &Tags,
    ) -> Result<SnapshotId, Error> {
        const CALL: &str = "CopySnapshot";
        let permit = if self.is_aws() {
            let permit = self.copy_permit(from, source).await;
            Some(permit.map_err(|problem| Error::unsent(CALL, problem))?)
        } else {
            None
        };
        // A key is a region's: one of another region says nothing here.
        let encryption = if from == self.region() {
            Box::pin(self.encryption(source)).await?
        } else {
            None
        };
        let (encrypted, key) = match encryption {
            Some(Encryption::By(key)) => (Some(true), key),
            Some(Encryption::None) => (Some(true), None),
            None => (None, None),
        };
        let request = self
            .once
            .copy_snapshot()
            .source_region(from)
            .source_snapshot_id(source.as_str())
            .set_encrypted(encrypted)
            .set_kms_key_id(key)
            .set_presigned_url(permit)
            .tag_specifications(tagged(ResourceType::Snapshot, tags));
        let answer = unless_throttled(CALL, || request.clone().send()).await?;
        convert::id("the copy's id", answer.snapshot_id())
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// `TerminateInstances`: one attempt; not found is success.
    pub async fn terminate(&self, proof: MayTerminate) -> Result<(), Error> {
        let answer = self
            .once
            .terminate_instances()
            .instance_ids(proof.used_for())
            .send()
            .await;
        let answer = answer.map_err(|error| Error::from_sdk("TerminateInstances", &error));
        ignore_gone(answer, "InvalidInstanceID.NotFound")
    }

    /// `DeleteVolume`: one attempt; not found is success.
    pub async fn delete_volume(&self, proof: MayDelete) -> Result<(), Error> {
        let answer = self
            .once
            .delete_volume()
            .volume_id(proof.used_for())
            .send()
            .await;
        let answer = answer.map_err(|error| Error::from_sdk("DeleteVolume", &error));
        ignore_gone(answer, "InvalidVolume.NotFound")
    }

    /// `DeleteSnapshot`: one attempt; not found is success.
    pub async fn delete_snapshot(&self, proof: MayPrune) -> Result<(), Error> {
        let answer = self
            .once
            .delete_snapshot()
            .snapshot_id(proof.used_for())
            .send()
            .await;
        let answer = answer.map_err(|error| Error::from_sdk("DeleteSnapshot", &error));
        ignore_gone(answer, "InvalidSnapshot.NotFound")
    }
}

/// `RunInstances`, retried while EC2 does not see a new security group: such a call is not carried
/// out.
async fn send_launch(request: &RunInstancesFluentBuilder) -> Result<RunInstancesOutput, Error> {
    let is_early = |answer: &Result<_, Error>| answer.as_ref().is_err_and(Error::lacks_group);
    let send = || unless_throttled(LAUNCH, || request.clone().send());
    retry(&UNSEEN, is_early, send).await
}

/// Success if `code` reports that the resource itself is gone; another missing one is an error. Not
/// retried, not even after throttling: the proof is good for seconds only, so the caller must look
/// again.
fn ignore_gone<T>(answer: Result<T, Error>, code: &str) -> Result<(), Error> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.code == code => Ok(()),
        Err(error) => Err(error),
    }
}

/// The tags of all that a launch makes.
fn specified(order: &LaunchOrder) -> Vec<TagSpecification> {
    let mut all = vec![
        tagged(ResourceType::Instance, &order.tags),
        tagged(ResourceType::Volume, &order.root_tags),
    ];
    if !order.interface_tags.is_empty() {
        let tags = tagged(ResourceType::NetworkInterface, &order.interface_tags);
        all.push(tags);
    }
    if order.market == Market::Spot {
        let tags = tagged(ResourceType::SpotInstancesRequest, &order.tags);
        all.push(tags);
    }
    all
}

/// An instance profile, by its ARN if `named` is one, else by its name.
fn profile(named: &str) -> IamInstanceProfileSpecification {
    let profile = IamInstanceProfileSpecification::builder();
    if named.starts_with("arn:") {
        profile.arn(named).build()
    } else {
        profile.name(named).build()
    }
}

pub(super) fn tagged(resource: ResourceType, tags: &Tags) -> TagSpecification {
    TagSpecification::builder()
        .resource_type(resource)
        .set_tags(Some(tag_list(tags)))
        .build()
}

fn tag_list(tags: &Tags) -> Vec<Tag> {
    tags.iter()
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect()
}
