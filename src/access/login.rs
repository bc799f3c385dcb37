//! Logging in to a host: with this laptop's own key, as the user that the boot script authorizes.
//!
//! A host that another laptop launched does not know the key. EC2 Instance Connect then authorizes
//! it for a minute, and after the login the host itself does, for later connections (a forward, a
//! shell after a lost one). It is asked only after a refusal of the key, never for a missing
//! answer, and at most once a minute. The host's own key is verified before.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use crate::clock::{BootTime, Clock};
use crate::drive::{self, NoAnswer, Route, tags};
use crate::ec2::{Ec2, Instance, Kind};
use crate::host::facts::ScriptError;
use crate::host::scripts::{ArriveOrder, Arrived, Host};
use crate::host::{EarlyConnection, EarlySibling, HostState};
use crate::ids::InstanceId;
use crate::retry::retry;
use crate::ssh::{
    ProxyEnd, ProxyFailure, PublicHostKey, REACH, Received, Ssh, SshError, Target, UserKey,
};
use tokio::time::timeout;

use super::elastic::{Elastic, NotRunning};
use super::ingress::Ingress;
use super::purpose::{ArrivalRequest, Purpose};
use super::target::{USER, own_key_since, target};

/// How long a host that accepts connections may take to answer: key exchange, authentication and
/// contact, or contact alone. Those are ten round trips and 40 KB at most, 4 s at 300 ms and 0.5
/// Mbit/s; the rest is for a host that still boots, or swaps. An attempt without any answer ends
/// sooner ([`REACH`]).
pub(super) const ANSWER: Duration = Duration::from_secs(20);

/// The error for a host that has not answered within [`ANSWER`].
pub(super) const LATE: &str = "it did not answer in time";

/// How long a whole attempt may take. A proxy command may have to log in somewhere itself, in as
/// many round trips again.
const ATTEMPT: Duration = ANSWER.saturating_add(REACH);

/// How long EC2 Instance Connect may take to answer: a TLS connection and one call, which are five
/// round trips.
const SEND: Duration = Duration::from_secs(10);

/// How long a sent key is authorized: it is not sent again before that is over.
const GOOD: Duration = Duration::from_mins(1);

/// The pauses before further attempts: a sent key may take a moment to reach the instance. An
/// attempt ends with the host's refusal, however long its round trips, and three fit in the minute.
const PAUSES: [Duration; 2] = [Duration::from_millis(500); 2];

/// The laptop's logins to its hosts.
pub(super) struct Login {
    key: UserKey,
    ingress: Ingress,
    ec2: Ec2,
    clock: Clock,
    /// The address that hosts get before the login.
    pub(super) elastic: Option<Elastic>,
    /// Whether nothing may be changed, even to log in.
    pub(super) only_looks: bool,
    /// The hosts' own keys, where this process learnt them after it had read the tags.
    pub(super) renewed: BTreeMap<InstanceId, PublicHostKey>,
    /// The count of what has come from all hosts.
    pub(super) received: Received,
    /// When EC2 Instance Connect was last asked for each host, and why the login failed.
    refused: BTreeMap<InstanceId, (BootTime, String)>,
}

/// Why a login failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No answer, or not the host's.
    Unreachable(String),
    /// The proxy command ended.
    ProxyFailed(NoAnswer),
    /// The host refuses this laptop's key.
    KeyRefused(String),
    /// The host has another key than the recorded one.
    OtherHostKey(String),
}

impl From<Refusal> for drive::HostError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unreachable(why) | Refusal::KeyRefused(why) | Refusal::OtherHostKey(why) => {
                Self::Unreachable(why)
            }
            Refusal::ProxyFailed(no_answer) => Self::Unreachable(no_answer.why),
        }
    }
}

/// A login: the connection, and the host's state.
pub(super) struct LoggedIn {
    pub(super) ssh: Ssh,
    pub(super) host: Host,
    pub(super) contact: HostState,
    /// The result of an arrival, if there was one.
    pub(super) arrived: Option<Arrived>,
    /// The dedicated connection that is being opened beside it.
    pub(super) early: Option<EarlyConnection>,
    /// The connection for files that is being opened beside it.
    pub(super) files: Option<EarlySibling>,
}

enum Attempt {
    LoggedIn(Box<LoggedIn>),
    /// The host does not know this laptop's key.
    KeyRefused,
}

