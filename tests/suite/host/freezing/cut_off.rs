//! A thaw that is cut off at any point never has a program go on twice, and what has not begun to go on stays
//! frozen. At a point a line in the host's own scripts kills whom it names: nothing is timed.

use super::machine;
use crate::host::machine::{Disk, Machine};

/// Counts in a file, so that it is seen whoever keeps it.
const COUNTING: &str = "n=0; while :; do n=$((n + 1)); echo $n >>/work/numbers; sleep 0.05; done";

/// Waits until it has counted on.
const GROWS: &str = "was=$(cat /v1/work/numbers 2>/dev/null | wc -l); for i in $(seq 600); do \
                     [ $(cat /v1/work/numbers 2>/dev/null | wc -l) -lt $((was + 5)) ] || exit 0; sleep 0.05; done; exit 1";

/// Whether it runs, 1 or 0: a shell between fork and exec is there twice. One that is stopped goes on no more than
/// one that is not there.
const RUNNING: &str =
    "ps -eo stat,args | grep -q '^[^TZ][^ ]* *sh -c n=0.*[w]ork/numbers' && echo 1 || echo 0";

/// Points of a thaw: who is killed there, a line of a script's, and what is done before it.
const POINTS: [(&str, &str, &str, &str); 8] = [
    (
        "nobody, on a host that closes since, before it has taken the try",
        "frozen.py",
        "label = goes_on(name, how)",
        "open('/run/xdrive/closing', 'w').write('test')",
    ),
    (
        "the thawer, before it has taken the record",
        "frozen.py",
        "disown(name)",
        "os.kill(os.getpid(), 9)",
    ),
    (
        "the thawer, once it has",
        "frozen.py",
        "label = goes_on(name, how)",
        "os.kill(os.getpid(), 9)",
    ),
    (
        "the keeper, before it has begun criu",
        "frozen.py",
        "give_number(init, how[\"pid\"], name)",
        "os.kill(os.getpid(), 9)",
    ),
    (
        "the keeper, while criu is at work",
        "criu.py",
        "for descriptor in [folder, tools]:",
        "os.kill(os.getpid(), 9)",
    ),
    (
        "criu, as it begins",
        "criu.py",
        "for descriptor in [folder, tools]:",
        "began.kill()",
    ),
    (
        "the thawer, while criu is at work",
        "criu.py",
        "for descriptor in [folder, tools]:",
        "os.kill(os.getppid(), 9)",
    ),
    (
        "the keeper, once it goes on",
        "command.py",
        "keeper.began = order.frozen[\"began\"]",
        "os.kill(os.getpid(), 9)",
    ),
];

impl Machine {
    /// Has a host's script do that before this line of its own, which it has once.
    async fn before_line(&self, script: &str, line: &str, done: &str) {
        let program = "import glob, re, sys\nscript, line, done = sys.argv[1:]\n\
                       path, = glob.glob(f'/var/lib/xdrive/scripts/*/{script}')\ntext = open(path).read()\n\
                       open('/run/before', 'w').write(text)\n\
                       lines = text.split('\\n')\nat, = [i for i, it in enumerate(lines) if it.strip() == line]\n\
                       lines.insert(at, re.match(' *', lines[at])[0] + done)\nopen(path, 'w').write('\\n'.join(lines))";
        let quote = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
        let words = [program, script, line, done].map(quote).join(" ");
        self.sh(&format!("python3 -c {words}")).await;
    }

    async fn as_before(&self, script: &str) {
        self.sh(&format!(
            "rm -f /run/xdrive/closing; cat /run/before >$(ls /var/lib/xdrive/scripts/*/{script})"
        ))
        .await;
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree and criu"]
async fn a_thaw_that_is_cut_off_never_has_a_program_go_on_twice() {
    let disk = Disk::new(512);
    let (machine, container) = machine(&disk).await;
    for (who, script, line, done) in POINTS {
        let stays = who.contains("before it has taken");
        // By nobody, it goes on where only those are gone who have nothing to do any more.
        let goes_on = stays || who.contains("thawer, while") || who.contains("once it goes on");
        let id = machine.begin_freezable(&container, COUNTING).await;
        machine.sh(GROWS).await;
        let frozen = machine.script("freeze.py all 60").await;
        assert!(frozen.contains("froze="), "{who}: {frozen}");
        machine.next_generation().await;
        machine.before_line(script, line, done).await;
        let first = machine.script("command.py thaw").await;
        machine.as_before(script).await;
        let ended = "for i in $(seq 600); do pgrep -f -- '--argv0 [c]riu' >/dev/null || exit 0; sleep 0.05; done; exit 1";
        machine.sh(ended).await;
        let again = machine.script("command.py thaw").await;
        let named = format!("xdrive: thawed={} ", id.as_str());
        if stays {
            assert!(again.starts_with(&named), "{who}: {first} {again}");
        } else {
            assert_eq!(again, "", "{who}: {first}");
        }
        if goes_on {
            machine.sh(GROWS).await;
        }
        let running = machine.sh(RUNNING).await;
        assert_eq!(
            running.trim(),
            u8::from(goes_on).to_string(),
            "{who}: {first}"
        );
        let twice =
            "sort /v1/work/numbers | uniq -d; ls /v1/xdrive/frozen/*/whole 2>/dev/null || :";
        assert_eq!(machine.sh(twice).await, "", "{who}");
        let end =
            "pkill -9 -f '^sh -c n=0.*work/numbers'; rm -rf /v1/work/numbers /v1/xdrive/frozen";
        machine.sh(end).await;
    }
}
