//! The program under test, the cache that its homes share, and the environment of its users.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Where programs without the tester's environment find others.
pub const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The xdrive that Cargo built for the calling test or benchmark: tests are in `deps`, beside it.
/// `XDRIVE_BENCH_PROGRAM` names another one, to measure one that is built already.
pub fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("XDRIVE_BENCH_PROGRAM") {
        return program.into();
    }
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let program = profile.join("xdrive");
    assert!(program.exists(), "no {}", program.display());
    program
}

/// Writes a script that may be run at once: a child writes it, since what this process has open for
/// writing a child of another thread may have, too, until its own `exec`, and then the script's fails
/// with "Text file busy" (execve(2), `ETXTBSY`).
pub fn write_script(path: &Path, text: &str) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = install.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    assert!(install.wait().unwrap().success(), "{}", path.display());
}

/// The cache that the shell scripts fill, found by their rule. What `shell/local/` builds is below
/// `local`.
pub fn cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    folder("XDRIVE_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("xdrive")))
        .unwrap_or_else(|| folder("HOME").unwrap().join(".cache/xdrive"))
}

/// The archive of criu, which `shell/criu.sh` makes.
pub fn criu() -> PathBuf {
    cache().join("criu/criu-x86_64.tar.gz")
}

/// Checks that the cache has these, which `shell/local/` builds.
pub fn check_cache(needed: &[&str]) -> anyhow::Result<()> {
    for name in needed {
        let path = cache().join("local").join(name);
        ensure!(
            path.exists(),
            "{} is not there: run shell/setup.sh first",
            path.display()
        );
    }
    Ok(())
}

/// The folder of the cache that its link `name` points to, with a machine's tree, and the id of the
/// image that it is in the EC2 in a folder.
pub fn machine(name: &str) -> anyhow::Result<(PathBuf, String)> {
    let local = cache().join("local");
    let target = std::fs::read_link(local.join(name))
        .with_context(|| format!("no {name}: shell/local/ has what builds it"))?;
    let hash = target
        .to_str()
        .and_then(|target| target.strip_prefix("machine-"));
    let ami = format!("ami-{}", hash.context("not a machine's")?);
    Ok((local.join(target), ami))
}

/// The whole environment of the user with this home, whose EC2 is in the state directory `dir`.
pub fn environment(home: &Path, dir: &Path) -> [(&'static str, String); 5] {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    [
        ("PATH", PATH.to_owned()),
        ("LC_ALL", "C.UTF-8".to_owned()),
        ("HOME", text(home)),
        ("XDRIVE_CACHE", text(&cache())),
        ("XDRIVE_LOCAL_DIR", text(dir)),
    ]
}
