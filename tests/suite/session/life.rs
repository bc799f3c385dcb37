//! The life of a drive over several instances.

use super::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_file_in_the_containers_layer_crosses_two_instances() {
    let site = Site::new();
    site.session("demo", &["sh", "-c", "echo hello >/root-note"])
        .is(0)
        .says("demo is saved: snap-");
    site.is_saved("demo", 1);
    let second = site.run(&["connect", "demo", "--", "cat", "/root-note"]);
    assert_eq!(second.is(0).stdout, "hello\n");
    site.is_saved("demo", 2);
    assert_eq!(site.drive("demo")["generation"], 2);
    for line in second.stderr.lines() {
        assert!(line.chars().count() <= 80, "longer than a terminal: {line}");
    }
}
