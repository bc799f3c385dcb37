//! The variables that a session brings along.

mod wide;

use std::fs;

use super::site::{SESSION, Site};

/// A value that is found wherever it is left.
const SECRET: &str = "a-secret-of-4711";

/// Whether a text is on any disk or in any record of this EC2, or in the arguments of any process.
pub(super) fn is_left(site: &Site, text: &str) -> bool {
    let folder = site.dir();
    // tar skips the holes of disks.
    let (first, rest) = text.split_at(1);
    let script = format!(
        "{{ tar -cSf - '{}' 2>/dev/null; cat /proc/[0-9]*/cmdline 2>/dev/null; }} | tr -d '\\0' | \
         grep -qa '[{first}]{rest}'",
        folder.display(),
    );
    let found = std::process::Command::new("sh")
        .args(["-c", &script])
        .status();
    found.unwrap().success()
}

#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn variables_come_from_flags_files_and_the_configuration() {
    let site = Site::with_a_drive();
    let file = site.path("variables");
    fs::write(&file, "# for tests\nONE=file\nTWO=it's \"two\"\nTOKEN\n").unwrap();
    site.configure("env = [\"TOKEN\", \"NOT_HERE\", \"FOUR=4\"]\n");
    let file = file.to_str().unwrap();
    let show = "echo $MARK >/work/mark; echo $ONE; echo $TWO; echo $TOKEN; echo ${NOT_HERE-none}; echo $FOUR";
    let words = [
        &[
            "connect",
            "demo",
            "--env-file",
            file,
            "-e",
            "ONE=flag",
            "-e",
            "MARK",
        ][..],
        &["--", "sh", "-c", show],
    ]
    .concat();
    let mut command = site.command(&words);
    command.env("TOKEN", SECRET).env("MARK", "a-mark-of-4712");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, format!("flag\nit's \"two\"\n{SECRET}\nnone\n4\n"));
    site.is_saved("demo", 2);
    assert!(!is_left(&site, SECRET), "it is on a disk, or in a record");
    assert!(is_left(&site, "a-mark-of-4712"), "what is written is found");

    // In a shell, too, and for this session alone.
    site.configure("env = \"TOKEN\"\n");
    let mut shell = site.in_terminal(&["connect", "demo", "-e", "ONE=in a shell"]);
    shell.see_within(SESSION, "# ");
    shell.type_in("echo \"<$ONE>\" ${TOKEN-none}\r");
    shell.see("<in a shell> none");
    let joined = site.run(&["connect", "demo", "--", "sh", "-c", "echo ${ONE-none}"]);
    assert_eq!(joined.is(0).stdout, "none\n");
    shell.type_in("exit\r");
    assert_eq!(shell.wait_within(SESSION), 0, "{}", shell.contents());

    for (words, error) in [
        (
            ["-e", "NOT_HERE"],
            "error: -e names a variable that is not set in this environment",
        ),
        (["-e", "=x"], "error: a variable has no name"),
        (["--env-file", "/no/file"], "error: cannot read /no/file"),
    ] {
        let refused = site.run(&[&["connect", "demo"][..], &words, &["--", "true"]].concat());
        refused.is(2).reports(error).reports("hint: -e NAME=VALUE");
    }
    site.is_saved("demo", 3);
}
