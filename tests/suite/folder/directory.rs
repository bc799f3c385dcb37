//! The state directory: shared, damaged, left behind by the killed.

use std::os::unix::fs::PermissionsExt as _;

use super::{Folder, call, launch_params, pass, text, texts};

#[test]
fn two_handles_share_one_world() {
    // The machine's own clock: threads, not tokio's one.
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        xdrive::local::Local::open(xdrive::local::OpenOptions::new(
            folder.path(),
            xdrive::local::plane::Plane::Paper,
            xdrive::clock::Clock::system(),
        ))
        .unwrap()
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let local = open();
                for _ in 0..25 {
                    let zone = [("AvailabilityZone", "us-east-1a"), ("Size", "1")];
                    call(&local, "CreateVolume", &zone).unwrap();
                    call(&local, "DescribeVolumes", &[]).unwrap();
                }
            });
        }
    });
    let all = call(&open(), "DescribeVolumes", &[]).unwrap();
    assert_eq!(texts(&all, "volumeId").len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_later_process_finds_what_an_earlier_one_made() {
    let folder = Folder::aws();
    let id = folder.launch();
    pass(20.0).await;
    let other = folder.reopen().unwrap();
    let answer = call(&other, "DescribeInstances", &[("InstanceId.1", &id)]).unwrap();
    assert_eq!(text(&answer, "instanceId"), id);
    assert_eq!(other.credentials(), folder.local.credentials());
    let mode = std::fs::metadata(folder.path("credentials.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let said = format!("{:?}", other.credentials());
    assert!(!said.contains(&other.credentials().secret_access_key));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_state_file_is_an_error_that_says_what_to_do_and_is_left_alone() {
    let folder = Folder::aws();
    folder.launch();
    let path = folder.path("state.json");
    let whole = std::fs::read_to_string(&path).unwrap();
    let newer = whole.replacen("\"version\":1", "\"version\":2", 1);
    let other = "{\"version\":7,\"worlds\":[]}".to_owned();
    for (text, expected) in [
        (String::new(), "damaged"),
        (whole[..whole.len() / 2].to_owned(), "damaged"),
        ("[]".to_owned(), "damaged"),
        (newer, "update xdrive"),
        (other, "update xdrive"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let opening = format!("{:#}", folder.reopen().unwrap_err());
        let calling = folder
            .try_call("DescribeInstances", &[])
            .unwrap_err()
            .message;
        let changing = folder
            .try_call("RunInstances", &launch_params("us-east-1a"))
            .unwrap_err();
        for said in [&opening, &calling, &changing.message] {
            assert!(
                said.contains(expected) && said.contains("state.json"),
                "{said}"
            );
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    std::fs::remove_file(&path).unwrap();
    let lost = format!("{:#}", folder.reopen().unwrap_err());
    assert!(lost.contains("is missing"), "{lost}");
    assert!(!path.exists());
    std::fs::write(&path, whole).unwrap();
    folder.call("DescribeInstances", &[]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_killed_is_completed_or_undone_by_the_next() {
    let folder = Folder::aws();
    let instance = folder.launch();
    let (held, free) = (folder.volume(), folder.volume());
    pass(20.0).await;
    let params = [
        ("VolumeId", held.as_str()),
        ("InstanceId", &instance),
        ("Device", "/dev/sdf"),
    ];
    folder.call("AttachVolume", &params);
    pass(5.0).await;
    let path = folder.path("state.json");
    let leave = |intent: &str| {
        let state = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, state.replacen("\"unfinished\":null", intent, 1)).unwrap();
        std::fs::write(folder.path(".new-left"), "half").unwrap();
    };
    let is_clean = || {
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .contains("\"unfinished\":null")
        );
    };
    // Killed in the middle of detaching: it is out.
    leave(&format!(
        "\"unfinished\":{{\"detach\":{{\"volume\":\"{held}\",\"instance\":\"{instance}\"}}}}"
    ));
    folder.reopen().unwrap();
    is_clean();
    assert!(!folder.path(".new-left").exists());
    assert_eq!(folder.volume_state(&held), "available");
    // Killed in the middle of attaching: it never was. A reader cleans up, too.
    leave(&format!(
        "\"unfinished\":{{\"attach\":{{\"volume\":\"{free}\",\"instance\":\"{instance}\"}}}}"
    ));
    assert_eq!(folder.volume_state(&free), "available");
    is_clean();
    // Killed in the middle of making something that has no record yet.
    leave("\"unfinished\":\"sweep\"");
    folder.call("DescribeVolumes", &[]);
    is_clean();
}

#[tokio::test(start_paused = true)]
async fn a_directory_stays_what_it_was_made_as() {
    let folder = Folder::aws();
    let mut options = xdrive::local::OpenOptions::new(
        folder.path("").as_path(),
        xdrive::local::plane::Plane::Paper,
        folder.clock.clone(),
    );
    options.settings.region = Some("eu-central-1".into());
    let error = xdrive::local::Local::open(options.clone())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("eu-central-1") && error.contains("us-east-1"),
        "{error}"
    );
    options.settings.region = Some("mars-1".into());
    assert!(xdrive::local::Local::open(options).is_err());
}
