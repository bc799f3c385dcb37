//! Variants of `people`, which `shell/test.sh --all` runs.

use xdrive::ec2::Tags;

use super::{ROLE, calls};
use crate::session::simulated::in_the_cloud;
use crate::session::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_session_of_a_colleague_with_the_same_permission_set_cannot_be_joined_or_ended() {
    let site = Site::new();
    let image = site.image();
    calls(&site, "real", "ada@example.com");
    let command = "echo up; until [ -e /work/end ]; do sleep 0.1; done";
    let words = [
        "connect", "demo", "--image", &image, "--", "sh", "-c", command,
    ];
    let mut lead = site.start(&words);
    lead.prints("up");
    calls(&site, "real", "bob@example.com");
    let other = site.other_laptop();
    let tries = [&["connect", "demo", "--", "true"][..], &["stop", "demo"]];
    for words in tries {
        other
            .run(words)
            .is(77)
            .reports(&format!("error: demo is {ROLE}/ada@example.com's"));
    }
    // As old versions wrote it, without the person: it may be his, or hers.
    let instance = site.instance("demo");
    in_the_cloud(&site, async |ec2| {
        let tags = Tags::from([("xdrive:owner".to_owned(), ROLE.to_owned())]);
        ec2.tag(&instance, &tags).await.unwrap();
    });
    for words in tries {
        other
            .run(words)
            .is(77)
            .reports(&format!(
                "error: demo is in use by {ROLE}, a role without a person's name"
            ))
            .reports("hint: --shared uses it all the same");
    }
    other
        .run(&["connect", "demo", "--shared", "--", "touch", "/work/end"])
        .is(0);
    lead.end().is(0);
    site.is_saved("demo", 1);
}
