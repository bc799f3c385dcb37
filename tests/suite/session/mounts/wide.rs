//! Variants of `mounts`, which `shell/test.sh --all` runs.

use super::session;
use crate::session::openssh::end;
use crate::session::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_container_with_dockers_socket_says_so_and_what_it_starts_is_stopped_at_the_save() {
    let site = Site::new();
    let image = site.image();
    let there = "[ -e /var/run/docker.sock ] && echo there; :";
    let flags = ["--image", &image, "--docker"];
    let given = session(&site, &flags, there);
    assert_eq!(given.is(0).stdout, "there\n");
    given.reports("whoever reaches it is root on the instance");
    let kept = session(&site, &[], there);
    assert_eq!(kept.is(0).stdout, "there\n");
    kept.reports("whoever reaches it is root on the instance");
    let taken = session(&site, &["--no-docker"], there);
    assert_eq!(taken.is(0).stdout, "");
    taken.reports("Docker's socket is not in it any more");
    assert!(!taken.stderr.contains("root on the instance"), "{taken:?}");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_ssh_client_is_told_of_dockers_socket_too() {
    let site = Site::new();
    let image = site.image();
    let wait = "echo begun; until [ -e /work/end ]; do sleep 0.1; done";
    let flags = ["connect", "demo", "--image", &image, "--docker"];
    let mut lead = site.start(&[&flags[..], &["--", "sh", "-c", wait]].concat());
    lead.prints("begun\n");
    let client = site.run(&["proxy", "demo"]);
    client.reports("whoever reaches it is root on the instance");
    end(&site, lead);
}