impl Login {
    pub(super) fn new(key: UserKey, ingress: Ingress, ec2: Ec2, clock: Clock) -> Self {
        Self {
            key,
            ingress,
            ec2,
            clock,
            elastic: None,
            only_looks: false,
            renewed: BTreeMap::new(),
            received: Received::default(),
            refused: BTreeMap::new(),
        }
    }

    /// The ingress of hosts and launches.
    pub(super) fn ingress(&mut self) -> &mut Ingress {
        &mut self.ingress
    }

    /// The host's sshd, and the key that it is known by now.
    pub(super) fn target(&self, host: &Instance) -> Result<Target, &'static str> {
        let target = target(host, self.ingress.reach(), &self.renewed)?;
        let received = self.received.clone();
        Ok(Target { received, ..target })
    }

    /// The key that a new host is to authorize.
    pub(super) fn key(&self) -> &UserKey {
        &self.key
    }

    /// Why the host refused this laptop's key at the last attempt, if it did.
    pub(super) fn key_refusal(&self, host: &InstanceId) -> Option<&str> {
        self.refused.get(host).map(|(_, why)| why.as_str())
    }

    /// Logs in and makes contact, while the host's ingress is checked. Fails within about 3 s where
    /// nothing answers, 6 where a new rule was needed; within 23 s where something does.
    pub(super) async fn enter(
        &mut self,
        host: &Instance,
        purpose: Purpose<'_>,
    ) -> Result<LoggedIn, Refusal> {
        let missing = |what: &str| Refusal::Unreachable(what.to_owned());
        let moved = self.move_to_elastic(host).await?;
        let host = moved.as_ref().unwrap_or(host);
        let mut target = self.target(host).map_err(missing)?;
        if !self.only_looks {
            self.ingress.open(host, target.address.ip());
        }
        let mut attempt = self.first_attempt(&target, purpose).await;
        if let Err(Refusal::OtherHostKey(_)) = &attempt
            && self.learn_own_key(&host.id, &mut target).await
        {
            attempt = self.first_attempt(&target, purpose).await;
        }
        // A proxy command that fails is more likely wrong than early: its failure is reported
        // before the retry.
        if let (
            Some(_),
            Err(Refusal::Unreachable(why) | Refusal::ProxyFailed(NoAnswer { why, .. })),
        ) = (&target.proxy, &attempt)
        {
            self.ingress
                .print_once(&format!("no way in to {} yet: {why}", host.id.after("the")));
        }
        if let Attempt::LoggedIn(made) = attempt? {
            self.refused.remove(&host.id);
            return Ok(*made);
        }
        if self.only_looks {
            let why = "it does not know this computer yet, and nothing is to be changed";
            return Err(Refusal::KeyRefused(why.to_owned()));
        }
        let now = self.clock.boot();
        if let Some((at, why)) = self.refused.get(&host.id)
            && now.since(*at) < GOOD
        {
            return Err(Refusal::KeyRefused(why.clone()));
        }
        let authorized = self.authorize(host, &target, purpose).await;
        if let Err(Refusal::KeyRefused(why)) = &authorized {
            self.refused.insert(host.id.clone(), (now, why.clone()));
        }
        authorized
    }

    /// The host at the Elastic IP address that it has got since it was listed.
    async fn move_to_elastic(&mut self, host: &Instance) -> Result<Option<Instance>, Refusal> {
        let Some(elastic) = self.elastic.as_mut().filter(|_| !self.only_looks) else {
            return Ok(None);
        };
        let settled = elastic.settle(host).await;
        let address = settled.map_err(|NotRunning| {
            Refusal::Unreachable("EC2 gives it its address only once it runs".to_owned())
        })?;
        Ok(address.map(|address| Instance {
            address: Some(address),
            ..host.clone()
        }))
    }

    /// Reads the tag again: the host may have made its own key since. Returns whether `target` has that
    /// now.
    async fn learn_own_key(&mut self, host: &InstanceId, target: &mut Target) -> bool {
        let refused = &target.host_key;
        if !refused
            .parse()
            .is_ok_and(|key: PublicHostKey| key.is_of_launch())
        {
            return false;
        }
        // EC2 may take a moment to repeat what was written.
        let recorded = retry(&PAUSES, Option::is_none, async || {
            let there = self.ec2.instance(host).await.ok().flatten();
            let recorded = there.as_ref().and_then(|there| tags::host_key(&there.tags));
            own_key_since(refused, recorded)
        });
        let Some(own) = recorded.await else {
            return false;
        };
        target.host_key = own.to_string();
        self.renewed.insert(host.clone(), own);
        true
    }

    /// An attempt beside checking the host's ingress. A SYN from before a new rule is lost, and TCP
    /// sends it again only after a second: another attempt is quicker.
    async fn first_attempt(
        &mut self,
        target: &Target,
        purpose: Purpose<'_>,
    ) -> Result<Attempt, Refusal> {
        let mut first = pin!(attempt(target, &self.key, purpose));
        tokio::select! {
            biased;
            answer = &mut first => return answer,
            is_new = self.ingress.opened() => {
                if !is_new {
                    return first.await;
                }
            }
        }
        attempt(target, &self.key, purpose).await
    }

    /// Has EC2 Instance Connect authorize the key for a minute, logs in with it, and has the host
    /// authorize it for good.
    async fn authorize(
        &self,
        host: &Instance,
        target: &Target,
        purpose: Purpose<'_>,
    ) -> Result<LoggedIn, Refusal> {
        let sending = self
            .ec2
            .send_ssh_key(&host.id, &host.zone, USER, self.key.public());
        match timeout(SEND, sending).await {
            Ok(Ok(())) => {}
            // The instance is ending, or EC2 throttles: no refusal of the key.
            Ok(Err(error))
                if matches!(
                    error.kind,
                    Kind::State | Kind::NotFound | Kind::Server | Kind::Throttled
                ) =>
            {
                return Err(Refusal::Unreachable(error.to_string()));
            }
            Ok(Err(error)) => return Err(Refusal::KeyRefused(error.to_string())),
            Err(_) => {
                let why = "EC2 Instance Connect did not answer in time";
                return Err(Refusal::KeyRefused(why.to_owned()));
            }
        }
        let is_early = |attempt: &Result<_, _>| matches!(attempt, Ok(Attempt::KeyRefused));
        let attempt = || attempt(target, &self.key, purpose);
        let Attempt::LoggedIn(made) = retry(&PAUSES, is_early, attempt).await? else {
            let why = "the host does not ask EC2 Instance Connect for keys";
            return Err(Refusal::KeyRefused(why.to_owned()));
        };
        made.host
            .authorize(self.key.public())
            .await
            .map_err(|error| unreachable(&error))?;
        Ok(*made)
    }
}

