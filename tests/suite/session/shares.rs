//! `xdrive share`: file systems outside of every drive.

mod mounted;

use std::fs;
use std::process::Command;

use harness::python;
use xdrive::ec2::{ShareState, Tags};

use super::json::document;
use super::simulated::{count, dry_run, in_the_cloud, paper, traced, with_snapshot};
use super::site::Site;

/// The policy for shares alone, of this caller or of all.
fn policy(site: &Site, words: &[&str]) -> String {
    let words = [&["policy", "--shares"], words].concat();
    site.run(&words).is(0).stdout.clone()
}

#[test]
fn a_share_is_made_once_listed_and_deleted_with_its_mount_targets() {
    let site = paper();
    site.run(&["share", "list"]).is(0).prints("no shares");
    site.run(&["share", "create", "data"])
        .is(0)
        .reports("about $0.30 a GiB and month in us-east-1")
        .reports("bursting throughput")
        .reports("made data (fs-");
    site.run(&["share", "create", "data"])
        .is(0)
        .reports("data was there (fs-");
    site.run(&["share", "create", "lessons"]).is(0);
    let rows = document("shares", &site.run(&["share", "list", "--json"]));
    let names: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["share"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["data", "lessons"]);
    assert_eq!(rows[0]["state"], "available");
    assert_eq!(rows[0]["owner"], "arn:aws:iam::000000000000:user/local");
    let id = rows[0]["id"].as_str().unwrap();
    in_the_cloud(&site, async |ec2| {
        let id = &id.parse().unwrap();
        let vpc = ec2.default_vpc().await.unwrap().unwrap();
        let group = ec2.create_group("nfs", "nfs", &vpc, &Tags::new()).await;
        let group = group.unwrap().unwrap();
        for subnet in &ec2.default_subnets().await.unwrap()[..2] {
            let made = ec2.create_mount_target(id, &subnet.id, &group).await;
            assert!(made.unwrap().is_some());
        }
    });
    // Nobody can be asked here.
    site.run(&["share", "delete", "data"])
        .is(2)
        .reports("nothing is deleted without a yes");
    site.run(&["share", "delete", "data", "--yes"])
        .is(0)
        .reports("goes for good")
        .reports("deleted data");
    site.run(&["share", "delete", "data", "--yes"])
        .is(69)
        .reports("there is no share data in us-east-1")
        .reports("share create data  makes it");
    let left = site.run(&["share", "list"]);
    assert!(!left.is(0).stdout.contains("data"), "{}", left.stdout);
    // Its name is free again.
    site.run(&["share", "create", "data"])
        .is(0)
        .reports("made data (fs-");
}

#[test]
fn a_dry_run_names_the_shares_that_a_session_would_have_and_doctor_all() {
    let site = paper();
    dry_run(&site, &["--share", "data"])
        .is(69)
        .reports("there is no share data");
    site.run(&["doctor"])
        .is(0)
        .prints("ok  shares         none");
    for name in ["data", "lessons"] {
        site.run(&["share", "create", name]).is(0);
    }
    site.run(&["doctor"])
        .unfolded()
        .is(0)
        .prints("ok  shares         data, lessons: about $0.00 a month");
    with_snapshot(&site, &[("xdrive:shares", "lessons=/lessons:ro")]);
    dry_run(&site, &[])
        .is(0)
        .prints("its containers have the share lessons (fs-")
        .prints("), /lessons, read-only\n");
    let ended = dry_run(&site, &["--share", "data", "--json"]);
    let shares = document("dry-run", &ended)["shares"].clone();
    assert_eq!(shares.as_array().unwrap().len(), 1, "{shares}");
    let share = shares[0].as_str().unwrap();
    assert!(share.starts_with("data (fs-"), "{share}");
    assert!(share.ends_with("), /data/data"), "{share}");
    dry_run(&site, &["--no-shares", "--json"])
        .is(0)
        .prints("\"shares\": []");
}

#[test]
fn two_computers_that_make_one_share_at_once_make_one() {
    let site = paper();
    let other = site.other_laptop();
    let words = ["share", "create", "data"];
    let all: Vec<_> = [&site, &other, &site, &other]
        .iter()
        .map(|laptop| laptop.start(&words))
        .collect();
    for laptop in all {
        laptop.end().is(0).reports("data");
    }
    let made = in_the_cloud(&site, async |ec2| ec2.file_systems().await.unwrap());
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(made[0].state, ShareState::Available);
}

#[test]
fn a_share_of_another_caller_is_neither_taken_over_nor_deleted() {
    let site = paper();
    site.run(&["share", "create", "data"]).is(0);
    site.set("plane = \"paper\"\ncaller = \"arn:aws:iam::000000000000:user/other\"\n");
    for (words, hint) in [
        (&["share", "create", "data"][..], "hint: take another name"),
        (
            &["share", "delete", "data", "--yes"],
            "hint: --shared deletes it all the same",
        ),
    ] {
        site.run(words)
            .is(77)
            .reports("the share data is arn:aws:iam::000000000000:user/local's")
            .reports(hint);
    }
    // A name in the tags of something else makes that no share.
    in_the_cloud(&site, async |ec2| {
        let tags = harness::cloud::tags(&[("xdrive:share", "lessons")]);
        ec2.create_file_system("another token", &tags)
            .await
            .unwrap();
    });
    let listed = site.run(&["share", "list"]);
    assert!(
        !listed.is(0).stdout.contains("lessons"),
        "{}",
        listed.stdout
    );
    assert!(listed.stdout.contains(":user/local"), "{}", listed.stdout);
    site.run(&["share", "delete", "lessons", "--yes"]).is(69);
    site.run(&["share", "delete", "data", "--yes", "--shared"])
        .is(0);
}

