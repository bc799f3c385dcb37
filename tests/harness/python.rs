//! The Python of independent clients and clouds.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The modules that were found.
static FOUND: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A Python with this module: `XDRIVE_TEST_PYTHON`, else `python3`.
pub fn python(module: &str) -> PathBuf {
    let python = std::env::var_os("XDRIVE_TEST_PYTHON").map_or("python3".into(), PathBuf::from);
    let mut known = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if known.contains(module) {
        return python;
    }
    let import = format!("import {module}");
    let found = Command::new(&python).args(["-c", &import]).output();
    match found {
        Ok(output) if output.status.success() => {
            known.insert(module.to_owned());
            python
        }
        Ok(output) => panic!(
            "{} has no {module} (shell/setup.sh test makes one; XDRIVE_TEST_PYTHON names it): {}",
            python.display(),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("cannot run {}: {error}", python.display()),
    }
}
