//! Variants of `pulls`, which `shell/test.sh --all` runs.

use std::fs;

use super::{
    HELPER, WAITS, docker_settings, encoded, is_inside, login, refused, with_a_registry,
    with_helper,
};
use crate::session::site::Site;
use crate::session::tree::inside;
use crate::session::variables::is_left;
use harness::registry::{PRIVATE, USER};

/// A folder `project` whose image begins with the private one.
fn project(site: &Site) {
    let folder = site.path("project");
    fs::create_dir(&folder).unwrap();
    let dockerfile = "ARG REGISTRY\narg TAG=v1\nfrom \\\n  # As the description has it.\n  \
                      ${REGISTRY:-registry.invalid}/three:${TAG} as base\nFROM base\nENV BUILT=yes\n";
    let description = format!(
        "{{\"build\": {{\"dockerfile\": \"Dockerfile\", \"args\": {{\"REGISTRY\": \"{PRIVATE}\"}}}}}}"
    );
    fs::write(folder.join("Dockerfile"), dockerfile).unwrap();
    fs::write(folder.join("devcontainer.json"), description).unwrap();
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn the_base_image_of_a_dockerfile_is_pulled_by_this_computers_login() {
    let (site, registry) = with_a_registry();
    let (user, password) = USER;
    docker_settings(&site, &login(password));
    project(&site);
    let script = format!("echo $BUILT; {WAITS}");
    let session = ["connect", "demo", "--image", "./project", "--", "sh", "-c"];
    let mut running = site.start(&[&session[..], &[&script]].concat());
    running.prints("yes\nbegun");
    running.reports(&format!(
        "pulled {PRIVATE}/three:v1: 4 layers, 12 MB, by the login of {user} from "
    ));
    running.reports("built the image of project");
    for secret in [password, &encoded(password)] {
        assert!(!is_inside(&site, secret), "{secret} is in the instance");
    }
    drop(registry);
    inside(&site, "touch /v1/work/end");
    running.end().is(0);
    site.is_saved("demo", 1);
    for secret in [password, &encoded(password)] {
        assert!(!is_left(&site, secret), "{secret} is on a disk");
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn without_a_login_the_build_says_what_it_could_not_pull() {
    let (site, registry) = with_a_registry();
    docker_settings(&site, &login(USER.1));
    project(&site);
    let words = ["connect", "demo", "--no-registry-login"];
    let ended = site.run(&[&words[..], &["--image", "./project", "--", "true"]].concat());
    drop(registry);
    ended
        .is(69)
        .reports("error: the image of project cannot be built\n")
        .reports("no basic auth credentials")
        .reports("If it needs a private image: `docker login` on this computer");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn a_login_that_is_not_accepted_is_named_with_its_source() {
    let (site, registry) = with_a_registry();
    docker_settings(&site, &login("guessed"));
    let command = site.command(&["connect", "demo"]);
    let file = site.home().join(".docker/config.json");
    refused((site, registry), command)
        .reports(&format!(
            "error: {PRIVATE} refused {PRIVATE}/three:v1 with the login of ada from {}\n",
            file.display()
        ))
        .reports("unauthorized")
        .reports(&format!(
            "hint: `docker login {PRIVATE}` on this computer, if that login has expired"
        ));
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn a_helper_that_fails_is_named_where_the_registry_wants_a_login() {
    let (site, registry) = with_a_registry();
    let command = with_helper(&site, "echo it is locked; exit 1", &["connect", "demo"]);
    refused((site, registry), command)
        .reports(&format!("{PRIVATE}/three:v1: it needs a login\n"))
        .reports(&format!(
            "without this computer's login: docker-credential-{HELPER}, which /"
        ))
        .reports("it failed: it is locked");
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn no_registry_login_sends_no_login() {
    let (site, registry) = with_a_registry();
    docker_settings(&site, &login(USER.1));
    let command = site.command(&["connect", "demo", "--no-registry-login"]);
    refused((site, registry), command)
        .reports(&format!("{PRIVATE}/three:v1: it needs a login\n"))
        .reports("no basic auth credentials")
        .reports("hint: without --no-registry-login");
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn an_expired_login_is_not_in_the_way_of_what_needs_none() {
    let (site, registry) = with_a_registry();
    docker_settings(&site, &login("expired"));
    // The instance may pull it without this computer.
    let (user, password) = USER;
    inside(
        &site,
        &format!("echo {password} | docker login -u {user} --password-stdin {PRIVATE}"),
    );
    let reference = format!("{PRIVATE}/three:v1");
    let words = [
        "connect", "demo", "--image", &reference, "--", "sh", "-c", WAITS,
    ];
    let mut running = site.start(&words);
    running.prints("begun");
    drop(registry);
    inside(&site, "touch /v1/work/end");
    running
        .end()
        .is(0)
        .reports(&format!("pulled {reference}: 4 layers, 12 MB\n"))
        .reports(&format!(
            "warning: {PRIVATE} does not accept the login of {user} from "
        ));
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_registry_that_is_not_there_is_named_and_the_drive_saved() {
    let site = Site::new();
    let arguments = [
        "connect",
        "demo",
        "--image",
        "registry.invalid/a:b",
        "--",
        "true",
    ];
    site.run(&arguments)
        .is(69)
        .reports("the instance does not reach the registry registry.invalid")
        .reports("hint: is its name right")
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 1);
}
