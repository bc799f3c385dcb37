//! Commands and shells that are frozen when their host is taken, and go on on the next one (`--freeze`).

use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;

use anyhow::anyhow;

use super::container::ContainerSession;
use super::request::{Request, Task};
use super::state::Session;
use super::thawed::{reported, warn_of_frozen};
use crate::drive::tags;
use crate::ec2::{Arch, Instance};
use crate::failure::{Exit, Failure};
use crate::host::AtMount;
use crate::host::container::CommandId;
use crate::host::criu;
use crate::host::facts::ScriptError;
use crate::host::scripts::{Freezes, Host, Thawed};
use crate::opener::Ending;

impl Session {
    /// Whether what is frozen on the drive, if anything is, may go on on this host; else says why not.
    pub(super) async fn may_thaw(&mut self, instance: &Instance) -> bool {
        let hosts = self.reconciler.hosts();
        let (order, mounted) = (hosts.frozen, hosts.mounted());
        let Some((frozen, forgotten)) = mounted.map(|it| (it.frozen, it.forgotten)) else {
            return false;
        };
        let host = hosts.link(&instance.id).map(|(_, host)| host.clone());
        let report = &self.drive.report;
        match order {
            AtMount::Leave if frozen > 0 => report.warn(&format!(
                "what is frozen on {} is another caller's, or another save's: it does not go on, and cannot any more",
                self.drive.name
            )),
            AtMount::Forget if forgotten > 0 => report.warn(self.forgets().unwrap_or_default()),
            AtMount::Keep | AtMount::Leave if forgotten > 0 => report.warn(
                "what was frozen before the drive's last session, or waited for 20 of them, does not go on, and \
                 is removed",
            ),
            AtMount::Keep | AtMount::Forget | AtMount::Leave => {}
        }
        let is_due = order == AtMount::Keep && frozen > 0;
        let Some(host) = host.filter(|_| is_due) else {
            return false;
        };
        let criu = self.bring_criu(instance, &host).await;
        if let Err(why) = &criu {
            let why = format!("{why}; it stays frozen for a later session");
            warn_of_frozen(&self.drive.report, &why);
        } else {
            // A session that ends before it has begun freezes again what has gone on.
            self.reconciler.hosts().freeze_at_close(true);
        }
        criu.is_ok()
    }

    /// Has the commands and shells go on that are frozen on the drive.
    pub(super) async fn thaw(&self, inside: &mut ContainerSession) {
        let thawed = reported(inside.host.thaw(), &self.drive.report).await;
        inside.thawed = inside.shell_among(&thawed);
    }

    /// The order for what is frozen on the drive, at its next mount. The reconciler leaves alone what another
    /// caller may have written.
    pub(super) fn frozen_at_mount(&self) -> AtMount {
        if self.forgets().is_some() {
            AtMount::Forget
        } else {
            AtMount::Keep
        }
    }

