//! The policy that `xdrive policy` prints, as the caller's only one: it is enough for every verb, and
//! with `--own` it keeps colleagues apart.

mod wide;

use serde_json::{Value, json};
use xdrive::ec2::{Ec2, Encryption, Error, Kind, LaunchOrder, Tags, VolumeOrder, VolumeState};
use xdrive::ids::{SnapshotId, VolumeId};
use xdrive::local::plane::PaperSuperblock;

use super::simulated::{connect, in_the_cloud, paper, with_snapshot, with_volume};
use super::site::Site;
use harness::cloud::{launch_order, made_snapshot, made_volume, tags, volume_order};
use harness::evidence::{may_delete, may_prune};

/// The caller of the EC2 in a folder, and a colleague.
const ADA: &str = "arn:aws:iam::000000000000:user/local";
const BOB: &str = "arn:aws:iam::000000000000:user/bob";

const PAPER: &str = "plane = \"paper\"\n";

/// A key of the account's own.
const KEY: &str = "arn:aws:kms:us-east-1:000000000000:key/0123abcd-0000-4000-8000-000000000001";

impl Site {
    /// Runs `xdrive policy` for `caller`; returns its output.
    fn policy(&self, flags: &[&str], caller: &str) -> String {
        self.set(&format!("{PAPER}caller = \"{caller}\"\n"));
        self.run(&[&["policy"], flags].concat())
            .is(0)
            .stdout
            .clone()
    }

    /// From now on `caller` has this policy and no other right, with these settings besides.
    pub(super) fn allow(&self, policy: &str, caller: &str, more: &str) {
        self.set(&format!(
            "caller = \"{caller}\"\npolicy = '''{policy}'''\n{more}"
        ));
    }
}

/// A saved drive, and a volume and a snapshot of the first xdrive's, which no policy here is asked about.
fn with_old_ones(site: &Site) -> (VolumeId, SnapshotId) {
    with_snapshot(site, &[("Name", "lab"), ("xdrive:drive", "lab")]);
    let order = volume_order("old", tags(&[("Name", "old")]));
    let volume = in_the_cloud(site, async |ec2| made_volume(&ec2, &order).await.unwrap());
    let ext4 = PaperSuperblock::clean(*b"0123456789abcdef");
    site.local().write(volume.as_str(), ext4).unwrap();
    let named = tags(&[("Name", "old")]);
    let snapshot = in_the_cloud(site, async |ec2| {
        made_snapshot(&ec2, &volume, &named).await.unwrap()
    });
    (volume, snapshot)
}

#[test]
fn the_printed_policy_is_enough_for_every_verb_on_what_is_saved() {
    for flags in [&[][..], &["--own"], &["--kms-key", KEY]] {
        let site = paper();
        let (_, old) = with_old_ones(&site);
        let policy = site.policy(flags, ADA);
        site.allow(&policy, ADA, PAPER);
        let does = |words: &[&str]| site.run(words);
        does(&["fork", "lab", "trial"])
            .is(0)
            .reports("trial is a copy of lab@1");
        does(&["rename", "trial", "other"]).is(0);
        does(&["note", "other", "a note"]).is(0);
        does(&["log", "other"]).is(0).prints("a note");
        does(&["list"]).is(0).prints("other");
        does(&["prices", "m5.large"]).is(0);
        does(&["cost"]).is(0).prints("other");
        let adopted = does(&["adopt", old.as_str(), "adopted"]);
        if flags.contains(&"--own") {
            // It is nobody's.
            adopted
                .is(77)
                .reports("CopySnapshot: UnauthorizedOperation");
        } else {
            adopted.is(0).reports("adopted is a copy of");
        }
        does(&["gc", "--keep-last", "1"]).is(0);
        does(&["delete", "other", "--yes"]).is(0);
        assert_eq!(site.kinds("other"), Vec::<String>::new(), "{flags:?}");
        let doctor = does(&["doctor"]);
        assert!(
            !doctor.stdout.contains("UnauthorizedOperation"),
            "{doctor:?}"
        );
    }
}

