//! Images and instance types.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::filter::{Field, Filters};
use super::instances::stamp;
use super::page::Page;
use super::request::no_such;
use super::{Answer, Reading};
use crate::Local;
use crate::catalog::{self, InstanceType, TYPES};
use crate::plane::Image;
use crate::wire::{ApiError, Xml};

/// The image that `asked` means: an id, or `resolve:ssm:` and one of AWS's public parameters,
/// which all stand for the first image here, if it has their architecture.
pub(super) fn resolve(local: &Local, asked: &str) -> Result<String, ApiError> {
    let images = local.0.plane.images()?;
    let Some(parameter) = asked.strip_prefix("resolve:ssm:") else {
        let known = images.into_iter().find(|image| image.id == asked);
        return known
            .map(|image| image.id)
            .ok_or_else(|| no_such("ami-", asked));
    };
    if catalog::parameter_architecture(parameter) != Some(catalog::ARCHITECTURE) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            format!(
                "The parameter {parameter} of ImageId ({asked}) could not be resolved: ParameterNotFound"
            ),
        ));
    }
    images
        .into_iter()
        .next()
        .map(|image| image.id)
        .ok_or_else(|| {
            ApiError::client(
                "InvalidAMIID.NotFound",
                "No image has been built in this directory yet",
            )
        })
}

/// The id of the snapshot behind an image's root disks; it has no record.
pub(super) fn root_snapshot(image: &str) -> String {
    format!("snap-{}", image.trim_start_matches("ami-"))
}

/// `DescribeImages`.
pub(super) fn describe(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let ids = request.list("ImageId");
    let images = reading.inner.plane.images()?;
    for id in &ids {
        if !images.iter().any(|known| known.id == *id) {
            return Err(no_such("ami-", id));
        }
    }
    let owners = request.list("Owner");
    let own = owners.is_empty()
        || owners
            .iter()
            .any(|owner| matches!(*owner, "self" | catalog::ACCOUNT));
    let filters = Filters::new(
        request,
        &[
            "architecture",
            "image-id",
            "is-public",
            "name",
            "owner-id",
            "root-device-name",
            "root-device-type",
            "state",
            "virtualization-type",
        ],
        true,
    )?;
    let page = Page::new(request, "DescribeImages", 1, !ids.is_empty())?;
    let mut found = Vec::new();
    for Image { id, name, built } in images.into_iter().filter(|_| own) {
        let wanted = ids.is_empty() || ids.contains(&id.as_str());
        let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
            "architecture" => Field::one(catalog::ARCHITECTURE),
            "image-id" => Field::one(&id),
            "is-public" => Field::one(false),
            "name" => Field::one(&name),
            "owner-id" => Field::one(catalog::ACCOUNT),
            "root-device-name" => Field::one(&reading.inner.root_device),
            "root-device-type" => Field::one("ebs"),
            "state" => Field::one("available"),
            "virtualization-type" => Field::one("hvm"),
            _ => Field::Unknown,
        })?;
        if wanted && passes {
            let item = image(&id, &name, built, &reading.inner.root_device);
            found.push((id, item));
        }
    }
    Ok(page.answer("imagesSet", found))
}

fn image(id: &str, name: &str, built: Timestamp, root_device: &str) -> Vec<Xml> {
    let root = Xml::node(
        "ebs",
        [
            Xml::text("snapshotId", root_snapshot(id)),
            Xml::text("volumeSize", catalog::ROOT_GIB),
            Xml::text("deleteOnTermination", true),
            Xml::text("volumeType", "gp3"),
            Xml::text("encrypted", false),
        ],
    );
    vec![
        Xml::text("imageId", id),
        Xml::text("name", name),
        Xml::text("imageLocation", format!("{}/{name}", catalog::ACCOUNT)),
        Xml::text("imageState", "available"),
        Xml::text("imageOwnerId", catalog::ACCOUNT),
        Xml::text("creationDate", stamp(built)),
        Xml::text("isPublic", false),
        Xml::text("architecture", catalog::ARCHITECTURE),
        Xml::text("imageType", "machine"),
        Xml::text("rootDeviceType", "ebs"),
        Xml::text("rootDeviceName", root_device),
        Xml::text("virtualizationType", "hvm"),
        Xml::text("hypervisor", "xen"),
        Xml::text("enaSupport", true),
        Xml::text("platformDetails", "Linux/UNIX"),
        Xml::list(
            "blockDeviceMapping",
            [vec![Xml::text("deviceName", root_device), root]],
        ),
    ]
}

