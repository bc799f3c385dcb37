//! Completions: what a shell is answered when its user presses Tab.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::simulated::{paper, with_snapshot, with_volume};
use super::site::{Ended, Site};
use harness::home::PATH;
use harness::{DEADLINE, eventually_within};

/// How fish asks what may follow these words. The names are in a cache of the site's own.
fn asking(site: &Site, words: &[&str]) -> Command {
    let mut command = site.words(&[&["--", "xdrive"], words].concat());
    command
        .env("COMPLETE", "fish")
        .env("XDRIVE_CACHE", site.path("cache"))
        .env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

fn answered(mut command: Command) -> Vec<String> {
    let ended = Ended::from_output(command.output().unwrap());
    let lines = ended.is(0).stdout.lines();
    lines
        .map(|line| line.split('\t').next().unwrap().to_owned())
        .collect()
}

fn offered(site: &Site, words: &[&str]) -> Vec<String> {
    answered(asking(site, words))
}

/// Makes all names that are kept as old as those of `time`.
fn date(site: &Site, time: SystemTime) {
    for file in fs::read_dir(site.path("cache/names")).into_iter().flatten() {
        let file = fs::File::options().write(true).open(file.unwrap().path());
        file.unwrap().set_modified(time).unwrap();
    }
}

/// Makes them too old for an answer.
fn outdate(site: &Site) {
    date(site, SystemTime::now() - Duration::from_mins(2));
}

/// Makes them new, for as long as the test takes.
fn renew(site: &Site) {
    date(site, SystemTime::now() + Duration::from_hours(1));
}

/// Asks EC2 until its drives are offered: a busy computer may not answer in the time of a shell.
fn are_found(site: &Site, words: &[&str], drives: &[&str]) {
    eventually_within(
        DEADLINE,
        || format!("{drives:?}, but {:?}", offered(site, words)),
        || {
            outdate(site);
            offered(site, words) == drives
        },
    );
}

#[test]
fn a_shell_is_answered_with_drives_types_regions_profiles_and_topics() {
    let site = paper();
    let offered = |words: &[&str]| offered(&site, words);
    assert_eq!(offered(&["connect", "x", "--type", "g6.xl"]), ["g6.xlarge"]);
    assert_eq!(
        offered(&["prices", "m5.large,g6.xl"]),
        ["m5.large,g6.xlarge"]
    );
    assert_eq!(offered(&["--region", "eu-n"]), ["eu-north-1"]);
    assert_eq!(offered(&["--region", "us-w"]), ["us-west-1", "us-west-2"]);
    assert_eq!(offered(&["help", "en"]), ["endings"]);
    assert_eq!(offered(&["help", "sel"]), ["selftest"]);
    assert_eq!(offered(&["man", "mo"]), ["money"]);
    let aws = site.home().join(".aws");
    fs::create_dir(&aws).unwrap();
    let config = "[default]\nregion = us-east-1\n[profile lab]\nregion = us-east-1\n";
    fs::write(aws.join("config"), config).unwrap();
    let keys = "[lab-keys]\naws_access_key_id = a\naws_secret_access_key = b\n";
    fs::write(aws.join("credentials"), keys).unwrap();
    assert_eq!(offered(&["--profile", "l"]), ["lab", "lab-keys"]);
    assert_eq!(offered(&["--profile", "d"]), ["default"]);

    are_found(&site, &["--local", "connect", "d"], &[]);
    with_volume(&site, "us-east-1a", &[]);
    renew(&site);
    let before = offered(&["--local", "stop", "d"]);
    assert_eq!(before, [""; 0], "names of the last minute");
    are_found(&site, &["--local", "stop", "d"], &["demo"]);
    are_found(&site, &["local", "connect", "de"], &["demo"]);
}

#[test]
fn a_drive_that_is_used_is_offered_at_once() {
    let site = paper();
    let words = ["--local", "connect", "d"];
    are_found(&site, &words, &[]);
    with_snapshot(&site, &[]);
    renew(&site);
    assert_eq!(offered(&site, &words), [""; 0]);
    let mut stop = site.command(&["stop", "demo"]);
    stop.env("XDRIVE_CACHE", site.path("cache"));
    Ended::from_output(stop.output().unwrap()).is(0);
    assert_eq!(offered(&site, &words), ["demo"]);
}

#[test]
fn an_ec2_that_never_answers_is_asked_once_a_minute() {
    let site = Site::new();
    // The system accepts for it.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let connections = || {
        let mut command = asking(&site, &["stop", "d"]);
        command
            .env("AWS_ENDPOINT_URL", &url)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "secret");
        assert_eq!(answered(command), [""; 0]);
        std::iter::from_fn(|| server.accept().ok()).count()
    };
    // A busy computer may not get as far in the time of a shell.
    let is_asked = || {
        outdate(&site);
        connections() > 0
    };
    eventually_within(DEADLINE, || "a connection".to_owned(), is_asked);
    renew(&site);
    assert_eq!(connections(), 0, "the failure is remembered");
}

#[test]
fn every_shell_has_a_script_and_bashs_completes_the_name_of_a_drive() {
    let site = paper();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Ended::from_output(site.words(&["completions", shell]).output().unwrap());
        assert!(script.stdout.contains("COMPLETE"), "{shell}: {script:?}");
        // As a file that zsh loads at the first Tab, it has to answer that one, too.
        let called = "if [[ \"$funcstack[1]\" == _xdrive ]]; then\n    \
                      _clap_dynamic_completer_xdrive \"$@\"\nfi\n";
        assert_eq!(script.stdout.ends_with(called), shell == "zsh");
    }

    with_volume(&site, "us-east-1a", &[]);
    are_found(&site, &["--local", "stop", "de"], &["demo"]);
    renew(&site);
    let xdrive = Path::new(env!("CARGO_BIN_EXE_xdrive")).parent().unwrap();
    for source in ["COMPLETE=bash xdrive", "xdrive completions bash"] {
        let script = format!(
            "source <({source})
            by=$(complete -p xdrive | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
            COMP_WORDS=(xdrive --local stop de) COMP_CWORD=3 COMP_TYPE=9
            \"$by\" xdrive de stop
            printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &script]).env_clear();
        for (name, value) in asking(&site, &[]).get_envs() {
            bash.env(name, value.unwrap());
        }
        bash.env_remove("COMPLETE");
        bash.env("PATH", format!("{}:{PATH}", xdrive.display()));
        let ended = Ended::from_output(bash.output().unwrap());
        assert_eq!((&*ended.stdout, &*ended.stderr), ("demo\n", ""), "{source}");
    }
}
