//! Variants of `variables`, which `shell/test.sh --all` runs.

use crate::session::site::Site;

/// The faults: "Argument list too long" by the host's shell, and from 256 KiB on a lost connection.
#[test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
fn a_command_of_300_kilobytes_reaches_its_program_word_for_word() {
    let site = Site::with_a_drive();
    let [quotes, longest] = ["it's \n\\".repeat(14_000), "x".repeat(131_071)];
    let script = "printf '%s %s %s|' ${#1} ${#2} ${#3}; printf %s \"${1#\"${1%???????}\"}\"; env";
    // Not by dash, which drops a variable that it cannot have itself.
    let words = ["bash", "-c", script, "bash", &quotes, &longest, &longest];
    let ended = site.run(
        &[
            &["connect", "demo", "-e", "my.env=it's 5", "--"][..],
            &words,
        ]
        .concat(),
    );
    let lengths = format!("{} 131071 131071|it's \n\\", quotes.len());
    assert!(ended.is(0).stdout.starts_with(&lengths), "{ended:?}");
    assert!(ended.stdout.contains("my.env=it's 5\n"), "{ended:?}");
    // One that is left has them, too.
    let run = site.run(&[&["run", "demo", "--"][..], &words].concat());
    assert!(run.is(0).stdout.starts_with(&lengths), "{run:?}");
    site.is_saved("demo", 3);
}
