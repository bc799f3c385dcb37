//! Checks on hosts: each by sessions of its own, with a drive that is discarded.

use std::time::Duration;

use super::super::whole;
use super::Run;
use super::account::add;
use super::budget::Budget;
use super::facts::{Facts, SCRIPT};
use super::finding::Finding;
use super::interruption;
use super::interruption::Injected;
use super::touch;
use crate::cloud::{NATIVE, Place};
use crate::config::launch::{ArchChoice, Fallback, LaunchOptions};
use crate::config::quantity::Lease;
use crate::config::{Config, Once, Options};
use crate::drive::pools::{self, ArchBy, Refused, Requirements, Resources, Scores, Terms};
use crate::ec2::{Arch, Market, Price};
use crate::failure::Failure;
use crate::ids::DriveName;
use crate::opener::Opening;
use crate::session;
use crate::session::{Examination, Request};
use crate::visit::{self, Disposable, Visitor};

/// The size of the drives, in GiB.
const SIZE: u32 = 16;

/// The lease of a host.
const LEASE: Duration = Duration::from_mins(15);

/// The bid as a multiple of the lowest price now: another zone, or a minute later, may cost more.
const BID: f64 = 1.5;

/// The subject of a host's check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// The usual host.
    Usual,
    Arm64,
    Gpu,
    SessionManager,
    FirstTouch,
    Interruption,
}

/// The output of a script, or why there is none; none before its host was ready.
type Answer = Option<Result<String, String>>;

/// The names of the usual host's lines, for when it cannot be launched.
const USUAL: [&str; 9] = [
    "machine image",
    "sshd",
    "docker data-root",
    "drive",
    "unwritten data",
    "metadata",
    "IPv6",
    "encryption",
    "save",
];

impl What {
    const ALL: [Self; 6] = [
        Self::Usual,
        Self::Arm64,
        Self::Gpu,
        Self::SessionManager,
        Self::FirstTouch,
        Self::Interruption,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Usual => USUAL[0],
            Self::Arm64 => "arm64",
            Self::Gpu => "GPU",
            Self::SessionManager => "Session Manager",
            Self::FirstTouch => touch::NAME,
            Self::Interruption => interruption::NAME,
        }
    }

    /// The suffix of its drive's name.
    fn suffix(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Arm64 => "arm64",
            Self::Gpu => "gpu",
            Self::SessionManager => "ssm",
            Self::FirstTouch => "touch",
            Self::Interruption => "taken",
        }
    }

    /// How many hosts it takes.
    fn hosts(self) -> u32 {
        u32::try_from(self.scripts().len()).unwrap_or(u32::MAX)
    }

    /// The interpreter and the script that are run on each of its hosts, one after the other.
    fn scripts(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::FirstTouch => &[
                ("python3 -I -S - write", touch::SCRIPT),
                ("python3 -I -S - read", touch::SCRIPT),
            ],
            _ => &[("sh -s", SCRIPT)],
        }
    }

    /// The resources of its host: as few as its image runs in, so that AWS's Free plan has a type
    /// that meets them.
    fn resources(self) -> Resources {
        match self {
            Self::Gpu => Resources {
                gpus: 1,
                ..Resources::default()
            },
            // The free tier's only types of it have 2 GiB at most.
            Self::Arm64 => Resources {
                cpus: 2,
                memory: 2,
                gpus: 0,
            },
            _ => Resources::DEFAULT,
        }
    }

    /// The architecture of the host.
    fn arch(self) -> ArchChoice {
        match (self, NATIVE) {
            (Self::Gpu, _) => ArchChoice::X86_64,
            (Self::Arm64, _) | (_, Arch::Arm64) => ArchChoice::Arm64,
            (_, Arch::X86_64) => ArchChoice::X86_64,
        }
    }

    /// Why it is not checked here, if so.
    fn refused(self, run: &Run<'_>) -> Option<&'static str> {
        let place = run.cloud.place;
        let is_folder = place == Place::Folder;
        match (run.require_hosts(), self) {
            (Err(why), _) => Some(why),
            (Ok(()), Self::Arm64) if is_folder && NATIVE == Arch::X86_64 => {
                Some("this computer is x86_64, and so are its instances")
            }
            (Ok(()), Self::Gpu) if is_folder => Some("the local EC2 has no GPUs"),
            (Ok(()), Self::Gpu) if !run.order.gpu => Some("--gpu asks it, at a GPU's price"),
            (Ok(()), Self::FirstTouch) if !run.order.first_touch => {
                Some("--first-touch asks it, at the price of two hosts")
            }
            (Ok(()), Self::SessionManager) if is_folder => {
                Some("the local EC2 has no Session Manager")
            }
            (Ok(()), Self::SessionManager) if run.order.session_manager.is_none() => Some(
                "--session-manager PROFILE asks it, with an instance profile that has \
                 AmazonSSMManagedInstanceCore",
            ),
            (Ok(()), Self::Interruption) if !is_folder && run.order.fis_role.is_none() => {
                Some("name a role with --fis-role, in which Fault Injection Service does it")
            }
            _ => None,
        }
    }
}

