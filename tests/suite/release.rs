//! The release as it is published: `shell/release.sh`, and the metadata for it in `Cargo.toml`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use harness::write_script;
use xdrive::local::setup;

const TOP: &str = env!("CARGO_MANIFEST_DIR");

fn metadata(tool: &str) -> toml::Table {
    let text = fs::read_to_string(Path::new(TOP).join("Cargo.toml")).unwrap();
    let cargo: toml::Table = toml::from_str(&text).unwrap();
    cargo["package"]["metadata"][tool]
        .as_table()
        .unwrap()
        .clone()
}

fn script() -> Command {
    Command::new(Path::new(TOP).join("shell/release.sh"))
}

/// The archive of a program that has the real one's manual page and completions, unpacked; and its
/// name.
fn archive() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("xdrive");
    let real = env!("CARGO_BIN_EXE_xdrive");
    write_script(&program, &format!("#!/bin/sh\nexec {real} \"$@\"\n"));
    let made = script()
        .arg("--program")
        .arg(&program)
        .arg("--archive")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let sums = String::from_utf8(made.stdout).unwrap();
    let name = sums.split_whitespace().nth(1).unwrap().to_owned();
    let unpacked = Command::new("tar")
        .args(["-xzf", &name])
        .current_dir(dir.path())
        .status();
    assert!(unpacked.unwrap().success());
    (dir, name)
}

#[test]
#[ignore = "needs git and a repository"]
fn the_archive_has_what_is_installed_and_is_found_where_it_is_looked_for() {
    let (dir, name) = archive();
    let template = metadata("binstall")["bin-dir"].as_str().unwrap().to_owned();
    let target = name
        .strip_prefix(concat!("xdrive-", env!("CARGO_PKG_VERSION"), "-"))
        .and_then(|rest| rest.strip_suffix(".tar.gz"))
        .unwrap();
    let checked = Command::new("sha256sum")
        .args(["--check", "--strict", &format!("SHA256SUMS-{target}")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let all = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.status.success(), "{all}");
    assert_eq!(all, format!("{name}: OK\n"));
    let bin = template
        .replace("{ name }", "xdrive")
        .replace("{ version }", env!("CARGO_PKG_VERSION"))
        .replace("{ target }", target)
        .replace("{ bin }", "xdrive")
        .replace("{ binary-ext }", "");
    let program = dir.path().join(bin);
    let mode = fs::metadata(&program).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let folder = program.parent().unwrap();
    let deb = metadata("deb");
    for asset in deb["assets"].as_array().unwrap() {
        let path = asset[0].as_str().unwrap();
        let path = path.strip_prefix("target/release/").unwrap();
        // Only the package has its manual pages compressed.
        let path = match path.strip_suffix(".gz") {
            Some(page) if path.starts_with("man/") => folder.join(page),
            _ => folder.join(path),
        };
        let entries = fs::read_dir(path.parent().unwrap()).unwrap();
        let mut found = entries.map(|entry| entry.unwrap().path());
        // Of one kind, or one file.
        let has = match path.file_name().unwrap().to_str().unwrap() {
            kind if kind.starts_with("*.") => {
                found.any(|found| found.extension() == path.extension())
            }
            _ => found.any(|found| found == path),
        };
        assert!(has, "{}", path.display());
    }
    let licences = fs::read_to_string(folder.join("LICENSES-THIRD-PARTY")).unwrap();
    for words in [
        "\n  criu 4.",
        "https://snapshot.debian.org/package/glibc/",
        "\n  russh 0.",
        "\n  tokio 1.",
        "Permission is hereby granted",
    ] {
        assert!(licences.contains(words), "{words:?}");
    }
    assert!(!licences.contains("\n  proptest "), "it is the tests' only");
}

#[test]
#[ignore = "needs root, git and a repository"]
fn criu_in_the_archive_runs_with_nothing_of_the_machines() {
    let (dir, name) = archive();
    let folder = name.strip_suffix(".tar.gz").unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    let unpacked = Command::new("tar")
        .arg("-xzf")
        .arg(dir.path().join(folder).join("criu-x86_64.tar.gz"))
        .arg("-C")
        .arg(&root)
        .status();
    assert!(unpacked.unwrap().success());
    // A container's: its code must not run with the host's rights.
    fs::write(root.join("etc/ld.so.preload"), "/work/a-container-s.so\n").unwrap();
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let run = |words: &[&str]| {
        Command::new("chroot")
            .arg(&root)
            .args(["/ld.so", "--library-path", "/lib"])
            .args(words)
            .output()
            .unwrap()
    };
    let printed = run(&["--argv0", "criu", "/criu", "--version"]);
    let (stdout, stderr) = (printed.stdout.as_slice(), printed.stderr.as_slice());
    assert!(stdout.starts_with(b"Version: 4."), "{stdout:?} {stderr:?}");
    assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(stderr));
    let printed = run(&["/setsid", "--version"]);
    assert!(printed.status.success(), "{printed:?}");
    assert!(root.join("licences/texts/GPL-2").exists());
    assert_eq!(fs::read_dir(root.join("plugins")).unwrap().count(), 0);
}

