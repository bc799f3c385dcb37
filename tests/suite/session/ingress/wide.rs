//! Variants of `ingress`, which `shell/test.sh --all` runs.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use xdrive::local::wire::Params;

use crate::session::site::Site;

/// A proxy command of programs that every system has.
const THROUGH: &str = "bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'";

/// Settings of an EC2 whose groups do not hold for this computer.
const AS_BY_A_VPN: &str = "enforce-groups = false\n";

/// The command lines of all processes that have `mark` in them.
fn processes(mark: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .map(|words| String::from_utf8_lossy(&words).into_owned())
        .filter(|words| words.contains(mark))
        .collect()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_laptop_with_ipv6_has_a_rule_of_that_family_and_takes_it_along() {
    let site = Site::with_settings(AS_BY_A_VPN);
    let families = || {
        let none = Params::default();
        let answer = site.local().call("DescribeSecurityGroups", &none).unwrap();
        let text = format!("{answer:?}");
        let count = |what: &str| text.matches(what).count();
        (count("\"cidrIpv6\""), count("10.99.0.1/32"))
    };
    site.session_with(&["--cidr", "2001:DB8:1::7"])
        .is(0)
        .reports("lets 2001:db8:1::7/128 in");
    assert_eq!(site.authorized(), ["2001:db8:1::7/128"]);
    assert_eq!(families(), (1, 0));
    // It moves, and keeps an address of each family.
    site.session_with(&["--cidr", "2001:db8:2::7/64", "--cidr", "192.0.2.7"])
        .is(0)
        .reports("lets 2001:db8:2::/64, 192.0.2.7/32 in");
    // The rule for its former address stays for a day: another session of it may still use that.
    let both = ["192.0.2.7/32", "2001:db8:1::7/128", "2001:db8:2::/64"];
    assert_eq!(site.authorized(), both);
    let ended = site.session_with(&["--cidr", "::/0"]);
    ended
        .is(0)
        .reports("warning: ::/0 lets every address connect");
    assert_eq!(site.authorized()[3..], ["::/0"]);
    site.session_with(&[]).is(0);
    assert_eq!(families(), (3, 1));
    site.is_saved("demo", 4);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_through_a_command_authorizes_no_address_and_leaves_no_process() {
    let site = Site::with_settings(AS_BY_A_VPN);
    let mark = format!("true {};", site.path("way").display());
    let way = format!("{mark} {THROUGH}");
    site.configure("proxy_command = 'echo no such plugin >&2; exit 7'\n");
    site.session_with(&["--proxy-command", &way]).is(0);
    assert_eq!(processes(&mark), [""; 0]);
    let groups = site.groups();
    assert!(
        groups.len() == 1 && groups[0].rules.is_empty(),
        "{groups:?}"
    );
    site.is_saved("demo", 1);

    // Without the flag the configuration decides.
    let image = site.image();
    let words = ["connect", "demo", "--image", &image, "--", "true"];
    let mut session = site.start(&words);
    session.reports("the proxy command ended with exit status 7: no such plugin");
    session.signal(Signal::INT);
    session.end().is(130);
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_host_gets_the_role_that_is_named_and_no_other() {
    const ARN: &str = "arn:aws:iam::000000000000:instance-profile/lab";
    let site = Site::with_settings("instance-profiles = [\"lab\"]\n");
    let roles = || {
        let state = fs::read(site.dir().join("state.json")).unwrap();
        let state: Value = serde_json::from_slice(&state).unwrap();
        let instances = state["instances"].as_object().unwrap();
        let roles = instances.values().map(|instance| {
            let role = instance["profile"].as_str();
            role.unwrap_or("none").to_owned()
        });
        let mut roles: Vec<String> = roles.collect();
        roles.sort_unstable();
        roles
    };
    site.session_with(&["--instance-profile", "lab"]).is(0);
    assert_eq!(roles(), [ARN]);
    // From the configuration, in the other form; a flag outranks it.
    site.configure(&format!("instance_profile = '{ARN}'\n"));
    site.session_with(&[]).is(0);
    assert_eq!(roles(), [ARN, ARN]);
    site.session_with(&["--instance-profile", "nobody"])
        .is(2)
        .reports("Value (nobody) for parameter iamInstanceProfile.name is invalid")
        .reports("hint: --instance-profile takes an instance profile's name or ARN");
    assert_eq!(roles(), [ARN, ARN]);
    site.is_saved("demo", 2);
    site.configure("");
    site.session_with(&[]).is(0);
    assert_eq!(roles(), [ARN, ARN, "none"]);
}
