//! The results of runs, which go to S3: by the AWS CLI against moto, and on a host beside a command.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::time::sleep;
use xdrive::host::container::CommandId;
use xdrive::host::runs::{Attempt, CommandOrder, Retry, Run};
use xdrive::host::tries::{Notify, Results, TriedCommand};

use harness::home::PATH;
use harness::{DEADLINE, python};

use super::machine::{Disk, Machine};
use super::retries::record;
use crate::moto::server::Moto;

const PLACE: &str = "s3://results-of-runs/demo";

/// The AWS CLI of a caller of moto.
struct Cli<'a> {
    moto: &'a Moto,
    /// Where its program is.
    programs: PathBuf,
}

impl<'a> Cli<'a> {
    fn new(moto: &'a Moto) -> Self {
        Self {
            moto,
            programs: python("awscli").parent().unwrap().to_owned(),
        }
    }

    fn output(&self, mut command: Command) -> Output {
        let path = format!("{}:{PATH}", self.programs.display());
        command
            .env("PATH", path)
            .env("HOME", self.moto.home())
            .env("AWS_ENDPOINT_URL", self.moto.url())
            .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .output()
            .unwrap()
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.programs.join("aws"));
        command.args(words);
        self.output(command)
    }

    /// What it prints.
    fn text(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// One sync of the folder `work`.
    fn sync(&self, work: &Path) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("shell/host/results.py");
        let mut command = Command::new("python3");
        command.args(["-I", "-S"]).arg(script).args(["sync", PLACE]);
        command.env("XDRIVE_WORK", work);
        self.output(command)
    }
}

#[test]
#[ignore = "needs root (mounts)"]
fn results_go_to_s3_and_no_link_that_a_container_made_is_followed() {
    let moto = Moto::start_bare();
    let cli = Cli::new(&moto);
    cli.text(&["s3", "mb", "s3://results-of-runs"]);
    let listed = || cli.text(&["s3", "ls", "--recursive", "s3://results-of-runs"]);
    let folder = TempDir::new().unwrap();
    let work = folder.path();
    let synced = || {
        let synced = cli.sync(work);
        assert!(synced.status.success(), "{synced:?}");
    };
    // There is no folder with results yet.
    synced();

    let results = work.join("results");
    fs::create_dir_all(results.join("epoch 1")).unwrap();
    fs::write(results.join("loss.csv"), "0.5\n").unwrap();
    fs::write(results.join("epoch 1/weights"), "w").unwrap();
    symlink("/etc/hostname", results.join("link")).unwrap();
    symlink("/etc", results.join("folder")).unwrap();
    symlink(results.join("loss.csv"), results.join("own")).unwrap();
    synced();
    let there = listed();
    assert!(there.contains("demo/epoch 1/weights"), "{there}");
    assert!(there.contains("demo/loss.csv"), "{there}");
    assert_eq!(there.lines().count(), 2, "{there}");
    // What is no file is left out, and the rest arrives.
    let pipe = Command::new("mkfifo").arg(results.join("pipe")).status();
    assert!(pipe.unwrap().success());
    fs::write(results.join("more"), "m").unwrap();
    assert_eq!(cli.sync(work).status.code(), Some(2));
    assert!(listed().contains("demo/more"), "{}", listed());
    fs::remove_file(results.join("pipe")).unwrap();
    fs::remove_file(results.join("more")).unwrap();
    // What goes here stays there.
    fs::remove_file(results.join("loss.csv")).unwrap();
    synced();
    assert_eq!(listed().lines().count(), 3);

    // Whatever the AWS CLI did, a link is none that can be opened, and the folder itself is no link.
    let own = TempDir::new().unwrap();
    let reader = "#!/bin/sh\ncat \"$5link\" \"$5folder/hostname\" && exit 9\n\
                  touch \"$5new\" && exit 8\ncat \"$5epoch 1/weights\"\n";
    let program = own.path().join("aws");
    fs::write(&program, reader).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let reader = Cli {
        programs: own.path().to_owned(),
        moto: &moto,
    };
    let read = reader.sync(work);
    assert_eq!(read.stdout, b"w", "{read:?}");
    let refused = String::from_utf8_lossy(&read.stderr).into_owned();
    assert_eq!(refused.matches("symbolic links").count(), 2, "{refused}");
    fs::rename(&results, work.join("before")).unwrap();
    symlink("/etc", &results).unwrap();
    let refused = cli.sync(work);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        why.contains("/work/results is a link, or no folder"),
        "{why}"
    );
    assert_eq!(listed().lines().count(), 3);
}

