//! Bad days of an account: xdrive as its user runs it, without `--local`, and an AWS with faults.
//! Each day ends with one error line, a hint and an exit code, and leaves nothing that is billed.
//!
//! AWS is a paper EC2 behind `AWS_ENDPOINT_URL`, with a [`FaultProxy`] before it that refuses and
//! loses calls as AWS may. xdrive has AWS's timing there; tests that would take minutes run
//! [`Account::hurried`].

mod credentials;
mod hosts;
mod keys;
mod rights;
mod routes;
mod storms;

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use clap::Parser as _;
use xdrive::cli::{self, Cli, DriveCommand};
use xdrive::clock::Clock;
use xdrive::cloud::Cloud;
use xdrive::commands;
use xdrive::config::{Paths, Reach};
use xdrive::drive::Timing;
use xdrive::ec2::{Account as Named, Ec2};
use xdrive::failure::{Exit, Failure};
use xdrive::local::Local;
use xdrive::session;
use xdrive::ssh::UserKey;
use xdrive::visit::Visitor;

use super::served::ServedSite;
use super::site::{Ended, Running};
use harness::cloud::left;
use harness::faults::proxy::{Asked, FaultProxy};
use harness::{DEADLINE, eventually_within};

/// The variable with the arguments of a test that runs again as xdrive.
const WORDS: &str = "XDRIVE_TEST_WORDS";

/// The text before the exit code of such a run.
const CODE: &str = "exit code: ";

/// An address of this computer where no server listens.
const NOWHERE: &str = "127.66.255.254";

/// `answer`, with this address in place of every instance's.
fn at(answer: &str, address: &str) -> String {
    let mut answer = answer.to_owned();
    for name in ["ipAddress", "privateIpAddress"] {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let parts: Vec<&str> = answer.split(&open).collect();
        let changed = parts.iter().skip(1).map(|part| {
            let (_, rest) = part.split_once(&close).unwrap();
            format!("{open}{address}{close}{rest}")
        });
        answer = std::iter::once(parts[0].to_owned())
            .chain(changed)
            .collect();
    }
    answer
}

/// A served site as AWS, and the fault proxy between that and its user.
pub(super) struct Account {
    served: ServedSite,
    pub(super) proxy: FaultProxy,
}

impl Account {
    pub(super) fn new() -> Self {
        Self::with_settings("")
    }

    /// An account whose EC2 has these settings.
    pub(super) fn with_settings(settings: &str) -> Self {
        let account = Self::on(ServedSite::paper(settings));
        account.answers_nowhere();
        account
    }

    /// An account whose EC2 has these settings, and machines and disks with their own addresses.
    pub(super) fn with_machines(settings: &str) -> Self {
        Self::on(ServedSite::real(settings))
    }

    fn on(served: ServedSite) -> Self {
        let proxy = FaultProxy::new();
        Self { served, proxy }
    }

    /// The EC2, for reads and changes beside its API.
    pub(super) fn local(&self) -> Local {
        self.served.site.local()
    }

    pub(super) fn home(&self) -> PathBuf {
        self.served.site.home()
    }

    /// `words` after `eval "$(xdrive local env)"`, through the proxy.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.served.site.of_user(words);
        command
            .envs(self.served.variables())
            .env("NO_COLOR", "1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("HTTP_PROXY", self.proxy.url());
        command
    }

    /// xdrive, with these words.
    pub(super) fn xdrive(&self, words: &[&str]) -> Command {
        self.command(&[&[env!("CARGO_BIN_EXE_xdrive")], words].concat())
    }

    pub(super) fn run(&self, words: &[&str]) -> Ended {
        run_to_end(&mut self.xdrive(words))
    }