    /// Why what is frozen on a drive of the caller's is removed at its mount, if it is: it is of one who made
    /// the original, or has gone on elsewhere, or will.
    fn forgets(&self) -> Option<&'static str> {
        if self.request.options.config.once.discard {
            Some("what is frozen does not go on with --discard, and stays on the drive")
        } else if self.is_copy() {
            Some("what is frozen on a copy does not go on, and is removed")
        } else if self.is_older() {
            Some("what is frozen in an older save does not go on, and is removed")
        } else {
            None
        }
    }

    /// Whether nothing of the drive is newer than the copy that it began with, or that is not known.
    fn is_copy(&self) -> bool {
        if self.is_resumed {
            // What it was when this session began says nothing any more: its first host has removed it.
            return false;
        }
        let facts = &self.drive.facts;
        let Some((newest, _)) = facts.newest_part() else {
            return true;
        };
        let mut copies = facts.snapshots.iter().filter(|it| tags::is_copy(&it.tags));
        copies.any(|it| tags::read_snapshot(&it.tags).is_ok_and(|read| read.generation >= newest))
    }

    /// Whether the user chose a part of the drive that is not the newest.
    fn is_older(&self) -> bool {
        let facts = &self.drive.facts;
        let chosen = self.request.options.config.once.from.as_ref();
        let chosen = chosen.and_then(|head| facts.tags_of(head));
        let chosen = tags::newest(chosen.into_iter(), |tags| tags);
        let parts = chosen.zip(facts.newest_part());
        // From its first mount on what this session has is the newest.
        !self.is_resumed && parts.is_some_and(|((chosen, _), (newest, _))| chosen < newest)
    }

    /// Whether the command that begins can be frozen, as the request asks for; else prints why not.
    pub(super) async fn prepare_to_freeze(
        &mut self,
        instance: &Instance,
        inside: &ContainerSession,
    ) -> bool {
        if !self.request.freezes() {
            if self.request.options.launch.may_freeze() {
                let words =
                    "a command in a terminal (-t) is not frozen: a shell is, or a command without";
                self.drive.report.warn(words);
            }
            return false;
        }
        let may_have_input = !self.request.has_no_input();
        let why = match self.freezes(instance, inside).await {
            _ if may_have_input && has_input() => "it has input".to_owned(),
            Ok(Freezes::Yes) => {
                self.warn_of_secrets();
                return true;
            }
            Ok(Freezes::NoCriu) => "the host did not keep criu".to_owned(),
            Ok(Freezes::No(why)) | Err(why) => why,
        };
        let what = if self.request.is_shell() {
            "shell"
        } else {
            "command"
        };
        self.drive.report.warn(&format!(
            "the {what} cannot be frozen here, and is ended where EC2 takes the instance: {why}"
        ));
        false
    }

    /// Has the next try of a frozen command begin that does not go on, if there is one.
    pub(super) fn begin_instead(&mut self, id: &CommandId, is_frozen: bool) -> Result<(), Ending> {
        match &mut self.request.task {
            Task::Run {
                tries: Some(left @ 1..),
                ..
            } => *left -= 1,
            _ => return Err(Ending::Failed(not_gone_on(id, is_frozen))),
        }
        Ok(())
    }

    fn warn_of_secrets(&self) {
        let request = &self.request;
        if !request.options.variables.is_empty() || request.credentials.is_some() {
            self.drive.report.warn(
                "what is brought along for the command is in its memory, which a freeze writes to the \
                 drive: whoever may read its snapshot has it",
            );
        }
    }

    async fn freezes(
        &self,
        instance: &Instance,
        inside: &ContainerSession,
    ) -> Result<Freezes, String> {
        let (host, name) = (&inside.host, inside.container.named.as_ref());
        let failed = |error: ScriptError| error.to_string();
        let found = host.freezes(name).await.map_err(failed)?;
        if found != Freezes::NoCriu {
            return Ok(found);
        }
        self.load_criu(instance, host).await?;
        host.freezes(name).await.map_err(failed)
    }

    /// Loads criu on a host that lacks it.
    async fn bring_criu(&self, instance: &Instance, host: &Host) -> Result<(), String> {
        match host.has_criu().await {
            Ok(true) => Ok(()),
            Ok(false) => self.load_criu(instance, host).await,
            Err(error) => Err(error.to_string()),
        }
    }

    async fn load_criu(&self, instance: &Instance, host: &Host) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let architecture = instance.arch.map_or("another", Arch::as_str);
        let archive = criu::read(architecture, &program, &self.request.criu);
        let archive = archive.map_err(|error| format!("{error}; {}", error.hint()))?;
        let step = self.drive.report.step("send criu");
        let loaded = host.load_criu(&archive[..]).await;
        loaded.map_err(|error| error.to_string())?;
        step.done("sent criu");
        Ok(())
    }
}

impl Request {
    /// Whether it is a shell, or a command that gets no input in any case.
    pub(super) fn has_no_input(&self) -> bool {
        let task = &self.task;
        self.is_shell()
            || self.is_tried()
            || matches!(task, Task::Run { is_detached, .. } if *is_detached)
    }

    /// Whether its command, or its shell, is to be frozen where its host is taken.
    pub(super) fn freezes(&self) -> bool {
        self.options.launch.may_freeze() && (self.is_shell() || !self.has_terminal())
    }
}

impl ContainerSession {
    /// The terminal of the shell of this container that has gone on; the one that was used last.
    fn shell_among(&self, thawed: &[Thawed]) -> Option<String> {
        let own = self.container.named.as_ref().map(ToString::to_string);
        let mut shells = thawed
            .iter()
            .filter(|it| it.outcome.is_ok())
            .filter_map(Thawed::terminal);
        let is_own = |name: &&str| name.split_once("..").map(|(_, it)| it) == own.as_deref();
        shells.find(is_own).map(str::to_owned)
    }
}

/// Whether something may be read from this process's standard input but by typing.
fn has_input() -> bool {
    let stdin = std::io::stdin();
    let null = std::fs::metadata("/dev/null").map(|it| it.rdev());
    let own = std::fs::metadata("/dev/stdin").map(|it| it.rdev());
    let is_null = matches!((null, own), (Ok(null), Ok(own)) if null == own);
    !is_null && !stdin.is_terminal()
}

/// The failure of a session whose frozen command does not go on, or `is_frozen` still.
pub(super) fn not_gone_on(id: &CommandId, is_frozen: bool) -> Failure {
    let became = if is_frozen {
        "stays frozen for a later session"
    } else {
        "was frozen and does not go on: it may have done half of what it does"
    };
    Failure::new(
        Exit::TryAgain,
        anyhow!("the command {} {became}", id.as_str()),
    )
}