/// Begins try `number` of a command by an order of its own. Returns its id.
async fn begin(
    machine: &Machine,
    number: u32,
    script: &str,
    order: impl FnOnce(TriedCommand) -> TriedCommand,
) -> CommandId {
    let id = CommandId::new().unwrap();
    let words = ["sh", "-c", script].map(str::to_owned);
    let order = order(TriedCommand::new(&words, Duration::from_secs(30), 4096));
    machine.host.keep_order(&id, &order).await.unwrap();
    let command = machine.host.command(&CommandOrder {
        id: &id,
        label: "it",
        client: "",
        limit: None,
        attempt: Some(Attempt {
            number,
            retry: &Retry::default(),
        }),
        freezes: false,
        command: &format!("sh -c '{script}'"),
        kept: 4096,
    });
    machine.host.begin(&command).await.unwrap();
    id
}

/// The order with results that go to S3.
fn to_s3(order: TriedCommand) -> TriedCommand {
    TriedCommand {
        results: Some(Results {
            url: PLACE.to_owned(),
            every: 600,
        }),
        ..order
    }
}

/// Waits until `is_so` for the record of a command, and of the last sync of its results, and looks at
/// nothing else: who asks the process that keeps the command wakes it.
async fn state(
    machine: &Machine,
    id: &CommandId,
    is_so: impl Fn(&Run, Option<f64>, Option<&str>) -> bool,
) {
    let began = Instant::now();
    loop {
        let found = record(machine, id).await;
        let results = found.as_ref().and_then(|run| run.results.as_ref());
        if let (Some(run), Some(results)) = (&found, results)
            && is_so(run, results.at, results.why.as_deref())
        {
            return;
        }
        assert!(began.elapsed() < DEADLINE, "{found:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn results_are_synced_at_the_end_of_a_run_and_a_sync_that_fails_fails_none() {
    let disk = Disk::new(64);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(1, true)).await.unwrap();
    assert!(!machine.host.brings_results().await.unwrap());
    machine
        .sh("mkdir -p /root/bucket /v1/work/results; \
             printf '%s\n' '#!/bin/sh' \
               '[ ! -e /root/down ] || { echo; echo \"fatal error: AccessDenied\"; exit 1; }' \
               '[ ! -e /root/hangs ] || exec sleep 3600' \
               'echo \"$*\" > /root/words; cp -a \"$5.\" /root/bucket' > /usr/local/bin/aws; \
             chmod +x /usr/local/bin/aws; \
             sed -i 's/^BETWEEN = 10/BETWEEN = 0/' /var/lib/xdrive/scripts/*/results.py")
        .await;
    assert!(machine.host.brings_results().await.unwrap());

    let id = begin(&machine, 1, "echo 1 > /v1/work/results/one", to_s3).await;
    state(&machine, &id, |run, at, why| {
        run.status == Some(0) && at.is_some() && why.is_none()
    })
    .await;
    let there = machine.sh("cat /root/bucket/one /root/words").await;
    let words =
        format!("1\ns3 sync --only-show-errors --no-follow-symlinks /v1/work/results/ {PLACE}/\n");
    assert_eq!(there, words);

    // The next try begins with what a former one may have left.
    machine.sh("echo 2 > /v1/work/results/two").await;
    let id = begin(
        &machine,
        2,
        "until [ -e /root/bucket/two ]; do sleep 0.1; done",
        to_s3,
    )
    .await;
    state(&machine, &id, |run, at, _| {
        run.status == Some(0) && at.is_some()
    })
    .await;

    machine.sh("touch /root/down").await;
    let id = begin(&machine, 1, "true", to_s3).await;
    let failed = |run: &Run, at: Option<f64>, why: Option<&str>| {
        run.status == Some(0) && at.is_none() && why == Some("fatal error: AccessDenied")
    };
    state(&machine, &id, failed).await;
    let words = format!(
        "xdrive: the last results go to {PLACE}\n\
         xdrive: the results are not all in {PLACE}: fatal error: AccessDenied\n"
    );
    let errors = format!("cat /v1/xdrive/runs/{}/errors", id.as_str());
    let began = Instant::now();
    while machine.sh(&errors).await != words {
        assert!(began.elapsed() < DEADLINE);
        sleep(Duration::from_millis(100)).await;
    }

    // None runs, and none holds the drive, while the host closes.
    machine.sh("rm /root/down; touch /root/hangs").await;
    let id = begin(&machine, 1, "true", to_s3).await;
    let is_hanging =
        "until pgrep -xf 'sleep 3600'; do sleep 0.1; done; echo the end > /run/xdrive/closing";
    machine.sh(is_hanging).await;
    state(&machine, &id, |_, _, why| why == Some("its host closes")).await;
    assert_eq!(machine.sh("pgrep -fc '[s]leep 3600' || :").await, "0\n");
}

/// An HTTP server that writes the title and words of what is posted, a line each.
const WEBHOOK: &str = r#"
import http.server
class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        words = self.rfile.read(int(self.headers["content-length"])).decode()
        with open("/root/posted", "a") as file:
            file.write(f"{self.path} {self.headers['title']}: {words}\n")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 8080), Webhook).serve_forever()
