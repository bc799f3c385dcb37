//! Reboots: the same machine boots again, with everything that a reboot keeps and nothing else.

use std::time::Duration;

use xdrive::local::plane::PlaneError;

use crate::local_instances::{Host, until};
use crate::session::site::Site;
use harness::id;

/// Waits until the machine has run its user data `count` times and accepts this test's login.
fn until_boot(site: &Site, host: &Host, count: usize) {
    until("a boot", || {
        let printed = host.ssh(
            "root",
            &site.key(),
            "wc -l < /root/boots; ls /run/hook-was-here",
        );
        let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
        printed == format!("{count}\n/run/hook-was-here\n")
    });
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_machine_that_reboots_keeps_its_disks_and_its_address() {
    let site = Site::machines();
    let machine = site.machine("echo boot >>/root/boots && touch /run/hook-was-here");
    let up = site.plane.launch(&machine).unwrap();
    let host = site.reach(machine.instance.clone(), up);
    let volume = id("vol");
    site.plane.create_volume(&volume, 1, None).unwrap();
    site.attach(&volume, &host.id, "/dev/sdf").unwrap();
    host.run(
        "mkfs.ext4 -q /dev/sdf && mount /dev/sdf /mnt && echo kept > /mnt/file && touch /tmp/file",
    );

    // Typed inside, with the drive in use.
    host.ssh("root", &site.key(), "systemctl reboot");
    until_boot(&site, &host, 2);
    assert!(site.plane.is_up(&host.up));
    host.run("test ! -e /tmp/file && ! mountpoint -q /mnt");
    let serial = volume.replace('-', "");
    assert_eq!(
        host.run(&format!(
            "mount /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial} /mnt && cat /mnt/file"
        )),
        "kept"
    );
    assert!(matches!(
        site.plane.detach(&volume, &host.id),
        Err(PlaneError::Busy)
    ));

    // From outside, and by force: the system inside does not react. Unsynced data is lost, as at a
    // power cut.
    host.run("echo lost > /mnt/lost; systemctl mask reboot.target systemd-reboot.service");
    site.plane
        .reboot(&host.id, Duration::from_millis(500))
        .unwrap();
    until_boot(&site, &host, 3);
    let disk = format!("/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{serial}");
    host.run(&format!(
        "dumpe2fs -h {disk} 2> /dev/null | grep -q needs_recovery"
    ));
    host.run(&format!(
        "mount {disk} /mnt && cat /mnt/file && ! test -e /mnt/lost && umount /mnt"
    ));
    site.plane.detach(&volume, &host.id).unwrap();

    // A power-off is not a reboot.
    site.plane
        .power_off(&host.id, Duration::from_secs(20))
        .unwrap();
    until("an end", || !site.plane.is_up(&host.up));
    site.plane.delete_volume(&volume).unwrap();
    site.has_no_leaks();
    assert!(matches!(
        site.plane.reboot(&host.id, Duration::ZERO),
        Err(PlaneError::Gone)
    ));
}
