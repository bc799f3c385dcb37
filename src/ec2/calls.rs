//! The one list of calls that xdrive makes, and the right that each of them needs.
//!
//! The policy and the doctor are made from it. A call that is sent and not listed panics where
//! debug assertions are on ([`super::trace`]), so in every test. A test here finds calls that are
//! listed and never sent. Resources and condition keys: Service authorization reference, *Actions,
//! resources, and condition keys for Amazon EC2*, *… Amazon EBS*, *… EC2 Instance Connect*, *… Amazon
//! Elastic File System*.

use super::{DRIVE, OWNER, SHARE};

/// A call of an AWS API, and the right that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The call's name in the API, such as `RunInstances`.
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
        /// The kinds of the resources that are made.
        kinds: &'static [&'static str],
        /// The tag that each of them gets in the same call.
        tag: &'static str,
        /// The kinds of resources that the call uses.
        with: &'static [&'static str],
    },
    /// To make a resource of this kind with this tag as a copy of another one of the kind, which may
    /// be anybody's: two resources, of which only the copy is asked about with the request's tags
    /// (EBS user guide, *Example: Copying snapshots*).
    Copy {
        /// The kind of both.
        kind: &'static str,
        /// The tag that the copy gets in the same call.
        tag: &'static str,
    },
}

