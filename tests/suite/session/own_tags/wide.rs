//! Variants of `own_tags`, which `shell/test.sh --all` runs.

use xdrive::ec2::Tags;
use xdrive::local::Local;
use xdrive::local::wire::Params;

use super::forbidding;
use crate::session::simulated::in_the_cloud;
use crate::session::site::Site;

/// The kinds of all that has this tag.
fn tagged(local: &Local, key: &str, value: &str) -> Vec<String> {
    let pairs = [
        ("Filter.1.Name", format!("tag:{key}")),
        ("Filter.1.Value.1", value.to_owned()),
    ];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
    let answer = local.call("DescribeTags", &Params::new(pairs)).unwrap();
    let text = format!("{answer:?}");
    let kinds = [
        "instance",
        "security-group",
        "snapshot",
        "spot-instances-request",
        "volume",
    ];
    let has = |kind: &str| text.contains(&format!("Some(\"{kind}\")"));
    let found = kinds.into_iter().filter(|kind| has(kind));
    found.map(str::to_owned).collect()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_typed_tag_is_on_all_that_is_made_and_carried_on_without_the_flag() {
    let site = Site::new();
    forbidding(&site, "");
    let image = site.image();
    let words = [
        "connect",
        "demo",
        "--image",
        &image,
        "--tag",
        "CostCenter=42",
    ];
    let mut session =
        site.start(&[&words[..], &["--", "sh", "-c", "echo up; sleep 1000"]].concat());
    session.prints("up\n");
    let all = [
        "instance",
        "security-group",
        "spot-instances-request",
        "volume",
    ];
    assert_eq!(tagged(&site.local(), "CostCenter", "42"), all);
    session.signal(rustix::process::Signal::TERM);
    session.end();
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
    assert!(tagged(&site.local(), "CostCenter", "42").contains(&"snapshot".to_owned()));
    // The next session has no flag, and is refused nowhere.
    site.other_laptop()
        .run(&["connect", "demo", "--", "true"])
        .is(0);
    site.is_saved("demo", 2);
    let saved = in_the_cloud(&site, async |ec2| {
        ec2.snapshots(&"demo".parse().unwrap()).await.unwrap()
    });
    let tags: Vec<&Tags> = saved.iter().map(|it| &it.tags).collect();
    assert!(
        tags.iter().all(|tags| tags["CostCenter"] == "42"),
        "{tags:?}"
    );
}
