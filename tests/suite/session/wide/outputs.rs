//! The output of a run, as others see it while it goes on.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;

use crate::session::connection_lost::recorded;
use crate::session::site::Site;

/// Prints something, and something else half a minute later; then far more than is kept.
const PRINTING: &str = "echo $COLOUR; sleep 30; echo late; until [ -e /work/more ]; do sleep 0.1; done; \
                        line=0123456789abcdef; \
                        for i in 1 2 3 4 5 6; do line=$line$line; done; \
                        i=0; while [ $i -lt 6144 ]; do echo $line; i=$((i+1)); done; \
                        echo last; sleep 1000";

/// The bytes of all of it: a line is a newline and 1024 digits.
const PRINTED: usize = "red\nlate\n".len() + 6144 * 1025 + "last\n".len();

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_end_of_a_runs_output_is_shown_and_the_configuration_bounds_what_is_kept() {
    let site = Site::new();
    site.configure("spool = \"4MiB\"\n");
    let image = site.image();
    let run = ["run", "demo", "-d", "--no-jupyter", "--image", &image];
    let command = ["-e", "COLOUR=red", "--", "sh", "-c", PRINTING];
    site.run(&[&run[..], &command].concat()).is(0);
    let mut follower = site.start(&["logs", "demo", "-f"]);
    follower.prints("red\nlate\n");
    let of_late = site.run(&["logs", "demo", "--since", "15s"]);
    assert_eq!(of_late.is(0).stdout, "late\n");
    let all = site.run(&["logs", "demo"]);
    assert_eq!(all.is(0).stdout, "red\nlate\n");
    assert!(!all.stderr.contains("are lost"), "{}", all.stderr);

    let init = recorded(&site, "init.json").as_raw_nonzero();
    fs::write(format!("/proc/{init}/root/v1/work/more"), "").unwrap();
    follower.prints("\nlast\n");
    // Who is there receives all of it; who comes later, what is kept.
    let kept = site.run(&["logs", "demo"]);
    assert_eq!(kept.is(0).stdout.len(), 4 << 20);
    assert!(kept.stdout.ends_with("\nlast\n"));
    let lost = PRINTED - (4 << 20);
    kept.reports(&format!(
        "{lost} bytes of its standard output are lost: more than the host keeps"
    ));
    // One that has what it wants (`| head`) is no error: the code is that of SIGPIPE.
    let mut headed = site.command(&["logs", "demo"]);
    headed.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut headed = headed.spawn().unwrap();
    drop(headed.stdout.take());
    let headed = headed.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&headed.stderr);
    assert_eq!(headed.status.code(), Some(128 + Signal::PIPE.as_raw()));
    assert!(!said.contains("error:"), "{said}");
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
}
