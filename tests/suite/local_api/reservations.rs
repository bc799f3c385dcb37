//! Capacity reservations, what runs in them, and placement scores.

use xdrive::ids::ReservationId;
use xdrive::local::wire::Xml;

use super::{launch_params, pass, text, texts};
use crate::folder::Folder;

const TARGET: &str =
    "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId";

/// The parameters of a reservation for two instances of t3.micro in `us-east-1a`.
const TWO: [(&str, &str); 4] = [
    ("InstanceType", "t3.micro"),
    ("InstancePlatform", "Linux/UNIX"),
    ("AvailabilityZone", "us-east-1a"),
    ("InstanceCount", "2"),
];

fn reserved(folder: &Folder, more: &[(&str, &str)]) -> String {
    let made = folder.call("CreateCapacityReservation", &[&TWO, more].concat());
    text(&made, "capacityReservationId")
}

/// The state of a reservation, its places and how many of them are free.
fn shown(folder: &Folder, id: &str) -> [String; 3] {
    let params = [("CapacityReservationId.1", id)];
    let listed = folder.call("DescribeCapacityReservations", &params);
    ["state", "totalInstanceCount", "availableInstanceCount"].map(|name| text(&listed, name))
}

/// Launches one in `zone` that targets `id`, or fails with this code.
fn launched(folder: &Folder, zone: &str, id: &str) -> Result<Xml, String> {
    let params = [&launch_params(zone)[..], &[(TARGET, id)]].concat();
    folder
        .try_call("RunInstances", &params)
        .map_err(|error| error.code)
}

#[tokio::test(start_paused = true)]
async fn what_targets_a_reservation_has_its_places_until_it_ends() {
    let folder = Folder::aws();
    let id = reserved(&folder, &[("InstanceMatchCriteria", "targeted")]);
    assert_eq!(shown(&folder, &id), ["active", "2", "2"]);
    // What does not name it does not run in it.
    folder.launch();
    assert_eq!(shown(&folder, &id), ["active", "2", "2"]);
    let first = launched(&folder, "us-east-1a", &id).unwrap();
    assert_eq!(text(&first, "capacityReservationId"), id);
    launched(&folder, "us-east-1a", &id).unwrap();
    assert_eq!(shown(&folder, &id), ["active", "2", "0"]);
    let full = || launched(&folder, "us-east-1a", &id).unwrap_err();
    assert_eq!(full(), "ReservationCapacityExceeded");
    pass(20.0).await;
    let first = text(&first, "instanceId");
    folder.call("TerminateInstances", &[("InstanceId.1", &first)]);
    assert_eq!(full(), "ReservationCapacityExceeded", "it shuts down");
    pass(120.0).await;
    assert_eq!(shown(&folder, &id), ["active", "2", "1"]);
    launched(&folder, "us-east-1a", &id).unwrap();
    // Its instances run on.
    folder.call(
        "CancelCapacityReservation",
        &[("CapacityReservationId", &id)],
    );
    assert_eq!(shown(&folder, &id), ["cancelled", "0", "0"]);
    assert_eq!(full(), "ReservationCapacityExceeded");
}

