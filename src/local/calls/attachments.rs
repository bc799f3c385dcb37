//! `AttachVolume` and `DetachVolume`.
//!
//! A volume is attached to one running instance in its zone. A machine that still has the volume
//! mounted keeps it: the call succeeds, as on EC2, and the attachment stays `detaching`, later
//! `busy`, until the machine releases it.

use jiff::Timestamp;

use super::Answer;
use super::instances::stamp;
use super::request::{Request, no_such};
use crate::change::Change;
use crate::delays::Delays;
use crate::plane::PlaneError;
use crate::records::{Attachment, InstanceState};
use crate::wire::{ApiError, Xml};
use crate::world::Intent;

/// An attachment as EC2 writes it.
pub(super) fn item(
    volume: &str,
    attachment: &Attachment,
    at: Timestamp,
    delays: &Delays,
) -> Vec<Xml> {
    vec![
        Xml::text("volumeId", volume),
        Xml::text("instanceId", &attachment.instance),
        Xml::text("device", &attachment.device),
        Xml::text("status", attachment.status(at, delays.detached)),
        Xml::text("attachTime", stamp(attachment.attaching)),
        Xml::text("deleteOnTermination", attachment.deletes(at)),
    ]
}

/// `AttachVolume`.
pub(super) fn attach(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let volume_id = request.required("VolumeId")?;
    let instance_id = request.required("InstanceId")?;
    let device = request.required("Device")?;
    let now = change.now;
    let delays = change.local.delays().clone();
    let volume = change.world.volumes.get(volume_id);
    let volume = volume.and_then(|volume| Some((volume, volume.state(now)?)));
    let (volume, volume_state) = volume.ok_or_else(|| no_such("vol-", volume_id))?;
    let instance = change.world.instance(instance_id, now, &delays);
    let (instance, instance_state) = instance.ok_or_else(|| no_such("i-", instance_id))?;
    if volume_state == "in-use" {
        return Err(ApiError::client(
            "VolumeInUse",
            format!("{volume_id} is already attached to an instance"),
        ));
    }
    if volume_state != "available" {
        return Err(ApiError::client(
            "IncorrectState",
            format!("{volume_id} is not 'available'."),
        ));
    }
    if !matches!(instance_state, InstanceState::Running) {
        return Err(ApiError::client(
            "IncorrectState",
            format!("Instance '{instance_id}' is not 'running'."),
        ));
    }
    if volume.zone != instance.zone {
        return Err(ApiError::client(
            "InvalidVolume.ZoneMismatch",
            format!(
                "The volume '{volume_id}' is not in the same availability zone as instance \
                 '{instance_id}'"
            ),
        ));
    }
    check_device(device)?;
    let taken = change
        .world
        .attached_to(instance_id, now)
        .any(|(_, volume)| {
            volume
                .attachment(now)
                .is_some_and(|attachment| attachment.device == device)
        });
    if taken {
        return Err(ApiError::client(
            "InvalidParameterValue",
            format!(
                "Invalid value '{device}' for unixDevice. Attachment point {device} is already in use"
            ),
        ));
    }
    if volume.root {
        return Err(ApiError::client(
            "UnsupportedOperation",
            "The EC2 in a folder cannot attach what was a root disk",
        ));
    }
    let intent = Intent::Attach {
        volume: volume_id.to_owned(),
        instance: instance_id.to_owned(),
    };
    let attached = now + delays.attached;
    let due = change.boot_time(attached);
    change.effect(intent, |plane| {
        plane.attach(volume_id, instance_id, device, due)
    })?;
    let attachment = Attachment {
        instance: instance_id.to_owned(),
        device: device.to_owned(),
        attaching: now,
        attached,
        detaching: None,
        detached: None,
        delete_on_termination: vec![(now, false)],
    };
    let answer = item(volume_id, &attachment, now, &delays);
    if let Some(volume) = change.world.volumes.get_mut(volume_id) {
        volume.attachments.push(attachment);
    }
    Ok(answer)
}

/// `/dev/sdf` and `/dev/xvdf` (EC2 user guide, *Device names for volumes on Amazon EC2 instances*).
fn check_device(device: &str) -> Result<(), ApiError> {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    let letters = name
        .strip_prefix("sd")
        .or_else(|| name.strip_prefix("xvd"))
        .unwrap_or("");
    let well_formed =
        (1..=2).contains(&letters.len()) && letters.bytes().all(|b| b.is_ascii_lowercase());
    if well_formed {
        return Ok(());
    }
    Err(ApiError::client(
        "InvalidParameterValue",
        format!(
            "Value ({device}) for parameter device is invalid. {device} is not a valid EBS device name."
        ),
    ))
}

/// `DetachVolume`, in order: there is no `Force` here.
pub(super) fn detach(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let volume_id = request.required("VolumeId")?;
    let now = change.now;
    let delays = change.local.delays().clone();
    let volume = change.world.volumes.get(volume_id);
    let volume = volume.and_then(|volume| Some((volume, volume.state(now)?)));
    let (volume, state) = volume.ok_or_else(|| no_such("vol-", volume_id))?;
    let Some(attachment) = volume.attachment(now) else {
        return Err(ApiError::client(
            "IncorrectState",
            format!("Volume '{volume_id}' is in the '{state}' state."),
        ));
    };
    let instance_id = attachment.instance.clone();
    if let Some(given) = request.text("InstanceId") {
        if change.world.instance(given, now, &delays).is_none() {
            return Err(no_such("i-", given));
        }
        if given != instance_id {
            return Err(not_attached(volume_id, given, "instance"));
        }
    }
    if let Some(device) = request
        .text("Device")
        .filter(|device| *device != attachment.device)
    {
        return Err(not_attached(volume_id, device, "device"));
    }
    let running = change
        .world
        .instance(&instance_id, now, &delays)
        .is_some_and(|(_, state)| !matches!(state, InstanceState::Stopped));
    if volume.root && running {
        return Err(ApiError::client(
            "OperationNotPermitted",
            format!(
                "Unable to detach root volume '{}' from instance '{instance_id}'",
                attachment.device
            ),
        ));
    }
    if attachment.detaching.is_some() {
        return Err(ApiError::client(
            "IncorrectState",
            format!("Volume '{volume_id}' is in the 'detaching' state."),
        ));
    }
    let intent = Intent::Detach {
        volume: volume_id.to_owned(),
        instance: instance_id.clone(),
    };
    let root = volume.root;
    let out = match change.effect(intent, |plane| {
        if root {
            Ok(())
        } else {
            plane.detach(volume_id, &instance_id)
        }
    }) {
        // An instance that is off holds no volume.
        Ok(()) | Err(PlaneError::Gone) => true,
        Err(PlaneError::Busy) => false,
        Err(error) => return Err(error.into()),
    };
    let attachment = change
        .world
        .volumes
        .get_mut(volume_id)
        .and_then(|volume| volume.attachment_mut(now));
    let Some(attachment) = attachment else {
        return Err(no_such("vol-", volume_id));
    };
    attachment.detaching = Some(now);
    attachment.detached = out.then(|| now + delays.detached);
    Ok(item(volume_id, attachment, now, &delays))
}

fn not_attached(volume: &str, to: &str, what: &str) -> ApiError {
    ApiError::client(
        "InvalidAttachment.NotFound",
        format!("The volume '{volume}' is not attached to {what} '{to}'."),
    )
}
