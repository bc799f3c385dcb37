//! Sessions of images from a registry, a real one in the instance's network, and this computer's
//! logins there.

mod wide;

use std::fs;
use std::process::Command;

use super::site::{Ended, SESSION, Site};
use super::terminal::ends;
use super::tree::{init, inside};
use super::variables::is_left;
use harness::registry::{PRIVATE, Registry, SLOW, USER, publish};
use harness::write_script;

/// The helper of the tests, `docker-credential-` before it.
const HELPER: &str = "for-tests";

/// A command that waits in the container until the registry is gone, which must not keep the
/// instance alive.
const WAITS: &str = "echo begun; until [ -e /work/end ]; do sleep 0.1; done; rm /work/end";

/// A drive whose session was left running, with a registry beside it that has `three:v1`.
pub(super) fn with_a_registry() -> (Site, Registry) {
    let site = Site::new();
    let image = site.image();
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &image]);
    pty.see_within(SESSION, "# ");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());
    let registry = Registry::start(&init(&site));
    inside(&site, &publish("xdrive/image:latest", "three:v1"));
    (site, registry)
}

/// `USER:PASSWORD` as Docker's settings have it.
pub(super) fn encoded(password: &str) -> String {
    let script = format!("printf %s '{}:{password}' | base64 --wrap=0", USER.0);
    let printed = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(printed.stdout).unwrap()
}

/// Gives Docker's client of this computer these settings.
pub(super) fn docker_settings(site: &Site, settings: &str) {
    let folder = site.home().join(".docker");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.json"), settings).unwrap();
}

/// Settings with a login at the private registry.
pub(super) fn login(password: &str) -> String {
    let auth = encoded(password);
    format!("{{\"auths\": {{\"http://{PRIVATE}/v1/\": {{\"auth\": \"{auth}\"}}}}}}")
}

/// xdrive with these arguments and with a helper that runs this script.
fn with_helper(site: &Site, script: &str, arguments: &[&str]) -> Command {
    let folder = site.path("helpers");
    fs::create_dir_all(&folder).unwrap();
    let helper = folder.join(format!("docker-credential-{HELPER}"));
    write_script(&helper, &format!("#!/bin/sh\n{script}\n"));
    let settings = format!("{{\"credHelpers\": {{\"{PRIVATE}\": \"{HELPER}\"}}}}");
    docker_settings(site, &settings);
    let mut command = site.command(arguments);
    command.env(
        "PATH",
        format!("{}:{}", folder.display(), harness::home::PATH),
    );
    command
}

/// Whether a text is on a disk of the instance that runs, or in its processes' arguments and
/// environments.
fn is_inside(site: &Site, text: &str) -> bool {
    let (first, rest) = text.split_at(1);
    let pattern = format!("[{first}]{rest}");
    let folders = "/etc /home /root /run /tmp /usr/local /v1 /var";
    let script = format!(
        "grep -rsqa --devices=skip '{pattern}' {folders} || \
         cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -qa '{pattern}' || echo no"
    );
    inside(site, &script) != "no\n"
}

/// The end of a session whose image the private registry refuses; the drive is saved.
fn refused((site, registry): (Site, Registry), mut command: Command) -> Ended {
    command.args(["--image", &format!("{PRIVATE}/three:v1"), "--", "true"]);
    let ended = site.start_command(command).end();
    drop(registry);
    ended
        .is(77)
        .reports("demo is saved: its snapshot (snap-")
        .reports("or `docker save -o FILE` where the image is");
    let (_, password) = USER;
    assert!(!ended.stderr.contains(password), "{}", ended.stderr);
    site.is_saved("demo", 1);
    ended
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn a_login_of_this_computer_is_used_for_the_pull_and_left_nowhere() {
    let (site, registry) = with_a_registry();
    inside(&site, &publish("xdrive/image:latest", "four:v1"));
    let (_, password) = USER;
    docker_settings(&site, &login(password));
    let reference = format!("{PRIVATE}/three:v1");
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &reference]);
    pty.see_within(
        SESSION,
        &format!("pulled {reference}: 4 layers, 12 MB, by the"),
    );
    pty.see_within(SESSION, "# ");
    for secret in [password, &encoded(password)] {
        assert!(!is_inside(&site, secret), "{secret} is in the instance");
    }
    inside(&site, "echo a-mark-of-4716 >/run/mark");
    assert!(is_inside(&site, "a-mark-of-4716"), "what is there is found");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());

    // Another image, by a helper that is asked for this registry.
    let reference = format!("{PRIVATE}/four:v1");
    let (user, password) = USER;
    let script = format!(
        "[ \"$1 $(cat)\" = 'get {PRIVATE}' ] && \
         echo '{{\"Username\": \"{user}\", \"Secret\": \"{password}\"}}'"
    );
    let words = [
        "connect", "demo", "--image", &reference, "--", "sh", "-c", WAITS,
    ];
    let mut running = site.start_command(with_helper(&site, &script, &words));
    running.prints("begun");
    let by = format!("by the login of {user} from docker-credential-{HELPER}");
    running.reports(&format!("pulled {reference}: 4 layers, 12 MB, {by}"));
    assert!(!is_inside(&site, password), "it is in the instance");
    drop(registry);
    inside(
        &site,
        "touch /v1/work/end; echo a-mark-of-4716 >/v1/work/mark",
    );
    running.end().is(0);
    site.is_saved("demo", 1);
    for secret in [password, &encoded(password)] {
        assert!(!is_left(&site, secret), "{secret} is on a disk");
    }
    assert!(is_left(&site, "a-mark-of-4716"), "what is written is found");
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn a_terminal_shows_how_far_a_pull_is() {
    let (site, registry) = with_a_registry();
    let reference = format!("{SLOW}/three:v1");
    let mut pty = site.in_terminal(&["connect", "demo", "--image", &reference]);
    pty.see_within(SESSION, "pull three:v1: ");
    pty.see_within(SESSION, "of 4 layers, ");
    pty.see_within(SESSION, &format!("pulled {reference}: 4 layers, 12 MB"));
    pty.see_within(SESSION, "# ");
    // The registry is in the instance's network, and must not keep that alive.
    drop(registry);
    pty.type_in("exit\r");
    ends(pty, &site, 0, 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and docker-registry"]
fn a_registry_that_wants_a_login_is_named_and_the_drive_saved() {
    let (site, registry) = with_a_registry();
    let command = site.command(&["connect", "demo"]);
    refused((site, registry), command)
        .reports(&format!(
            "{PRIVATE} refused {PRIVATE}/three:v1: it needs a login"
        ))
        .reports("no basic auth credentials")
        .reports(&format!(
            "hint: `docker login {PRIVATE}` on this computer leaves a login here"
        ));
}
