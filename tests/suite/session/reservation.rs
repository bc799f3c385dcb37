//! `--reservation`: a launch in a capacity reservation of the account's.

use xdrive::local::Fault;

use super::json::document;
use super::simulated::{
    connect, count, dry_run, paper, plant, vcpu_limit, with_snapshot, with_volume,
};
use super::site::{Ended, SESSION, Site};
use super::tree::inside;
use crate::local_api::{IMAGE, call, text};
use harness::eventually_within;

/// The calls of a launch, and of a look at a reservation.
const LAUNCH: &str = "RunInstances";
const LOOK: &str = "DescribeCapacityReservations";

const ADA: &str = "arn:aws:iam::000000000000:user/local";

const PAPER: &str = "plane = \"paper\"\n";

const TARGET: &str =
    "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId";

/// A reservation for one instance of this type in this zone; with other parameters.
fn reserved(site: &Site, kind: &str, zone: &str, more: &[(&str, &str)]) -> String {
    let mut params = vec![
        ("InstanceType", kind),
        ("InstancePlatform", "Linux/UNIX"),
        ("AvailabilityZone", zone),
        ("InstanceCount", "1"),
        ("InstanceMatchCriteria", "targeted"),
    ];
    params.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
    let made = call(
        &site.local(),
        "CreateCapacityReservation",
        &[&params, more].concat(),
    );
    text(&made.unwrap(), "capacityReservationId")
}

/// How many places of a reservation are free.
fn free(site: &Site, id: &str) -> String {
    let listed = call(&site.local(), LOOK, &[("CapacityReservationId.1", id)]).unwrap();
    text(&listed, "availableInstanceCount")
}

/// Somebody else's instance in a reservation for m5.large in us-east-1b.
fn fill(site: &Site, id: &str) {
    let params = [
        ("ImageId", IMAGE),
        ("InstanceType", "m5.large"),
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("Placement.AvailabilityZone", "us-east-1b"),
        (TARGET, id),
    ];
    call(&site.local(), LAUNCH, &params).unwrap();
}

fn with_reservation(site: &Site, id: &str, flags: &[&str]) -> Ended {
    connect(site, &[&["--reservation", id], flags].concat())
}

#[test]
fn type_and_zone_are_the_reservations_whatever_is_configured() {
    let site = paper();
    let id = reserved(&site, "m5.large", "us-east-1b", &[]);
    site.configure(
        "type = \"t3.medium\"\nmarket = \"spot\"\nmax_price = 0.01\nprefer = \"lasting\"\n",
    );
    let row = format!(
        "1. m5.large  x86_64, 2 CPUs, 8 GiB  on demand, reserved ({id})  us-east-1b  $0.0960 an hour\n"
    );
    let ended = dry_run(&site, &["--reservation", &id]);
    ended.is(0).prints(&row);
    assert_eq!(count(&ended, LOOK), 1);
    for flags in [
        &["--type", "t3.micro,m5.large"][..],
        &["--memory", "8"],
        &["--on-demand"],
    ] {
        dry_run(&site, &[&["--reservation", &id], flags].concat())
            .is(0)
            .prints(&row);
    }
    let words = [
        "connect",
        "demo",
        "--dry-run",
        "--json",
        "--reservation",
        &id,
    ];
    let plan = document("dry-run", &site.run(&words));
    assert_eq!(plan["offers"][0]["reservation"], *id, "{plan}");
    assert_eq!(plan["offers"][0]["market"], "on-demand");
    // Who names one of a GPU type need not ask for a GPU.
    let gpu = reserved(&site, "g4dn.xlarge", "us-east-1a", &[]);
    dry_run(&site, &["--reservation", &gpu, "--cpus", "4"])
        .is(0)
        .prints("1. g4dn.xlarge  x86_64, 4 CPUs, 16 GiB, 1 GPU  on demand, reserved");
    // Without the flag no reservation is looked at.
    assert_eq!(count(&dry_run(&site, &["--on-demand"]), LOOK), 0);
    plant(&site, vcpu_limit());
    with_reservation(&site, &id, &[]).is(75).reports(&format!(
        "launching m5.large, x86_64, on demand, reserved ({id}) in us-east-1b, $0.0960 an hour"
    ));
    let preview = ["workers", "demo", "2", "--dry-run", "--reservation", &id];
    with_snapshot(&site, &[]);
    site.run(&preview)
        .is(0)
        .prints("a capacity reservation: it is used, for as many as it has room for")
        .prints(&row);
}

