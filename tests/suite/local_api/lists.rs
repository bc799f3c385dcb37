//! Describe calls: filters, pages, and answers about the world as it was.

use std::collections::BTreeSet;

use xdrive::local::Settings;

use super::{find, launch_params, pass, tags, text, texts};
use crate::folder::Folder;

fn tagged(folder: &Folder, zone: &str, key: &str, value: &str) -> String {
    let mut params = launch_params(zone);
    params.extend([
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.1.Tag.1.Key", key),
        ("TagSpecification.1.Tag.1.Value", value),
        ("TagSpecification.2.ResourceType", "volume"),
        ("TagSpecification.2.Tag.1.Key", key),
        ("TagSpecification.2.Tag.1.Value", value),
    ]);
    text(&folder.call("RunInstances", &params), "instanceId")
}

#[tokio::test(start_paused = true)]
async fn filters_choose_instances() {
    let folder = Folder::aws();
    let one = tagged(&folder, "us-east-1a", "xdrive:drive", "demo");
    let two = tagged(&folder, "us-east-1b", "xdrive:drive", "demo-2");
    pass(20.0).await;
    let three = tagged(&folder, "us-east-1b", "other", "demo");
    let all = BTreeSet::from([one.clone(), two.clone(), three.clone()]);
    let one = BTreeSet::from([one]);
    let two = BTreeSet::from([two]);
    let three = BTreeSet::from([three]);
    let both: BTreeSet<_> = one.union(&two).cloned().collect();
    let none = BTreeSet::new();
    for (filters, expected) in [
        (vec![("tag:xdrive:drive", vec!["demo"])], &one),
        (vec![("tag:xdrive:drive", vec!["demo*"])], &both),
        (vec![("tag:xdrive:drive", vec!["demo", "demo-?"])], &both),
        (vec![("tag-key", vec!["xdrive:*"])], &both),
        (
            vec![("tag-value", vec!["demo"]), ("tag-key", vec!["other"])],
            &three,
        ),
        (vec![("instance-state-name", vec!["running"])], &both),
        (
            vec![("instance-state-name", vec!["pending", "running"])],
            &all,
        ),
        (vec![("instance-state-code", vec!["0"])], &three),
        (
            vec![
                ("availability-zone", vec!["us-east-1b"]),
                ("tag-key", vec!["other"]),
            ],
            &three,
        ),
        (
            vec![("block-device-mapping.device-name", vec!["/dev/xvda"])],
            &all,
        ),
        (vec![("instance-lifecycle", vec!["spot"])], &none),
        (vec![("tag:Xdrive:drive", vec!["demo"])], &none),
    ] {
        let mut params = Vec::new();
        for (index, (name, values)) in (1..).zip(&filters) {
            params.push((format!("Filter.{index}.Name"), *name));
            for (number, value) in (1..).zip(values) {
                params.push((format!("Filter.{index}.Value.{number}"), *value));
            }
        }
        let params: Vec<_> = params
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let answer = folder.call("DescribeInstances", &params);
        let found: BTreeSet<_> = texts(&answer, "instanceId").into_iter().collect();
        assert_eq!(found, *expected, "{filters:?}");
    }
    let roots = folder.call(
        "DescribeVolumes",
        &[
            ("Filter.1.Name", "tag:xdrive:drive"),
            ("Filter.1.Value.1", "demo"),
        ],
    );
    assert_eq!(
        texts(&roots, "instanceId"),
        one.iter().cloned().collect::<Vec<_>>()
    );
    assert_eq!(text(&roots, "deleteOnTermination"), "true");
}

#[tokio::test(start_paused = true)]
async fn pages_hold_everything_once_whatever_happens_between_them() {
    let folder = Folder::aws();
    let mut volumes: BTreeSet<String> = (0..23).map(|_| folder.volume()).collect();
    pass(10.0).await;
    let mut seen = Vec::new();
    let mut token: Option<String> = None;
    for page in 0.. {
        let mut params = vec![("MaxResults", "5")];
        if let Some(token) = &token {
            params.push(("NextToken", token));
        }
        let answer = folder.call("DescribeVolumes", &params);
        let ids = texts(&answer, "volumeId");
        assert!(ids.len() <= 5);
        seen.extend(ids.clone());
        if page == 1 {
            // The token names a resource that is deleted before its use.
            folder.call("DeleteVolume", &[("VolumeId", ids.last().unwrap())]);
            pass(10.0).await;
        }
        match find(&answer, "nextToken").and_then(|next| next.text.clone()) {
            None => break,
            next => token = next,
        }
    }
    assert_eq!(seen.len(), 23);
    for id in seen {
        assert!(volumes.remove(&id), "{id} twice");
    }
    let stolen = [("NextToken", token.unwrap())];
    let stolen = stolen
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    assert_eq!(
        folder.refused("DescribeInstances", &stolen),
        "InvalidParameterValue"
    );
}

