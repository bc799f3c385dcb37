//! Variants of `along`, which `shell/test.sh --all` runs.

use std::fs::{self, File};
use std::process::Command;

use rustix::process::Signal;

use super::{SECRET, TOKEN, image, of_aws, process};
use crate::moto::server::Moto;
use crate::session::connection_lost::cut;
use crate::session::site::{SESSION, Site};
use crate::session::terminal::ends;
use crate::session::variables::is_left;
use harness::{eventually_within, python};

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

/// Where a program finds the endpoint, and by what it is authorized there.
const ADDRESS: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";

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
