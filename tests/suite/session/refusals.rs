//! Requests that xdrive refuses before it makes anything.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::simulated::paper;
use super::site::{Ended, Site};

fn connect(site: &Site, arguments: &[&str]) -> Ended {
    let all = [&["connect", "demo"], arguments, &["--", "true"]].concat();
    site.run(&all)
}

#[test]
fn a_name_that_cannot_be_one_is_refused_by_every_command() {
    let site = Site::new();
    let long = "x".repeat(65);
    let names = [
        ("", "cannot be empty"),
        ("a..b", "cannot contain"),
        ("a b", "not ' '"),
        ("it's", "not '\\''"),
        ("a\"b", "not '\"'"),
        ("a\nb", "not '\\n'"),
        ("é", "not 'é'"),
        (".x", "starts with a letter or a digit"),
        ("_x", "starts with a letter or a digit"),
        (&long, "at most 64 characters, this one has 65"),
    ];
    for (name, why) in names {
        for command in ["connect", "list", "stop"] {
            site.run(&[command, name]).is(2).reports(why);
        }
    }
    for command in ["list", "stop"] {
        site.run(&[command, "../x"]).is(2).reports("not '/'");
    }
    // What is behind a slash is a container.
    let connect = site.run(&["connect", "../x"]);
    connect.is(2).reports("starts with a letter or a digit");
    let connect = site.run(&["connect", "x/Y"]);
    connect
        .is(2)
        .reports("lower-case letters, digits and '-' only, not 'Y'");
    assert!(!site.dir().exists(), "nothing was made");
}

#[test]
fn one_letter_and_64_are_names() {
    let site = paper();
    for name in ["x", "7", &"x".repeat(64)] {
        site.run(&["list", name])
            .is(69)
            .reports(&format!("there is no drive {name}\n"));
    }
}

#[test]
fn a_drive_that_is_not_there_cannot_be_listed_or_stopped() {
    let site = paper();
    for command in ["list", "stop"] {
        site.run(&[command, "nothere"])
            .is(69)
            .reports("error: there is no drive nothere\n\nhint: xdrive --local list shows");
    }
    let all = site.run(&["list"]);
    assert_eq!(all.is(0).stdout, "no drives\n");
    assert_eq!(site.run(&["list", "--json"]).is(0).stdout, "[]\n");
}

#[test]
fn a_shell_needs_a_terminal_and_the_hint_can_be_typed() {
    let site = Site::new();
    site.run(&["connect", "demo"])
        .is(2)
        .reports("hint: xdrive --local connect demo -- CMD");
    let elsewhere = site.path("else where");
    let elsewhere = elsewhere.to_str().unwrap();
    site.run(&["--local-dir", elsewhere, "connect", "demo"])
        .is(2)
        .reports(&format!("--local-dir '{elsewhere}' connect demo -- CMD"));
    assert!(!site.dir().exists(), "nothing was made");
}

#[test]
fn sizes_ports_and_images_that_cannot_be_are_refused() {
    let site = Site::new();
    for (flags, why, hint) in [
        (
            ["--size", "0"],
            "1 GiB at least and 65536 GiB",
            "1TiB; a plain",
        ),
        (["--size", "200Q"], "not a size such as 200G", "200G, 1.5T"),
        (
            ["--memory", "64XB"],
            "not a size such as 200G",
            "G, GB and GiB",
        ),
        (
            ["--keep", "8d"],
            "10s at least and 7d at most",
            "1h30m or 3d",
        ),
        (
            ["--checkpoint", "soon"],
            "not a time such as 30m",
            "90s, 30m",
        ),
        (
            ["--throughput", "1"],
            "from 125 to 2000 MiB a second",
            "--help",
        ),
        (
            ["--jupyter-port", "0"],
            "from 1 to 65535",
            "xdrive connect --help",
        ),
    ] {
        connect(&site, &flags)
            .is(2)
            .reports(&format!(
                "error: invalid value '{}' for '{}",
                flags[1], flags[0]
            ))
            .reports(why)
            .reports("\n\nhint: ")
            .reports(hint);
    }
    connect(&site, &["--image", "./no.tar"])
        .is(69)
        .reports("cannot read the image ./no.tar\n  caused by: No such file");
    connect(&site, &["--image", "/tmp"])
        .is(69)
        .reports("the folder has neither a devcontainer.json nor a Dockerfile");
    connect(&site, &["--from", "snapshot"])
        .is(2)
        .reports("snap-…");
    assert!(!site.dir().exists(), "nothing was made");
}

#[test]
fn a_flag_that_does_not_exist_is_refused_with_what_there_is() {
    let site = Site::new();
    let forward = site.run(&["connect", "demo", "-W", "6006"]);
    forward
        .is(2)
        .reports("error: unexpected argument '-W' found\n\nhint: `xdrive connect --help` lists")
        .reports("a command to run follows after --");
    assert!(!forward.stderr.contains("as a value"), "{}", forward.stderr);
    site.run(&["connect", "demo", "--sise", "3"])
        .is(2)
        .reports("hint: is --size meant?");
    site.run(&["conect"])
        .is(2)
        .reports("hint: is connect meant?");
    site.run(&["stop"])
        .is(2)
        .reports("error: the following required arguments were not provided")
        .reports("hint: xdrive stop NAME; `xdrive stop --help`");
}