/// Tries to log in with the laptop's key, and opens beside it whatever the purpose needs.
async fn attempt(target: &Target, key: &UserKey, purpose: Purpose<'_>) -> Result<Attempt, Refusal> {
    let attempt = async {
        let (mut early, mut files) = (None, None);
        match purpose {
            Purpose::Contact => {}
            Purpose::Arrival(it) => {
                let (key, shell) = (key.private(), it.shell.as_deref());
                early = Some(EarlyConnection::begin(target, key, &it.session, shell));
            }
            Purpose::Files => files = Some(EarlySibling::begin(target, key.private())),
        }
        let ssh = match Ssh::connect(target, key.private()).await {
            Ok(ssh) => ssh,
            Err(SshError::Denied(_)) => return Ok(Attempt::KeyRefused),
            Err(error) => return Err(refusal(&error)),
        };
        let answer = match purpose {
            Purpose::Contact | Purpose::Files => {
                let contact = Host::contact(ssh.clone()).await;
                contact.map(|(host, contact)| (host, contact, None))
            }
            Purpose::Arrival(ArrivalRequest { client, drive, .. }) => {
                Host::arrive(ssh.clone(), &ArriveOrder { client, drive }).await
            }
        };
        let (host, contact, arrived) = answer.map_err(|error| unreachable(&error))?;
        Ok(Attempt::LoggedIn(Box::new(LoggedIn {
            ssh,
            host,
            contact,
            arrived,
            early,
            files,
        })))
    };
    timeout(ATTEMPT, attempt)
        .await
        .unwrap_or_else(|_| Err(Refusal::Unreachable(LATE.to_owned())))
}

