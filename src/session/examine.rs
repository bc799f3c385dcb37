//! A session that looks at its host from inside, before its command begins.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::Session;
use crate::ec2::Instance;
use crate::ssh::Ssh;

/// How long a look may take: it only reads, but a host that is still booting is slow, and every
/// answer may be on a line of 300 ms round trip.
const LOOK: Duration = Duration::from_mins(2);

/// A script that is run as root on the host, and what it answered, once it did. Clones share the
/// answer.
#[derive(Debug, Clone)]
pub struct Examination {
    script: &'static str,
    answer: Rc<RefCell<Option<Result<String, String>>>>,
}

impl Examination {
    /// A look by this script, which only reads.
    #[must_use]
    pub fn new(script: &'static str) -> Self {
        let answer = Rc::default();
        Self { script, answer }
    }

    /// What the script printed, or why it did not; none if no host was ever ready for it.
    #[must_use]
    pub fn answer(&self) -> Option<Result<String, String>> {
        self.answer.borrow().clone()
    }

    async fn run(&self, ssh: &Ssh) {
        let ran = tokio::time::timeout(LOOK, ssh.run("sh -s", self.script.as_bytes()));
        let answer = match ran.await {
            Ok(Ok(output)) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer for {} s", LOOK.as_secs())),
        };
        *self.answer.borrow_mut() = Some(answer);
    }
}

impl Session {
    /// Looks at the host, if that is asked for.
    pub(super) async fn examine(&mut self, host: &Instance) {
        let link = self.reconciler.hosts().link(&host.id);
        if let (Some(examination), Some((ssh, _))) = (&self.request.examination, link) {
            examination.run(ssh).await;
        }
    }
}