/// Runs all hosts, one after the other.
pub(super) async fn ask(run: &mut Run<'_>, owner: &str) {
    for what in What::ALL {
        let refused = what.refused(run).map(str::to_owned);
        let refused = match refused {
            None if run.is_interrupted() => Some("interrupted before it was begun".to_owned()),
            refused => refused,
        };
        match refused {
            Some(why) => not_asked(run, what, &why),
            None => ask_one(run, owner, what).await,
        }
    }
}

fn not_asked(run: &mut Run<'_>, what: What, why: &str) {
    match what {
        What::Usual => {
            for name in USUAL {
                add(run, Finding::not_asked(name, why));
            }
        }
        _ => add(run, Finding::not_asked(what.name(), why)),
    }
}

async fn ask_one(run: &mut Run<'_>, owner: &str, what: What) {
    let prepared = match prepare(run, what).await {
        Ok(prepared) => prepared,
        Err(failure) => return fail(run, what, &failure, None),
    };
    let (drive, request, price) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return not_asked(run, what, &why),
    };
    if what == What::Interruption
        && let Some(line) = interruption::refused(run, owner, &drive).await
    {
        return add(run, line);
    }
    if run.is_interrupted() {
        return not_asked(run, what, "interrupted before it was begun");
    }
    let began = run.cloud.clock.boot();
    let (ended, injected, answer) = examine(run, owner, what, &drive, &request).await;
    // The drive is discarded whatever the result is.
    let visitor = Visitor {
        key: run.key.clone(),
        reach: run.order.options.reach.clone(),
    };
    let discarded = visit::end_scratch(
        Opening::new(whole(drive.clone())),
        Disposable::Scratch,
        run.cloud,
        visitor,
    )
    .await;
    let discarded = discarded.map(|ended| ended.left);
    let cost = run
        .budget
        .spend(price, what.hosts(), run.cloud.clock.boot().since(began));
    let is_interrupted = run.is_interrupted();
    match (&ended, answer) {
        (Ok(_) | Err(_), None) if is_interrupted => {
            not_asked(run, what, "interrupted before its host was ready");
        }
        (Ok(code), Some(_)) if what == What::Interruption && run.is_code_of_interruption(*code) => {
            not_asked(run, what, "interrupted before EC2 took its instance back");
        }
        (Err(failure), None) => fail(run, what, failure, Some(cost)),
        (Ok(code), None) => {
            let failure = Failure::from(anyhow::anyhow!("the session ended with {code} too early"));
            fail(run, what, &failure, Some(cost));
        }
        (_, Some(Err(why))) => {
            let failure = Failure::from(anyhow::anyhow!("the host could not be looked at: {why}"));
            fail(run, what, &failure, Some(cost));
        }
        (_, Some(Ok(text))) => {
            if let Some(facts) = Facts::read(&text) {
                judge(run, what, &facts, (&ended, &injected), cost);
            } else {
                let failure = Failure::from(anyhow::anyhow!("the look at the host was cut short"));
                fail(run, what, &failure, Some(cost));
            }
        }
    }
    let command = format!("{} gc {drive}", run.cloud.command);
    match discarded {
        Ok(left) if left.is_empty() => {}
        Ok(left) => {
            let why = left.join(", ");
            add(run, Finding::failed("cleared away", why, Some(&command)));
            run.left.extend(left);
        }
        Err(failure) => {
            let line = Finding::of_failure("cleared away", &failure.hint(command));
            add(run, line);
            run.left.push(format!("whatever there is of {drive}"));
        }
    }
}

