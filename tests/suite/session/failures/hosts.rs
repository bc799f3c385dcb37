//! Instances that never boot, and hosts that never answer.

mod wide;

use xdrive::local::Fault;

use super::{Account, is_xdrive};

/// The console of an instance that panics at boot: coloured, after a long beginning.
fn panicking() -> String {
    let boot: Vec<String> = (0..100)
        .map(|line| format!("[    0.{line:03}] booting\r\n"))
        .collect();
    let boot = boot.concat();
    let panic = "\u{1b}[1;31mKernel panic - not syncing\u{1b}[0m: VFS: Unable to mount root fs";
    aws_smithy_types::base64::encode(format!("{boot}{panic}\r\n"))
}

#[test]
fn an_instance_that_never_boots_is_replaced_and_its_console_shown() {
    let name = test_name!(an_instance_that_never_boots_is_replaced_and_its_console_shown);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    account.change(|asked, answer| {
        if asked.action != "GetConsoleOutput" {
            return answer;
        }
        let (before, rest) = answer.split_once("<output>").unwrap_or_else(|| {
            answer
                .split_once("<output/>")
                .unwrap_or_else(|| panic!("no output in {answer}"))
        });
        let after = rest
            .split_once("</output>")
            .map_or(rest, |(_, after)| after);
        format!("{before}<output>{}</output>{after}", panicking())
    });
    let ended = account.hurried(name, &[]);
    ended
        .is(69)
        .reports(" s and cannot be logged in to: ")
        .reports("the end of the console of demo's instance (i-")
        .reports("\n  | Kernel panic - not syncing: VFS: Unable to mount root fs\n")
        .reports("hint: where its console ends at a login prompt, something keeps port 22 shut");
    assert!(!ended.stderr.contains("[    0.042]"), "{ended:?}");
    assert!(!ended.stderr.contains(" is up\n"), "{ended:?}");
    let error = ended.error();
    assert!(
        error.starts_with("2 instances were launched and none could be used; the last (i-"),
        "{error}"
    );
    assert!(error.contains(" never answered: "), "{error}");
    let calls = account.proxy.calls();
    let count = |action: &str| calls.iter().filter(|call| *call == action).count();
    assert_eq!((count("RunInstances"), count("TerminateInstances")), (2, 2));
    account.is_bare();
}

#[test]
fn an_instance_whose_status_checks_fail_is_given_up_and_they_are_named() {
    let name = test_name!(an_instance_whose_status_checks_fail_is_given_up_and_they_are_named);
    if is_xdrive() {
        return;
    }
    let account = Account::with_settings("[boots]\n\"m5.large\" = { seconds = 6, fails = true }\n");
    let ended = account.hurried(name, &["--type", "m5.large"]);
    ended
        .is(69)
        .reports(": system initializing, instance initializing\n  it boots still, ")
        .reports(": system ok, instance impaired\n  it has not booted as it should\n")
        .reports("hint: the end of its console says how far it got; --ami names another image");
    let error = ended.error();
    assert!(
        error.ends_with(
            " never answered, and EC2's status checks are: system ok, instance impaired"
        ),
        "{error}"
    );
    account.is_bare();
}

#[test]
fn a_caller_who_may_not_read_status_checks_judges_by_time_and_reports_it() {
    let name = test_name!(a_caller_who_may_not_read_status_checks_judges_by_time_and_reports_it);
    if is_xdrive() {
        return;
    }
    let account = Account::with_settings("[boots]\n\"m5.large\" = { seconds = 600 }\n");
    let denied = Fault {
        times: 1000,
        ..Fault::new(
            "DescribeInstanceStatus",
            403,
            "UnauthorizedOperation",
            "You are not authorized to perform this operation.",
        )
    };
    account.local().plant(denied).unwrap();
    let ended = account.hurried(name, &["--type", "m5.large"]);
    ended
        .is(69)
        .reports("could not read EC2's status checks of demo's instance (i-")
        .reports(", going by time alone: DescribeInstanceStatus: ");
    let calls = account.proxy.calls();
    let count = |action: &str| calls.iter().filter(|call| *call == action).count();
    assert_eq!((count("RunInstances"), count("TerminateInstances")), (2, 2));
    account.is_bare();
}
