//! Refused encryption keys: AWS makes a volume that fails or vanishes, and ends the instance whose
//! root disk it cannot decrypt.

use std::time::Duration;
use xdrive::cloud::folder;
use xdrive::ec2::VolumeState;
use xdrive::ids::VolumeId;
use xdrive::local::Local;

use super::{Account, is_xdrive};
use crate::session::site::Ended;
use harness::evidence::may_delete;
use harness::faults::proxy::Fate;

/// The first id with this prefix in an answer.
fn id_of(answer: &str, prefix: &str) -> String {
    let start = answer.find(prefix).unwrap();
    let rest = &answer[start..];
    let end = rest.find('<').unwrap();
    rest[..end].to_owned()
}

fn counted(account: &Account, action: &str) -> usize {
    let calls = account.proxy.calls();
    calls.iter().filter(|call| *call == action).count()
}

fn no_volume(account: &Account, ended: &Ended) {
    ended
        .is(77)
        .reports("hint: disks are encrypted with the region's default key");
    ended.reports("kms:CreateGrant");
    let error = ended.error();
    assert!(
        error.starts_with("EC2 could not make the drive's volume (vol-"),
        "{error}"
    );
    assert_eq!(counted(account, "RunInstances"), 1);
    assert_eq!(
        counted(account, "CreateVolume"),
        2,
        "once more, and no more"
    );
    assert_eq!(counted(account, "AttachVolume"), 0);
    account.is_bare();
}

#[test]
fn a_volume_that_ends_in_error_is_deleted_and_the_key_named() {
    let name = test_name!(a_volume_that_ends_in_error_is_deleted_and_the_key_named);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    let local = account.local();
    account.change(move |asked, answer| {
        if asked.action == "CreateVolume" {
            local.break_down(&id_of(&answer, "vol-")).unwrap();
        }
        answer
    });
    let ended = account.hurried(name, &[]);
    no_volume(&account, &ended);
}

#[test]
fn a_volume_that_vanishes_is_not_made_for_ever() {
    let name = test_name!(a_volume_that_vanishes_is_not_made_for_ever);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    let local = account.local();
    account.change(move |asked, answer| {
        if asked.action == "CreateVolume" {
            let (local, id) = (local.clone(), id_of(&answer, "vol-"));
            std::thread::spawn(move || drop_volume(&local, &id.parse().unwrap()));
        }
        answer
    });
    let ended = account.hurried(name, &[]);
    no_volume(&account, &ended);
}

/// Deletes a volume as soon as possible.
fn drop_volume(local: &Local, id: &VolumeId) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let ec2 = folder::ec2(local);
        while ec2.volume(id).await.unwrap().unwrap().state == VolumeState::Creating {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ec2.delete_volume(may_delete(id)).await.unwrap();
    });
}

#[test]
fn a_key_that_the_call_itself_refuses_has_the_same_hint() {
    let name = test_name!(a_key_that_the_call_itself_refuses_has_the_same_hint);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    account.proxy.decide(|asked| match asked.action.as_str() {
        "CreateVolume" => Fate::Refused(
            400,
            "InvalidParameterDependency",
            "The default KMS key is not usable: kms:GenerateDataKeyWithoutPlaintext",
        ),
        _ => Fate::Passed,
    });
    let ended = account.hurried(name, &[]);
    ended
        .is(1)
        .reports("hint: disks are encrypted with the region's default key");
    assert!(
        ended
            .error()
            .starts_with("CreateVolume: InvalidParameterDependency: ")
    );
    account.is_bare();
}

/// The end of a session whose instances all end at once, for this reason.
fn ending(name: &str, code: &'static str, words: &'static str) -> (Account, Ended) {
    const ITS_OWN: &str = "Client.InstanceInitiatedShutdown";
    let account = Account::new();
    let local = account.local();
    account.change(move |asked, answer| {
        if asked.action == "RunInstances" {
            local.switch_off(&id_of(&answer, "i-")).unwrap();
        }
        let answer = answer.replace(&format!("{ITS_OWN}: Instance initiated shutdown"), words);
        answer.replace(ITS_OWN, code)
    });
    let ended = account.hurried(name, &[]);
    (account, ended)
}

#[test]
fn an_instance_that_ends_at_once_is_reported_with_ec2s_reason() {
    let name = test_name!(an_instance_that_ends_at_once_is_reported_with_ec2s_reason);
    if is_xdrive() {
        return;
    }
    for (code, words, hint) in [
        (
            "Client.InternalError",
            "Client.InternalError: Client error on launch",
            "hint: disks are encrypted with the region's default key",
        ),
        (
            "Server.InternalError",
            "Internal error on launch",
            "hint: --type names another type, --ami another image",
        ),
    ] {
        let (account, ended) = ending(name, code, words);
        let words = format!(
            "{code}: {}",
            words.trim_start_matches(code).trim_start_matches(": ")
        );
        ended
            .is(69)
            .reports(&format!(" ended by itself: {words}\n"))
            .reports(hint);
        let error = ended.error();
        assert!(
            error.starts_with("2 instances were launched and none could be used; the last (i-")
                && error.ends_with(&format!("ended by itself: {words}")),
            "{error}"
        );
        assert_eq!(counted(&account, "RunInstances"), 2);
        account.is_bare();
    }
}