/// Examines its hosts, each by a session: how the last one ended, and what it answered. After one that did not
/// end well, or did not answer, there is no other; if the caller did not want the next one, nothing was answered.
async fn examine(
    run: &mut Run<'_>,
    owner: &str,
    what: What,
    drive: &DriveName,
    request: &Request,
) -> (Result<u8, Failure>, Injected, Answer) {
    let mut last = (Ok(0), Injected::Nothing, None);
    for (interpreter, script) in what.scripts() {
        if run.is_interrupted() {
            last.2 = None;
            break;
        }
        let examination = Examination::new(interpreter, script);
        let request = Request {
            examination: Some(examination.clone()),
            ..request.clone()
        };
        let session = session::connect(request, run.cloud.clone(), run.key.clone());
        let (ended, injected) = if what == What::Interruption {
            interruption::during(run, owner, drive, &examination, session).await
        } else {
            (session.await, Injected::Nothing)
        };
        let answer = examination.answer();
        let facts = answer
            .as_ref()
            .and_then(|answer| Facts::read(answer.as_ref().ok()?));
        let is_well = matches!(ended, Ok(0)) && facts.is_some_and(|facts| facts.failed().is_none());
        last = (ended, injected, answer);
        if !is_well {
            break;
        }
    }
    last
}

/// The drive, its session's request, and the bid for an hour of its instance; or why it is not
/// begun.
async fn prepare(
    run: &Run<'_>,
    what: What,
) -> Result<Result<(DriveName, Request, f64), String>, Failure> {
    let resources = what.resources();
    let Some(lowest) = lowest(run, what).await? else {
        return Ok(Err(format!(
            "no spot price is known of types with {resources}"
        )));
    };
    let bid = lowest.dollars() * BID;
    let hosts = what.hosts();
    if let Some(why) = run.budget.refuses(bid, hosts) {
        return Ok(Err(why));
    }
    if what == What::FirstTouch {
        run.report.print(&format!(
            "{}: {hosts} hosts, one after the other, for ${:.3} at most",
            touch::NAME,
            Budget::worst(bid, hosts)
        ));
    }
    let price: Price = format!("{bid:.6}").parse().map_err(anyhow::Error::new)?;
    let mut options = Options {
        launch: LaunchOptions {
            requirements: Some(Requirements::AtLeast(resources)),
            arch: Some(what.arch()),
            market: Some(Market::Spot),
            fallback: Some(Fallback::None),
            max_price: Some(price),
            size: Some(SIZE),
            checkpoint: None,
            freezes: Some(false),
            ..run.order.options.launch.clone()
        },
        config: Config {
            keep: Some(Lease(LEASE)),
            resume: false,
            once: Once {
                no_join: true,
                ..run.order.options.config.once.clone()
            },
            ..run.order.options.config.clone()
        },
        scratch: true,
        ..run.order.options.clone()
    };
    if what == What::SessionManager {
        const THROUGH: &str = "aws ssm start-session --target %i --document-name \
                               AWS-StartSSHSession --parameters portNumber=%p";
        options
            .launch
            .instance_profile
            .clone_from(&run.order.session_manager);
        options.reach.proxy = Some(
            THROUGH
                .parse()
                .map_err(|error| anyhow::anyhow!("{error}"))?,
        );
    }
    if what == What::FirstTouch {
        // What it measures, nobody may have fetched.
        options.launch.speed.warm = None;
        options.config.hot = Some(false);
    }
    let command = match what {
        // An experiment takes its time to begin.
        What::Interruption if run.order.fis_role.is_some() => "sleep 300",
        What::Interruption => "sleep 120",
        _ => "true",
    };
    let drive = run.drive(what.suffix())?;
    let request = Request {
        command: ["sh", "-c", command].map(str::to_owned).to_vec(),
        ..Request::new(drive.clone(), options)
    };
    request.check(&run.cloud.command)?;
    Ok(Ok((drive, request, bid)))
}

