//! Docker's networks, which avoid the host's.

use std::net::IpAddr;

use xdrive::host::container::Came;
use xdrive::host::scripts::Image;

use crate::host::machine::{Disk, Machine};

/// Makes the metadata service answer these ranges of the VPC.
async fn vpc_has(machine: &Machine, ranges: &str) {
    let mac = machine.sh("cat /sys/class/net/eth0/address").await;
    let path = format!(
        "network/interfaces/macs/{}/vpc-ipv4-cidr-blocks",
        mac.trim()
    );
    machine.announce(&path, ranges);
}

const BRIDGE: &str = "ip -4 -o address show dev docker0 | grep -o 'inet [^ ]*'";

/// Checks that an address of the container answers, by refusing a connection.
async fn answers(machine: &Machine, address: IpAddr) {
    let printed = machine
        .sh(&format!(
            "timeout 5 bash -c 'exec 3<> /dev/tcp/{address}/9' 2>&1 || true"
        ))
        .await;
    assert!(printed.contains("refused"), "{address}: {printed}");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn dockers_networks_hide_nothing_that_the_host_can_reach() {
    let disk = Disk::new(1024);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    // Networks that dockerd does not see by itself: the VPC's other ranges, another table's routes,
    // and those behind the default route.
    vpc_has(&machine, "172.31.0.0/16\n172.17.0.0/16").await;
    machine
        .sh("ip route add 172.18.128.0/17 via 10.99.0.2 table 51; \
             echo nameserver 172.19.0.2 >> /etc/resolv.conf")
        .await;
    machine.mount_blank(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    let container = machine.start(image, &[]).await;
    assert_eq!(machine.sh(BRIDGE).await, "inet 172.20.0.1/16\n");
    assert!(
        container.address.to_string().starts_with("172.20."),
        "{container:?}"
    );
    answers(&machine, container.address).await;
    for reached in ["172.17.5.5", "172.18.200.1", "172.19.0.2", "172.31.9.9"] {
        let way = machine.sh(&format!("ip route get {reached}")).await;
        assert!(way.contains(" dev eth0 "), "{way}");
    }
    let other = "docker network create other > /dev/null && \
                 docker network inspect -f '{{(index .IPAM.Config 0).Subnet}}' other";
    assert_eq!(machine.sh(other).await, "172.21.0.0/16\n");
    machine.sh("docker network rm other && sync -f /v1").await;
    drop(machine);

    // The drive moves, unclosed, to a host with other networks, where Docker chooses its own.
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(2, false)).await.unwrap();
    let container = machine.start(Image::Kept, &[]).await;
    assert_eq!(container.came, Came::Started);
    assert_eq!(machine.sh(BRIDGE).await, "inet 172.17.0.1/16\n");
    assert!(
        container.address.to_string().starts_with("172.17."),
        "{container:?}"
    );
    answers(&machine, container.address).await;
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn an_images_own_choice_for_docker_stays_where_it_hides_nothing() {
    let mut machine = Machine::boot().await;
    let disk = Disk::new(1024);
    machine.attach(&disk);
    let settings = |bip: &str, pool: &str| {
        format!(
            "mkdir -p /etc/docker; echo '{{\"bip\": \"{bip}\", \"debug\": true, \
             \"default-address-pools\": [{{\"base\": \"{pool}\", \"size\": 24}}]}}' \
             > /etc/docker/daemon.json"
        )
    };
    machine
        .sh(&settings("10.200.3.1/24", "10.201.0.0/16"))
        .await;
    machine.mount_blank(&disk).await;
    let chosen = "python3 -c 'import json; it = json.load(open(\"/etc/docker/daemon.json\")); \
                  print(it[\"bip\"], it[\"default-address-pools\"][0][\"base\"], it[\"debug\"])'";
    assert_eq!(
        machine.sh(chosen).await,
        "10.200.3.1/24 10.201.0.0/16 True\n"
    );
    machine.host.close("test").await.unwrap();

    let mut machine = Machine::boot().await;
    let disk = Disk::new(1024);
    machine.attach(&disk);
    machine
        .sh(&settings("10.200.3.1/24", "10.201.0.0/16"))
        .await;
    vpc_has(&machine, "10.200.0.0/14").await;
    machine.mount_blank(&disk).await;
    assert_eq!(
        machine.sh(chosen).await,
        "172.17.0.1/16 172.18.0.0/16 True\n"
    );
    machine.host.close("test").await.unwrap();
}
