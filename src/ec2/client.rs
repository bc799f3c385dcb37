//! The calls.

use super::{
    Error, GibiBytes, Instance, InstanceId, Market, Snapshot, SnapshotId, Tags, Volume, VolumeId,
    Zone,
};

/// Which EC2 to talk to.
pub enum Endpoint {
    /// The EC2 in a folder, in this process.
    Local(crate::local::Local),
}

/// EC2, for one caller in one region. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ec2 {
    client: aws_sdk_ec2::Client,
}

/// What to launch.
#[derive(Debug, Clone)]
pub struct LaunchOrder {
    /// Makes a repeated call answer with the first one's instance.
    pub client_token: String,
    /// An AMI id or a `resolve:ssm:` parameter.
    pub image: String,
    /// Such as `t3.medium`.
    pub instance_type: String,
    /// Where; none leaves it to EC2.
    pub zone: Option<Zone>,
    /// How it is paid for.
    pub market: Market,
    /// Plain user data, 16 KiB at most after encoding.
    pub user_data: Vec<u8>,
    /// Tags for the instance.
    pub tags: Tags,
    /// Tags for its root disk.
    pub root_tags: Tags,
}

/// What volume to make.
#[derive(Debug, Clone)]
pub struct VolumeOrder {
    /// Makes a repeated call answer with the first one's volume.
    pub client_token: String,
    /// Where.
    pub zone: Zone,
    /// How large.
    pub size: GibiBytes,
    /// From which snapshot; none makes it empty.
    pub snapshot: Option<SnapshotId>,
    /// Its tags.
    pub tags: Tags,
}

impl Ec2 {
    /// Connects to `endpoint`; no call is made yet.
    pub async fn connect(endpoint: Endpoint) -> Result<Self, Error> {
        let _ = endpoint;
        todo!()
    }

    /// The caller's ARN without its session name (STS `GetCallerIdentity`).
    pub async fn owner(&self) -> Result<String, Error> {
        todo!()
    }

    /// All instances tagged with this drive, terminated ones included; all pages.
    pub async fn instances(&self, drive: &str) -> Result<Vec<Instance>, Error> {
        let _ = drive;
        todo!()
    }

    /// All volumes tagged with this drive, root disks included.
    pub async fn volumes(&self, drive: &str) -> Result<Vec<Volume>, Error> {
        let _ = drive;
        todo!()
    }

    /// All snapshots of this account tagged with this drive.
    pub async fn snapshots(&self, drive: &str) -> Result<Vec<Snapshot>, Error> {
        let _ = drive;
        todo!()
    }

    /// Everything that carries any `xdrive:drive` tag, for `xdrive list`.
    pub async fn everything(&self) -> Result<(Vec<Instance>, Vec<Volume>, Vec<Snapshot>), Error> {
        todo!()
    }

    /// One instance by id; `None` if EC2 does not know it (yet).
    pub async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, Error> {
        let _ = id;
        todo!()
    }

    /// One volume by id; `None` if EC2 does not know it (yet, or any more).
    pub async fn volume(&self, id: &VolumeId) -> Result<Option<Volume>, Error> {
        let _ = id;
        todo!()
    }

    /// One snapshot by id; `None` if EC2 does not know it (yet, or any more).
    pub async fn snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, Error> {
        let _ = id;
        todo!()
    }

    /// `RunInstances`: one instance, one attempt, with `IMDSv2` required at hop limit 1, shutdown
    /// behaviour `terminate`, and tags on instance and root disk in the same call.
    pub async fn launch(&self, order: &LaunchOrder) -> Result<Instance, Error> {
        let _ = order;
        todo!()
    }

    /// `CreateVolume`: gp3, encrypted.
    pub async fn create_volume(&self, order: &VolumeOrder) -> Result<Volume, Error> {
        let _ = order;
        todo!()
    }

    /// `CreateTags` on one resource (any id).
    pub async fn tag(&self, id: &str, tags: &Tags) -> Result<(), Error> {
        let _ = (id, tags);
        todo!()
    }

    /// `AttachVolume`.
    pub async fn attach(
        &self,
        volume: &VolumeId,
        instance: &InstanceId,
        device: &str,
    ) -> Result<(), Error> {
        let _ = (volume, instance, device);
        todo!()
    }

    /// `DetachVolume`, never with `Force`.
    pub async fn detach(&self, volume: &VolumeId, instance: &InstanceId) -> Result<(), Error> {
        let _ = (volume, instance);
        todo!()
    }

    /// `ModifyInstanceAttribute`: the disk at `device` outlives its instance.
    pub async fn keep_on_termination(
        &self,
        instance: &InstanceId,
        device: &str,
    ) -> Result<(), Error> {
        let _ = (instance, device);
        todo!()
    }

    /// `CreateSnapshot`: one attempt. After [`super::Kind::Ambiguous`] look for the `xdrive:op`
    /// tag before trying again.
    pub async fn create_snapshot(&self, volume: &VolumeId, tags: &Tags) -> Result<Snapshot, Error> {
        let _ = (volume, tags);
        todo!()
    }

    /// `TerminateInstances`: one attempt; not found is success.
    pub async fn terminate(&self, instance: &InstanceId) -> Result<(), Error> {
        let _ = instance;
        todo!()
    }

    /// `DeleteVolume`: one attempt; not found is success.
    pub async fn delete_volume(&self, volume: &VolumeId) -> Result<(), Error> {
        let _ = volume;
        todo!()
    }

    /// `DeleteSnapshot`: one attempt; not found is success.
    pub async fn delete_snapshot(&self, snapshot: &SnapshotId) -> Result<(), Error> {
        let _ = snapshot;
        todo!()
    }

    /// `GetConsoleOutput`, decoded, the newest there is.
    pub async fn console(&self, instance: &InstanceId) -> Result<String, Error> {
        let _ = instance;
        todo!()
    }
}
