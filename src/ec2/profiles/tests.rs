//! Profiles beside botocore, whose reading is the AWS CLI's.

use std::process::Command;

use serde_json::{Map, Value, json};

use super::*;

/// The variable that names the tests' Python.
const PYTHON: &str = "XDRIVE_TEST_PYTHON";

/// Prints what botocore reads of each numbered pair of files in a folder: its profiles, sso-sessions and
/// services, or that it cannot.
const BOTOCORE: &str = "
import json, sys
from botocore.configloader import raw_config_parse, build_profile_map
for number in range(int(sys.argv[2])):
    name = sys.argv[1] + '/' + str(number)
    try:
        read = build_profile_map(raw_config_parse(name, parse_subsections=False))
        for profile, values in raw_config_parse(name + '.keys', parse_subsections=False).items():
            read['profiles'].setdefault(profile, {}).update(values)
        print(json.dumps([read['profiles'], read['sso_sessions'], read['services']]))
    except Exception as error:
        cause = str(getattr(error, 'kwargs', {}).get('error', error))
        print(json.dumps('twice' if 'already exists' in cause else 'invalid'))
";

const LINES: &[&str] = &[
    "[default]",
    "[profile a]",
    "[profile 'my dev']",
    "[profile \"my \\\"dev\"]",
    "[profile my dev]",
    "[profile a\\ b]",
    "[profile 'open]",
    "[profile]",
    "[profile default]",
    "[sso-session 'my s']",
    "[services x]",
    "[a]",
    "[my dev]",
    "[plugins]",
    "[DEFAULT]",
    "[x] y]",
    "[]",
    "[ profile a ]",
    "[open",
    "region = us-east-1",
    "region=eu-west-1 # no comment",
    "Region: us-east-2",
    "region =",
    "region",
    "= x",
    "  region = deep",
    "    deeper = x",
    "  more",
    "ec2 =",
    "  endpoint_url = http://a",
    "# no",
    "; no",
    "  # no",
    "",
    "   ",
    "a b = c",
    "key = a = b : c",
    "key : a = b",
    "sso_session = my s",
    "source_profile = my dev",
    "\tkey = tab",
    "key = gr\u{fc}n",
    "\u{feff}key = x",
    "key\u{a0}= x",
];

fn read(text: &str, keys: &str) -> Result<Profiles, InvalidLine> {
    let mut found = Profiles::default();
    for (name, values) in ini::parse(text)? {
        found.add(&name, values);
    }
    for (name, values) in ini::parse(keys)? {
        found.all.entry(name).or_default().extend(values);
    }
    Ok(found)
}

fn shown(sections: &BTreeMap<String, Section>) -> Value {
    let all = sections
        .iter()
        .map(|(name, values)| (name.clone(), json!(values)));
    Value::Object(all.collect::<Map<_, _>>())
}

#[test]
#[ignore = "needs python3 with botocore"]
fn three_thousand_files_are_read_as_botocore_reads_them() {
    const FILES: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let mut state = 5_u64;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut own = Vec::new();
    for number in 0..FILES {
        let mut text = |first: &str| {
            let lines: Vec<&str> = (0..below(9)).map(|_| LINES[below(LINES.len())]).collect();
            format!("{first}\n{}\n", lines.join("\n"))
        };
        let (config, keys) = (text("[default]"), text("[a]"));
        let file = folder.path().join(number.to_string());
        fs::write(&file, &config).unwrap();
        fs::write(file.with_extension("keys"), &keys).unwrap();
        let read = read(&config, &keys);
        own.push((format!("{config}---\n{keys}"), read));
    }
    let python = env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let mut reading = Command::new(python);
    reading.args(["-c", BOTOCORE]).arg(folder.path());
    let output = reading.arg(FILES.to_string()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let right = String::from_utf8(output.stdout).unwrap();
    let mut compared = 0;
    for ((text, own), right) in own.iter().zip(right.lines()) {
        let right: Value = serde_json::from_str(right).unwrap();
        match own {
            // What stands twice is refused by botocore alone.
            _ if right == "twice" => {}
            Ok(own) => {
                let own = json!([shown(&own.all), shown(&own.sessions), shown(&own.services)]);
                assert_eq!(own, right, "{text}");
                compared += 1;
            }
            Err(_) => assert_eq!(right, "invalid", "{text}"),
        }
    }
    assert!(compared > FILES / 10, "{compared}");
}

#[test]
fn names_with_spaces_reach_the_sdk_and_secrets_no_debug_form() {
    let own = "[default]\nretry_mode = legacy\n[profile 'my dev']\nsso_session = my s\n\
               sso_account_id = 1\nsso_role_name = r\n[sso-session 'my s']\nsso_region = us-east-1\n\
               sso_start_url = https://a\n[profile by-role]\nrole_arn = x\nsource_profile = my dev\n";
    let mut profiles = read(own, "[k]\naws_secret_access_key = hidden\n").unwrap();
    let text = profiles.for_sdk();
    for line in [
        "[profile my%20dev]\n",
        "[sso-session my%20s]\n",
        "role_arn = x\ncredential_source = sso.my%20dev\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("legacy"), "{text}");
    assert_eq!(profiles.sso("my dev").unwrap().session, "my s");
    profiles.asked = Some("k".to_owned());
    assert!(profiles.check().is_ok() && !format!("{profiles:?}").contains("hidden"));
}