#[test]
fn a_reservation_that_does_not_fit_is_refused_before_anything_is_launched() {
    let site = paper();
    let id = reserved(&site, "m5.large", "us-east-1b", &[]);
    let refused = |id: &str, flags: &[&str], exit: i32, why: &str| {
        let ended = with_reservation(&site, id, flags);
        ended.is(exit).reports(why).reports("hint: ");
        assert_eq!(count(&ended, LAUNCH), 0, "{why}");
    };
    let other =
        format!("in the capacity reservation {id}: it is for m5.large, and t3.micro is asked for");
    refused(&id, &["--type", "t3.micro"], 2, &other);
    refused(
        &id,
        &["--gpu", "1"],
        2,
        "it is for m5.large, and gpus=1 is asked for",
    );
    refused(
        &id,
        &["--arch", "arm64"],
        2,
        "m5.large runs x86_64 programs, and --arch asks for arm64",
    );
    let none = "cr-0123456789abcdef0";
    refused(none, &[], 69, "there is none of this id in this region");
    let cancelled = reserved(&site, "m5.large", "us-east-1b", &[]);
    let name = [("CapacityReservationId", &*cancelled)];
    call(&site.local(), "CancelCapacityReservation", &name).unwrap();
    refused(&cancelled, &[], 69, "it is cancelled, and not active");
    let ends = [
        ("EndDateType", "limited"),
        ("EndDate", "2020-01-01T00:00:00Z"),
    ];
    let expired = reserved(&site, "m5.large", "us-east-1b", &ends);
    refused(&expired, &[], 69, "it is expired, and not active");
    let windows = reserved(
        &site,
        "m5.large",
        "us-east-1b",
        &[("InstancePlatform", "Windows")],
    );
    refused(
        &windows,
        &[],
        2,
        "it is for Windows of default tenancy, which xdrive does not launch in",
    );
    fill(&site, &id);
    refused(&id, &[], 75, "an instance runs in its only place");
    for (flags, why) in [
        (
            &["--reservation", "m5.large"][..],
            "is not a capacity reservation's id",
        ),
        (&["--reservation", none, "--spot"], "cannot be used with"),
        (&["--reservation", none, "--free"], "cannot be used with"),
    ] {
        connect(&site, flags).is(2).reports(why);
    }
}

#[test]
fn a_volume_in_another_zone_is_left_only_where_that_is_asked() {
    let site = paper();
    let id = reserved(&site, "m5.large", "us-east-1b", &[]);
    with_volume(&site, "us-east-1a", &[("xdrive:arch", "x86_64")]);
    let why = format!("the capacity reservation {id} is in us-east-1b");
    let ended = with_reservation(&site, &id, &[]);
    ended
        .is(75)
        .reports(&format!(
            "no capacity in us-east-1a, where the drive's volume is: {why}"
        ))
        .reports("--leave-zone saves the volume as a snapshot");
    assert_eq!(count(&ended, LAUNCH), 0);
    dry_run(&site, &["--reservation", &id])
        .is(0)
        .prints(&format!(
            "{why}, and not in us-east-1a: nothing is launched"
        ));
    assert_eq!(site.kinds("demo"), ["volume"]);
}

