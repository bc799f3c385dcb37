//! Requested public addresses, and routes, as moto has them.

use xdrive::ec2::LaunchOrder;

use super::ipv6::between;
use crate::moto::calls::launch;
use crate::moto::server::{against_moto, ask};

#[test]
#[ignore = "needs python3 with moto"]
fn a_public_address_is_given_where_it_is_asked_for_and_routes_are_listed() {
    let name = test_name!(a_public_address_is_given_where_it_is_asked_for_and_routes_are_listed);
    against_moto(name, async |ec2| {
        let usual = ec2.default_subnets().await.unwrap();
        assert!(usual.len() > 1);
        assert!(
            usual
                .iter()
                .all(|subnet| subnet.is_default && subnet.maps_public)
        );

        let made = ask("ec2", "CreateVpc&CidrBlock=10.9.0.0/16");
        let vpc = between(&made, "<vpcId>").to_owned();
        let made = ask(
            "ec2",
            &format!("CreateSubnet&VpcId={vpc}&CidrBlock=10.9.1.0/24"),
        );
        let id = between(&made, "<subnetId>").parse().unwrap();
        let subnet = ec2.subnet(&id).await.unwrap();
        assert!(!subnet.maps_public && !subnet.is_default && !subnet.assigns_ipv6);
        assert_eq!(subnet.range, "10.9.1.0/24".parse().ok());
        let routes = async || {
            let all = ec2.routes(&subnet.vpc, std::slice::from_ref(&subnet)).await;
            all.unwrap().remove(&id).unwrap()
        };
        let shut = routes().await;
        assert!(!shut.internet && !shut.internet_ipv6, "{shut:?}");
        assert_eq!(shut.networks, ["10.9.0.0/16".parse().unwrap()]);

        let made = ask("ec2", "CreateInternetGateway");
        let gateway = between(&made, "<internetGatewayId>").to_owned();
        ask(
            "ec2",
            &format!("AttachInternetGateway&InternetGatewayId={gateway}&VpcId={vpc}"),
        );
        let tables = ask(
            "ec2",
            &format!("DescribeRouteTables&Filter.1.Name=vpc-id&Filter.1.Value.1={vpc}"),
        );
        let table = between(&tables, "<routeTableId>");
        ask(
            "ec2",
            &format!(
                "CreateRoute&RouteTableId={table}&GatewayId={gateway}\
                 &DestinationCidrBlock=0.0.0.0%2F0"
            ),
        );
        assert!(routes().await.internet);

        for public_address in [false, true] {
            let order = LaunchOrder {
                subnet: Some(id.clone()),
                public_address,
                ..launch(&format!("public: {public_address}"))
            };
            let host = ec2.launch(&order).await.unwrap();
            let host = ec2.instance(&host.id).await.unwrap().unwrap();
            assert_eq!(host.address != host.private, public_address, "{host:?}");
        }
    });
}
