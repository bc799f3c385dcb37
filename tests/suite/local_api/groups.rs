//! Security groups: rules with ranges and groups, as they are kept, shown and refused.

use xdrive::local::wire::Xml;

use super::{find, text, texts};
use crate::folder::Folder;

impl Folder {
    fn group(&self, name: &str) -> String {
        let params = [("GroupName", name), ("GroupDescription", "of a test")];
        text(&self.call("CreateSecurityGroup", &params), "groupId")
    }

    /// Authorizes one permission, with the parameters `more`, in `group`.
    fn authorize(&self, group: &str, protocol: &str, more: &[(&str, &str)]) -> Result<Xml, String> {
        let mut params = vec![
            ("GroupId".to_owned(), group),
            ("IpPermissions.1.IpProtocol".to_owned(), protocol),
        ];
        for (name, value) in more {
            params.push((format!("IpPermissions.1.{name}"), value));
        }
        let params: Vec<(&str, &str)> = params
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        let answer = self.try_call("AuthorizeSecurityGroupIngress", &params);
        answer.map_err(|error| format!("{}: {}", error.code, error.message))
    }

    /// The permissions of a group.
    fn permissions(&self, group: &str) -> Xml {
        let seen = self.call("DescribeSecurityGroups", &[("GroupId.1", group)]);
        find(&seen, "ipPermissions").unwrap().clone()
    }
}

const FROM_ALL: (&str, &str) = ("IpRanges.1.CidrIp", "0.0.0.0/0");

