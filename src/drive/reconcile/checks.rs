//! EC2's status checks of hosts that do not answer, read before the plan judges their silence.
//!
//! A large or a metal type boots for many minutes, in which the network shows only silence; EC2's
//! checks show more. The plan decides what follows.

use crate::ec2;
use crate::ids::InstanceId;

use super::super::event::Event;
use super::super::hosts::Hosts;
use super::Reconciler;
use super::act::may_not_be_asked;
use crate::drive::overlay::Checked;

impl<H: Hosts> Reconciler<H> {
    /// Reads EC2's checks of a running instance that has not answered for a while, again now and
    /// then, and reports what is new. That a caller may not read them is reported; time alone
    /// decides then.
    pub(super) async fn check(&mut self, id: &InstanceId) -> Result<(), ec2::Error> {
        let now = self.clock.boot();
        let timing = &self.timing;
        let is_silent = self.overlay.silent_since(id).is_some_and(|since| {
            // In time for the plan's limit.
            now.since(since) >= timing.silent.min(timing.no_ssh)
        });
        let known = self.overlay.checks.get(id).copied();
        let is_fresh = known.is_some_and(|known| now.since(known.asked) < timing.checks_gap);
        if !is_silent || is_fresh {
            return Ok(());
        }
        let checks = match self.ec2.status_checks(id).await {
            Ok(checks) => checks,
            Err(error) if may_not_be_asked(&error) => {
                if known.is_none() {
                    self.emit(Event::Unchecked {
                        instance: id.clone(),
                        why: error.to_string(),
                    });
                }
                None
            }
            Err(error) => return Err(error),
        };
        let same = known.filter(|known| known.checks == checks);
        if let (Some(checks), None) = (checks, same) {
            self.emit(Event::Checks {
                instance: id.clone(),
                checks,
                limit: self.timing.boot,
            });
        }
        let asked = self.clock.boot();
        let since = same.map_or(asked, |known| known.since);
        let known = Checked {
            checks,
            since,
            asked,
        };
        self.overlay.checks.insert(id.clone(), known);
        Ok(())
    }
}
