//! The things that a session brings along into its container, besides ports: variables, the SSH
//! agent of this computer, Git's identity, and AWS credentials; without those of this computer, the role
//! of the host's instance, if it has one.
//!
//! It is there before the shell or command begins, and as long as the session lasts. Nothing of it
//! is on the drive: what has to be written is on the container's tmpfs.

use std::collections::BTreeSet;

use anyhow::anyhow;

use super::container::ContainerSession;
use super::container_failure;
use super::credentials::Endpoint;
use super::state::Parts;
use crate::cloud::Cloud;
use crate::config::GitUser;
use crate::ec2::Instance;
use crate::failure::{Exit, Failure};
use crate::host::container::{Came, git_file};
use crate::ids::SessionId;
use crate::ssh::agent::AgentForward;

/// The ways from the container to this computer: agent and credentials. Dropping it ends them.
#[derive(Default)]
pub(super) struct Along {
    agent: Option<AgentForward>,
    credentials: Option<Endpoint>,
}

impl Along {
    /// The lines about the agent and the credentials that the container can use.
    pub(super) fn lines(&self) -> Option<String> {
        let agent = self.agent.as_ref().map(|_| "the SSH agent");
        let credentials = self.credentials.as_ref().map(|_| "the AWS credentials");
        let lines = agent.into_iter().chain(credentials);
        let lines: Vec<String> = lines
            .map(|what| format!("{what} of this computer can be used in the container"))
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Brings variables, Git's identity, agent and credentials into the container, as requested.
/// Returns what then leads to this computer.
pub(super) async fn bring(
    parts: &mut Parts<'_>,
    instance: &Instance,
    inside: &mut ContainerSession,
    cloud: &Cloud,
) -> Result<Along, Failure> {
    let (report, json) = (parts.report, parts.request.options.config.once.json);
    let options = &parts.request.options;
    let session = parts.reconciler.session().clone();
    let hosts = parts.reconciler.hosts();
    // A shell that was left finds this session's agent at the path of its former one.
    let name = if parts.request.is_shell() {
        let left = inside.left_shell(hosts.terminal());
        shell_name(inside, left, &session)
    } else {
        session.0.clone()
    };
    let mut variables = options.variables.clone();
    inside.container.git = options.git.as_ref().map(GitUser::config);
    let words = inside.host.send_words(&parts.request.command).await;
    inside.container.words = words.map_err(container_failure::from_script_error)?;
    let mut along = Along::default();
    let Some((ssh, _)) = hosts.link(&instance.id) else {
        // The shell finds that out, too, and reports it.
        return Ok(along);
    };
    if let Some(agent) = &options.agent {
        let (command, socket) = inside.host.agent(&inside.container, &name);
        let forwarded = AgentForward::open(ssh, command, agent.clone()).await;
        let forwarded = forwarded.map_err(|error| {
            let why = anyhow!(error).context("the SSH agent cannot be forwarded");
            Failure::new(Exit::Unavailable, why)
        });
        along.agent = inside.or_go_on_without(forwarded, report, json)?;
        if along.agent.is_some() {
            variables.set("SSH_AUTH_SOCK", &socket);
        }
    }
    if let Some(chain) = &parts.request.credentials {
        let opened = Endpoint::open(ssh, inside, &session, chain).await;
        along.credentials = inside.or_go_on_without(opened, report, json)?;
        if let Some(endpoint) = &along.credentials {
            endpoint.name_in(&mut variables);
        }
    }
    let has_role = instance.has_role && along.credentials.is_none();
    if has_role {
        for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
            variables.set_missing(name, cloud.ec2.region());
        }
        for (name, value) in &cloud.inside {
            variables.set_missing(name, value);
        }
        let addresses = [instance.address, instance.private].into_iter().flatten();
        let addresses: BTreeSet<String> = addresses.map(|it| it.to_string()).collect();
        let addresses: Vec<String> = addresses.into_iter().collect();
        variables.set_missing("XDRIVE_ADDRESSES", &addresses.join(" "));
    }
    let is_empty = variables.is_empty();
    if let Some(config) = &inside.container.git {
        variables.set_missing("GIT_CONFIG_SYSTEM", &git_file(config));
    }
    if is_empty {
        // The shell has Git's configuration from its own command, and waits for nothing.
        inside.bring_for_jupyter(session, variables);
        return Ok(along);
    }
    let script = variables.script();
    let brought = inside
        .host
        .bring(&inside.container, &session, &script, has_role);
    let brought = brought
        .await
        .map_err(container_failure::from_script_error)?;
    if let Some(why) = brought.no_role {
        report.warn(&format!(
            "programs in the container cannot use the role of the instance: {why}"
        ));
    }
    inside.container.variables = Some(brought.file);
    Ok(along)
}

/// The name of the terminal in which the shell runs: of the one that was `left`, or a new one.
pub(super) fn shell_name(
    inside: &ContainerSession,
    left: Option<&str>,
    session: &SessionId,
) -> String {
    let has_its_shells = inside.container.came == Came::Running || inside.thawed.is_some();
    match (left, &inside.container.named) {
        (Some(left), _) if has_its_shells => left.to_owned(),
        // An earlier session's shell has ended with its container.
        (_, None) => session.to_string(),
        (_, Some(container)) => format!("{session}..{container}"),
    }
}
