//! Root disks: each is encrypted, under any name of the image's root device.

use xdrive::local::wire::Params;

use crate::session::site::Site;
use crate::session::speed::volumes;

/// Whether each disk is encrypted: the root disk and the drive's volume.
fn are_encrypted(volumes: &str) -> Vec<bool> {
    let values = volumes.split("\"encrypted\"").skip(1);
    let mut all: Vec<bool> = values
        .map(|rest| rest.split('"').nth(1) == Some("true"))
        .collect();
    all.sort_unstable();
    all
}

/// The id of the machine image that instances of this site boot.
fn machine_image(site: &Site) -> String {
    let answer = site.local().call("DescribeImages", &Params::default());
    let text = format!("{:?}", answer.unwrap());
    let id = text[text.find("ami-").unwrap()..].split('"').next();
    id.unwrap().to_owned()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_root_disk_is_encrypted_as_the_drive_is() {
    let site = Site::new();
    let volumes = volumes(&site, &["--image", &site.image()]);
    assert_eq!(are_encrypted(&volumes), [true, true]);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_image_by_its_id_says_what_its_root_device_is_called() {
    let site = Site::with_settings("root-device = \"/dev/sda1\"\n");
    let (image, ami) = (site.image(), machine_image(&site));
    let described = volumes(&site, &["--image", &image, "--ami", &ami]);
    assert_eq!(are_encrypted(&described), [true, true]);
    // A parameter cannot be looked up: Amazon Linux's name is tried, and adds no disk.
    let ended = site.session("demo", &["true"]);
    ended.is(0).reports("its root disk is not encrypted");
    let resolved = volumes(&site, &[]);
    assert_eq!(are_encrypted(&resolved), [false, true]);
}
