//! Security groups on real machines: what reaches an instance, and from where.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use xdrive::local::{Boots, Settings};

use super::{Real, find, launch_params, text};

/// Long enough for an answer. A packet that is dropped gets none.
const ANSWER: Duration = Duration::from_secs(1);

/// An instance. It never boots: its network is there from its launch on.
struct Instance {
    id: String,
    address: Ipv4Addr,
}

impl Instance {
    /// Runs `work` on a thread in the instance's network.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let name = &self.id[self.id.len() - 8..];
        let namespace = File::open(format!("/run/netns/xd-{name}")).unwrap();
        let inside = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).unwrap();
            work()
        };
        std::thread::scope(|threads| threads.spawn(inside).join().unwrap())
    }

    fn listen(&self, port: u16) -> TcpListener {
        self.inside(|| TcpListener::bind((self.address, port)).unwrap())
    }

    /// A connection from here, if it is let in there.
    fn connect(&self, to: &Self, port: u16) -> Option<TcpStream> {
        self.inside(|| from_host(to, port))
    }

    fn reaches(&self, to: &Self, port: u16) -> bool {
        self.connect(to, port).is_some()
    }
}

/// A connection from the calling thread's network.
fn from_host(to: &Instance, port: u16) -> Option<TcpStream> {
    let to = SocketAddr::from((to.address, port));
    match TcpStream::connect_timeout(&to, ANSWER) {
        Ok(connected) => Some(connected),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            None
        }
    }
}

/// The settings of instances that have a network, and nothing else for as long as a test takes.
/// Groups hold for this computer too.
fn unbooted() -> Settings {
    let never = Boots {
        seconds: 3600,
        fails: false,
    };
    Settings {
        boots: Some(BTreeMap::from([("t3.micro".to_owned(), never)])),
        enforce_groups: Some(true),
        ..Settings::default()
    }
}

impl Real {
    fn group(&self, name: &str) -> String {
        let params = [("GroupName", name), ("GroupDescription", "of a test")];
        text(&self.call("CreateSecurityGroup", &params), "groupId")
    }

    fn launch_in(&self, groups: &[&str]) -> Instance {
        let names: Vec<String> = (1..=groups.len())
            .map(|index| format!("SecurityGroupId.{index}"))
            .collect();
        let mut params = launch_params("us-east-1a");
        params.extend(names.iter().map(String::as_str).zip(groups.iter().copied()));
        let launched = self.call("RunInstances", &params);
        Instance {
            id: text(&launched, "instanceId"),
            address: text(&launched, "privateIpAddress").parse().unwrap(),
        }
    }
}

/// A rule for one TCP port, or for everything, whose source is another group or a range.
fn rule<'a>(group: &'a str, port: Option<&'a str>, from: &'a str) -> Vec<(&'a str, &'a str)> {
    let source = if from.starts_with("sg-") {
        "IpPermissions.1.Groups.1.GroupId"
    } else {
        "IpPermissions.1.IpRanges.1.CidrIp"
    };
    let protocol = port.map_or("-1", |_| "tcp");
    let mut rule = vec![
        ("GroupId", group),
        ("IpPermissions.1.IpProtocol", protocol),
        (source, from),
    ];
    if let Some(port) = port {
        rule.push(("IpPermissions.1.FromPort", port));
        rule.push(("IpPermissions.1.ToPort", port));
    }
    rule
}

const AUTHORIZE: &str = "AuthorizeSecurityGroupIngress";
const REVOKE: &str = "RevokeSecurityGroupIngress";
/// This computer, as instances see it.
const HOST: &str = "10.99.0.1/32";

