//! The EC2 in a folder, on paper: its answers, its time, its records.

mod directory;
mod groups;
mod interrupted;
mod laws;
mod life;
mod lists;
mod modified;
mod real;
mod refusals;
mod reservations;
mod tokens;
mod wide;

use std::collections::BTreeMap;
use std::time::Duration;

use xdrive::local::Local;
use xdrive::local::wire::{ApiError, Params, Xml};

use crate::folder::Folder;

impl Folder {
    /// Calls, and expects success.
    #[track_caller]
    pub(crate) fn call(&self, action: &str, params: &[(&str, &str)]) -> Xml {
        match self.try_call(action, params) {
            Ok(answer) => answer,
            Err(error) => panic!("{action}: {error}"),
        }
    }

    pub(crate) fn try_call(&self, action: &str, params: &[(&str, &str)]) -> Result<Xml, ApiError> {
        call(&self.local, action, params)
    }

    /// Calls, and expects a refusal: its code.
    #[track_caller]
    pub(crate) fn refused(&self, action: &str, params: &[(&str, &str)]) -> String {
        match self.try_call(action, params) {
            Ok(answer) => panic!("{action} was carried out: {answer:?}"),
            Err(error) => error.code,
        }
    }

    /// An instance in `us-east-1a`, just launched.
    #[track_caller]
    pub(crate) fn launch(&self) -> String {
        let answer = self.call("RunInstances", &launch_params("us-east-1a"));
        text(&answer, "instanceId")
    }

    /// An empty volume in `us-east-1a`, just made.
    #[track_caller]
    pub(crate) fn volume(&self) -> String {
        let answer = self.call(
            "CreateVolume",
            &[
                ("AvailabilityZone", "us-east-1a"),
                ("Size", "8"),
                ("VolumeType", "gp3"),
            ],
        );
        text(&answer, "volumeId")
    }

    /// The `instanceState` of one instance.
    #[track_caller]
    pub(crate) fn instance_state(&self, id: &str) -> String {
        let answer = self.call("DescribeInstances", &[("InstanceId.1", id)]);
        text(find(&answer, "instanceState").unwrap(), "name")
    }

    /// The `status` of one volume; `gone` if EC2 does not know it.
    pub(crate) fn volume_state(&self, id: &str) -> String {
        match self.try_call("DescribeVolumes", &[("VolumeId.1", id)]) {
            Ok(answer) => text(&answer.children[0].children[0], "status"),
            Err(error) => {
                assert_eq!(error.code, "InvalidVolume.NotFound");
                "gone".to_owned()
            }
        }
    }
}

pub(crate) fn call(local: &Local, action: &str, params: &[(&str, &str)]) -> Result<Xml, ApiError> {
    let pairs = params
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    local.call(action, &Params::new(pairs))
}

/// The parameters that launch one instance in `zone`.
pub(crate) fn launch_params(zone: &str) -> Vec<(&str, &str)> {
    vec![
        ("ImageId", IMAGE),
        ("InstanceType", "t3.micro"),
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("Placement.AvailabilityZone", zone),
    ]
}

/// The public parameter of an image.
pub(crate) const IMAGE: &str =
    "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id";

/// The first element called `name`, anywhere below.
pub(crate) fn find<'a>(xml: &'a Xml, name: &str) -> Option<&'a Xml> {
    xml.children.iter().find_map(|child| {
        if child.name == name {
            Some(child)
        } else {
            find(child, name)
        }
    })
}

/// The text of the first element called `name`, anywhere below.
#[track_caller]
pub(crate) fn text(xml: &Xml, name: &str) -> String {
    let found = find(xml, name).unwrap_or_else(|| panic!("no {name} in {xml:?}"));
    found.text.clone().unwrap_or_default()
}

/// The text of every element called `name`, anywhere below, in order.
pub(crate) fn texts(xml: &Xml, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for child in &xml.children {
        if child.name == name {
            found.extend(child.text.clone());
        }
        found.extend(texts(child, name));
    }
    found
}

/// The first tags anywhere below.
pub(crate) fn tags(xml: &Xml) -> BTreeMap<String, String> {
    let set = find(xml, "tagSet").unwrap();
    set.children
        .iter()
        .map(|item| (text(item, "key"), text(item, "value")))
        .collect()
}

/// Time passes; nothing runs meanwhile.
pub(crate) async fn pass(seconds: f64) {
    tokio::time::advance(Duration::from_secs_f64(seconds)).await;
}
