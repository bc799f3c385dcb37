//! Long text, shown a screen at a time.

use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::commands::print;
use crate::config::environment;
use crate::failure::Failure;

/// The options of `less` if the environment has none: end at once where the text fits the screen,
/// leave the screen as it is, pass colours through.
const LESS: &str = "FRX";

/// Shows `text`: in a terminal by the user's pager, else as it is. Returns the exit code.
pub(super) fn show(text: &str) -> Result<u8, Failure> {
    let pager = std::env::var(environment::PAGER).unwrap_or_else(|_| "less".to_owned());
    if !std::io::stdout().is_terminal() || pager.trim().is_empty() || !page(&pager, text) {
        return print(text);
    }
    Ok(0)
}

/// Runs the pager; false if there is none.
fn page(pager: &str, text: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    if let Some(mut stdin) = child.stdin.take() {
        // It fails if the user leaves the pager early.
        let _ = stdin.write_all(text.as_bytes());
    }
    // The shell's code for a program that is not there.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}