#[test]
fn a_configuration_with_an_error_is_refused_with_its_path_and_line() {
    let site = Site::new();
    for (text, why) in [
        ("size = 20\nimgae = 'x'\n", "imgae"),
        ("size = 0\n", "size"),
        ("port = 0\n", "from 1 to 65535"),
        ("size = \"0.5T\"\nmemory = \"x\"\n", "x: it is not a size"),
        ("cpus = 0\n", "from 1 to 4096"),
        ("keep = \"8d\"\n", "10s at least and 7d at most"),
        ("size = \n", "line 1"),
    ] {
        site.configure(text);
        connect(&site, &[])
            .is(78)
            .reports(why)
            .reports(".config/xdrive/config.toml");
    }
    assert!(!site.dir().exists(), "nothing was made");
    // What is for new drives is looked at once it is known that this is one.
    site.configure("image = './no.tar'\n");
    connect(&site, &[]).is(69).reports("./no.tar");
    assert_eq!(site.kinds("demo"), [""; 0]);
}

#[test]
fn a_state_file_that_cannot_be_read_is_left_as_it_is() {
    let site = paper();
    site.run(&["list"]).is(0);
    let state = site.dir().join("state.json");
    for text in ["", "{", "{\"format\": 99}"] {
        fs::write(&state, text).unwrap();
        for arguments in [
            &["list"][..],
            &["stop", "demo"],
            &["connect", "demo", "--", "true"],
        ] {
            site.run(arguments)
                .is(78)
                .reports(state.to_str().unwrap())
                .reports("--local-dir names another one");
        }
        assert_eq!(fs::read_to_string(&state).unwrap(), text);
    }
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let site = paper();
    let folder = site.home().join(".config/xdrive");
    fs::create_dir_all(&folder).unwrap();
    let key = folder.join("id_ed25519");
    fs::write(&key, "a secret").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    connect(&site, &[])
        .is(78)
        .reports(key.to_str().unwrap())
        .reports("hint: chmod 600 ");
    assert_eq!(site.drive("demo"), serde_json::Value::Null);
}

#[test]
fn without_an_account_what_is_missing_is_reported() {
    let connect = |environment: &[(&str, &str)]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_xdrive"))
            .args(["connect", "demo", "--", "true"])
            .env_clear()
            .env("HOME", "/nonexistent")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let report = String::from_utf8(ended.stderr).unwrap();
        (ended.status.code(), report)
    };
    let (code, report) = connect(&[]);
    assert_eq!(code, Some(78), "{report}");
    assert!(report.contains("error: no AWS region is set"), "{report}");
    let (code, report) = connect(&[("AWS_REGION", "us-east-1")]);
    assert_eq!(code, Some(77), "{report}");
    assert!(
        report.contains("error: no AWS credentials were found"),
        "{report}"
    );
    assert!(
        report.contains("xdrive --local needs no account"),
        "{report}"
    );
}

#[test]
#[ignore = "needs root (to be someone else)"]
fn a_user_who_is_not_root_is_refused_with_what_helps() {
    let site = Site::new();
    let folder = site.home();
    fs::set_permissions(folder.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = site.path("xdrive");
    // By another process: a program cannot be run while a child that another test forks meanwhile
    // has it open for writing.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_xdrive"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    let ended = Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["--local", "list"])
        .env("HOME", "/nonexistent")
        .env("XDRIVE_LOCAL_DIR", site.dir())
        .output()
        .unwrap();
    let report = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(77), "{report}");
    assert!(report.contains("sudo"), "{report}");
    assert!(!site.dir().exists(), "nothing was made");
}

#[test]
fn every_exit_code_is_explained_where_people_look() {
    let site = Site::new();
    let topic = site.run(&["help", "exit-codes"]).stdout;
    let page = site.run(&["man"]).stdout;
    let help = site.run(&["--help"]).stdout;
    for code in [1, 2, 69, 75, 76, 77, 78, 130, 255] {
        assert!(
            topic.contains(&format!("`{code}`")),
            "topic: {code}\n{topic}"
        );
        let line = format!("\n  {code:3}  ");
        assert!(help.contains(&line), "help: {code}\n{help}");
        assert!(page.contains(&format!("{code:3}  ")), "man: {code}");
    }
    for option in [
        "\\-\\-image",
        "\\-\\-from",
        "\\-\\-json",
        "\\-\\-local\\-dir",
        "\n.SH \"XDRIVE LOCAL INTERRUPT\"\n",
        "\n.SS \"ESCAPES, AT THE START OF A LINE\"\n",
        "\n.SH \"EXIT CODES\"\n",
        "\n \\(ti\\(haZ",
    ] {
        assert!(page.contains(option), "man: {option}\n{page}");
    }
}
