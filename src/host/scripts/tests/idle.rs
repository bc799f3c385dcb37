//! How a host measures that nothing is done on it, and for how long it may be so.

use std::fs;
use std::process::Command;

use super::{Folders, HOST, text};

/// The output of a script about a sample; its first lines have the folder of its files.
fn printed(folder: &str, script: &str) -> String {
    let script = format!("import idle\nfolder = {folder:?}\n{script}");
    let output = Command::new("python3")
        .args(["-B", "-c", &script])
        .env("PYTHONPATH", HOST)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn processor_time_and_traffic_are_read_as_the_kernel_and_ss_write_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("cpuacct.usage", "2500000000\n");
    write("cpu.stat", "usage_usec 1500000\nuser_usec 1000000\n");
    write(
        "dev",
        "Inter-|   Receive\n face |bytes    packets\n    lo: 7 0 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n  \
         eth0:1000 9 0 0 0 0 0 0 200 8 0 0 0 0 0 0\n  eth1: 30 1 0 0 0 0 0 0 4 1 0 0 0 0 0 0\n",
    );
    write(
        "ss",
        "0 0 10.0.0.5:22 203.0.113.7:60662\n\t bbr bytes_sent:90 bytes_retrans:36 bytes_acked:80 \
         bytes_received:20 segs_out:7\n0 0 [::ffff:10.0.0.5]:22 [::ffff:203.0.113.7]:46692 bytes_acked:5\n",
    );
    let script = "
print(idle.seconds({'cpuacct': folder, 'cpu': '/none'}), idle.seconds({'': folder}))
print(idle.device_bytes(folder + '/dev'))
print(idle.connection_bytes(open(folder + '/ss').read()))
";
    assert_eq!(
        printed(folder.path().to_str().unwrap(), script),
        "2.5 1.5\n1234\n{'203.0.113.7:60662': 100, '[::ffff:203.0.113.7]:46692': 5}\n"
    );
}

/// Two samples ten seconds apart between which nothing was done, and a change of the second.
const JUDGES: &str = "
def verdict(**changes):
    quiet = dict(cpu={'c': 1.0}, net={'c': 100}, ssh={'a': 7}, typed={'/dev/pts/0': 5}, gpu=0,
                 clients=['s'], at_work=False)
    state = {'logged': []}
    idle.judge(state, {**quiet, 'at': 100.0}, idle.compare(None, {**quiet, 'at': 100.0}))
    now = {**quiet, 'at': 110.0, **changes}
    seen = idle.compare(state['sample'], now)
    idle.judge(state, now, seen)
    return state
";

#[test]
fn whatever_is_done_or_not_known_is_busy_and_keep_alives_are_not() {
    let script = format!(
        "{JUDGES}
def since(**changes):
    return verdict(**changes)['since']
print('idle', since(), since(cpu={{'c': 1.4}}), since(gpu=5), since(ssh={{'a': 537}}),
      since(net={{'c': 7540}}), since(clients=[]), since(typed={{}}), since(cpu={{'c': 0.5}}))
print('busy', since(cpu={{'c': 1.6}}), since(cpu={{'c': 1.0, 'new': 0.6}}), since(cpu=None), since(gpu=6),
      since(gpu=None), since(ssh={{'a': 7, 'b': 20481}}), since(ssh=None), since(net={{'c': 20581}}),
      since(net=None), since(typed={{'/dev/pts/0': 6}}), since(typed=None), since(at_work=True),
      since(clients=['s', 'new']), since(clients=['run-1f']))"
    );
    assert_eq!(
        printed("", &script),
        format!("idle{}\nbusy{}\n", " 100.0".repeat(8), " 110.0".repeat(14))
    );
}

#[test]
fn the_reason_has_the_most_of_what_was_seen() {
    let script = format!(
        "{JUDGES}
state = verdict(cpu={{'c': 1.04}}, ssh={{'a': 127}})
now = {{**state['sample'], 'at': 120.0}}
idle.judge(state, now, idle.compare(state['sample'], now))
print(idle.reason(1800, state['most']))
idle.GPUS_READY = '/'
for seconds in [10, 5400, 7200]:
    print(idle.reason(seconds, state['most']))"
    );
    let seen = "no input, 12 B/s";
    assert_eq!(
        printed("", &script),
        format!(
            "idle for 30 min: CPU 0.4 %, {seen}\nidle for 10 s: CPU 0.4 %, GPU 0 %, {seen}\n\
             idle for 90 min: CPU 0.4 %, GPU 0 %, {seen}\nidle for 2 h: CPU 0.4 %, GPU 0 %, {seen}\n"
        )
    );
    // A close for it freezes what may be frozen.
    assert!(text("close").contains("\nWAS_IDLE='idle for'\n"));
}

#[test]
fn of_several_sessions_the_time_that_came_last_counts() {
    let host = Folders::new();
    let script = ". \"${0%/*}/presence\"
        idle_time; echo ' none'
        set_idle a 1800; set_idle b ''; idle_time; echo
        set_idle c 60; set_idle a 1800; idle_time; echo
        set_idle d 0; idle_time; echo
        set_idle e x; idle_time; echo";
    host.write("trial", script);
    let output = host.run(&["sh"], "trial", &[]);
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(printed, " none\n1800\n60\n0\n0\n", "{output:?}");
}
