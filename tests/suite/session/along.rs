//! The things that a session brings along into its container: the SSH agent of this computer, Git's
//! identity, AWS credentials, and the role of the instance.

mod role;
mod wide;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::network::{LOST, NOTICED, NoAnswer};
use super::openssh::agent;
use super::site::{Running, SESSION, Site};
use super::terminal::ends;
use super::variables::is_left;
use crate::moto::server::Moto;
use harness::{Pty, eventually_within, image_with, python};
use rustix::process::Signal;

/// The path of an image with these programs.
fn image(site: &Site, programs: &[&str]) -> String {
    let tar = site.path("tools.tar");
    fs::write(&tar, image_with(programs)).unwrap();
    tar.into_os_string().into_string().unwrap()
}

/// A session in a terminal with the agent that listens at `socket`.
fn with_agent(site: &Site, socket: &Path, words: &[&str]) -> Pty {
    let socket = format!("SSH_AUTH_SOCK={}", socket.display());
    let program = ["env", &socket, env!("CARGO_BIN_EXE_xdrive"), "--local"];
    site.program_in_terminal(&[&program[..], words].concat())
}

/// Waits until the agent answers in the shell with its one key.
fn sees_the_key(pty: &mut Pty, word: &str) {
    pty.type_in(&format!(
        "until ssh-add -l >keys 2>&1; do sleep 0.2; done; echo {word}-$(grep -c ED25519 keys)\r"
    ));
    pty.see_within(NOTICED, &format!("{word}-1"));
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_agent_answers_in_the_container_also_after_a_lost_network_and_in_a_shell_that_was_left() {
    let site = Site::new();
    let image = image(&site, &["ssh-add", "grep"]);
    let words = ["connect", "demo", "--no-jupyter", "--image", &image];
    let none = site.run(&[&words[..], &["-A", "--", "true"]].concat());
    none.is(69)
        .reports("error: there is no SSH agent here: SSH_AUTH_SOCK is not set")
        .reports("hint: eval \"$(ssh-agent)\" && ssh-add starts one");
    assert_eq!(site.kinds("demo"), [""; 0], "nothing was launched");
    // Where the configuration asks for one, and there is none, that is reported.
    site.configure("agent = true\n");
    let without = "echo ${SSH_AUTH_SOCK-none}";
    let without = site.run(&[&words[..], &["--", "sh", "-c", without]].concat());
    without.is(0).reports("warning: no agent is forwarded: ");
    assert_eq!(without.stdout, "none\n");

    let (_agent, socket) = agent(&site);
    let mut pty = with_agent(&site, &socket, &["connect", "demo", "--no-jupyter"]);
    pty.see_within(SESSION, "# ");
    sees_the_key(&mut pty, "first");
    pty.type_in("\r~#");
    pty.see("the SSH agent of this computer can be used in the container");
    let silence = NoAnswer::begin(&site);
    pty.see_within(NOTICED, LOST);
    drop(silence);
    let is_back = || !pty.contents().contains(LOST);
    eventually_within(NOTICED, || pty.contents(), is_back);
    sees_the_key(&mut pty, "again");
    pty.type_in("ls /run/xdrive | grep -c agent >keys; echo sockets-$(cat keys)\r");
    pty.see("sockets-1");
    pty.type_in("\r~d");
    assert_eq!(pty.wait_within(SESSION), 0, "{}", pty.contents());

    let mut pty = with_agent(&site, &socket, &["connect", "demo", "--no-jupyter"]);
    pty.see_within(SESSION, "sockets-1");
    sees_the_key(&mut pty, "later");
    // For one command of a second session, which has its own.
    let mut joining = site.command(&["connect", "demo", "-A", "--", "ssh-add", "-l"]);
    let joined = joining.env("SSH_AUTH_SOCK", &socket).output().unwrap();
    let printed = String::from_utf8_lossy(&joined.stdout);
    assert!(printed.contains("(ED25519)"), "{joined:?}");
    sees_the_key(&mut pty, "last");
    pty.type_in("exit 3\r");
    ends(pty, &site, 3, 2);
}

/// A long-term key of this laptop's, which stays there.
const SECRET: &str = "a-long-term-secret-of-4713";

/// Asks S3 and STS at moto as a program in the container would, by the chain that every SDK has.
const ASKS: &str = r#"
import boto3, json, os, urllib.error, urllib.request
at = {"endpoint_url": "http://127.0.0.1:7001"}
s3 = boto3.client("s3", **at)
s3.create_bucket(Bucket="from-the-container")
print([bucket["Name"] for bucket in s3.list_buckets()["Buckets"]])
found = boto3.Session().get_credentials()
print(found.method, bool(found.token), found.secret_key != "a-long-term-secret-of-4713")
request = urllib.request.Request(os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"])
for token in [None, "guessed"]:
    if token:
        request.add_header("Authorization", token)
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        print(error.code, json.load(error)["message"])
"#;

/// The process on this computer whose last argument this is.
fn process(last: &str) -> String {
    let ends = |name: &str| {
        let arguments = fs::read(format!("/proc/{name}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).rev().nth(1) == Some(last.as_bytes())
            && arguments.starts_with(b"sleep\0")
    };
    let find = || {
        let names = fs::read_dir("/proc").unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.find(|name| ends(name))
    };
    // The shell that said that it begins becomes it a moment later.
    eventually_within(SESSION, || format!("sleep {last}"), || find().is_some());
    find().unwrap()
}

const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";

/// AWS's variables in the environment of a process on this computer.
fn of_aws(id: &str) -> BTreeMap<String, String> {
    let environment = fs::read(format!("/proc/{id}/environ")).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    environment
        .split_terminator('\0')
        .filter_map(|variable| variable.split_once('='))
        .filter(|(name, _)| name.starts_with("AWS_"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree, boto3 and moto"]
fn aws_tools_in_the_container_use_this_computers_credentials() {
    let moto = Moto::start_bare();
    let site = Site::with_a_drive();
    let mut refused = site.command(&["connect", "demo", "--aws", "--", "true"]);
    let refused = refused.env("AWS_EC2_METADATA_DISABLED", "true").output();
    let refused = refused.unwrap();
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert!(printed.contains("error: no AWS region is set"), "{printed}");
    assert_eq!(refused.status.code(), Some(78), "{printed}");
    // An STS that is not reached: nothing was launched.
    let mut refused = site.command(&["connect", "demo", "--aws", "--", "true"]);
    let refused = refused
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    let refused = refused.output().unwrap();
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert!(printed.contains("error: GetSessionToken: "), "{printed}");
    for flag in [&["--aws"][..], &["-L", "7001"]] {
        let words = [&["run", "demo", "-d"], flag, &["--", "true"]].concat();
        let error = format!(
            "{} is this computer's part, and with -d it leaves at once",
            flag[0]
        );
        site.run(&words).is(2).reports(&error);
    }
    site.is_saved("demo", 1);
    let back = format!("7001:{}", moto.url().strip_prefix("http://").unwrap());
    let words = ["connect", "demo", "--aws", "-R", &back, "--", "sh", "-c"];
    let last = "4713.25";
    let show = format!("echo begun-$AWS_REGION; exec sleep {last}");
    let mut command = site.command(&[&words[..], &[show.as_str()]].concat());
    let mut running = Running::start(
        command
            .stdin(Stdio::null())
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL", moto.url())
            .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", SECRET),
    );
    running.prints("begun-us-east-1\n");
    // What the command has in its environment, in the container's network.
    let id = process(last);
    let variables = of_aws(&id);
    let token = variables[TOKEN].as_str();
    let network = format!("--net=/proc/{id}/ns/net");
    let mut asking = Command::new("nsenter");
    asking
        .args([
            &network,
            "--",
            python("boto3").to_str().unwrap(),
            "-c",
            ASKS,
        ])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nowhere")
        .envs(&variables);
    let asked = asking.output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&asked.stdout),
        "['from-the-container']\ncontainer-role True True\n\
         401 the token is not this session's\n401 the token is not this session's\n",
        "{asked:?}"
    );
    running.signal(Signal::TERM);
    running.end().is(143);
    site.is_saved("demo", 2);
    for secret in [SECRET, token] {
        assert!(!is_left(&site, secret), "it is on a disk, or in a record");
    }
}
