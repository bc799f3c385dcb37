//! A session under way: what it has, how it begins, and how it works towards a goal.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use anyhow::Context as _;
use tokio::sync::{mpsc, watch};

use super::progress::ProgressPrinter;
use super::{LEASE, Request, patience, preflight, shell};
use crate::access::SshHosts;
use crate::access::ingress::Ingress;
use crate::access::lease::{News, Terms};
use crate::cloud::Cloud;
use crate::drive::event::Event;
use crate::drive::reconcile::Placement;
use crate::drive::tags::Settings;
use crate::drive::{Goal, Outcome, Reconciler, Wanted, pools};
use crate::ec2::Speed;
use crate::failure::Failure;
use crate::report::Report;
use crate::signals::{Signal, Signals};
use crate::ssh::UserKey;

/// A session under way.
pub(super) struct Session {
    /// What it was asked for.
    pub(super) request: Request,
    /// Where.
    pub(super) cloud: Cloud,
    pub(super) report: Report,
    pub(super) signals: Signals,
    pub(super) reconciler: Reconciler<SshHosts>,
    /// Who calls.
    pub(super) owner: String,
    /// Whether somebody has said that this session shall wait for others to end.
    pub(super) is_patient: bool,
    /// How fast the drive's volume is, as far as that is known.
    pub(super) speed: Rc<Cell<Speed>>,
    /// What is launched, if anything may be.
    pub(super) terms: Option<pools::Terms>,
    /// Jupyter's port on this computer, once there is one.
    pub(super) port: Option<u16>,
    /// What the hosts have to say.
    pub(super) news: mpsc::UnboundedReceiver<News>,
    /// Whether anything was made, changed or ended.
    pub(super) acted: Rc<Cell<bool>>,
}

impl Session {
    pub(super) async fn begin(
        request: Request,
        cloud: Cloud,
        key: UserKey,
    ) -> Result<Self, Failure> {
        let options = &request.options;
        let report = Report::stderr();
        let identity = patience::identity(&cloud, &report).await?;
        // Until here there is nothing that a signal could leave behind.
        let signals = Signals::install().context("cannot listen to signals")?;
        let speed = Rc::new(Cell::new(options.speed));
        let mut progress = ProgressPrinter::new(report.clone(), Rc::clone(&speed));
        let acted = Rc::new(Cell::new(false));
        let acting = Rc::clone(&acted);
        let subnet = match &options.subnet {
            Some(id) => Some(preflight::subnet(id, &cloud).await?),
            None => None,
        };
        let wanted = Wanted {
            // Whoever is to launch chooses them: see `settle_terms`.
            offers: Vec::new(),
            size: options.size.unwrap_or(cloud.size),
            lease: options.keep.unwrap_or(LEASE),
            settings: Settings::new(
                options.image.as_deref(),
                options.requirements.as_ref(),
                options.size,
            )
            .with_speed(options.speed)
            .scratch(options.scratch),
            placement: Placement {
                zone: subnet.as_ref().map(|subnet| subnet.zone.clone()),
                subnet: options.subnet.clone(),
                instance_profile: options.instance_profile.clone(),
            },
        };
        let (tell, news) = mpsc::unbounded_channel();
        let terms = Terms {
            ec2: cloud.ec2.clone(),
            clock: cloud.clock.clone(),
            news: tell,
        };
        let owner = identity.owner.clone();
        let ingress = Ingress::new(
            (cloud.ec2.clone(), cloud.clock.clone(), report.clone()),
            &owner,
            &key,
            subnet,
            options.reach.clone(),
        );
        let reconciler = Reconciler::new(
            request.drive.clone(),
            identity,
            cloud.ec2.clone(),
            SshHosts::new(key, ingress, terms),
            cloud.clock.clone(),
            cloud.timing.clone(),
            wanted,
            move |event| {
                if let Event::Finished { .. } = event {
                    acting.set(true);
                }
                progress.print(event);
            },
        );
        Ok(Self {
            request,
            cloud,
            report,
            signals,
            reconciler,
            owner,
            is_patient: false,
            speed,
            terms: None,
            port: None,
            news,
            acted,
        })
    }

    /// Works towards `goal`, never dropping the work: signals only tell it that somebody waits.
    /// The second answer is the first signal that asked for an end.
    pub(super) async fn run(&mut self, goal: Goal) -> (Outcome, Option<Signal>) {
        let (interrupts, mut heard) = watch::channel(0);
        // A closed terminal or a SIGTERM asks for the save that is under way already; only a
        // person at the keyboard may stop waiting for it.
        let saving = !matches!(goal, Goal::Ready { .. });
        let mut asked = None;
        let mut ticking = pin!(self.report.keep_ticking());
        let mut work = pin!(self.reconciler.run(goal, &mut heard));
        loop {
            tokio::select! {
                outcome = &mut work => return (outcome, asked),
                () = &mut ticking => {}
                signal = self.signals.next() => match signal {
                    Signal::Interrupt { .. } => {
                        asked.get_or_insert(signal);
                        interrupts.send_modify(|count| *count += 1);
                    }
                    Signal::Terminate | Signal::Hangup => {
                        let is_first = asked.is_none();
                        asked.get_or_insert(signal);
                        // A closed terminal may send both: neither asks to leave things behind.
                        if !saving && is_first {
                            interrupts.send_modify(|count| *count += 1);
                        }
                    }
                    // The shell that stopped xdrive shows that; the cloud cannot be stopped.
                    Signal::Suspend => self.report.suspend(),
                    Signal::Resize | Signal::Continue => {}
                },
            }
        }
    }

    /// Prepares for a host that runs already, and may be as this session would leave it.
    pub(super) fn comes_to_a_host(&mut self) {
        let request = &self.request;
        let lease = request.options.keep.unwrap_or(LEASE);
        let session = self.reconciler.session().clone();
        // A shell in the container as it is, which another image would end.
        let is_shell = request.command.is_empty() && request.options.image.is_none();
        let shell = is_shell.then(shell::term);
        let drive = &request.drive;
        let hosts = self.reconciler.hosts();
        hosts.comes(
            (&session, &self.owner),
            lease,
            drive.as_str(),
            shell.as_deref(),
        );
    }
}
