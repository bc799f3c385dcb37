//! Examinations: scripts that a session runs on its host before the command.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::ssh::{Output, Ssh};

/// How long the script may take: a host that is still booting is slow, a round trip may take 300 ms, and what
/// `shell/first_touch.py` reads may come with some MiB a second.
const LIMIT: Duration = Duration::from_mins(2);

/// The length of what is kept of a line, in characters.
const LINE: usize = 200;

/// A script to run as root on the host, and its output once it ran. Clones share the output.
#[derive(Debug, Clone)]
pub struct Examination {
    interpreter: &'static str,
    script: &'static str,
    answer: Rc<RefCell<Option<Result<String, String>>>>,
}

impl Examination {
    /// An examination by `script`, on the standard input of the command `interpreter`.
    #[must_use]
    pub fn new(interpreter: &'static str, script: &'static str) -> Self {
        Self {
            interpreter,
            script,
            answer: Rc::default(),
        }
    }

    /// The script's output, or why there is none; `None` before a host was ready for it.
    #[must_use]
    pub fn answer(&self) -> Option<Result<String, String>> {
        self.answer.borrow().clone()
    }

    /// Runs the script on the host of `ssh`, and keeps its output.
    pub(super) async fn run(&self, ssh: &Ssh) {
        let ran = tokio::time::timeout(LIMIT, ssh.run(self.interpreter, self.script.as_bytes()));
        let answer = match ran.await {
            Ok(Ok(output)) if output.status == 0 => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(Ok(output)) => Err(failed(&output)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer for {} s", LIMIT.as_secs())),
        };
        *self.answer.borrow_mut() = Some(answer);
    }
}

/// Why a script failed: its last line on standard error.
fn failed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last: String = text
        .lines()
        .last()
        .unwrap_or_default()
        .chars()
        .take(LINE)
        .collect();
    format!("its script ended with {}: {last}", output.status)
}
