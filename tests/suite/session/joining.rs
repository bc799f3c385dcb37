//! The requests of a session that joins another laptop's.

mod wide;

use super::connection_lost::recorded;
use super::site::Site;

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn of_two_who_leave_at_once_just_one_saves() {
    let site = Site::with_a_drive();
    let other = site.other_laptop();
    for round in 0..3 {
        let wait = format!("echo begun; until [ -e /work/end{round} ]; do sleep 0.01; done");
        let command = ["connect", "demo", "--", "sh", "-c", &wait];
        let mut lead = site.start(&command);
        lead.prints("begun\n");
        let mut guest = other.start(&command);
        guest.prints("begun\n");
        let init = recorded(&site, "init.json").as_raw_nonzero();
        let end = format!("/proc/{init}/root/v1/work/end{round}");
        std::fs::write(&end, "").unwrap();
        let ended = [lead.end(), guest.end()];
        for ended in &ended {
            ended.is(0);
        }
        let report: String = ended.iter().map(|ended| ended.stderr.as_str()).collect();
        assert_eq!(
            report.matches("demo is saved").count(),
            1,
            "{round}: {report}"
        );
        assert_eq!(
            report.matches("left demo: ").count(),
            1,
            "{round}: {report}"
        );
        site.is_saved("demo", round + 2);
    }
}