    /// The arguments of a session of the drive `demo`.
    fn words<'a>(image: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
        let all = [
            &["connect", "demo", "--image", image],
            flags,
            &["--", "true"],
        ];
        all.concat()
    }

    /// `xdrive connect demo` with these flags.
    pub(super) fn connect(&self, flags: &[&str]) -> Ended {
        self.run(&Self::words(&self.served.site.image(), flags))
    }

    /// Connects with timing of seconds: this program runs the test called `name` again, which
    /// begins with [`is_xdrive`].
    pub(super) fn hurried(&self, name: &str, flags: &[&str]) -> Ended {
        let image = self.served.site.image();
        self.again(name, &Self::words(&image, flags))
    }

    /// `xdrive stop demo`, in the same way.
    pub(super) fn stops(&self, name: &str) {
        self.again(name, &["stop", "demo"]).is(0);
    }

    fn again(&self, name: &str, words: &[&str]) -> Ended {
        let words = serde_json::to_string(words).unwrap();
        let program = std::env::current_exe().unwrap();
        let program = program.to_str().unwrap();
        let flags = ["--exact", "--include-ignored", "--nocapture"];
        let mut command = self.command(&[&[program, name], &flags[..]].concat());
        command.env(WORDS, words);
        let Ended { stdout, stderr, .. } = run_to_end(&mut command);
        let code = stdout
            .lines()
            .find_map(|line| line.split_once(CODE))
            .unwrap_or_else(|| panic!("no session:\n{stdout}\n{stderr}"))
            .1;
        Ended {
            status: ExitStatus::from_raw(code.parse::<i32>().unwrap() << 8),
            stdout,
            stderr,
        }
    }

    /// Rewrites EC2's answers by `change`. (Instances still get an address of this computer where
    /// no server listens: nothing leaves it.)
    pub(super) fn change(&self, mut change: impl FnMut(&Asked, String) -> String + Send + 'static) {
        self.proxy
            .change(move |asked, answer| at(&change(asked, answer), NOWHERE));
    }

    /// Gives all instances an address where no server listens.
    fn answers_nowhere(&self) {
        self.change(|_, answer| answer);
    }

    /// Gives all instances this address.
    pub(super) fn answers_at(&self, address: &str) {
        let address = address.to_owned();
        self.proxy.change(move |_, answer| at(&answer, &address));
    }

    /// Checks that there are no instances, volumes and snapshots (but for instances that are
    /// shutting down).
    pub(super) fn is_bare(&self) {
        let local = self.local();
        let none = || left(&local).is_empty();
        eventually_within(DEADLINE, || format!("{:?}", left(&local)), none);
    }

    /// Checks that the account is bare, and that nothing was ever requested.
    pub(super) fn is_untouched(&self) {
        self.is_bare();
        let changes = [
            "Run",
            "Create",
            "Authorize",
            "Attach",
            "Modify",
            "Terminate",
            "Delete",
        ];
        let calls = self.proxy.calls();
        let mut made = calls
            .iter()
            .filter(|call| changes.iter().any(|verb| call.starts_with(verb)));
        assert_eq!(made.next(), None, "{calls:?}");
    }
}

/// Runs `command` to its end.
pub(super) fn run_to_end(command: &mut Command) -> Ended {
    command.stderr(Stdio::piped());
    Running::start(command).end()
}

impl Ended {
    /// The text of the one error line.
    pub(super) fn error(&self) -> &str {
        let mut lines = self
            .stderr
            .lines()
            .filter_map(|line| line.strip_prefix("error: "));
        let error = lines.next();
        let error = error.unwrap_or_else(|| panic!("no error in:\n{}", self.stderr));
        assert_eq!(lines.next(), None, "two errors in:\n{}", self.stderr);
        error
    }
}

/// Runs xdrive if this process is to be it, and not the test; whether it did.
pub(super) fn is_xdrive() -> bool {
    let Ok(words) = std::env::var(WORDS) else {
        return false;
    };
    let words: Vec<String> = serde_json::from_str(&words).unwrap();
    let cli = Cli::parse_from(std::iter::once("xdrive".to_owned()).chain(words));
    let code = session(cli).unwrap_or_else(|failure| {
        eprintln!("{failure}");
        failure.exit.code()
    });
    println!("{CODE}{code}");
    true
}

/// xdrive on the account of the environment, with timing of seconds.
fn session(cli: Cli) -> Result<u8, Failure> {
    let paths = Paths::find(None)?;
    let timing = Timing {
        no_ssh: Duration::from_secs(4),
        checked: Duration::from_secs(1),
        launches: 2,
        silent: Duration::from_secs(1),
        proxy_fails: Duration::from_secs(2),
        ..Timing::local(Duration::from_millis(100))
    };
    let key = UserKey::open_or_create(&paths.key);
    let key = key.map_err(|error| Failure::new(Exit::Config, error))?;
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = Clock::system();
        let ec2 = Ec2::of_account(&Named::default(), clock.clone()).await;
        let cloud = Cloud::new(ec2.unwrap(), timing, &clock, &paths);
        match cli.command {
            cli::Command::Drive(DriveCommand::Connect(typed)) => {
                let request = commands::connect::request(*typed, &paths)?;
                session::connect(request, cloud, key).await
            }
            cli::Command::Drive(DriveCommand::Stop(typed)) => {
                let reach = Reach::default();
                commands::stop::stop(&typed, cloud, Visitor { key, reach }).await
            }
            other => panic!("nobody is in a hurry for {other:?}"),
        }
    })
}
