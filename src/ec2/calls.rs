//! The one list of calls that xdrive makes, and the right that each of them needs.
//!
//! The policy and the doctor are made from it. A call that is sent and not listed panics where
//! debug assertions are on ([`super::trace`]), so in every test. A test here finds calls that are
//! listed and never sent. Resources and condition keys: Service authorization reference, *Actions,
//! resources, and condition keys for Amazon EC2*, *… Amazon EBS*, *… EC2 Instance Connect*.

use super::{DRIVE, OWNER};

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its name in the API, such as `RunInstances`.
    pub name: &'static str,
    /// The service's name in IAM, such as `ec2`.
    pub service: &'static str,
    /// The right that it needs.
    pub right: Right,
}

/// The right that a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// None: any credentials will do.
    Free,
    /// To read; IAM cannot narrow it to single resources.
    Read,
    /// To use, change or destroy resources of these kinds that carry this tag.
    Own {
        /// Kinds of resources, as ARNs have them.
        kinds: &'static [&'static str],
        /// The tag.
        tag: &'static str,
    },
    /// To make resources of these kinds with this tag, by the use of others.
    Make {
        /// What is made.
        kinds: &'static [&'static str],
        /// The tag that each of them gets in the same call.
        tag: &'static str,
        /// The kinds of resources that the call uses.
        with: &'static [&'static str],
    },
}

/// All of them, by name.
pub const CALLS: &[Call] = &[
    own("AttachVolume", &["instance", "volume"]),
    group("AuthorizeSecurityGroupIngress"),
    // A copy and its source are snapshots, and both are asked about with the copy's tags.
    make("CopySnapshot", &["snapshot"], &[]),
    Call {
        name: "CreateSecurityGroup",
        service: "ec2",
        right: Right::Make {
            kinds: &["security-group"],
            tag: OWNER,
            with: &["vpc"],
        },
    },
    make("CreateSnapshot", &["snapshot"], &["volume"]),
    own("CreateTags", &["instance", "volume", "snapshot"]),
    make("CreateVolume", &["volume"], &["snapshot"]),
    group("DeleteSecurityGroup"),
    own("DeleteSnapshot", &["snapshot"]),
    own("DeleteVolume", &["volume"]),
    read("DescribeImages"),
    read("DescribeInstanceStatus"),
    read("DescribeInstanceTypes"),
    read("DescribeInstances"),
    read("DescribeRouteTables"),
    read("DescribeSecurityGroups"),
    read("DescribeSnapshots"),
    read("DescribeSpotInstanceRequests"),
    read("DescribeSpotPriceHistory"),
    read("DescribeSubnets"),
    read("DescribeVolumes"),
    read("DescribeVpcs"),
    own("DetachVolume", &["instance", "volume"]),
    Call {
        name: "GetCallerIdentity",
        service: "sts",
        right: Right::Free,
    },
    own("GetConsoleOutput", &["instance"]),
    Call {
        service: "servicequotas",
        ..read("GetServiceQuota")
    },
    Call {
        name: "GetSessionToken",
        service: "sts",
        right: Right::Free,
    },
    Call {
        service: "ebs",
        ..own("GetSnapshotBlock", &["snapshot"])
    },
    Call {
        service: "ebs",
        ..own("ListChangedBlocks", &["snapshot"])
    },
    Call {
        service: "ebs",
        ..own("ListSnapshotBlocks", &["snapshot"])
    },
    own("ModifyInstanceAttribute", &["instance", "volume"]),
    group("RevokeSecurityGroupIngress"),
    make(
        "RunInstances",
        &["instance", "volume", "spot-instances-request"],
        &["image", "network-interface", "security-group", "subnet"],
    ),
    Call {
        service: "ec2-instance-connect",
        ..own("SendSSHPublicKey", &["instance"])
    },
    own("TerminateInstances", &["instance"]),
    group("UpdateSecurityGroupRuleDescriptionsIngress"),
];

const fn read(name: &'static str) -> Call {
    Call {
        name,
        service: "ec2",
        right: Right::Read,
    }
}

const fn own(name: &'static str, kinds: &'static [&'static str]) -> Call {
    Call {
        name,
        service: "ec2",
        right: Right::Own { kinds, tag: DRIVE },
    }
}

const fn group(name: &'static str) -> Call {
    Call {
        name,
        service: "ec2",
        right: Right::Own {
            kinds: &["security-group"],
            tag: OWNER,
        },
    }
}

const fn make(
    name: &'static str,
    kinds: &'static [&'static str],
    with: &'static [&'static str],
) -> Call {
    Call {
        name,
        service: "ec2",
        right: Right::Make {
            kinds,
            tag: DRIVE,
            with,
        },
    }
}

/// The call of that name, if xdrive makes it.
#[must_use]
pub fn named(name: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::CALLS;

    /// The name of every call that this folder's source names.
    fn made() -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ec2");
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("calls.rs") {
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            for before in [": &str = \"", "Error::of(\"", "unless_throttled(\""] {
                for rest in text.split(before).skip(1) {
                    let (name, _) = rest.split_once('"').unwrap();
                    let starts = [
                        "Attach",
                        "Authorize",
                        "Copy",
                        "Create",
                        "Delete",
                        "Describe",
                    ];
                    let more = [
                        "Detach", "Get", "List", "Modify", "Revoke", "Run", "Send", "Term",
                        "Update",
                    ];
                    if starts
                        .iter()
                        .chain(&more)
                        .any(|verb| name.starts_with(verb))
                    {
                        names.insert(name.to_owned());
                    }
                }
            }
        }
        names
    }

    #[test]
    fn the_list_has_the_calls_that_are_made_and_no_other() {
        let listed: BTreeSet<String> = CALLS.iter().map(|call| call.name.to_owned()).collect();
        assert_eq!(listed, made());
        assert_eq!(listed.len(), CALLS.len(), "each once");
        assert!(CALLS.is_sorted_by_key(|call| call.name));
    }
}