"#;

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn words_are_posted_when_a_run_ends_or_goes_on_elsewhere_or_is_ended() {
    let disk = Disk::new(64);
    let mut machine = Machine::boot().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(1, true)).await.unwrap();
    let serve = format!(
        "nohup python3 -c '{}' >/dev/null 2>&1 & \
         until ss -Hltn 'sport = :8080' | grep -q .; do sleep 0.05; done",
        WEBHOOK.replace('\'', "'\\''")
    );
    machine.sh(&serve).await;
    let to_webhook = |order: TriedCommand| TriedCommand {
        notify: Some(Notify {
            address: "http://127.0.0.1:8080/a-secret-topic".to_owned(),
            drive: "demo".to_owned(),
        }),
        ..order
    };
    let posted = async |lines: usize| {
        let wait = format!(
            "touch /root/posted; i=0; until [ \"$(wc -l < /root/posted)\" -ge {lines} ] || [ $i -ge 300 ]; \
             do i=$((i + 1)); sleep 0.1; done; cat /root/posted; rm /root/posted"
        );
        let mut lines: Vec<_> = machine.sh(&wait).await.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let line = |id: &CommandId, words: &str| {
        format!("/a-secret-topic xdrive: demo: run {} {words}", id.as_str())
    };
    let id = begin(&machine, 1, "exit 3", to_webhook).await;
    assert_eq!(posted(1).await, [line(&id, "ended with 3 after 0:00 h")]);
    let script = "until [ -e /root/end ]; do sleep 0.1; done; exit 143";
    let id = begin(&machine, 2, script, to_webhook).await;
    let words = "goes on on another instance: try 2";
    assert_eq!(posted(1).await, [line(&id, words)]);
    // Whoever looks at the host's processes does not learn it.
    let shown = machine.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await;
    assert!(!shown.contains("secret"), "{shown}");
    machine
        .sh("echo EC2 takes it > /run/xdrive/closing; touch /root/end")
        .await;
    let words = "was ended, because its host closes: EC2 takes it";
    assert_eq!(posted(1).await, [line(&id, words)]);
}