/// `DescribeInstanceTypes`.
pub(super) fn describe_types(reading: &Reading<'_>) -> Answer {
    let request = reading.request;
    let names = request.list("InstanceType");
    if let Some(name) = names.iter().find(|name| InstanceType::find(name).is_none()) {
        return Err(ApiError::client(
            "InvalidInstanceType",
            format!("The following supplied instance types do not exist: [{name}]"),
        ));
    }
    let filters = Filters::new(
        request,
        &[
            "bare-metal",
            "burstable-performance-supported",
            "current-generation",
            "free-tier-eligible",
            "hypervisor",
            "instance-type",
            "memory-info.size-in-mib",
            "processor-info.supported-architecture",
            "supported-usage-class",
            "vcpu-info.default-vcpus",
        ],
        false,
    )?;
    if let Some(limit) = request.number("MaxResults")?.filter(|limit| *limit > 100) {
        return Err(ApiError::client(
            "InvalidParameterValue",
            format!(
                "Value ( {limit} ) for parameter maxResults is invalid. Expecting a value of at most 100."
            ),
        ));
    }
    let page = Page::new(request, "DescribeInstanceTypes", 5, !names.is_empty())?;
    let mut found = Vec::new();
    for kind in &TYPES {
        let wanted = names.is_empty() || names.contains(&kind.name);
        let passes = filters.pass(&BTreeMap::new(), |filter| match filter {
            "bare-metal" => Field::one(false),
            "burstable-performance-supported" => Field::one(kind.is_burstable()),
            "current-generation" => Field::one(true),
            "free-tier-eligible" => Field::one(kind.is_free()),
            "hypervisor" => Field::one(kind.hypervisor.name()),
            "instance-type" => Field::one(kind.name),
            "memory-info.size-in-mib" => Field::one(kind.memory),
            "processor-info.supported-architecture" => Field::one(kind.architecture),
            "supported-usage-class" => Field::many(["on-demand", "spot"]),
            "vcpu-info.default-vcpus" => Field::one(kind.vcpus),
            _ => Field::Unknown,
        })?;
        if wanted && passes {
            found.push((kind.name.to_owned(), type_item(kind)));
        }
    }
    Ok(page.answer("instanceTypeSet", found))
}

fn type_item(kind: &InstanceType) -> Vec<Xml> {
    let words = |name, words: &[&str]| {
        Xml::node(
            name,
            words
                .iter()
                .map(|word| Xml::text("item", word))
                .collect::<Vec<_>>(),
        )
    };
    let mut item = vec![
        Xml::text("instanceType", kind.name),
        Xml::text("currentGeneration", true),
        Xml::text("bareMetal", false),
        Xml::text("hypervisor", kind.hypervisor.name()),
        words("supportedUsageClasses", &["on-demand", "spot"]),
        words("supportedRootDeviceTypes", &["ebs"]),
        words("supportedVirtualizationTypes", &["hvm"]),
        Xml::node(
            "processorInfo",
            [words("supportedArchitectures", &[kind.architecture])],
        ),
        Xml::node("vCpuInfo", [Xml::text("defaultVCpus", kind.vcpus)]),
        Xml::node("memoryInfo", [Xml::text("sizeInMiB", kind.memory)]),
        Xml::text("burstablePerformanceSupported", kind.is_burstable()),
        Xml::text("freeTierEligible", kind.is_free()),
    ];
    if let Some(gpu) = kind.gpu {
        let one = vec![
            Xml::text("name", gpu.name),
            Xml::text("manufacturer", gpu.manufacturer),
            Xml::text("count", gpu.count()),
            Xml::text("logicalGpuCount", 1),
            Xml::text("gpuPartitionSize", gpu.part),
            Xml::node("memoryInfo", [Xml::text("sizeInMiB", gpu.memory)]),
        ];
        item.push(Xml::node(
            "gpuInfo",
            [
                Xml::list("gpus", [one]),
                Xml::text("totalGpuMemoryInMiB", gpu.memory),
            ],
        ));
    }
    item
}
