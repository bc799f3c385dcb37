//! OpenSSH's own clients, and what calls them, in a drive's container.

mod carried;
mod copied;
mod synced;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::connection_lost::recorded;
use super::site::{Running, SESSION, Site};
use harness::home::PATH;
use harness::{eventually_within, write_script};

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

/// One of OpenSSH's programs, or one that calls it, with the user's configuration. (It takes the home
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

/// Its output; it ends well.
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

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn ssh_launches_nothing_and_leaves_what_is_left_running() {
    let site = Site::with_a_drive();
    configured(&site);
    for (name, error, hint) in [
        (
            "nothing",
            "there is no drive nothing",
            "xdrive --local list shows all there are",
        ),
        (
            "demo",
            "demo is not up, and ssh launches nothing",
            "xdrive --local connect demo brings it up",
        ),
    ] {
        let output = refused(&site, &["ssh", &format!("{name}.xdrive"), "true"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            message.contains(&format!("error: {error}\n\nhint: {hint}")),
            "{message}"
        );
    }
    site.is_saved("demo", 1);
    site.run(&["proxy", "demo"]).is(69).reports("brings it up");
    let hint =
        "demo is not up, and cp launches nothing\n\nhint: xdrive --local connect demo brings";
    site.run(&["cp", "small.tar", "demo:"]).is(69).reports(hint);
    opens_an_editor(
        &site,
        69,
        "demo is not up, and code launches nothing\n\nhint: xdrive",
    );

    let mut shell = site.in_terminal(&["connect", "demo"]);
    shell.see_within(SESSION, "# ");
    shell.type_in("marker=here; echo set-$((6*7))\r");
    shell.see("set-42");
    shell.type_in("\r~d");
    assert_eq!(shell.wait_within(SESSION), 0, "{}", shell.contents());
    // A connection that goes on meanwhile is nobody to join, and nobody who saves.
    let mut staying = client(&site, &["ssh", "demo.xdrive", "echo begun; sleep 1000"]);
    let mut staying = Client(staying.stdout(Stdio::piped()).spawn().unwrap());
    let mut begun = [0; 6];
    staying
        .0
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut begun)
        .unwrap();
    let mut again = site.in_terminal(&["connect", "demo"]);
    again.see_within(SESSION, "# ");
    again.type_in("echo $marker-$((6*7))\r");
    again.see("here-42");
    again.type_in("exit\r");
    again.see_within(SESSION, "end that session and save now? [y/N]");
    again.type_in("\r");
    assert_eq!(again.wait_within(SESSION), 0, "{}", again.contents());
    again.see("left demo: ssh or cp goes on; the host closes it at the end of its lease");
    drop(staying);
    opens_an_editor(&site, 7, "");
    assert_eq!(ran(&site, &["ssh", "demo.xdrive", "echo up"]), "up\n");
    assert_eq!(site.drive("demo")["state"], "running");
    // A client that hangs up without a word is gone, too.
    let held = Client(
        client(&site, &["ssh", "-N", "demo.xdrive"])
            .spawn()
            .unwrap(),
    );
    drop(held);
    site.run(&["stop", "demo"])
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    site.is_saved("demo", 2);
}

/// Checks that `xdrive code` ends with this code and says this; if it is its editor's, that this was
/// called as it is to be, with ssh's configuration written.
fn opens_an_editor(site: &Site, code: i32, message: &str) {
    let programs = site.path("programs");
    fs::create_dir_all(&programs).unwrap();
    let mut command = site.command(&["code", "demo", "/work/a b"]);
    let none = command.output().unwrap();
    assert_eq!(none.status.code(), Some(69), "{none:?}");
    let stderr = String::from_utf8_lossy(&none.stderr);
    assert!(
        stderr.contains("there is no program code in PATH"),
        "{stderr}"
    );
    let editor = programs.join("code");
    write_script(&editor, "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n");
    let config = site.home().join(".config/xdrive/ssh_config");
    if code == 7 {
        fs::remove_file(&config).unwrap();
    }
    command.env("PATH", format!("{}:{PATH}", programs.display()));
    let ended = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(message), "{stderr}");
    if code == 7 {
        let words = "--remote|ssh-remote+demo.xdrive|/work/a b|";
        assert_eq!(String::from_utf8_lossy(&ended.stdout), words);
        assert!(fs::read_to_string(&config).unwrap().contains("proxy '%n'"));
        let again = command.output().unwrap();
        assert!(again.stderr.is_empty(), "{again:?}");
    }
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_open_connection_keeps_the_lease_and_sees_the_close() {
    let site = Site::with_a_drive();
    configured(&site);
    let begun = ["sh", "-c", "echo begun; sleep 1000"];
    let mut lead = site.start(&[&["connect", "demo", "--keep", "15s", "--"][..], &begun].concat());
    lead.prints("begun\n");
    let mut staying = client(&site, &["ssh", "demo.xdrive", "echo begun; cat"]);
    let staying = staying.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut staying = Client(staying.stderr(Stdio::piped()).spawn().unwrap());
    let mut line = [0; 6];
    let output = staying.0.stdout.as_mut().unwrap();
    output.read_exact(&mut line).unwrap();
    lead.signal(Signal::KILL);
    lead.end();
    std::thread::sleep(Duration::from_secs(30));
    let input = staying.0.stdin.as_mut().unwrap();
    input.write_all(b"still\n").unwrap();
    output.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"still\n");
    site.run(&["stop", "demo"])
        .is(0)
        .reports("demo is saved: its snapshot (snap-");
    let mut message = String::new();
    let mut errors = staying.0.stderr.take().unwrap();
    errors.read_to_string(&mut message).unwrap();
    assert!(
        message.contains("the host closed the drive: a session saves it"),
        "{message}"
    );
    site.is_saved("demo", 2);
}
