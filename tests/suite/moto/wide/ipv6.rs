//! Instances with an IPv6 address, as moto has them. (Instances of the EC2 in a folder have none.)

use xdrive::ec2::LaunchOrder;

use crate::moto::calls::launch;
use crate::moto::server::{against_moto, ask};

#[test]
#[ignore = "needs python3 with moto"]
fn the_ipv6_address_of_an_instance_is_found() {
    let name = test_name!(the_ipv6_address_of_an_instance_is_found);
    against_moto(name, async |ec2| {
        let made = ask(
            "ec2",
            "CreateVpc&CidrBlock=10.9.0.0/16&AmazonProvidedIpv6CidrBlock=true",
        );
        let vpc = between(&made, "<vpcId>");
        let network = between(&made, "<ipv6CidrBlock>").replace("/56", "/64");
        let made = ask(
            "ec2",
            &format!("CreateSubnet&VpcId={vpc}&CidrBlock=10.9.1.0/24&Ipv6CidrBlock={network}"),
        );
        let order = LaunchOrder {
            subnet: Some(between(&made, "<subnetId>").parse().unwrap()),
            ..launch("six")
        };
        let host = ec2.launch(&order).await.unwrap();
        assert_eq!(host.ipv6, None);
        let seen = ask(
            "ec2",
            &format!("DescribeInstances&InstanceId.1={}", host.id),
        );
        let interface = between(&seen, "<networkInterfaceId>");
        ask(
            "ec2",
            &format!("AssignIpv6Addresses&NetworkInterfaceId={interface}&Ipv6AddressCount=1"),
        );
        let seen = ask(
            "ec2",
            &format!("DescribeInstances&InstanceId.1={}", host.id),
        );
        let expected = between(&seen, "<ipv6Address>").parse().unwrap();
        let host = ec2.instance(&host.id).await.unwrap().unwrap();
        assert_eq!(host.ipv6, Some(expected));
    });
}

/// An element's content, without surrounding spaces.
pub(super) fn between<'a>(text: &'a str, element: &str) -> &'a str {
    let (_, after) = text
        .split_once(element)
        .unwrap_or_else(|| panic!("no {element}: {text}"));
    after.split('<').next().unwrap().trim()
}
