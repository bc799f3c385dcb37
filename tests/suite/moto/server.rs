//! moto servers, and tests that run again in another process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;
use xdrive::clock::Clock;
use xdrive::ec2::{Account, Ec2};

use crate::boto;
use crate::session::served::ServedSite;
use harness::faults::proxy::FaultProxy;
use harness::home::PATH;
use harness::python;

/// How long a server may take to come up: Python reads some hundred files first.
const START: Duration = Duration::from_mins(1);

/// The variable that is set in the process that runs a test against moto.
const INSIDE: &str = "XDRIVE_TEST_INSIDE";

/// The text before the address in a server's output.
const RUNNING: &str = "Running on ";

/// A server; killed when dropped.
pub(crate) struct Moto {
    child: Child,
    home: TempDir,
    url: String,
    /// Before it, so that nobody waits for blocks that it has not.
    proxy: FaultProxy,
}

impl Moto {
    /// Starts one on a free port that checks machine images and instance types.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts moto without the six hundred public snapshots in its every list.
    pub(crate) fn start_bare() -> Self {
        Self::start_with(&[("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")])
    }

    /// Starts one that refuses unknown images.
    pub(crate) fn start_strict() -> Self {
        Self::start_with(&[("MOTO_ENABLE_AMI_VALIDATION", "true")])
    }

    fn start_with(settings: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(python("moto.server"))
            .args(["-u", "-m", "moto.server", "-p", "0"])
            .env("HOME", home.path())
            .env("MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION", "true")
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, urls) = mpsc::channel();
        std::thread::spawn(move || {
            // Read to its end, so that the server never blocks on its output.
            for line in stderr.lines().map_while(Result::ok) {
                if let Some((_, url)) = line.split_once(RUNNING) {
                    let _nobody_waits_any_more = sender.send(url.trim().to_owned());
                }
            }
        });
        match urls.recv_timeout(START) {
            Ok(url) => Self {
                child,
                home,
                url,
                proxy: FaultProxy::new(),
            },
            Err(error) => {
                child.kill().unwrap();
                panic!("moto does not come up: {error}");
            }
        }
    }

    /// The home of its users.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A program with this server as its AWS, without the tester's environment.
    pub(crate) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", PATH)
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", self.home.path())
            .env("AWS_ENDPOINT_URL", &self.url)
            .env("HTTP_PROXY", self.proxy.url())
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "example")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the test called `name` against a moto: again, in another process, where `test` gets the EC2
/// of its environment.
pub(crate) fn against_moto<T: Future<Output = ()>>(name: &str, test: impl FnOnce(Ec2) -> T) {
    if !is_inside() {
        let moto = Moto::start();
        again(name, moto.command(&std::env::current_exe().unwrap()));
        return;
    }
    inside(async {
        let ec2 = Ec2::of_account(&Account::default(), Clock::system()).await;
        test(ec2.unwrap()).await;
    });
}

/// Makes a call to `service` at moto that xdrive itself never makes; its answer.
pub(super) fn ask(service: &str, query: &str) -> String {
    let url = std::env::var("AWS_ENDPOINT_URL").unwrap();
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let credential =
        format!("Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/{service}/aws4_request");
    write!(
        stream,
        "GET /?Action={query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Authorization: AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    answer
}

/// Whether this is the process that [`again`] runs a test in.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs the test called `name` again, by this `command` of this program; returns its output.
pub(crate) fn again(name: &str, mut command: Command) -> String {
    let output = command
        .env(INSIDE, "it")
        .args([name, "--exact", "--include-ignored", "--nocapture"])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && report.contains("1 passed"),
        "{report}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    report
}

/// Runs the inside of a test.
pub(crate) fn inside(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(test);
}

/// Runs this script of boto3 against moto and against the folder: each prints the same lines, but for those that are
/// `different`, moto's and the folder's.
#[track_caller]
pub(super) fn prints_the_same_in_both_clouds(script: &str, different: &[(&str, &str)]) {
    let moto = Moto::start();
    let python = python("boto3");
    let path = format!("{}/tests/suite/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut ask = moto.command(&python);
    // The name that boto3 knows the region by.
    ask.arg(path).env("AWS_DEFAULT_REGION", "us-east-1");
    let mut expected = lines(ask.output().unwrap());
    for (moto, folder) in different {
        let line = expected.iter_mut().find(|line| line == moto);
        let line = line.unwrap_or_else(|| panic!("moto does not print {moto}"));
        (*folder).clone_into(line);
    }
    let served = ServedSite::paper("");
    let environment = String::from_utf8(served.environment().stdout).unwrap();
    assert_eq!(lines(boto::run(&python, script, &environment)), expected);
}

fn lines(output: Output) -> Vec<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let printed = String::from_utf8(output.stdout).unwrap();
    printed
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}
