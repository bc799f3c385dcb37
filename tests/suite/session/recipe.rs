//! The files of `xdrive recipe`: what they take for settings, and what they make of xdrive's answers.

mod wide;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use super::simulated::with_saves;
use super::site::Site;

/// Writes the hub's files.
fn hub(site: &Site) -> PathBuf {
    let dir = site.path("hub");
    let words = ["recipe", "hub", dir.to_str().unwrap()];
    site.run(&words)
        .is(0)
        .reports("README.md says what to do next");
    site.run(&words).is(2).reports("is no empty folder");
    dir
}

/// Runs one of the recipe's programs for the teacher's computer.
fn ask(site: &Site, program: &str, words: &[&str]) -> Output {
    start(site, program, words).wait_with_output().unwrap()
}

fn start(site: &Site, program: &str, words: &[&str]) -> Child {
    let xdrive = format!("{} --local", env!("CARGO_BIN_EXE_xdrive"));
    let program = site.path("hub").join(program);
    let words = [&[program.to_str().unwrap()], words].concat();
    let mut asked = site.of_user(&words);
    asked.env("XDRIVE", xdrive).stdin(Stdio::null());
    asked.stdout(Stdio::piped()).stderr(Stdio::piped());
    asked.spawn().unwrap()
}

/// Reads settings as the hub does: prints the sentence of what is wrong, or what they are.
const READ: &str = "import sys; sys.path.insert(0, sys.argv[1]); import settings
try: print(sorted(settings.parse(sys.argv[2]).items()))
except settings.BadSetting as error: print('refused:', error)";

#[test]
fn settings_of_a_hub_are_checked_before_they_become_a_path_or_a_word() {
    let site = Site::with_settings("plane = \"paper\"\n");
    let dir = hub(&site);
    let read = |text: &str| {
        let mut python = Command::new("python3");
        python
            .args(["-I", "-S", "-c", READ])
            .arg(dir.join("hub"))
            .arg(text);
        String::from_utf8(python.output().unwrap().stdout).unwrap()
    };
    let given = std::fs::read_to_string(dir.join("hub.env")).unwrap();
    assert!(
        read(&given).contains("('SIGN_IN', 'list')"),
        "{}",
        read(&given)
    );
    let good = "NAME=hub.example.org\nUSERS=ada,b-2\n";
    assert!(read(good).contains("('USERS', 'ada,b-2')"));
    for (line, why) in [
        ("SIGN_IN=dummy", "SIGN_IN cannot be used"),
        ("SIGN_IN=password", "PASSWORD is missing"),
        (
            "SIGN_IN=password\nPASSWORD=short",
            "PASSWORD cannot be used",
        ),
        ("USERS=../etc", "USERS cannot be used"),
        ("USERS=Ada", "USERS cannot be used"),
        ("LESSONS=ext::sh -c id", "LESSONS cannot be used"),
        ("LESSONS=/work/../etc", "have no .."),
        ("LESSONS=--upload-pack=id", "LESSONS cannot be used"),
        ("BRANCH=--help", "BRANCH cannot be used"),
        ("SHARE=../x", "SHARE cannot be used"),
        ("NAME=a b", "NAME cannot be used"),
        ("NAME=x\n}", "is no setting"),
        ("CERTIFICATE=acme\nNAME=203.0.113.10", "needs a name in DNS"),
        ("ENDS=2030-06-28T17:00", "needs its distance from UTC"),
        ("DOCKER=yes", "is no setting"),
    ] {
        let said = read(&format!("{good}{line}\n"));
        assert!(
            said.starts_with("refused:") && said.contains(why),
            "{line:?}: {said}"
        );
    }
}

#[test]
fn a_plan_says_machines_dollars_and_what_a_quota_lacks() {
    let site = Site::with_settings("plane = \"paper\"\n[quotas]\n\"L-34B43A08\" = 8\n");
    hub(&site);
    with_saves(&site, "hub", 1);
    let words = ["10", "3", "--memory-of-seat", "2G", "--type", "m5.large"];
    let planned = ask(&site, "plan", &words);
    let text = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(planned.status.success(), "{planned:?}");
    // Of 8 GiB a tenth is the machine's: three seats of 2 each.
    assert!(
        text.starts_with("4 workers m5.large (2 CPUs, 8 GiB, 0 GPUs), 3 seats each\n"),
        "{text}"
    );
    let dollars: Vec<f64> = text
        .lines()
        .nth(1)
        .unwrap()
        .split('$')
        .skip(1)
        .map(|word| word.split([' ', ',']).next().unwrap().parse().unwrap())
        .collect();
    let [an_hour, whole, a_seat] = dollars[..] else {
        panic!("{text}");
    };
    assert!(
        (whole - 3.0 * an_hour).abs() < 0.03 && (a_seat - whole / 10.0).abs() < 0.01,
        "{text}"
    );
    let none = ask(
        &site,
        "plan",
        &["10", "3", "--memory-of-seat", "64G", "--type", "m5.large"],
    );
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let down = ask(&site, "status", &[]);
    let why = String::from_utf8_lossy(&down.stderr).into_owned();
    assert!(
        !down.status.success() && why.contains("hub is not up"),
        "{why}"
    );
}
