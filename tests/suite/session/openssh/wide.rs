//! Variants of `openssh`, which `shell/test.sh --all` runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use super::{Client, client, configured, ran, refused};
use crate::session::site::{SESSION, Site};
use harness::home::PATH;
use harness::write_script;

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
