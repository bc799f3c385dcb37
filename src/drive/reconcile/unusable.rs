//! Unusable hosts: they end by themselves, never answer, or cannot be reached from here.
//!
//! What is known of them is reported at once, and kept for the error at the end of the run. Nothing
//! here terminates anything: the plan decides what follows.

use crate::ec2::{InstanceState, StatusChecks};
use crate::ids::InstanceId;

use super::super::event::Event;
use super::super::host_error::HostError;
use super::super::hosts::{Contact, Hosts, Route};
use super::super::observed::{Observed, SeenInstance};
use super::super::plan::Goal;
use super::{Reconciler, RunError};

/// Why an instance that was launched could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableHost {
    /// The instance.
    pub instance: InstanceId,
    /// The reason.
    pub how: How,
}

/// Why an instance could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// The instance ended, and this process did not end it; EC2's reason, if it gives one.
    Ended(Option<String>),
    /// The instance ran and never answered; the error that came back instead, if any.
    Silent(Option<String>),
    /// The instance never answered, and failed EC2's status checks.
    Impaired(StatusChecks),
}

impl<H: Hosts> Reconciler<H> {
    /// The last instance that could not be used, if there was one.
    #[must_use]
    pub fn unusable(&self) -> Option<&UnusableHost> {
        self.unusable.as_ref()
    }

    /// Reports the instances that this process launched and that ended before it claimed them, each
    /// once.
    pub(super) async fn report_ended(&mut self, seen: &Observed) {
        let ended: Vec<InstanceId> = seen
            .instances
            .iter()
            .filter(|instance| instance.state.is_over())
            .map(|instance| &instance.id)
            .filter(|id| self.overlay.instances.contains_key(id))
            .filter(|id| !self.overlay.gone.contains(id.as_str()))
            .filter(|id| !self.overlay.claimed.contains(id.as_str()))
            .filter(|id| !self.reported_ended.contains(id))
            .cloned()
            .collect();
        for id in ended {
            self.reported_ended.insert(id.clone());
            // It is only for the message.
            let reason = self.ec2.why_ended(&id).await.unwrap_or_default();
            self.emit(Event::EndedByItself {
                instance: id.clone(),
                reason: reason.clone(),
            });
            self.unusable = Some(UnusableHost {
                instance: id,
                how: How::Ended(reason),
            });
        }
    }

    /// Records that an instance never answered, and why.
    pub(super) fn record_unanswered(&mut self, instance: &InstanceId) {
        let checks = self.overlay.checks.get(instance);
        let checks = checks.and_then(|known| known.checks);
        let how = match checks.filter(|checks| checks.are_impaired()) {
            Some(checks) => How::Impaired(checks),
            None => How::Silent(
                self.hosts
                    .no_answer(instance)
                    .map(|no_answer| no_answer.why),
            ),
        };
        let instance = instance.clone();
        self.unusable = Some(UnusableHost { instance, how });
    }

    /// The error that ends getting ready where the proxy command does not lead to a host. A host
    /// that has run for long without an answer is reported, once.
    ///
    /// The proxy command to a host that may have been used before can end because that host is
    /// dead: then its lease is waited for, as if it were silent.
    pub(super) async fn no_route(&mut self, seen: &Observed, goal: &Goal) -> Option<RunError> {
        let silent = |instance: &&SeenInstance| {
            instance.state == InstanceState::Running && instance.contact == Contact::Unreachable
        };
        for instance in seen.instances.iter().filter(silent) {
            let Some(no_answer) = self.hosts.no_answer(&instance.id) else {
                continue;
            };
            let since = self.clock.boot().since(instance.since);
            let is_new = self.overlay.instances.contains_key(&instance.id)
                && !self.overlay.claimed.contains(instance.id.as_str());
            let is_wrong = match no_answer.route {
                Route::Missing => true,
                Route::Ends => {
                    let is_booting = instance.is_booting(self.clock.boot(), &self.timing);
                    is_new && since >= self.timing.proxy_fails && !is_booting
                }
                Route::Open => false,
            };
            if is_wrong && goal.is_mounted() {
                if no_answer.route == Route::Ends {
                    self.show_console(&instance.id).await;
                }
                return Some(RunError::Host(HostError::NoRoute {
                    why: format!(
                        "no way in to {}: {}",
                        instance.id.drive_label(&self.drive),
                        no_answer.why
                    ),
                    hint: "does --proxy-command (`proxy_command` in the configuration) work when \
                           it is typed, with the instance's private address, 22 and its id for \
                           %h, %p and %i?"
                        .to_owned(),
                }));
            }
            if since >= self.timing.silent && self.reported_silent.insert(instance.id.clone()) {
                self.emit(Event::Silent {
                    instance: instance.id.clone(),
                    since,
                    why: no_answer.why,
                });
            }
        }
        None
    }

    /// Reports what an instance wrote to its console.
    pub(super) async fn show_console(&self, instance: &InstanceId) {
        let text = match self.ec2.console(instance).await {
            Ok(text) => text,
            Err(error) => format!("(the console cannot be read: {error})"),
        };
        self.emit(Event::Console {
            instance: instance.clone(),
            text,
        });
    }
}