#[test]
#[ignore = "needs root (namespaces) and a machine tree"]
fn instances_of_a_group_that_lets_itself_in_reach_each_other_and_no_other_does() {
    let real = Real::with(unbooted());
    let (team, other) = (real.group("team"), real.group("other"));
    real.call(AUTHORIZE, &rule(&team, None, &team));
    let one = real.launch_in(&[&team]);
    let two = real.launch_in(&[&team, &other]);
    let third = real.launch_in(&[&other]);
    let _kept = [one.listen(2049), one.listen(7000), third.listen(7000)];
    for port in [2049, 7000] {
        assert!(two.reaches(&one, port), "{port}");
        assert!(!third.reaches(&one, port), "{port}");
        assert!(from_host(&one, port).is_none(), "{port}");
    }
    assert!(!two.reaches(&third, 7000));
    // Any protocol: the answer belongs to what was asked.
    let names = one.inside(|| UdpSocket::bind((one.address, 53)).unwrap());
    let asks = |from: &Instance| {
        from.inside(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            socket.send_to(b"?", (one.address, 53)).unwrap();
            socket
        })
    };
    let (_dropped, asked) = (asks(&third), asks(&two));
    let mut question = [0; 8];
    names.set_read_timeout(Some(ANSWER)).unwrap();
    let (_, from) = names.recv_from(&mut question).unwrap();
    assert_eq!(from.ip(), two.address);
    names.send_to(b"!", from).unwrap();
    asked.set_read_timeout(Some(ANSWER)).unwrap();
    asked.recv(&mut question).unwrap();
    assert_eq!(question[0], b'!');

    // This computer has a rule as any other.
    real.call(AUTHORIZE, &rule(&team, Some("7000"), HOST));
    assert!(from_host(&one, 7000).is_some());
    assert!(from_host(&one, 2049).is_none());
    // It asks instances for nothing: they reach it.
    let here = TcpListener::bind("10.99.0.1:0").unwrap();
    let there = here.local_addr().unwrap();
    third.inside(|| TcpStream::connect_timeout(&there, ANSWER).unwrap());
}

#[test]
#[ignore = "needs root (namespaces) and a machine tree"]
fn a_rule_holds_once_its_call_returns_and_a_revoked_one_keeps_its_connections() {
    let real = Real::with(unbooted());
    let (leader, workers) = (real.group("leader"), real.group("workers"));
    let shares = rule(&leader, Some("2049"), &workers);
    let first = real.launch_in(&[&leader]);
    let worker = real.launch_in(&[&workers]);
    let listener = first.listen(2049);
    assert!(!worker.reaches(&first, 2049));
    real.call(AUTHORIZE, &shares);
    let mut connection = worker.connect(&first, 2049).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    // One that is launched later is a member as well.
    let later = real.launch_in(&[&workers]);
    assert!(later.reaches(&first, 2049));

    real.call(REVOKE, &shares);
    assert!(!worker.reaches(&first, 2049) && !later.reaches(&first, 2049));
    let mut received = [0; 4];
    connection.write_all(b"kept").unwrap();
    accepted.read_exact(&mut received).unwrap();
    accepted.write_all(&received).unwrap();
    connection.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"kept");
}

#[test]
#[ignore = "needs root (namespaces) and a machine tree"]
fn where_groups_are_not_enforced_for_this_computer_they_are_between_instances() {
    let real = Real::with(Settings {
        enforce_groups: Some(false),
        ..unbooted()
    });
    let group = real.group("closed");
    let (one, two) = (real.launch_in(&[&group]), real.launch_in(&[&group]));
    let _kept = one.listen(7000);
    assert!(from_host(&one, 7000).is_some());
    assert!(!two.reaches(&one, 7000));
}

#[test]
#[ignore = "needs root (namespaces) and a machine tree"]
fn two_directories_neither_open_nor_close_each_others_instances() {
    let (real, other) = (Real::with(unbooted()), Real::with(unbooted()));
    let (open, closed) = (real.group("open"), other.group("closed"));
    real.call(AUTHORIZE, &rule(&open, None, "0.0.0.0/0"));
    let (one, two) = (real.launch_in(&[&open]), other.launch_in(&[&closed]));
    let _kept = (one.listen(7000), two.listen(7000));
    assert!(two.reaches(&one, 7000));
    assert!(!one.reaches(&two, 7000));
    real.call(REVOKE, &rule(&open, None, "0.0.0.0/0"));
    other.call(AUTHORIZE, &rule(&closed, None, "0.0.0.0/0"));
    assert!(!two.reaches(&one, 7000));
    assert!(one.reaches(&two, 7000));
}

#[test]
#[ignore = "needs root (namespaces) and a machine tree"]
fn after_a_killed_call_the_rules_are_those_of_the_records() {
    let real = Real::with(unbooted());
    let group = real.group("killed");
    let one = real.launch_in(&[&group]);
    let _kept = one.listen(7000);
    let rule = rule(&group, Some("7000"), HOST);
    let is_recorded = || {
        let seen = real.call("DescribeSecurityGroups", &[("GroupId.1", &group)]);
        !find(&seen, "ipPermissions").unwrap().children.is_empty()
    };
    let mut half_done = 0;
    for after in [0, 0, 2, 2, 6, 6, 15, 15, 40, 40].map(Duration::from_millis) {
        let action = if is_recorded() { REVOKE } else { AUTHORIZE };
        half_done += u32::from(real.killed(after, action, &rule));
        assert_eq!(from_host(&one, 7000).is_some(), is_recorded(), "{after:?}");
    }
    assert!(half_done > 0, "no call was killed in the middle");
}