#[test]
fn the_former_single_statement_for_copies_is_refused_as_aws_refuses_it() {
    let site = paper();
    with_old_ones(&site);
    let policy: Value = serde_json::from_str(&site.policy(&[], ADA)).unwrap();
    // The form that AWS refused since April 2025: one statement for the copy and its original.
    let mut former = policy.clone();
    for statement in former["Statement"].as_array_mut().unwrap() {
        let text = statement["Resource"].to_string();
        if text.contains("snapshot/${*}") {
            statement["Resource"] = json!(["arn:aws:ec2:*::snapshot/*"]);
        } else if text.contains("snapshot/snap-*") {
            statement["Action"] = json!(["ec2:NoSuchCall"]);
        }
    }
    site.allow(&former.to_string(), ADA, PAPER);
    site.run(&["fork", "lab", "trial"])
        .is(77)
        .reports("CopySnapshot: UnauthorizedOperation")
        .reports("on resource: arn:aws:ec2:us-east-1::snapshot/snap-")
        .reports("`xdrive policy` prints all");
    site.allow(&policy.to_string(), ADA, PAPER);
    site.run(&["fork", "lab", "trial"]).is(0);
}

#[test]
fn a_copy_and_a_disk_under_a_key_of_the_accounts_own_need_the_rights_that_are_printed_for_it() {
    let site = paper();
    let with_key = format!("{PAPER}default-key = \"{KEY}\"\n");
    site.set(&with_key);
    with_encrypted(&site, "lab");
    let plain = site.policy(&[], ADA);
    let with_rights = site.policy(&["--kms-key", KEY], ADA);
    site.allow(&plain, ADA, &with_key);
    site.run(&["fork", "lab", "trial"])
        .is(76)
        .reports("Given key ID is not accessible")
        .reports("kms:GenerateDataKey,")
        .reports("xdrive policy --kms-key ARN")
        .reports("xdrive --local delete trial");
    site.run(&["delete", "trial", "--yes"]).is(0);
    let lacking = with_rights.replace("\"kms:GenerateDataKey\",", "");
    assert_ne!(lacking, with_rights);
    site.allow(&lacking, ADA, &with_key);
    site.run(&["fork", "lab", "trial"]).is(76);
    site.run(&["delete", "trial", "--yes"]).is(0);
    site.allow(&with_rights, ADA, &with_key);
    site.run(&["fork", "lab", "trial"]).is(0);
    let order = VolumeOrder {
        snapshot: None,
        ..volume_order("new", tags(&[("xdrive:drive", "new")]))
    };
    for (policy, state) in [
        (&with_rights, VolumeState::Available),
        (&plain, VolumeState::Error),
    ] {
        site.allow(policy, ADA, &with_key);
        let order = VolumeOrder {
            client_token: format!("{state:?}"),
            ..order.clone()
        };
        let made = in_the_cloud(&site, async |ec2| {
            let id = ec2.create_volume(&order).await.unwrap().id;
            loop {
                let volume = ec2.volume(&id).await.unwrap().unwrap();
                if volume.state != VolumeState::Creating {
                    return volume.state;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        });
        assert_eq!(made, state);
    }
}

#[test]
fn spot_instances_that_end_at_birth_for_want_of_a_grant_say_so_and_name_it() {
    let site = paper();
    site.set(&format!(
        "{PAPER}default-key = \"{KEY}\"\nspot-key-grant = false\n"
    ));
    connect(&site, &["--cidr", "192.0.2.7/32"])
        .is(69)
        .reports("ended by itself: Client.InternalError")
        .reports("access to any custom KMS keys")
        .reports("for spot instances a grant to EC2's role AWSServiceRoleForEC2Spot")
        .reports("aws kms create-grant");
    assert!(
        site.run(&["help", "aws"])
            .is(0)
            .stdout
            .contains("aws kms create-grant --key-id ARN")
    );
}

/// Makes a saved drive whose disk is encrypted with the account's key.
fn with_encrypted(site: &Site, drive: &str) -> SnapshotId {
    // Every volume that xdrive makes is encrypted.
    with_snapshot(site, &[("Name", drive), ("xdrive:drive", drive)])
}

#[test]
fn a_fork_keeps_the_key_of_its_original_and_so_copies_no_data() {
    let site = paper();
    site.set(&format!("{PAPER}default-key = \"{KEY}\"\n"));
    let original = with_encrypted(&site, "lab");
    // The account has another key since.
    site.set(PAPER);
    site.run(&["fork", "lab", "trial"]).is(0);
    in_the_cloud(&site, async |ec2| {
        let copy = ec2
            .snapshots(&"trial".parse().unwrap())
            .await
            .unwrap()
            .remove(0);
        let found = ec2.encryption(&copy.id).await.unwrap().unwrap();
        assert_eq!(found, Encryption::By(Some(KEY.to_owned())));
        // EBS finds them related: a copy under another key is not.
        ec2.changed_blocks(&original, &copy.id, 0, 1000)
            .await
            .unwrap();
    });
}

/// The kinds of errors of what a colleague tries on these.
async fn tried(ec2: &Ec2, volume: &VolumeId, snapshot: &SnapshotId) -> Vec<(&'static str, Kind)> {
    let of = |error: Error| (error.call, error.kind);
    let claim: Tags = tags(&[("xdrive:owner", BOB)]);
    let other: Tags = tags(&[("xdrive:drive", "mine")]);
    let taken = tags(&[("Name", "x"), ("xdrive:drive", "x"), ("xdrive:owner", BOB)]);
    let order = LaunchOrder {
        tags: taken.clone(),
        root_tags: taken.clone(),
        ..launch_order("bob's")
    };
    let host = ec2.launch(&order).await.unwrap();
    let mut errors = vec![
        of(ec2.tag(volume.as_str(), &claim).await.unwrap_err()),
        of(ec2.tag(snapshot.as_str(), &other).await.unwrap_err()),
        of(ec2.snapshot_block(snapshot, 0).await.unwrap_err()),
        of(ec2.delete_volume(may_delete(volume)).await.unwrap_err()),
        of(ec2.delete_snapshot(may_prune(snapshot)).await.unwrap_err()),
        of(ec2.attach(volume, &host.id, "/dev/sdf").await.unwrap_err()),
        of(ec2.create_snapshot(volume, &taken).await.unwrap_err()),
    ];
    let copy = ec2.copy_snapshot("us-east-1", snapshot, &taken).await;
    errors.push(of(copy.unwrap_err()));
    let order = VolumeOrder {
        snapshot: Some(snapshot.clone()),
        ..volume_order("of hers", taken)
    };
    errors.push(of(ec2.create_volume(&order).await.unwrap_err()));
    // What is Bob's own stays his, and nothing of his can be given to Ada.
    let given = tags(&[("xdrive:owner", ADA)]);
    errors.push(of(ec2.tag(host.id.as_str(), &given).await.unwrap_err()));
    errors
}

#[test]
fn a_colleague_with_own_rights_cannot_tag_read_delete_attach_or_take_what_is_not_his() {
    let site = paper();
    let volume = with_volume(&site, "us-east-1a", &[]);
    let snapshot = with_snapshot(&site, &[("Name", "lab"), ("xdrive:drive", "lab")]);
    let policy = site.policy(&["--own"], BOB);
    // Beside a policy that allows everything, whose a thing is cannot be changed all the same.
    let mut wide: Value = serde_json::from_str(&policy).unwrap();
    let all = json!({"Effect": "Allow", "Action": "*", "Resource": "*"});
    wide["Statement"].as_array_mut().unwrap().push(all);

    site.allow(&policy, BOB, PAPER);
    let errors = in_the_cloud(&site, async |ec2| tried(&ec2, &volume, &snapshot).await);
    assert_eq!(errors.len(), 10);
    for (call, kind) in errors {
        assert_eq!(kind, Kind::Denied, "{call}");
    }
    for words in [
        &["fork", "lab", "mine"][..],
        &["rename", "lab", "mine", "--shared"],
        &["cat", "lab:/x", "--shared"],
        &["delete", "lab", "--yes", "--shared"],
    ] {
        let refused = site.run(words);
        assert_eq!(refused.code(), 77, "{words:?}: {refused:?}");
    }
    site.allow(&wide.to_string(), BOB, PAPER);
    in_the_cloud(&site, async |ec2| {
        let claim = tags(&[("xdrive:owner", BOB)]);
        for id in [volume.as_str(), snapshot.as_str()] {
            let error = ec2.tag(id, &claim).await.unwrap_err();
            assert_eq!(error.kind, Kind::Denied, "{error}");
        }
    });
    // The plain policy keeps nobody apart, as `help aws` says.
    let plain = site.policy(&[], BOB);
    site.allow(&plain, BOB, PAPER);
    in_the_cloud(&site, async |ec2| {
        let claim = tags(&[("xdrive:owner", BOB)]);
        ec2.tag(snapshot.as_str(), &claim).await.unwrap();
    });
}

#[test]
fn doctor_tries_no_right_on_what_is_another_ones() {
    let site = paper();
    with_volume(&site, "us-east-1a", &[]);
    with_snapshot(&site, &[("Name", "lab"), ("xdrive:drive", "lab")]);
    let policy = site.policy(&["--own"], BOB);
    site.allow(&policy, BOB, PAPER);
    let doctor = site.run(&["doctor"]);
    assert!(
        !doctor.stdout.contains("UnauthorizedOperation"),
        "{doctor:?}"
    );
    assert!(doctor.stdout.contains("there is nothing"), "{doctor:?}");
}