/// The minor version of the C library of Debian 12, which is 2.36. What is linked to it needs 2.34.
const GLIBC: u32 = 36;

#[test]
#[ignore = "needs binutils"]
fn a_program_built_on_debian_12_needs_no_later_c_library() {
    let checked = script()
        .args(["--check", env!("CARGO_BIN_EXE_xdrive")])
        .output()
        .unwrap();
    let stderr = String::from_utf8(checked.stderr).unwrap();
    assert!(stderr.contains("needs glibc 2."), "{stderr}");
    let own = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let own = String::from_utf8(own.unwrap().stdout).unwrap();
    let minor = own.trim().strip_prefix("glibc 2.").unwrap();
    // What is built with a later one may need it: such a program is not released.
    let is_later = minor.parse::<u32>().unwrap() > GLIBC;
    assert!(checked.status.success() || is_later, "{stderr}");
    let text = Path::new(TOP).join("README.md");
    let checked = script().arg("--check").arg(text).output().unwrap();
    assert!(!checked.status.success(), "it is no program: {checked:?}");
}

#[test]
#[ignore = "needs binutils and a C compiler"]
fn a_need_of_the_c_library_that_no_symbol_names_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("packed.c"), dir.path().join("packed"));
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-pie", "-fPIE", "-Wl,-z,pack-relative-relocs", "-o"]);
    let status = compiler.args([&program, &source]).status().unwrap();
    assert!(status.success());
    let checked = script().arg("--check").arg(&program).output().unwrap();
    let stderr = String::from_utf8(checked.stderr).unwrap();
    assert!(!checked.status.success(), "{stderr}");
    assert!(stderr.contains("needs GLIBC_ABI_DT_RELR"), "{stderr}");
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() {
    let notes = |version: &str| script().args(["--notes", version]).output().unwrap();
    let changelog = fs::read_to_string(Path::new(TOP).join("CHANGELOG.md")).unwrap();
    let (_, newest) = changelog.split_once("\n## [").unwrap();
    let (version, section) = newest.split_once(']').unwrap();
    let (_, section) = section.split_once('\n').unwrap();
    let section = section.split("\n## [").next().unwrap();
    let printed = notes(version);
    assert!(printed.status.success(), "{printed:?}");
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(printed.trim(), section.trim());
    let missing = notes("0.0");
    assert!(
        !missing.status.success() && missing.stdout.is_empty(),
        "{missing:?}"
    );
}

/// The words between quotes that follow `name=` in a script.
fn list(script: &str, name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(TOP).join(script)).unwrap();
    let (_, rest) = text.split_once(&format!("\n{name}='")).unwrap();
    let (words, _) = rest.split_once('\'').unwrap();
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn packages_for_local_drives_are_recommended_by_the_package_and_installed_by_the_script() {
    let needed: BTreeSet<String> = setup::packages().map(str::to_owned).collect();
    assert!(needed.contains("debootstrap"));
    let deb = metadata("deb");
    let recommended = deb["recommends"].as_str().unwrap();
    let recommended: BTreeSet<String> = recommended.split(", ").map(str::to_owned).collect();
    assert_eq!(recommended, needed);
    let installed = list("shell/setup.sh", "TRY");
    let missing: Vec<_> = needed.difference(&installed).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