#[test]
fn without_room_it_goes_on_outside_only_as_the_fallback_says() {
    let site = paper();
    let id = reserved(&site, "m5.large", "us-east-1b", &[]);
    let taken = || {
        let words = "The requested reservation does not have sufficient compatible and available \
                     capacity for this request.";
        Fault::new(LAUNCH, 400, "ReservationCapacityExceeded", words)
    };
    plant(&site, taken());
    let ended = with_reservation(&site, &id, &[]);
    ended
        .is(75)
        .reports(&format!(
            "no m5.large on demand, reserved ({id}) in us-east-1b to be had"
        ))
        .reports("hint: `aws ec2 describe-capacity-reservations` lists those that there are");
    assert_eq!(count(&ended, LAUNCH), 1);
    let goes_on_outside = |flags: &[&str]| {
        plant(&site, vcpu_limit());
        let ended = with_reservation(&site, &id, flags);
        ended
            .is(75)
            .reports(&format!(
                "there is no room in the capacity reservation {id}"
            ))
            .reports("launching m5.large, x86_64, on demand in us-east-1a, $0.0960 an hour")
            .reports("VcpuLimitExceeded");
        ended
    };
    // Its place went to another between the look and the launch.
    plant(&site, taken());
    goes_on_outside(&["--fallback", "on-demand"]);
    // It was full before.
    fill(&site, &id);
    goes_on_outside(&["--fallback", "on-demand"]);
    goes_on_outside(&["--yes"])
        .reports("m5.large costs $0.0960 an hour on demand")
        .reports("launch on demand instead? [y/N] yes\n");
    let ended = with_reservation(&site, &id, &["--fallback", "none"]);
    ended.is(75).reports("an instance runs in its only place");
    assert_eq!(count(&ended, LAUNCH), 0);
}

#[test]
fn a_launch_in_one_takes_rights_that_are_printed_where_they_are_asked_for() {
    let site = paper();
    let id = reserved(&site, "m5.large", "us-east-1b", &[]);
    let plain = site.run(&["policy"]).is(0).stdout.clone();
    let whole = site.run(&["policy", "--reservation"]).is(0).stdout.clone();
    assert!(!plain.contains("apacity"), "{plain}");
    let policies = [
        (plain, 77, format!("{LOOK}: UnauthorizedOperation")),
        (
            whole.replace(":capacity-reservation/*", ":capacity-reservation/cr-other"),
            77,
            format!("{LAUNCH}: UnauthorizedOperation"),
        ),
        (whole.clone(), 75, "VcpuLimitExceeded".to_owned()),
    ];
    for (policy, exit, why) in policies {
        site.allow(&policy, ADA, PAPER);
        if exit == 75 {
            plant(&site, vcpu_limit());
        }
        with_reservation(&site, &id, &[]).is(exit).reports(&why);
    }
    let doctor = site.run(&["doctor"]);
    assert!(!doctor.stdout.contains("apacityRes"), "{}", doctor.stdout);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_has_its_place_and_gives_it_back() {
    let site = Site::new();
    let image = site.image();
    let id = reserved(&site, "t3.medium", "us-east-1c", &[]);
    let words = ["connect", "demo", "--image", &image, "--reservation", &id];
    let command = [
        "--",
        "sh",
        "-c",
        "echo there; until [ -e /work/end ]; do sleep 0.05; done",
    ];
    let mut running = site.start(&[&words[..], &command].concat());
    running.prints("there\n");
    assert_eq!(free(&site, &id), "0");
    let other = [
        "connect",
        "other",
        "--image",
        &image,
        "--reservation",
        &id,
        "--",
        "true",
    ];
    site.run(&other)
        .is(75)
        .reports("an instance runs in its only place");
    inside(&site, "touch /v1/work/end");
    running
        .end()
        .is(0)
        .reports(&format!("on demand, reserved ({id}) in us-east-1c"));
    // Its place is taken while it shuts down.
    eventually_within(
        SESSION,
        || "a free place".to_owned(),
        || free(&site, &id) == "1",
    );
    site.is_saved("demo", 1);
}
