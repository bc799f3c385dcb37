//! What a tender does for runs beside their next tries: for other owners, and where a run cannot go on.

use std::io::Write as _;

use super::*;

/// Gives up the host of `demo` while its run is wanted, by somebody's visit.
fn save_by_a_visit(site: &Site) {
    site.interrupt("demo", 0);
    is_gone(site);
    let visit = site.run(&["connect", "demo", "--no-jupyter", "--", "true"]);
    visit.is(0).reports("demo is saved");
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_of_another_owner_is_tended_for_them_and_their_drive_stays_theirs() {
    const ADA: &str = "arn:aws:iam::000000000000:user/ada";
    let site = Site::new();
    let calls = |person: &str| {
        site.set(&format!(
            "caller = \"arn:aws:iam::000000000000:user/{person}\"\n"
        ));
    };
    calls("ada");
    let id = start(&site, &counting(1, 0.2));
    is_at_try(&site, 1);
    site.interrupt("demo", 0);
    is_gone(&site);
    calls("bob");
    assert_eq!(site.run(&["tend", "--once"]).is(0).stderr, "");
    site.run(&["tend", "--once", "--owner", ADA])
        .is(0)
        .reports(&format!("demo: the run {id} goes on"));
    site.run(&["ps", "demo"])
        .is(77)
        .reports(&format!("demo is {ADA}'s"));
    calls("ada");
    is_at_try(&site, 2);
    end(&site);
    is_gone(&site);
    calls("bob");
    site.run(&["tend", "--once", "--shared"])
        .is(0)
        .reports(&format!("demo: the run {id} is done (exit code 0)"));
    site.run(&["stop", "demo"]).is(77);
    calls("ada");
    site.is_saved("demo", 1);
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_whose_order_cannot_be_read_waits_without_an_instance_and_is_listed() {
    let site = Site::new();
    let id = start(&site, &counting(1, 0.2));
    is_at_try(&site, 1);
    let init = recorded(&site, "init.json").as_raw_nonzero();
    let order = format!("/proc/{init}/root/v1/xdrive/runs/{id}/order");
    let newer = fs::read_to_string(&order).unwrap();
    assert!(newer.contains("\"version\":1"), "{newer}");
    let newer = newer.replace("\"version\":1", "\"version\":1000000");
    {
        // Closed at once: who holds it open keeps the drive mounted.
        let mut file = fs::File::create(&order).unwrap();
        file.write_all(newer.as_bytes()).unwrap();
        file.sync_all().unwrap();
    }
    save_by_a_visit(&site);
    let listed = site.run(&["list", "demo"]);
    listed.is(0).prints(&format!(
        "  run {id} waits for its next try; nobody tends it"
    ));
    let tended = site.run(&["tend", "--once"]);
    tended.is(75).reports(&format!(
        "no order for the run {id} that this xdrive can read"
    ));
    assert!(!tended.stderr.contains("launched"), "{tended:?}");
    let listed = site.run(&["list", "demo", "--json"]);
    let run = &document("list", &listed)[0]["run"];
    assert_eq!(run["run"], *id, "{run}");
    assert!(run["why"].as_str().unwrap().contains("no order"), "{run}");
    assert!(
        run["tended"].is_string() && run["waits_since"].is_string(),
        "{run}"
    );
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn checkpoints_are_taken_of_a_run_with_every_laptop_gone() {
    let site = Site::new();
    let image = site.image();
    let words = ["run", "demo", "-d", "--restart", "--no-jupyter"];
    let every = ["--checkpoint", "15s", "--image", &image];
    let command = counting(1, 0.2);
    let run = [&words[..], &every, &["--", "sh", "-c", &command]].concat();
    site.run(&run).is(0);
    is_at_try(&site, 1);
    let running = site.other_laptop().start(&["tend"]);
    let is_taken = || site.kinds("demo").iter().any(|kind| kind == "snapshot");
    eventually_within(SESSION, || "a checkpoint".to_owned(), is_taken);
    assert!(site.kinds("demo").iter().any(|kind| kind == "instance"));
    let listed = site.run(&["list", "demo"]);
    listed
        .is(0)
        .prints("checkpoint")
        .prints("is begun again if EC2 takes the instance; tended ");
    running.signal(Signal::TERM);
    running.end().is(143);
    site.run(&["stop", "demo"]).is(0);
    site.is_saved("demo", 1);
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_run_goes_on_whose_host_was_lost_between_a_failure_and_the_next_try() {
    let site = Site::new();
    let image = site.image();
    let words = ["run", "demo", "-d", "--restart", "--retry", "2"];
    let options = ["--no-jupyter", "--image", &image];
    let command = "echo $XDRIVE_TRY >>/work/lines; sync; [ $XDRIVE_TRY != 1 ] || exit 7";
    let run = [&words[..], &options, &["--", "sh", "-c", command]].concat();
    site.run(&run).is(0);
    is_at_try(&site, 1);
    let waits = || {
        let rows = document("ps", &site.run(&["ps", "demo", "--json"]));
        rows[0]["try"] == 2
    };
    eventually_within(SESSION, || "the pause".to_owned(), waits);
    kill_process(recorded(&site, "supervisor.json"), Signal::KILL).unwrap();
    is_gone(&site);
    site.run(&["tend", "--once"]).is(0);
    is_gone(&site);
    site.run(&["tend", "--once"])
        .is(0)
        .reports("is done (exit code 0)");
    // The second try was never begun, and its number is used up.
    assert_eq!(site.run(&["cat", "demo:lines"]).is(0).stdout, "1\n3\n");
    let logs = site.run(&["logs", "demo"]);
    logs.is(0)
        .reports("xdrive: the command failed (exit code 7): try 2 begins in 60 s");
    site.has_no_leaks();
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn an_address_that_answers_nothing_is_refused_before_anything_is_launched() {
    let site = Site::new();
    let address = "http://127.0.0.1:1/a-secret-topic";
    let run = ["run", "demo", "-d", "--restart", "--no-jupyter"];
    let image = site.image();
    let options = ["--image", &image, "--notify", address, "--", "true"];
    let refused = site.run(&[&run[..], &options].concat());
    refused
        .is(69)
        .reports("error: nobody can be notified by --notify: ");
    assert!(!refused.stderr.contains("secret"), "{refused:?}");
    assert!(site.kinds("demo").is_empty());
}