#[tokio::test(start_paused = true)]
async fn stale_lists_show_the_world_as_it_was() {
    let folder = Folder::new(Settings {
        stale_lists_ms: Some(5000),
        stale_reads_ms: Some(1000),
        ..Settings::default()
    });
    let volume = folder.volume();
    let listed = || texts(&folder.call("DescribeVolumes", &[]), "volumeId");
    assert_eq!(folder.volume_state(&volume), "gone");
    pass(1.1).await;
    assert_eq!(folder.volume_state(&volume), "available");
    assert!(listed().is_empty());
    pass(4.0).await;
    assert_eq!(listed(), [volume.as_str()]);
    folder.call(
        "CreateTags",
        &[
            ("ResourceId.1", &volume),
            ("Tag.1.Key", "new"),
            ("Tag.1.Value", "1"),
        ],
    );
    let filter = [("Filter.1.Name", "tag:new"), ("Filter.1.Value.1", "1")];
    assert!(texts(&folder.call("DescribeVolumes", &filter), "volumeId").is_empty());
    let by_id = [("VolumeId.1", volume.as_str())];
    assert!(tags(&folder.call("DescribeVolumes", &by_id)).is_empty());
    pass(1.1).await;
    assert_eq!(tags(&folder.call("DescribeVolumes", &by_id)).len(), 1);
    pass(4.0).await;
    assert_eq!(
        texts(&folder.call("DescribeVolumes", &filter), "volumeId"),
        [volume.as_str()]
    );
    folder.call("DeleteVolume", &[("VolumeId", &volume)]);
    assert_eq!(listed(), [volume.as_str()]);
    assert_eq!(folder.volume_state(&volume), "available");
    pass(1.1).await;
    assert_eq!(folder.volume_state(&volume), "gone");
    assert_eq!(listed(), [volume.as_str()]);
    pass(4.0).await;
    assert!(listed().is_empty());
    assert!(folder.local.delays().settle() > std::time::Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn describe_tags_lists_them_across_kinds() {
    let folder = Folder::aws();
    let instance = tagged(&folder, "us-east-1a", "xdrive:drive", "demo");
    let answer = folder.call(
        "DescribeTags",
        &[
            ("Filter.1.Name", "key"),
            ("Filter.1.Value.1", "xdrive:drive"),
        ],
    );
    assert_eq!(texts(&answer, "resourceType"), ["instance", "volume"]);
    assert_eq!(texts(&answer, "resourceId")[0], instance);
    folder.call(
        "DeleteTags",
        &[("ResourceId.1", &instance), ("Tag.1.Key", "xdrive:drive")],
    );
    let answer = folder.call("DescribeTags", &[]);
    assert_eq!(texts(&answer, "resourceType"), ["volume"]);
}

#[tokio::test(start_paused = true)]
async fn the_catalogue_answers() {
    let folder = Folder::aws();
    let zones = folder.call("DescribeAvailabilityZones", &[]);
    assert_eq!(
        texts(&zones, "zoneName"),
        ["us-east-1a", "us-east-1b", "us-east-1c"]
    );
    assert!(
        texts(&folder.call("DescribeRegions", &[]), "regionName").contains(&"us-east-1".into())
    );
    let subnets = folder.call(
        "DescribeSubnets",
        &[
            ("Filter.1.Name", "default-for-az"),
            ("Filter.1.Value.1", "true"),
        ],
    );
    assert_eq!(texts(&subnets, "availabilityZone").len(), 3);
    assert_eq!(text(&folder.call("DescribeVpcs", &[]), "isDefault"), "true");
    let types = folder.call(
        "DescribeInstanceTypes",
        &[("InstanceType.1", "g4dn.xlarge")],
    );
    assert_eq!(
        text(find(&types, "gpuInfo").unwrap(), "manufacturer"),
        "NVIDIA"
    );
    assert_eq!(text(&types, "defaultVCpus"), "4");
    assert_eq!(text(&types, "hypervisor"), "nitro");
    let xen = [("Filter.1.Name", "hypervisor"), ("Filter.1.Value.1", "xen")];
    let xen = texts(&folder.call("DescribeInstanceTypes", &xen), "instanceType");
    assert_eq!(xen, ["t2.large", "t2.medium", "t2.micro"]);
    let prices = folder.call(
        "DescribeSpotPriceHistory",
        &[
            ("InstanceType.1", "t3.micro"),
            ("ProductDescription.1", "Linux/UNIX"),
            ("StartTime", "2027-01-15T08:00:00Z"),
        ],
    );
    assert_eq!(
        texts(&prices, "spotPrice"),
        ["0.003120", "0.003536", "0.003952"]
    );
    assert_eq!(
        text(
            &folder.call("DescribeImages", &[("Owner.1", "self")]),
            "imageState"
        ),
        "available"
    );
    assert!(text(&folder.call("GetCallerIdentity", &[]), "Arn").starts_with("arn:aws:iam::"));
}
