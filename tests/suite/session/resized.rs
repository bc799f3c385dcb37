//! Drives that are made larger and faster: in use, waiting, saved.

use xdrive::ec2::Ec2;
use xdrive::local::Fault;

use super::simulated::{in_the_cloud, paper, plant, with_snapshot, with_volume};
use super::site::{Ended, Site};
use super::tree::inside;

fn resize(site: &Site, more: &[&str]) -> Ended {
    site.run(&[&["resize", "demo"], more].concat())
}

/// The sizes of the drive's volumes and snapshots, in GiB.
fn sizes(site: &Site) -> Vec<u64> {
    let drive = site.drive("demo");
    let things = drive["things"].as_array().unwrap().iter();
    let kept = things.filter(|it| it["kind"] == "volume" || it["kind"] == "snapshot");
    kept.map(|it| it["gib"].as_u64().unwrap()).collect()
}

#[test]
fn what_cannot_be_changed_is_refused_before_ec2_is_asked() {
    let site = paper();
    resize(&site, &["16"])
        .is(69)
        .reports("there is no drive demo");
    with_snapshot(&site, &[]);
    resize(&site, &["16"])
        .is(69)
        .reports("demo has no volume now that could be changed")
        .reports("connect demo --size GIB makes the next one larger");
    let site = paper();
    let generation = [("xdrive:base", "1"), ("xdrive:generation", "1")];
    with_volume(&site, "us-east-1a", &generation);
    for (words, why) in [
        (&["7"][..], "demo has 8 GiB, and cannot have 7"),
        (&["8"], "demo has 8 GiB already"),
        (
            &["16", "--iops", "9000"],
            "a volume of 16 GiB has 8000 IOPS at most",
        ),
        (
            &["--throughput", "1000"],
            "1000 MiB/s take 4000 IOPS, and the volume has 3000",
        ),
        (&["0"], "a drive's size is 1 GiB at least"),
    ] {
        resize(&site, words).is(2).reports(why);
    }
    resize(&site, &[]).is(2).reports("xdrive resize NAME [GIB]");
    assert_eq!(sizes(&site), [8]);
}

#[test]
fn a_volume_that_waits_is_larger_for_its_next_host_and_as_fast_for_ever() {
    let site = paper();
    let generation = [("xdrive:base", "1"), ("xdrive:generation", "1")];
    with_volume(&site, "us-east-1a", &generation);
    resize(&site, &["16", "--throughput", "500"])
        .is(0)
        .reports("EC2 has changed demo's volume (vol-")
        .reports("demo has 16 GiB from its next mount on");
    assert_eq!(sizes(&site), [16]);
    let volumes = async |ec2: Ec2| ec2.volumes(&"demo".parse().unwrap()).await.unwrap();
    let seen = in_the_cloud(&site, volumes);
    assert_eq!(seen[0].tags["xdrive:throughput"], "500");
    // The same again, as after one that was cut off: nothing is asked of EC2 a second time.
    resize(&site, &["16", "--throughput", "500"])
        .is(2)
        .reports("demo has 16 GiB already, and that speed");
    let early = |code: &str, words: &str| {
        plant(&site, Fault::new("ModifyVolume", 400, code, words));
        resize(&site, &["17"])
            .is(75)
            .reports(words)
            .reports("up to four changes of a volume a day");
    };
    early(
        "IncorrectModificationState",
        "cannot be modified in modification state OPTIMIZING",
    );
    early(
        "VolumeModificationRateExceeded",
        "maximum modification rate per volume",
    );
    assert_eq!(sizes(&site), [16]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_drive_in_use_is_made_larger_under_what_runs_and_stays_so() {
    let site = Site::new();
    let image = site.image();
    let wait = "echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end";
    let words = ["connect", "demo", "--size", "1", "--image", &image];
    let mut running = site.start(&[&words[..], &["--", "sh", "-c", wait]].concat());
    running.prints("there\n");
    inside(&site, "fallocate -l 850M /v1/work/much; sync");
    let resized = resize(&site, &["2", "--throughput", "250"]);
    resized.is(0).reports("2 GiB");
    let again = resize(&site, &["2", "--throughput", "250"]);
    again.is(0).reports("2 GiB");
    assert!(
        !again.stderr.contains("EC2 has changed"),
        "{}",
        again.stderr
    );
    // This computer may lack the right by which a mounted file system grows: then the next mount grows it.
    let free = "df --output=avail -BM /v1 | tail -n 1 | tr -dc 0-9 > /v1/work/free";
    inside(&site, &format!("{free}; touch /v1/work/end"));
    running.end().is(0);
    site.is_saved("demo", 1);
    assert_eq!(sizes(&site), [2]);
    let text = site.run(&["cat", "demo:/work/free"]).is(0).stdout.clone();
    let mebibytes: u64 = text.trim().parse().unwrap();
    let is_larger = resized.stderr.contains("are free");
    assert_eq!(
        mebibytes > 900,
        is_larger,
        "{mebibytes} MiB: {}",
        resized.stderr
    );
    let more = site.session(
        "demo",
        &["sh", "-c", "head -c 900000000 /dev/zero > /work/more"],
    );
    more.is(0);
    assert!(!more.stderr.contains("nearly full: 0.0"), "{}", more.stderr);
    site.is_saved("demo", 2);
}
