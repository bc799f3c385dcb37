//! boto3 as a client that nobody here wrote.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tokio::sync::oneshot;
use xdrive::clock::Clock;
use xdrive::local::plane::Plane;
use xdrive::local::wire::{Server, environment};
use xdrive::local::{Local, OpenOptions};

/// A Python with boto3: the one that `XDRIVE_TEST_PYTHON` names, else `python3`.
fn python() -> PathBuf {
    let python = std::env::var_os("XDRIVE_TEST_PYTHON").map_or("python3".into(), PathBuf::from);
    let found = Command::new(&python).args(["-c", "import boto3"]).output();
    match found {
        Ok(output) if output.status.success() => python,
        Ok(output) => panic!(
            "{} has no boto3 (pip install boto3, or name another in XDRIVE_TEST_PYTHON): {}",
            python.display(),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("cannot run {}: {error}", python.display()),
    }
}

/// Runs `script` of this folder with the environment that `xdrive local env` prints, and nothing
/// else that could point elsewhere.
fn run(python: &Path, script: &str, environment: &str) -> Output {
    let script = format!("{}/tests/suite/{script}", env!("CARGO_MANIFEST_DIR"));
    let kept = ["PATH", "HOME", "PYENV_VERSION"]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    Command::new("sh")
        .env_clear()
        .envs(kept)
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-c", &format!("{environment}\nexec \"$@\""), "sh"])
        .args([python.as_os_str(), script.as_ref()])
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs python3 with boto3"]
async fn boto3_lives_a_whole_life() {
    let python = python();
    let dir = tempfile::tempdir().unwrap();
    let local = Local::open(OpenOptions::new(dir.path(), Plane::Paper, Clock::system())).unwrap();
    let server = Server::bind(local.clone(), 0).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async move {
        stopped.await.ok();
    }));
    let environment = environment(&local).unwrap();
    let output = tokio::task::spawn_blocking(move || run(&python, "life.py", &environment))
        .await
        .unwrap();
    stop.send(()).unwrap();
    running.await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "life: lived\n");
}
