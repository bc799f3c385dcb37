//! OpenSSH's own clients, and what calls them, in a drive's container.

mod carried;
mod copied;
mod synced;
mod wide;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use super::connection_lost::recorded;
use super::site::{Running, SESSION, Site};
use harness::eventually_within;

/// A process that is killed when it is dropped.
pub(super) struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session that leads until the drive has a file called `end`.
fn leading(site: &Site, image: &str) -> Running {
    let wait = "echo begun; until [ -e /work/end ]; do sleep 0.1; done";
    let mut lead = site.start(&["connect", "demo", "--image", image, "--", "sh", "-c", wait]);
    lead.prints("begun\n");
    lead
}

/// The user's own configuration for ssh, once xdrive is included there.
pub(super) fn configured(site: &Site) -> PathBuf {
    site.run(&["ssh-config", "--write"])
        .is(0)
        .reports("NAME.xdrive");
    site.home().join(".ssh/config")
}

/// A program of OpenSSH's, or one that calls it, with the user's configuration. (It takes the home
/// folder from /etc/passwd, and so has to be shown the file.)
fn client(site: &Site, words: &[&str]) -> Command {
    let config = site.home().join(".ssh/config");
    let config = config.to_str().unwrap();
    let mut command = site.words(&[]);
    let environment: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let folder = command.get_current_dir().unwrap().to_owned();
    command = Command::new(words[0]);
    if ["ssh", "scp", "sftp"].contains(&words[0]) {
        command.args(["-F", config]);
    }
    command
        .args(&words[1..])
        .env_clear()
        .envs(environment)
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("RSYNC_RSH", format!("ssh -F {config}"))
        .env("GIT_SSH_COMMAND", format!("ssh -F {config}"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// Runs a client that ends well; returns its output.
pub(super) fn ran(site: &Site, words: &[&str]) -> String {
    let output = client(site, words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(site: &Site, words: &[&str]) -> Output {
    let output = client(site, words).output().unwrap();
    assert!(!output.status.success(), "{words:?}: {output:?}");
    output
}

/// The output of `command` with `input`.
fn fed(mut command: Command, input: &[u8]) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output
}

/// Ends the session that leads, once no other client is attached: a proxy ends a moment after its
/// client.
pub(super) fn end(site: &Site, lead: Running) {
    let init = recorded(site, "init.json").as_raw_nonzero();
    let host = PathBuf::from(format!("/proc/{init}/root"));
    let clients = || {
        fs::read_dir(host.join("run/xdrive/clients"))
            .unwrap()
            .count()
    };
    eventually_within(
        SESSION,
        || format!("{} clients", clients()),
        || clients() == 1,
    );
    fs::write(host.join("v1/work/end"), "").unwrap();
    lead.end()
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
}

/// An SSH agent with xdrive's own key, and its socket.
pub(super) fn agent(site: &Site) -> (Client, PathBuf) {
    let socket = site.path("agent");
    let mut agent = Command::new("ssh-agent");
    agent.args(["-D", "-a", socket.to_str().unwrap()]);
    let agent = Client(agent.stdout(Stdio::null()).spawn().unwrap());
    eventually_within(SESSION, || "an agent".to_owned(), || socket.exists());
    let key = site.home().join(".config/xdrive/id_ed25519");
    let mut adding = Command::new("ssh-add");
    let added = adding.arg(&key).env("SSH_AUTH_SOCK", &socket).output();
    assert!(added.unwrap().status.success());
    (agent, socket)
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ssh_runs_commands_and_shells_in_the_container() {
    let site = Site::new();
    let lead = leading(&site, &site.image());
    configured(&site);
    let script = "echo $0 $PWD; cat /proc/sys/kernel/hostname; echo to-error >&2; exit 7";
    let output = client(&site, &["ssh", "demo.xdrive", script])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "bash /work\ndemo\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), "to-error\n");
    // Words as they are typed, and every byte both ways.
    let words = ran(
        &site,
        &["ssh", "demo.xdrive", "printf '%s|' 'a  b' \"it's\" '$HOME'"],
    );
    assert_eq!(words, "a  b|it's|$HOME|");
    let all = noise(5 << 20);
    let echoed = fed(client(&site, &["ssh", "demo.xdrive", "cat"]), &all);
    assert!(echoed.status.success() && echoed.stdout == all);
    // A shell without a terminal reads its commands, as editors' own do.
    let shell = fed(
        client(&site, &["ssh", "-T", "demo.xdrive"]),
        b"echo in-$((6*7))\nexit 3\n",
    );
    assert_eq!(shell.status.code(), Some(3), "{shell:?}");
    assert_eq!(String::from_utf8_lossy(&shell.stdout), "in-42\n");
    // What the client may send along.
    let language = [
        "ssh",
        "-o",
        "SetEnv=LC_TEST=gr\u{fc}n",
        "demo.xdrive",
        "echo $LC_TEST",
    ];
    assert_eq!(ran(&site, &language), "gr\u{fc}n\n");

    let config = site.home().join(".ssh/config");
    let words = ["ssh", "-F", config.to_str().unwrap(), "demo.xdrive"];
    let mut shell = site.program_in_terminal(&words);
    shell.see_within(SESSION, "# ");
    shell.type_in("stty size; echo $TERM-$((6*7)); sleep 1000 & echo $! >/work/child\r");
    shell.see("24 80");
    shell.see("xterm-42");
    shell.type_in("exec sleep 2000\r");
    let sleeping = || ran(&site, &["ssh", "demo.xdrive", "ps -eo args"]).contains("sleep 2000");
    eventually_within(SESSION, || "the command runs".to_owned(), sleeping);
    // A closed terminal hangs up there, too.
    drop(shell);
    eventually_within(SESSION, || "the command ended".to_owned(), || !sleeping());
    let left = || ran(&site, &["ssh", "demo.xdrive", "ls /run/xdrive"]);
    // The session that leads has one, too.
    let is_clear = || left().matches("command.").count() == 1;
    eventually_within(SESSION, || format!("nothing left of {}", left()), is_clear);
    end(&site, lead);
    site.is_saved("demo", 1);
}
