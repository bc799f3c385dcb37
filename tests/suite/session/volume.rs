//! The drive on a session's host: its device name, and the limit of its unwritten data.

mod wide;

use super::site::{Running, Site};
use super::tree::inside;

/// A session on an instance of this type, which waits for a request to end.
fn working(site: &Site, kind: &str, script: &str) -> Running {
    let image = site.image();
    let script =
        format!("{script}; echo there; until [ -e /work/end ]; do sleep 0.05; done; rm /work/end");
    let mut running = site.start(&[
        "connect", "demo", "--image", &image, "--type", kind, "--", "sh", "-c", &script,
    ]);
    running.prints("there\n");
    running
}

fn end(site: &Site, running: Running) -> String {
    inside(site, "touch /v1/work/end");
    let ended = running.end();
    ended.is(0);
    ended.stdout
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_session_limits_what_may_wait_to_be_written_on_its_host() {
    let site = Site::new();
    let running = working(&site, "t3.medium", "true");
    let number = |script: &str| -> u64 {
        let printed = inside(&site, script);
        printed
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{printed:?}"))
    };
    let kib = number("sed -n 's/^MemTotal: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo");
    let limit = number("cat /proc/sys/vm/dirty_bytes");
    // 20 seconds of a gp3 volume's throughput, or a tenth of the memory.
    assert_eq!(limit, (2500 << 20).min(kib * 1024 / 10));
    assert_eq!(number("sysctl -n vm.dirty_bytes"), limit);
    // The limit is the instance's own: this computer's is unchanged.
    let own = std::fs::read_to_string("/proc/sys/vm/dirty_bytes").unwrap();
    assert_ne!(own.trim(), limit.to_string());
    assert_eq!(end(&site, running), "there\n");
    site.is_saved("demo", 1);
}
