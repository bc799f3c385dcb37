//! The ingress of a session's hosts, and routes that need none.

mod ports;
mod wide;

use xdrive::cloud::folder;
use xdrive::ec2::Group;

use super::simulated::paper;
use super::site::{Ended, Site};

impl Site {
    /// The security groups of the caller.
    fn groups(&self) -> Vec<Group> {
        let local = self.local();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let ec2 = folder::ec2(&local);
            let owner = ec2.owner().await.unwrap();
            ec2.groups_of(&owner).await.unwrap()
        })
    }

    /// The authorized ranges of all groups.
    fn authorized(&self) -> Vec<String> {
        let rules = self.groups().into_iter().flat_map(|group| group.rules);
        rules.map(|rule| rule.from.to_string()).collect()
    }

    fn session_with(&self, flags: &[&str]) -> Ended {
        let image = self.image();
        let words = [&["connect", "demo", "--image", &image], flags].concat();
        self.run(&[&words[..], &["--", "true"]].concat())
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn each_laptop_has_a_rule_of_its_own_and_gc_revokes_unused_ones() {
    let site = Site::new();
    site.session_with(&[]).is(0);
    // The address of this computer's routes.
    assert_eq!(site.authorized(), ["10.99.0.1/32"]);
    let other = site.other_laptop();
    let ended = other.session_with(&["--cidr", "198.51.100.0/24", "--cidr", "0.0.0.0/0"]);
    ended
        .is(0)
        .reports("warning: 0.0.0.0/0 lets every address connect")
        .reports("lets 198.51.100.0/24, 0.0.0.0/0 in");
    assert_eq!(
        site.authorized(),
        ["10.99.0.1/32", "198.51.100.0/24", "0.0.0.0/0"]
    );
    // The laptop does not want one of them now; another session of it may, for a day.
    let subnet = "subnet-00000000000000003";
    let ended = other.session_with(&["--cidr", "198.51.100.0/24", "--subnet", subnet]);
    ended.is(0).reports("us-east-1c");
    assert_eq!(site.authorized().len(), 3);

    let group = site.groups().remove(0);
    let ended = site.run(&["gc", "--dry-run"]);
    ended
        .is(0)
        .prints("would let 198.51.100.0/24 in no longer")
        .prints(&format!("would delete {}", group.id));
    assert_eq!(site.groups(), std::slice::from_ref(&group));
    // A group belongs to no drive.
    site.run(&["gc", "demo"]).is(0);
    assert_eq!(site.groups(), std::slice::from_ref(&group));
    site.run(&["gc"])
        .is(0)
        .prints(&format!("deleted {}", group.id));
    assert_eq!(site.groups(), []);
    site.is_saved("demo", 3);
}

#[test]
fn a_role_that_is_not_there_is_named_with_what_helps_and_leaves_nothing() {
    let site = Site::with_settings("plane = \"paper\"\ninstance-profiles = [\"lab\"]\n");
    for (profile, by) in [
        ("nobody", "name"),
        ("arn:aws:iam::000000000000:instance-profile/nobody", "arn"),
    ] {
        site.session_with(&["--instance-profile", profile])
            .is(2)
            .reports(&format!("parameter iamInstanceProfile.{by} is invalid"))
            .reports("hint: --instance-profile takes an instance profile's name or ARN");
        assert_eq!(site.run(&["list"]).is(0).stdout, "no drives\n");
    }
}

#[test]
fn without_a_default_vpc_nothing_is_launched_and_a_subnet_is_asked_for() {
    let site = Site::with_settings("plane = \"paper\"\ndefault-vpc = false\n");
    site.session_with(&[])
        .is(69)
        .reports("error: there is no default VPC in us-east-1\n\nhint: --subnet names");
    let listed = site.run(&["list"]);
    assert_eq!(listed.is(0).stdout, "no drives\n");
}

#[test]
fn subnets_roles_addresses_and_commands_that_cannot_be_are_refused() {
    let site = paper();
    let refused = |flags: &[&str], why: &str| {
        site.session_with(flags).is(2).reports(why);
    };
    refused(&["--subnet", "default"], "is not a subnet id");
    refused(
        &["--subnet", "subnet-0000000000000dead"],
        "there is no subnet-0000000000000dead in us-east-1",
    );
    refused(
        &["--instance-profile", "a b"],
        "neither an instance profile's name",
    );
    refused(
        &["--cidr", "home"],
        "\"home\" is not an address such as 203.0.113.7",
    );
    refused(&["--proxy-command", "nc %r"], "%r stands for nothing");
    refused(&["--proxy-command", ""], "the command is empty");

    for (text, why) in [
        ("subnet = 'default'", "is not a subnet id"),
        (
            "instance_profile = 'a b'",
            "neither an instance profile's name",
        ),
        ("cidr = 'home'", "cidr"),
        ("cidr = ['192.0.2.1', '192.0.2.1/99']", "cidr"),
        ("proxy_command = 'nc %r'", "%r stands for nothing"),
        (
            "address_service = 'http://example.com'",
            "does not begin with https://",
        ),
    ] {
        site.configure(text);
        site.session_with(&[]).is(78).reports(why);
        site.run(&["stop", "demo"]).is(78).reports(why);
    }
    site.configure("cidr = ['192.0.2.1', '2001:db8::/64']\nsubnet = 'subnet-00000000000000001'\n");
    site.run(&["stop", "demo"]).is(69);
}