#[test]
fn the_policy_for_shares_allows_what_they_take_and_no_more() {
    let site = paper();
    let (plain, shares) = (site.run(&["policy"]).stdout, policy(&site, &[]));
    let ada = "arn:aws:iam::000000000000:user/ada";
    site.set(&format!("plane = \"paper\"\ncaller = \"{ada}\"\n"));
    let own = policy(&site, &["--own"]);
    let paper = "plane = \"paper\"\n";
    site.allow(&plain, ada, paper);
    let refused = traced(&site, &["share", "create", "data"]);
    refused
        .is(77)
        .reports("elasticfilesystem:CreateFileSystem")
        .reports("hint: xdrive policy --shares prints the rights that shares take");
    assert_eq!(count(&refused, "CreateFileSystem"), 1);
    let looked = site.run(&["doctor"]).unfolded();
    looked
        .is(0)
        .prints(" ?  shares")
        .prints("elasticfilesystem:DescribeFileSystems")
        .prints("xdrive policy --shares prints the rights that shares take");
    // The right to make groups is the other policy's.
    site.set(paper);
    let (group, subnet) = in_the_cloud(&site, async |ec2| {
        let vpc = ec2.default_vpc().await.unwrap().unwrap();
        let group = ec2.create_group("nfs", "nfs", &vpc, &Tags::new()).await;
        let subnets = ec2.default_subnets().await.unwrap();
        (group.unwrap().unwrap(), subnets[0].id.clone())
    });
    for policy in [&shares, &policy(&site, &["--own"])] {
        let local = "arn:aws:iam::000000000000:user/local";
        site.allow(policy, local, paper);
        site.run(&["share", "create", "data"]).is(0);
        let made = in_the_cloud(&site, async |ec2| {
            let made = ec2.file_systems().await.unwrap().remove(0).id;
            let target = ec2.create_mount_target(&made, &subnet, &group).await;
            assert!(target.unwrap().is_some());
            made
        });
        site.run(&["share", "list"]).is(0).prints(made.as_str());
        site.run(&["share", "delete", "data", "--yes"])
            .is(0)
            .reports("it has mount targets");
    }
    // Of one's own alone: neither another's share, nor one in another's name.
    site.set(paper);
    site.run(&["share", "create", "data"]).is(0);
    site.allow(&own, ada, paper);
    let delete = ["share", "delete", "data", "--yes", "--shared"];
    site.run(&delete)
        .is(77)
        .reports("elasticfilesystem:DeleteFileSystem")
        .reports("is left; mount targets of it may be gone");
    // What is no share's is not theirs to delete.
    site.set(paper);
    let other = in_the_cloud(&site, async |ec2| {
        ec2.create_file_system("a token", &Tags::new())
            .await
            .unwrap()
            .unwrap()
    });
    site.allow(&shares, ada, paper);
    in_the_cloud(&site, async |ec2| {
        let refused = ec2.delete_file_system(&other).await.unwrap_err();
        assert_eq!(refused.code, "AccessDeniedException");
    });
    assert!(own.contains("aws:RequestTag/xdrive:owner"), "{own}");
    for policy in [&shares, &own] {
        assert!(policy.split_whitespace().collect::<String>().len() < 6144);
    }
}

#[test]
#[ignore = "needs python3 with kubernetes-validate"]
fn a_manifest_is_what_a_cluster_accepts_and_names_the_share() {
    let site = paper();
    site.run(&["share", "manifest", "data"]).is(69);
    for name in ["data", "2024", "true"] {
        site.run(&["share", "create", name]).is(0);
    }
    let made = in_the_cloud(&site, async |ec2| ec2.file_systems().await.unwrap());
    let data = made.iter().find(|it| it.tags["xdrive:share"] == "data");
    let server = format!("server: {}.efs.us-east-1.amazonaws.com", data.unwrap().id);
    site.run(&[
        "share",
        "manifest",
        "data",
        "--job",
        "https://example.com/a.tar.gz",
    ])
    .is(0)
    .prints(&server)
    .reports("nothing can mount data: it has no mount target yet")
    .reports("aws efs create-mount-target --file-system-id fs-")
    .prints("kind: Job");
    let python = python("kubernetes_validate");
    for (number, flags) in [
        &["data"][..],
        &["2024"],
        &["true", "--namespace", "007"],
        &["data", "--read-only"],
        &["data", "--namespace", "team"],
        &[
            "data",
            "--job",
            "https://example.com/a.tar.gz?b=c&d='$(e)",
            "--namespace",
            "team",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let words = [&["share", "manifest"], flags].concat();
        let file = site.path(&format!("{number}.yaml"));
        fs::write(&file, &site.run(&words).is(0).stdout).unwrap();
        let mut validate = Command::new(python.with_file_name("kubernetes-validate"));
        let checked = validate.arg("--strict").arg(&file).output().unwrap();
        assert!(checked.status.success(), "{flags:?}: {checked:?}");
    }
    site.run(&["share", "manifest", "data", "--namespace", "A"])
        .is(2);
    for name in ["Data", "../data", "a_b"] {
        site.run(&["share", "create", name]).is(2);
    }
}