#[tokio::test(start_paused = true)]
async fn an_open_reservation_takes_what_matches_and_each_has_its_end() {
    let folder = Folder::aws();
    let ends = [
        ("EndDateType", "limited"),
        ("EndDate", "2027-01-15T09:00:00Z"),
    ];
    let id = reserved(&folder, &ends);
    folder.launch();
    folder.call("RunInstances", &launch_params("us-east-1b"));
    assert_eq!(shown(&folder, &id), ["active", "2", "1"]);
    let spot = [("InstanceMarketOptions.MarketType", "spot")];
    let spot = [&launch_params("us-east-1a")[..], &spot].concat();
    folder.call("RunInstances", &spot);
    assert_eq!(shown(&folder, &id), ["active", "2", "1"]);
    let both = [&spot[..], &[(TARGET, &id)]].concat();
    assert_eq!(
        folder.refused("RunInstances", &both),
        "InvalidParameterCombination"
    );
    let elsewhere = launched(&folder, "us-east-1b", &id).unwrap_err();
    assert_eq!(elsewhere, "ReservationCapacityExceeded");
    pass(3601.0).await;
    assert_eq!(shown(&folder, &id), ["expired", "0", "0"]);
    let filter = [("Filter.1.Name", "state"), ("Filter.1.Value.1", "active")];
    let active = folder.call("DescribeCapacityReservations", &filter);
    assert_eq!(texts(&active, "capacityReservationId"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn wrong_reservations_are_refused_and_a_token_makes_one() {
    let folder = Folder::aws();
    let token = [("ClientToken", "one")];
    assert_eq!(reserved(&folder, &token), reserved(&folder, &token));
    let with = |name: &str, value: &str| {
        let others = TWO.into_iter().filter(|(known, _)| *known != name);
        let params: Vec<_> = others.chain([(name, value)]).collect();
        folder.refused("CreateCapacityReservation", &params)
    };
    for (name, value) in [
        ("InstanceType", "t9.micro"),
        ("InstancePlatform", "BeOS"),
        ("AvailabilityZone", "us-east-1z"),
        ("InstanceCount", "0"),
        ("Tenancy", "host"),
        ("EndDateType", "limited"),
        ("InstanceMatchCriteria", "shut"),
    ] {
        assert_eq!(with(name, value), "InvalidParameterValue", "{name}");
    }
    let none = "cr-0123456789abcdef0";
    for (action, name) in [
        ("CancelCapacityReservation", "CapacityReservationId"),
        ("DescribeCapacityReservations", "CapacityReservationId.1"),
    ] {
        let code = folder.refused(action, &[(name, none)]);
        assert_eq!(code, "InvalidCapacityReservationId.NotFound");
        let code = folder.refused(action, &[(name, "cr-none")]);
        assert_eq!(code, "InvalidCapacityReservationId.Malformed");
    }
    let missing = launched(&folder, "us-east-1a", none).unwrap_err();
    assert_eq!(missing, "InvalidCapacityReservationId.NotFound");
}

#[tokio::test(start_paused = true)]
async fn the_client_reads_what_the_folder_answers() {
    let folder = Folder::aws();
    let id: ReservationId = reserved(&folder, &[]).parse().unwrap();
    let found = folder.ec2.capacity_reservation(&id).await.unwrap().unwrap();
    assert_eq!(found.instance_type, "t3.micro");
    assert_eq!(found.zone.0, "us-east-1a");
    assert_eq!(
        (found.available, found.total, &found.inactive),
        (2, 2, &None)
    );
    assert!(!found.is_special);
    let none = "cr-0123456789abcdef0".parse().unwrap();
    assert_eq!(folder.ec2.capacity_reservation(&none).await.unwrap(), None);
    let types = ["c5.large", "m5.large", "r5.large"].map(str::to_owned);
    let scores = folder.ec2.placement_scores(&types).await.unwrap();
    let scores: Vec<(&str, u8)> = scores.iter().map(|(id, score)| (&**id, *score)).collect();
    assert_eq!(scores, [("use1-az1", 3), ("use1-az2", 6), ("use1-az3", 9)]);
    // As AWS has it, fewer than three are always scored low.
    let few = folder.ec2.placement_scores(&types[..2]).await.unwrap();
    assert!(few.values().all(|score| *score == 1), "{few:?}");
}

#[tokio::test(start_paused = true)]
async fn placement_scores_are_of_zones_or_of_the_region() {
    let folder = Folder::aws();
    let types = [
        ("InstanceType.1", "c5.large"),
        ("InstanceType.2", "m5.large"),
        ("InstanceType.3", "r5.large"),
        ("TargetCapacity", "1"),
    ];
    let scores = |more: &[(&str, &str)]| {
        let answer = folder.call("GetSpotPlacementScores", &[&types, more].concat());
        texts(&answer, "score")
    };
    assert_eq!(scores(&[]), ["9"]);
    assert_eq!(
        scores(&[("SingleAvailabilityZone", "true")]),
        ["3", "6", "9"]
    );
    assert_eq!(scores(&[("RegionName.1", "eu-central-1")]), [""; 0]);
    for wrong in [
        &[("TargetCapacity", "1")][..],
        &[("InstanceType.1", "t9.micro"), ("TargetCapacity", "1")],
        &[("InstanceType.1", "m5.large"), ("TargetCapacity", "0")],
    ] {
        folder.refused("GetSpotPlacementScores", wrong);
    }
}
