//! A host's own key: made on the host when it is first claimed, in place of the launch key, which is
//! in user data for as long as the instance lives.
//!
//! Until the tag has been read back with the new key, the host offers both: whatever ends this in
//! between, a client that has read either logs in, and the next claim goes on.

use std::time::Duration;

use tokio::time::timeout;

use super::links::{Link, Links};
use super::login::{LATE, Login};
use crate::drive::tags;
use crate::ec2::{Ec2, Instance};
use crate::ids::InstanceId;
use crate::retry::retry;
use crate::ssh::{PublicHostKey, Ssh, SshError};

/// The pauses before the new key is tried, or the tag read, again: sshd takes a moment to read its
/// settings, and EC2 to repeat what was written.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// How long it may take in all, while nobody waits for anything else of the host: some ten round trips,
/// two calls to EC2 and two moments of sshd's.
const LIMIT: Duration = Duration::from_secs(20);

/// Has a claimed host make its own key, where it has not yet. A host that cannot, or whose tag cannot
/// be written, keeps both until the next claim: a line says so.
pub(super) async fn renew(host: &Instance, links: &mut Links, login: &mut Login) {
    let is_due = |link: &Link| link.has_launch_key && link.is_held();
    if !links.get(&host.id).is_some_and(is_due) {
        return;
    }
    // Wherever it is cut off, the host keeps both.
    let renewed = timeout(LIMIT, try_to_renew(host, links, login)).await;
    if let Err(why) = renewed.unwrap_or_else(|_| Err(LATE.to_owned())) {
        let id = host.id.after("the");
        login.ingress().print_once(&format!(
            "{id} keeps the SSH host key that is in its user data, until it is claimed again: {why}"
        ));
    }
}

async fn try_to_renew(host: &Instance, links: &mut Links, login: &mut Login) -> Result<(), String> {
    let ec2 = links.context().ec2.clone();
    let link = links.get_mut(&host.id).ok_or("the connection was lost")?;
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let own = link.host.make_host_key().await;
    let own = own.map_err(|error| text(&error))?;
    if !own.is_own() {
        return Err("its new key is of another kind than asked for".to_owned());
    }
    try_key(host, login, &own).await?;
    record(&ec2, &host.id, &own).await?;
    // Whoever reads the tag later reads this one, or asks again.
    link.ssh.expect(own.clone());
    login.renewed.insert(host.id.clone(), own.clone());
    let settled = link.host.settle_host_key(&own).await;
    settled.map_err(|error| text(&error))?;
    link.has_launch_key = false;
    Ok(())
}

/// Logs in by the new key: a tag that names it must not lock anybody out.
async fn try_key(host: &Instance, login: &Login, own: &PublicHostKey) -> Result<(), String> {
    let mut target = login.target(host)?;
    target.host_key = own.to_string();
    let key = login.key().private();
    let is_early = |tried: &Result<Ssh, SshError>| {
        matches!(
            tried,
            Err(SshError::WrongHostKey(_) | SshError::Unreachable(..))
        )
    };
    let tried = retry(&PAUSES, is_early, || Ssh::connect(&target, key)).await;
    tried.map(drop).map_err(|error| error.to_string())
}

/// Writes the tag, and reads it back.
async fn record(ec2: &Ec2, host: &InstanceId, own: &PublicHostKey) -> Result<(), String> {
    let text = own.to_string();
    let tags = tags::own_host_key(&text);
    let written = ec2.tag(host.as_str(), &tags).await;
    written.map_err(|error| error.to_string())?;
    let is_stale = |read: &Result<Option<Instance>, _>| match read {
        Ok(Some(there)) => tags::host_key(&there.tags) != Some(&text),
        _ => false,
    };
    match retry(&PAUSES, is_stale, || ec2.instance(host)).await {
        Ok(Some(there)) if tags::host_key(&there.tags) == Some(&text) => Ok(()),
        Ok(_) => Err("EC2 does not show the tag that was written".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