/// The lowest spot price now of a type that meets the requirements: among all types or among the
/// free tier's, whichever is more. An account on AWS's Free plan launches only the latter, which
/// shows only at the launch.
async fn lowest(run: &Run<'_>, what: What) -> Result<Option<Price>, Failure> {
    let look = async |is_free| {
        let terms = Terms {
            requirements: Requirements::AtLeast(what.resources()),
            markets: vec![Market::Spot],
            max_price: None,
            needs_price: false,
            image: run.order.options.launch.ami.clone(),
            arch: what.arch().only(),
            arch_by: ArchBy::Default,
            like: None,
            scores: Scores::Unasked,
            reserved: None,
            is_free,
        };
        match pools::look(&run.cloud.ec2, &terms).await {
            Ok(chosen) => Ok(chosen.offers.iter().filter_map(|offer| offer.price).min()),
            Err(Refused::Ec2(error)) => Err(Failure::from(error)),
            // The launch reports such a refusal better.
            Err(_) => Ok(None),
        }
    };
    Ok(look(false).await?.max(look(true).await?))
}

fn judge(
    run: &mut Run<'_>,
    what: What,
    facts: &Facts,
    (ended, injected): (&Result<u8, Failure>, &Injected),
    cost: f64,
) {
    match what {
        What::Usual => {
            let mut lines = facts.judge(run.cloud.place).into_iter();
            if let Some(first) = lines.next() {
                add(run, first.cost(cost));
            }
            for line in lines {
                add(run, line);
            }
            add(run, encryption(run.cloud.place, ended));
            add(run, saved("save", ended));
        }
        What::Gpu => add(run, facts.gpus().cost(cost)),
        What::Arm64 | What::SessionManager => add(run, facts.machine(what.name()).cost(cost)),
        What::FirstTouch => {
            let line = match ended {
                _ if touch::is_measured(facts) => touch::line(facts),
                Ok(code) if run.is_code_of_interruption(*code) => {
                    Finding::not_asked(touch::NAME, "interrupted before it was measured")
                }
                ended => saved(touch::NAME, ended),
            };
            add(run, line.cost(cost));
        }
        What::Interruption => {
            let line = interruption::line(ended, injected);
            add(run, line.cost(cost));
        }
    }
}

fn saved(name: &'static str, ended: &Result<u8, Failure>) -> Finding {
    match ended {
        Ok(0) => Finding::ok(
            name,
            "closed, snapshot completed and looked into, all else gone",
        ),
        Ok(code) => Finding::failed(name, format!("the session ended with {code}"), None),
        Err(failure) => Finding::of_failure(name, failure),
    }
}

/// The line on encryption: every drive's volume is encrypted, so the key can be used if a volume
/// was made, attached and saved.
fn encryption(place: Place, ended: &Result<u8, Failure>) -> Finding {
    const NAME: &str = "encryption";
    match (place, ended) {
        (Place::Folder | Place::Paper, _) => Finding::not_asked(NAME, "the local EC2 has no KMS"),
        (_, Ok(0)) => Finding::ok(NAME, "the default key encrypted a volume and its snapshot"),
        (_, ended) => saved(NAME, ended),
    }
}

/// Adds the lines of a host that was not ready: the first has the reason.
fn fail(run: &mut Run<'_>, what: What, failure: &Failure, cost: Option<f64>) {
    let mut line = Finding::of_failure(what.name(), failure);
    if let Some(cost) = cost {
        line = line.cost(cost);
    }
    add(run, line);
    if what == What::Usual {
        for name in &USUAL[1..] {
            add(run, Finding::not_asked(name, "no host was ready"));
        }
    }
}