/// The part of a resource in a call that acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// None is narrowed: the call only reads.
    Any,
    /// The resource carries this tag.
    Tagged(&'static str),
    /// The call makes it, with this tag.
    New(&'static str),
    /// The call makes it, with this tag, as a copy of one of the same kind.
    Copied(&'static str),
    /// The call makes a copy of it, whosever it is.
    Original,
    /// The call uses it, whosever it is.
    Used,
}

/// Elastic File System's name in IAM. Its calls are made for shares alone, and have a policy of their own.
pub const SHARES: &str = "elasticfilesystem";

/// AWS Price List's name in IAM. Where its right is missing, prices on demand are not known.
pub const PRICES: &str = "pricing";

/// The call for spot placement scores. Where its right is missing, they are not known.
pub const SCORES: &str = "GetSpotPlacementScores";

/// The kind of a security group, as ARNs have it.
const GROUP: &str = "security-group";

/// The kind of an Elastic IP address, as ARNs have it.
const ADDRESS: &str = "elastic-ip";

/// The calls that are made for Elastic IP addresses alone.
pub const OF_ADDRESSES: [&str; 2] = ["AssociateAddress", "DescribeAddresses"];

/// The call that is made for capacity reservations alone.
pub const OF_RESERVATIONS: &str = "DescribeCapacityReservations";

/// The kind of a capacity reservation, as ARNs have it. A launch uses one only where that is asked for.
pub const RESERVATION: &str = "capacity-reservation";

/// Resources that must be a drive's even where a call only uses them to make another.
const OF_A_DRIVE: [&str; 2] = ["snapshot", "volume"];

impl Call {
    /// The call's name in IAM, such as `ec2:RunInstances`.
    #[must_use]
    pub fn action(&self) -> String {
        format!("{}:{}", self.service, self.name)
    }

    /// The kinds of resources that IAM asks about, each with its role; `*` for a call that only
    /// reads.
    #[must_use]
    pub fn resources(&self) -> Vec<(&'static str, Role)> {
        let each = |kinds: &'static [&'static str], role: Role| {
            kinds.iter().map(move |kind| (*kind, role))
        };
        match self.right {
            Right::Free => Vec::new(),
            Right::Read => vec![("*", Role::Any)],
            Right::Own { kinds, tag } => {
                let role = |kind| match kind {
                    // It has its owner's tag, and none of a drive.
                    GROUP => Role::Tagged(OWNER),
                    // It is the account's own, and has no tag of xdrive's.
                    ADDRESS => Role::Used,
                    _ => Role::Tagged(tag),
                };
                kinds.iter().map(|kind| (*kind, role(*kind))).collect()
            }
            Right::Make { kinds, tag, with } => {
                let used = with.iter().map(|kind| {
                    let is_drives = OF_A_DRIVE.contains(kind);
                    (
                        *kind,
                        if is_drives {
                            Role::Tagged(tag)
                        } else {
                            Role::Used
                        },
                    )
                });
                each(kinds, Role::New(tag)).chain(used).collect()
            }
            Right::Copy { kind, tag } => vec![(kind, Role::Copied(tag)), (kind, Role::Original)],
        }
    }
}

/// All calls that xdrive sends, by name.
pub const CALLS: &[Call] = &[
    on_own("AssociateAddress", &["instance", ADDRESS]),
    on_own("AttachVolume", &["instance", "volume"]),
    group("AuthorizeSecurityGroupIngress"),
    Call {
        name: "CopySnapshot",
        service: "ec2",
        right: Right::Copy {
            kind: "snapshot",
            tag: DRIVE,
        },
    },
    Call {
        name: "CreateFileSystem",
        service: SHARES,
        right: Right::Make {
            kinds: &["file-system"],
            tag: SHARE,
            with: &[],
        },
    },
    share("CreateMountTarget"),
    Call {
        name: "CreateSecurityGroup",
        service: "ec2",
        right: Right::Make {
            kinds: &[GROUP],
            tag: OWNER,
            with: &["vpc"],
        },
    },
    make("CreateSnapshot", &["snapshot"], &["volume"]),
    on_own("CreateTags", &["instance", "volume", "snapshot"]),
    make("CreateVolume", &["volume"], &["snapshot"]),
    share("DeleteFileSystem"),
    share("DeleteMountTarget"),
    group("DeleteSecurityGroup"),
    on_own("DeleteSnapshot", &["snapshot"]),
    on_own("DeleteVolume", &["volume"]),
    read("DescribeAddresses"),
    read(OF_RESERVATIONS),
    Call {
        service: SHARES,
        ..read("DescribeFileSystems")
    },
    read("DescribeImages"),
    read("DescribeInstanceStatus"),
    read("DescribeInstanceTypes"),
    read("DescribeInstances"),
    Call {
        service: SHARES,
        ..read("DescribeMountTargetSecurityGroups")
    },
    Call {
        service: SHARES,
        ..read("DescribeMountTargets")
    },
    read("DescribeRouteTables"),
    read("DescribeSecurityGroups"),
    read("DescribeSnapshots"),
    read("DescribeSpotInstanceRequests"),
    read("DescribeSpotPriceHistory"),
    read("DescribeSubnets"),
    read("DescribeVolumes"),
    read("DescribeVolumesModifications"),
    read("DescribeVpcs"),
    on_own("DetachVolume", &["instance", "volume"]),
    Call {
        name: "GetCallerIdentity",
        service: "sts",
        right: Right::Free,
    },
    on_own("GetConsoleOutput", &["instance"]),
    Call {
        service: PRICES,
        ..read("GetProducts")
    },
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
        ..on_own("GetSnapshotBlock", &["snapshot"])
    },
    read(SCORES),
    Call {
        service: "ebs",
        ..on_own("ListChangedBlocks", &["snapshot"])
    },
    Call {
        service: "ebs",
        ..on_own("ListSnapshotBlocks", &["snapshot"])
    },
    on_own("ModifyInstanceAttribute", &["instance", GROUP, "volume"]),
    on_own("ModifyVolume", &["volume"]),
    share("PutLifecycleConfiguration"),
    group("RevokeSecurityGroupIngress"),
    make(
        "RunInstances",
        &["instance", "volume", "spot-instances-request"],
        &[
            RESERVATION,
            "image",
            "network-interface",
            "security-group",
            "subnet",
        ],
    ),
    Call {
        service: "ec2-instance-connect",
        ..on_own("SendSSHPublicKey", &["instance"])
    },
    on_own("TerminateInstances", &["instance"]),
    group("UpdateSecurityGroupRuleDescriptionsIngress"),
];

const fn read(name: &'static str) -> Call {
    Call {
        name,
        service: "ec2",
        right: Right::Read,
    }
}

const fn on_own(name: &'static str, kinds: &'static [&'static str]) -> Call {
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

const fn share(name: &'static str) -> Call {
    Call {
        name,
        service: SHARES,
        right: Right::Own {
            kinds: &["file-system"],
            tag: SHARE,
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
pub fn find(name: &str) -> Option<&'static Call> {
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
        let mut found = vec![folder];
        while let Some(path) = found.pop() {
            if path.is_dir() {
                let entries = fs::read_dir(path).unwrap();
                found.extend(entries.map(|entry| entry.unwrap().path()));
                continue;
            }
            if path.ends_with("calls.rs") {
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            for before in [": &str = \"", "Error::from_sdk(\"", "unless_throttled(\""] {
                for rest in text.split(before).skip(1) {
                    let (name, _) = rest.split_once('"').unwrap();
                    let starts = [
                        "Associate",
                        "Attach",
                        "Authorize",
                        "Copy",
                        "Create",
                        "Delete",
                        "Describe",
                    ];
                    let more = [
                        "Detach", "Get", "List", "Modify", "Put", "Revoke", "Run", "Send", "Term",
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