#[tokio::test(start_paused = true)]
async fn the_default_group_lets_itself_in_and_a_new_one_lets_nobody_in() {
    let folder = Folder::aws();
    let default = "sg-00000000000000001";
    let permissions = folder.permissions(default);
    assert_eq!(texts(&permissions, "ipProtocol"), ["-1"]);
    assert_eq!(texts(&permissions, "groupId"), [default]);
    let made = folder.group("new");
    assert_eq!(folder.permissions(&made).children, []);
    let seen = folder.call("DescribeSecurityGroups", &[("GroupId.1", &made)]);
    let out = find(&seen, "ipPermissionsEgress").unwrap();
    assert_eq!(texts(out, "cidrIp"), ["0.0.0.0/0"]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_of_a_group_is_kept_by_its_id_and_keeps_that_group_from_deletion() {
    let folder = Folder::aws();
    let (leader, workers) = (folder.group("leader"), folder.group("workers"));
    let shares = [
        ("FromPort", "2049"),
        ("ToPort", "2049"),
        ("Groups.1.GroupName", "workers"),
        ("Groups.1.UserId", "000000000000"),
        ("Groups.1.Description", "shares"),
    ];
    let made = folder.authorize(&leader, "tcp", &shares).unwrap();
    let named = find(&made, "referencedGroupInfo").unwrap();
    assert_eq!(texts(named, "groupId"), [workers.as_str()]);
    // By its id that is the same rule.
    let by_id = [
        ("FromPort", "2049"),
        ("ToPort", "2049"),
        ("Groups.1.GroupId", workers.as_str()),
    ];
    assert_eq!(
        folder.authorize(&leader, "6", &by_id).unwrap_err(),
        format!(
            "InvalidPermission.Duplicate: the specified rule \"peer: {workers}, TCP, from port: \
             2049, to port: 2049, ALLOW\" already exists"
        )
    );
    let itself = [("Groups.1.GroupId", workers.as_str())];
    folder.authorize(&workers, "-1", &itself).unwrap();
    let filter = [
        ("Filter.1.Name", "ip-permission.group-name"),
        ("Filter.1.Value.1", "work*"),
    ];
    let naming = folder.call("DescribeSecurityGroups", &filter);
    let mut naming = texts(&naming, "groupName");
    // They are listed by their ids.
    naming.sort();
    assert_eq!(naming, ["leader", "workers"]);

    let gone = [("GroupId", workers.as_str())];
    assert_eq!(
        folder.refused("DeleteSecurityGroup", &gone),
        "DependencyViolation"
    );
    let id = text(&made, "securityGroupRuleId");
    let rule = [("GroupId", leader.as_str()), ("SecurityGroupRuleId.1", &id)];
    folder.call("RevokeSecurityGroupIngress", &rule);
    assert_eq!(folder.permissions(&leader).children, []);
    // Its own rule does not keep it.
    folder.call("DeleteSecurityGroup", &gone);
    let error = folder.authorize(&leader, "tcp", &by_id).unwrap_err();
    assert!(error.starts_with("InvalidGroup.NotFound: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn rules_are_kept_in_ec2s_form() {
    let folder = Folder::aws();
    let group = folder.group("all kinds");
    let ports = [("FromPort", "7"), ("ToPort", "9")];
    for (protocol, ports, kept) in [
        ("17", &ports[..], ["udp", "7", "9"]),
        // Any other protocol has all ports.
        ("50", &ports, ["50", "", ""]),
        ("-1", &ports, ["-1", "", ""]),
        ("icmp", &[], ["icmp", "-1", "-1"]),
        ("58", &[], ["icmpv6", "-1", "-1"]),
        (
            "1",
            &[("FromPort", "8"), ("ToPort", "-1")],
            ["icmp", "8", "-1"],
        ),
    ] {
        folder
            .authorize(&group, protocol, &[ports, &[FROM_ALL]].concat())
            .unwrap();
        let permissions = folder.permissions(&group);
        let last = permissions.children.last().unwrap();
        let of = |name: &str| texts(last, name).concat();
        assert_eq!(
            [of("ipProtocol"), of("fromPort"), of("toPort")],
            kept,
            "{protocol}"
        );
    }
    let range = |ports: &str, name, cidr| {
        let ports = [("FromPort", ports), ("ToPort", ports)];
        folder.authorize(&group, "tcp", &[&ports[..], &[(name, cidr)]].concat())
    };
    range("1", "IpRanges.1.CidrIp", "100.68.0.18/18").unwrap();
    range("1", "Ipv6Ranges.1.CidrIpv6", "2001:DB8::7/32").unwrap();
    let permissions = folder.permissions(&group);
    let last = permissions.children.last().unwrap();
    assert_eq!(texts(last, "cidrIp"), ["100.68.0.0/18"]);
    assert_eq!(texts(last, "cidrIpv6"), ["2001:db8::/32"]);
    let again = range("1", "IpRanges.1.CidrIp", "100.68.0.0/18").unwrap_err();
    assert!(
        again.starts_with("InvalidPermission.Duplicate: "),
        "{again}"
    );
}

#[tokio::test(start_paused = true)]
async fn rules_that_cannot_be_are_refused_with_ec2s_codes() {
    let folder = Folder::aws();
    let group = folder.group("refuses");
    let port = [("FromPort", "1"), ("ToPort", "1")];
    let from = |name, value| [&port[..], &[(name, value)]].concat();
    let unknown = "sg-00000000000000009";
    let own = group.as_str();
    let pair = |name, value| [&from("Groups.1.GroupId", own)[..], &[(name, value)]].concat();
    for (protocol, more, refusal) in [
        (
            "tcp",
            from("Groups.1.GroupId", unknown),
            "InvalidGroup.NotFound",
        ),
        (
            "tcp",
            from("Groups.1.GroupName", "nobody"),
            "InvalidGroup.NotFound",
        ),
        (
            "tcp",
            from("Groups.1.GroupId", "workers"),
            "InvalidGroupId.Malformed",
        ),
        (
            "tcp",
            from("Groups.1.UserId", "000000000000"),
            "MissingParameter",
        ),
        (
            "tcp",
            pair("Groups.1.UserId", "111122223333"),
            "InvalidGroup.NotFound",
        ),
        (
            "tcp",
            pair("Groups.1.Description", "ü"),
            "InvalidParameterValue",
        ),
        (
            "tcp",
            pair("Groups.2.GroupName", "refuses"),
            "InvalidParameterValue",
        ),
        ("tcp", pair("Groups.1.VpcId", "vpc-1"), "UnknownParameter"),
        ("tcp", port.to_vec(), "MissingParameter"),
        ("tcp", vec![FROM_ALL], "InvalidParameterValue"),
        (
            "all",
            from("IpRanges.1.CidrIp", "0.0.0.0/0"),
            "InvalidParameterValue",
        ),
        (
            "256",
            from("IpRanges.1.CidrIp", "0.0.0.0/0"),
            "InvalidParameterValue",
        ),
        (
            "icmp",
            vec![("FromPort", "-1"), ("ToPort", "0"), FROM_ALL],
            "InvalidParameterValue",
        ),
        (
            "icmp",
            vec![("FromPort", "256"), FROM_ALL],
            "InvalidParameterValue",
        ),
        (
            "tcp",
            from("IpRanges.1.CidrIp", "::/0"),
            "InvalidParameterValue",
        ),
        (
            "tcp",
            from("IpRanges.1.CidrIp", "192.0.2.7"),
            "InvalidParameterValue",
        ),
        (
            "tcp",
            from("Ipv6Ranges.1.CidrIpv6", "2001:db8::/129"),
            "InvalidParameterValue",
        ),
    ] {
        let error = folder.authorize(own, protocol, &more).unwrap_err();
        assert!(
            error.starts_with(&format!("{refusal}: ")),
            "{more:?}: {error}"
        );
    }
    assert_eq!(folder.permissions(own).children, []);
}
