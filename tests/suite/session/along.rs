//! What a session brings along into its container: the SSH agent of this computer, Git's identity,
//! AWS credentials.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::connection_lost::cut;
use super::network::{LOST, NOTICED, NoAnswer};
use super::openssh::agent;
use super::site::{Running, SESSION, Site};
use super::terminal::ends;
use super::variables::is_left;
use crate::moto::server::Moto;
use harness::{Pty, eventually_within, image_with, python};

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
    let silence = NoAnswer::of(&site);
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

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn gits_identity_comes_along_where_the_container_has_none() {
    let site = Site::new();
    let image = image(&site, &["git"]);
    let of_home = "[user]\n\tname = Jane \\\"J\\\" Doe\n\temail = jane@example.com\n";
    fs::write(site.home().join(".gitconfig"), of_home).unwrap();
    let base = ["connect", "demo", "--no-jupyter", "--image", &image];
    // One of the container's own, of its system or of a repository, outranks it.
    let script = "cd /work; git init -q .; git var GIT_AUTHOR_IDENT; git config user.name Own; \
                  git var GIT_AUTHOR_IDENT; echo '[user] email = its@example.com' >/etc/gitconfig; \
                  git var GIT_AUTHOR_IDENT; git config --system a.b c || echo refused; \
                  rm /etc/gitconfig; git config --unset user.name; env -u GIT_CONFIG_SYSTEM git var GIT_AUTHOR_IDENT || echo none";
    let along = site.run(&[&base[..], &["--", "sh", "-c", script]].concat());
    let printed: Vec<&str> = along.is(0).stdout.lines().collect();
    let names: Vec<&str> = printed
        .iter()
        .map(|line| line.split("> ").next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "Jane \"J\" Doe <jane@example.com",
            "Own <jane@example.com",
            "Own <its@example.com",
            "refused",
            "none"
        ],
        "{printed:?}"
    );
    let mut pty = site.in_terminal(&["connect", "demo", "--no-jupyter"]);
    pty.see_within(SESSION, "# ");
    pty.type_in("git config user.email; echo shell-$((6*7))\r");
    pty.see("shell-42");
    assert!(
        pty.contents().contains("jane@example.com"),
        "{}",
        pty.contents()
    );
    pty.type_in("exit\r");
    ends(pty, &site, 0, 2);
    assert!(!is_left(&site, "jane@example.com"), "it is saved");
    let ask = ["--", "sh", "-c", "git config user.email || echo none"];
    let without = site.run(&[&["connect", "demo", "--no-git"][..], &ask].concat());
    assert_eq!(without.is(0).stdout, "none\n");
    site.configure("no_git = true\n");
    let without = site.run(&[&["connect", "demo"][..], &ask].concat());
    assert_eq!(without.is(0).stdout, "none\n");
    site.is_saved("demo", 4);
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
    let names = fs::read_dir("/proc").unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.find(|name| ends(name)).unwrap()
}

/// Where a program finds the endpoint, and by what it is authorized there.
const ADDRESS: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
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

/// An archive of the AWS CLI, which is Python alone.
fn cli(site: &Site) -> File {
    let script = "cd \"${0%/*}\" && \
                  tar -cf \"$1\" --exclude=__pycache__ --exclude=awscli/examples \
                  awscli jmespath dateutil urllib3 six.py yaml colorama rsa pyasn1 docutils";
    let found = "import awscli, os; print(os.path.dirname(awscli.__file__), end='')";
    let found = Command::new(python("awscli")).args(["-c", found]).output();
    let (package, tar) = (
        String::from_utf8(found.unwrap().stdout),
        site.path("cli.tar"),
    );
    let packed = Command::new("sh")
        .args(["-c", script, &package.unwrap(), tar.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    File::open(tar).unwrap()
}

/// Uses the CLI that comes on standard input, and prints for how many seconds the credentials last.
const LISTS: &str = r#"set -e; mkdir /work/cli; tar -xf - -C /work/cli; export PYTHONPATH=/work/cli
aws() { python3 -m awscli --endpoint-url http://127.0.0.1:7001 "$@"; }
aws s3 mb s3://from-the-cli
aws s3 ls
aws configure list | grep -o container-role | sort -u
aws s3 ls --debug 2>&1 | grep -io x-amz-security-token | sort -uf
python3 -c 'import datetime, json, os, urllib.request
at = lambda name: os.environ["AWS_CONTAINER_" + name]
asks = {"Authorization": at("AUTHORIZATION_TOKEN")}
request = urllib.request.Request(at("CREDENTIALS_FULL_URI"), headers=asks)
until = json.load(urllib.request.urlopen(request))["Expiration"]
left = datetime.datetime.fromisoformat(until.replace("Z", "+00:00")) - datetime.datetime.now(datetime.timezone.utc)
print(round(left.total_seconds()))'
"#;

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree, the Jupyter image, the AWS CLI and moto"]
fn the_aws_cli_lists_buckets_in_the_container_with_credentials_of_an_hour() {
    let moto = Moto::start_bare();
    let site = Site::new();
    let back = format!("7001:{}", moto.url().strip_prefix("http://").unwrap());
    let words = ["connect", "demo", "--no-jupyter", "--aws", "-R", &back];
    let mut command = site.command(&[&words[..], &["--", "sh", "-c", LISTS]].concat());
    command
        .stdin(cli(&site))
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", moto.url())
        .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    let ended = site.start_command(command).end();
    ended.is(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let [made, listed, method, token, seconds] = lines[..] else {
        panic!("{ended:?}");
    };
    assert_eq!(made, "make_bucket: from-the-cli");
    assert!(listed.ends_with(" from-the-cli"), "{listed}");
    assert_eq!(method, "container-role");
    assert_eq!(token.to_lowercase(), "x-amz-security-token");
    let seconds: u32 = seconds.parse().unwrap();
    assert!((3000..=3600).contains(&seconds), "{seconds}");
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn the_credentials_are_answered_again_at_the_same_address_after_a_lost_connection() {
    const KEY: &str = "ASIAIOSFODNN7EXAMPLE";
    let site = Site::with_a_drive();
    let last = "4713.75";
    let show = format!("echo begun; exec sleep {last}");
    let words = ["connect", "demo", "--no-jupyter", "--aws", "--"];
    let mut command = site.command(&[&words[..], &["sh", "-c", &show]].concat());
    // Temporary ones, which are passed on as they are: no AWS is asked.
    command
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        .env("AWS_ACCESS_KEY_ID", KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_SESSION_TOKEN", "a-session-token");
    let mut running = site.start_command(command);
    running.prints("begun\n");
    let id = process(last);
    let variables = of_aws(&id);
    let authorization = format!("Authorization: {}", variables[TOKEN]);
    let network = format!("--net=/proc/{id}/ns/net");
    let answer = || {
        let asked = Command::new("nsenter")
            .args([network.as_str(), "--", "curl", "-s", "-m", "20", "-H"])
            .args([authorization.as_str(), variables[ADDRESS].as_str()])
            .output()
            .unwrap();
        String::from_utf8(asked.stdout).unwrap()
    };
    let answers = || answer().contains(KEY);
    assert!(answers(), "{}", answer());
    // The endpoint's own are among them.
    cut(&site);
    running.reports("the connection was lost: ");
    running.reports(" again after ");
    eventually_within(SESSION, answer, answers);
    running.signal(Signal::TERM);
    running.end().is(143);
    site.is_saved("demo", 2);
}
