//! The JSON that scripts read: every document against its schema in `src/cli/schemas`.

use std::fs;
use std::path::Path;

use boon::{Compiler, Schemas};
use serde_json::Value;
use xdrive::local::Fault;

use super::simulated::{connect, paper, plant, vcpu_limit, with_snapshot, with_volume};
use super::site::{Ended, Site};

/// Checks `document` against the schema of that name. Nothing may be in it that the schema does not
/// describe: to scripts it says what may be relied on, here it says all there is.
pub(super) fn check(name: &str, document: &Value) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/cli/schemas")
        .join(name)
        .with_extension("json");
    let mut schema: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    close(&mut schema);
    let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
    compiler.add_resource("schema.json", schema).unwrap();
    let index = compiler.compile("schema.json", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(document, index) {
        panic!("{error:#}\n{document:#}");
    }
}

/// Has every object of a schema refuse what it does not describe, in one of its variants if it has some.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.contains_key("properties") {
                map.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
            }
            for (key, value) in map {
                match value {
                    Value::Array(variants) if key == "oneOf" => {
                        let variants = variants.iter_mut().filter_map(Value::as_object_mut);
                        variants.for_each(|variant| variant.values_mut().for_each(close));
                    }
                    value => close(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

/// Parses the document that a command printed, which fits the schema of that name.
pub(super) fn document(name: &str, ended: &Ended) -> Value {
    let document = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", ended.stdout, ended.stderr));
    check(name, &document);
    document
}

/// The failure of a command, which printed nothing else for scripts.
fn failure(ended: &Ended) -> Value {
    assert_eq!(ended.stdout, "");
    let last = ended.stderr.lines().last().unwrap_or_default();
    let failure: Value =
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}\n{}", ended.stderr));
    check("error", &failure);
    assert_eq!(failure["exit"], ended.code(), "{failure}");
    failure
}

#[test]
fn a_field_that_no_schema_has_is_noticed() {
    let fits = |document: &Value| std::panic::catch_unwind(|| check("stop", document)).is_ok();
    let mut stopped: Value = serde_json::json!({
        "drive": "demo", "result": "saved", "snapshot": "snap-1", "generation": 1,
        "left": [{"kind": "snapshot", "id": "snap-1", "gib": 8, "dollars_a_month": 0.4}],
    });
    assert!(fits(&stopped));
    stopped["left"][0]["colour"] = "red".into();
    assert!(!fits(&stopped), "a field that no schema has");
}

#[test]
fn lists_and_what_is_cleaned_up_are_as_their_schemas_say() {
    let site = paper();
    assert_eq!(
        document("list", &site.run(&["list", "--json"])),
        Value::Array(vec![])
    );
    with_snapshot(&site, &[]);
    with_volume(&site, "us-east-1b", &[("xdrive:generation", "2")]);
    let listed = document("list", site.run(&["list", "demo", "--json"]).is(0));
    assert_eq!(listed[0]["things"].as_array().unwrap().len(), 2);
    site.run(&["note", "demo@1", "the first"]).is(0);
    let saved = document("log", site.run(&["log", "demo", "--json"]).is(0));
    assert_eq!(saved[0]["note"], "the first");
    let would = document("gc", site.run(&["gc", "--dry-run", "--json"]).is(0));
    assert_eq!(would["drives"][0]["result"], "to be finished");
    // Nothing was ever written to the volume of a paper site: no snapshot can stand for it.
    let finished = document("gc", site.run(&["gc", "--json"]).is(76));
    assert_eq!(finished["drives"][0]["result"], "not finished");

    let site = paper();
    let snapshot = with_snapshot(&site, &[]);
    site.local().break_down(snapshot.as_str()).unwrap();
    let failed = document("list", site.run(&["list", "--json"]).is(0));
    assert_eq!(failed[0]["state"], "failed");

    // The group of a launch that came to nothing.
    let site = paper();
    plant(&site, vcpu_limit());
    connect(&site, &[]).is(75);
    for (flags, step) in [(&["--dry-run"][..], "delete sg-"), (&[], "deleted sg-")] {
        let words = [&["gc", "--json"], flags].concat();
        let cleaned = document("gc", site.run(&words).is(0));
        let steps = cleaned["groups"][0]["steps"].as_array().unwrap();
        let mut words = steps.iter().map(|step| step.as_str().unwrap());
        assert!(words.any(|words| words.starts_with(step)), "{cleaned}");
    }
}

#[test]
fn prices_and_checks_are_as_their_schemas_say() {
    let site = paper();
    let prices = document("prices", site.run(&["prices", "t3.medium", "--json"]).is(0));
    assert_eq!(prices.as_array().unwrap().len(), 3, "a zone each");
    let checks = document("doctor", site.run(&["doctor", "--json"]).is(0));
    assert_eq!(checks["exit"], 0);
    let next = checks["next"].as_array().unwrap();
    assert_eq!(next[0]["command"], "xdrive --local connect demo --dry-run");

    with_snapshot(&site, &[]);
    let words = "You are not authorized to perform this operation.";
    let mut fault = Fault::new("ListSnapshotBlocks", 403, "AccessDeniedException", words);
    fault.times = 2;
    plant(&site, fault);
    let checks = document("doctor", site.run(&["doctor", "--json"]).is(77));
    assert_eq!(checks["exit"], 77);
    let all = checks["checks"].as_array().unwrap().iter();
    let wrong: Vec<&Value> = all.filter(|check| check["result"] == "no").collect();
    assert!(
        wrong[0]["text"].as_str().unwrap().contains(words),
        "{wrong:?}"
    );
    assert!(
        wrong[0]["hint"]
            .as_str()
            .unwrap()
            .contains("xdrive --local policy")
    );
}

#[test]
fn a_dry_run_is_as_its_schema_says() {
    let site = paper();
    let image = site.image();
    let would = |flags: &[&str]| {
        let words = ["connect", "demo", "--image", &image, "--dry-run", "--json"];
        document("dry-run", site.run(&[&words, flags].concat()).is(0))
    };
    let new = would(&["--type", "t3.medium", "--fallback", "on-demand"]);
    assert_eq!(new["action"], "launch");
    assert_eq!(new["from"], serde_json::json!({"kind": "empty", "gib": 8}));
    let offers = new["offers"].as_array().unwrap();
    assert_eq!(offers[0]["dollars_an_hour"], 0.01248);
    assert_eq!(offers[3]["market"], "on-demand");
    assert_eq!(offers[3]["dollars_an_hour"], 0.0416);

    let snapshot = with_snapshot(&site, &[]);
    assert_eq!(would(&[])["from"]["id"], snapshot.as_str());
    let anew = would(&["--from", "empty"]);
    assert_eq!(anew["steps"].as_array().unwrap().len(), 1, "{anew}");

    let volume = with_volume(&site, "us-east-1b", &[("xdrive:generation", "2")]);
    let waiting = would(&[]);
    assert_eq!(waiting["from"]["id"], volume.as_str());
    assert_eq!(waiting["from"]["zone"], "us-east-1b");
    assert_eq!(waiting["offers"][0]["zone"], "us-east-1b");
    let elsewhere = would(&["--subnet", "subnet-00000000000000001"]);
    assert_eq!(elsewhere["action"], "none", "{elsewhere}");
}

#[test]
fn a_stop_is_as_its_schema_says() {
    let site = paper();
    let snapshot = with_snapshot(&site, &[]);
    let stopped = document("stop", site.run(&["stop", "demo", "--json"]).is(0));
    assert_eq!(stopped["result"], "saved");
    assert_eq!(stopped["generation"], 1);
    assert_eq!(stopped["snapshot"], snapshot.as_str());
    let left = stopped["left"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{stopped}");
    assert_eq!(left[0]["id"], stopped["snapshot"]);

    // Nothing was ever written to the volume of a paper site: no snapshot can stand for it.
    let volume = with_volume(&site, "us-east-1a", &[("xdrive:generation", "2")]);
    let stuck = failure(site.run(&["stop", "demo", "--json"]).is(76));
    let kept = stuck["left"].as_array().unwrap().iter();
    let ids: Vec<&Value> = kept.map(|thing| &thing["id"]).collect();
    assert_eq!(ids[0], volume.as_str(), "{stuck}");
    assert_eq!(ids.len(), 3, "{stuck}");

    let site = paper();
    with_volume(&site, "us-east-1a", &[("xdrive:generation", "0")]);
    let stopped = document("stop", site.run(&["stop", "demo", "--json"]).is(0));
    assert_eq!(stopped["result"], "nothing", "it was never mounted");
    assert_eq!(stopped["left"], Value::Array(vec![]));
}

#[test]
fn a_failure_is_one_line_of_json_with_what_is_left() {
    let site = paper();
    for command in ["list", "stop", "gc"] {
        let failure = failure(site.run(&[command, "nothing", "--json"]).is(69));
        assert_eq!(failure["error"], "there is no drive nothing");
        assert_eq!(failure["hint"], "xdrive --local list shows all there are");
        assert_eq!(failure["left"], Value::Array(vec![]));
    }
    // Of what cannot be parsed, too.
    let typed = failure(site.run(&["stop", "demo", "--json", "--shard"]).is(2));
    assert_eq!(typed["error"], "unexpected argument '--shard' found");
    failure(
        site.run(&["connect", "demo", "--json", "--type", "t9.x", "--", "true"])
            .is(2),
    );

    let denied = |call: &str| {
        let words = "You are not authorized to perform this operation.";
        let mut fault = Fault::new(call, 403, "UnauthorizedOperation", words);
        fault.times = 1000;
        plant(&site, fault);
    };
    denied("CreateVolume");
    denied("TerminateInstances");
    let failure = failure(connect(&site, &["--json"]).is(77));
    assert_eq!(failure["left"][0]["kind"], "instance", "{failure}");
    let hint = failure["hint"].as_str().unwrap();
    assert!(
        hint.ends_with("xdrive --local stop demo finishes what is left"),
        "{hint}"
    );
}

#[test]
fn a_flag_of_the_command_is_not_xdrives() {
    let site = Site::new();
    let ended = site.run(&["connect", "de!mo", "--", "jq", "--json"]);
    ended.is(2).reports("error: invalid value 'de!mo'");
}
