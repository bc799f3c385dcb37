//! Hosts that come to nothing: they end by themselves, never answer, or cannot be reached from
//! here.
//!
//! What is known of them is told when it is known, and kept for the end, where a person asks why
//! there is no host. Nothing here terminates anything: what follows is the plan's to say.

use crate::ec2::{InstanceId, InstanceState, StatusChecks};

use super::super::event::Event;
use super::super::hosts::{Contact, HostError, Hosts, Route};
use super::super::observed::{Observed, SeenInstance};
use super::super::plan::Goal;
use super::{Reconciler, RunError};

/// Why an instance that was launched could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableHost {
    /// Which.
    pub instance: InstanceId,
    /// How.
    pub how: How,
}

/// How an instance was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// Nobody here ended it; why it ended, as far as EC2 says.
    Ended(Option<String>),
    /// It ran and never answered; what came back instead, if anything did.
    Silent(Option<String>),
    /// The same, and EC2's status checks say that it is not well.
    Impaired(StatusChecks),
}

impl<H: Hosts> Reconciler<H> {
    /// The last instance that was launched in vain, once there was one.
    #[must_use]
    pub fn unusable(&self) -> Option<&UnusableHost> {
        self.unusable.as_ref()
    }

    /// Tells of instances that were launched by this process and ended before anybody logged in,
    /// each once.
    pub(super) async fn notice_ends(&mut self, seen: &Observed) {
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
            // Only words hang on it.
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

    /// Keeps in mind that an instance never answered.
    pub(super) fn give_up_on(&mut self, instance: &InstanceId) {
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

    /// Why waiting for a host on the way to a mounted drive is of no use, if it is not: what leads
    /// there is wrong. One that has run for long without an answer is told of, once.
    ///
    /// What leads to a host that may have been used before can end because that host is dead: then
    /// its lease is waited for, as if it were silent.
    pub(super) async fn no_way(&mut self, seen: &Observed, goal: &Goal) -> Option<RunError> {
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
            let is_wrong = match no_answer.way {
                Route::Missing => true,
                Route::Ends => {
                    let is_booting = instance.is_booting(self.clock.boot(), &self.timing);
                    is_new && since >= self.timing.proxy_fails && !is_booting
                }
                Route::Open => false,
            };
            if is_wrong && matches!(goal, Goal::Ready { .. }) {
                if no_answer.way == Route::Ends {
                    self.show_console(&instance.id).await;
                }
                return Some(RunError::Host(HostError::NoRoute {
                    why: format!("no way in to {}: {}", instance.id, no_answer.why),
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

    /// Tells what an instance wrote to its console.
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