/// Why there was no answer, and whether the proxy command is the cause.
fn refusal(error: &SshError) -> Refusal {
    if let SshError::WrongHostKey(_) = error {
        return Refusal::OtherHostKey(error.to_string());
    }
    let failure = match error {
        SshError::Unreachable(_, why) => why.get_ref().and_then(|why| why.downcast_ref()),
        _ => None,
    };
    let Some(ProxyFailure { words, end }) = failure else {
        return Refusal::Unreachable(error.to_string());
    };
    let why = words.clone();
    match end {
        ProxyEnd::GoesOn => Refusal::Unreachable(why),
        ProxyEnd::Ended => Refusal::ProxyFailed(NoAnswer {
            why,
            route: Route::Ends,
        }),
        ProxyEnd::Missing => Refusal::ProxyFailed(NoAnswer {
            why,
            route: Route::Missing,
        }),
    }
}

fn unreachable(error: &ScriptError) -> Refusal {
    Refusal::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::super::target::tests::host;
    use super::*;
    use crate::cloud::folder;
    use crate::config::Reach;
    use crate::ec2::loopback::silent;
    use crate::local::plane::PaperPlane;
    use crate::local::{Local, OpenOptions};
    use crate::report::Report;
    use crate::ssh::HostKey;

    #[tokio::test]
    async fn an_ec2_that_does_not_answer_keeps_nobody_from_logging_in() {
        let dir = tempfile::tempdir().unwrap();
        let key = UserKey::open_or_create(&dir.path().join("key")).unwrap();
        let (ec2, _listener) = silent();
        let (clock, report) = (Clock::system(), Report::in_memory());
        let reach = Reach {
            proxy: Some("exit 7".parse().unwrap()),
            cidrs: vec!["203.0.113.7".parse().unwrap()],
            ..Reach::default()
        };
        let (with, by) = (ec2.clone(), clock.clone());
        let ingress = Ingress::new(with, by, report.clone(), "ada", &key, None, reach);
        let mut login = Login::new(key, ingress, ec2, clock);
        let mut host = host(None, Some("127.0.0.1"), None);
        host.groups = vec!["sg-0abc".parse().unwrap()];
        let host_key = HostKey::generate().unwrap().public;
        host.tags.insert(tags::HOST_KEY.to_owned(), host_key);
        let entered = timeout(
            Duration::from_secs(20),
            login.enter(&host, Purpose::Contact),
        )
        .await;
        let Ok(Err(Refusal::ProxyFailed(NoAnswer { why, route }))) = entered else {
            panic!("it waits for EC2, or got in");
        };
        assert!(why.contains("exit status 7"), "{why}");
        assert_eq!(
            report.printed(),
            format!("no way in to the instance (i-0abc) yet: {why}\n")
        );
        assert_eq!(route, Route::Ends);
    }

    #[tokio::test]
    async fn an_attempt_from_before_a_new_rule_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions::new(&dir.path().join("state"), PaperPlane, Clock::system());
        let ec2 = folder::ec2(&Local::open(options).unwrap());
        let laptop = |name: &str, cidr: &str| {
            let key = UserKey::open_or_create(&dir.path().join(name)).unwrap();
            let reach = Reach {
                cidrs: vec![cidr.parse().unwrap()],
                ..Reach::default()
            };
            let (clock, report) = (Clock::system(), Report::in_memory());
            let (with, by) = (ec2.clone(), clock.clone());
            let ingress = Ingress::new(with, by, report, "ada", &key, None, reach);
            Login::new(key, ingress, ec2.clone(), clock)
        };
        let mut host = host(Some("127.0.0.1"), None, None);
        let mut first = laptop("one", "203.0.113.7");
        host.groups = first.ingress().for_launch().await.unwrap();

        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let target = Target {
            address: listener.local_addr().unwrap(),
            user: USER.to_owned(),
            host_key: HostKey::generate().unwrap().public,
            proxy: None,
            received: Received::default(),
        };
        // The first SYN gets no answer, as in a group without the rule.
        let serving = tokio::spawn(async move {
            let lost = listener.accept().await.unwrap();
            let (mut second, _) = listener.accept().await.unwrap();
            second.write_all(b"no SSH here\r\n\r\n").await.unwrap();
            drop(lost);
        });
        let mut second = laptop("two", "198.51.100.1");
        second.ingress().open(&host, target.address.ip());
        let Err(Refusal::Unreachable(why)) = second.first_attempt(&target, Purpose::Contact).await
        else {
            panic!("no host is there");
        };
        assert!(
            !why.contains("in time"),
            "only the second is answered: {why}"
        );
        serving.await.unwrap();
    }
}
