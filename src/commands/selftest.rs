//! `xdrive selftest`: what only the account itself can prove, a line for each thing.
//!
//! ```text
//! the account ▸ for each host that is asked for: connect ▸ look at it from inside ▸ save ▸ discard
//! ```
//!
//! Every host is launched by an ordinary session, on a drive made for it, and the drive is
//! destroyed by the same proofs as any other's. The first touch takes two: the second has the drive as
//! the first has saved it. A line ends in `ok`, in `failed` with the reason
//! and a hint, or in `not asked` with the reason. Nothing is begun whose worst case costs more than
//! is left of the budget. The end always checks whether anything is left.

mod account;
mod budget;
mod facts;
mod finding;
mod former;
mod host;
mod interruption;
mod touch;

use std::path::PathBuf;

use super::flags::Reach;
use super::{Context, key};
use crate::cloud::{Cloud, Place};
use crate::config::{self, Config, InstanceProfile, Options, Paths, quantity};
use crate::ec2::Price;
use crate::failure::{Exit, Failure};
use crate::ids::{DriveName, SessionId, SubnetId};
use crate::report::Report;
use crate::signals::{End, Signals};
use crate::ssh::UserKey;

use budget::Budget;
use finding::{Finding, Lines};

/// The text with which its help ends.
pub(crate) const END: &str = "\
The report:
  version         1
  xdrive          the version that wrote it
  drives          what the names of the drives begin with that were made
  owner           the caller, if that could be found out
  region, place   where: aws, endpoint (one of its own), folder or paper
  began, ended    when (RFC 3339)
  budget_dollars, spent_dollars
                  what was allowed, and what is estimated to have been spent
  lines           a list: name; result (ok, failed or not-asked); found for ok,
                  why and perhaps a hint for the others; dollars where a host
                  was had for it
  left            ids of what could not be cleared away, and is still billed";

/// `xdrive selftest`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The most that may be spent, in US dollars.
    ///
    /// Nothing is begun that could cost more than is left of it, should this computer vanish.
    #[arg(
        long,
        value_name = "DOLLARS",
        default_value = "0.50",
        value_parser = quantity::budget
    )]
    pub budget: Price,

    /// Also launch a type with a GPU.
    #[arg(long)]
    pub gpu: bool,

    /// Also measure how late a restored volume's blocks come.
    ///
    /// By two hosts, one after the other: the first writes 512 MiB to a drive, and the second reads
    /// them from the volume that is made from its snapshot.
    #[arg(long)]
    pub first_touch: bool,

    /// Also ask Session Manager, with this instance profile.
    ///
    /// It needs `AmazonSSMManagedInstanceCore`.
    #[arg(long, value_name = "PROFILE")]
    pub session_manager: Option<InstanceProfile>,

    /// Also have a spot instance taken back, in this role.
    ///
    /// By Fault Injection Service, an instance of selftest's own, in a role that you have made for
    /// it: it trusts `fis.amazonaws.com`, and allows
    /// `ec2:SendSpotInstanceInterruptions` and `ec2:DescribeInstances`.
    #[arg(long, value_name = "ARN", value_parser = config::role)]
    pub fis_role: Option<String>,

    /// Launch hosts also at an endpoint of its own.
    ///
    /// Where `AWS_ENDPOINT_URL` leads there need not be any.
    #[arg(long, hide_short_help = true)]
    pub hosts: bool,

    /// Where the report is written.
    ///
    /// [default: xdrive-selftest-….json in this folder].
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// The image of the drives that are made.
    ///
    /// A registry's, or an archive [default: as for new drives].
    #[arg(long, value_name = "REFERENCE|TAR", hide_short_help = true)]
    pub image: Option<String>,

    /// The subnet to launch in.
    ///
    /// [default: the default VPC, any zone].
    #[arg(long, value_name = "SUBNET", hide_short_help = true)]
    pub subnet: Option<SubnetId>,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// The scope of a selftest.
#[derive(Debug)]
struct Order {
    /// The most that may be spent.
    pub budget: Price,
    /// Whether a type with a GPU is launched too.
    pub gpu: bool,
    /// Whether it is measured how late a volume's blocks come.
    pub first_touch: bool,
    /// Whether hosts are launched at a custom endpoint, which may have none.
    pub hosts: bool,
    /// The instance profile of the hosts that Session Manager connects to.
    pub session_manager: Option<String>,
    /// The role with which Fault Injection Service interrupts an instance.
    pub fis_role: Option<String>,
    /// Where the report goes.
    pub json: Option<PathBuf>,
    /// The image, subnet and reach of the hosts.
    pub options: Options,
}

/// Runs the selftest. Returns the exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    let order = order(args, &paths)?;
    super::block_on(async {
        let cloud = context.open(&paths).await?;
        selftest(&order, &cloud, &paths, &key(&paths)?).await
    })
}

/// The order: flags over configuration.
fn order(typed: Args, paths: &Paths) -> Result<Order, Failure> {
    let flags = Config {
        image: typed.image,
        subnet: typed.subnet,
        ..typed.reach.into()
    };
    let mut options = Options::choose(flags, Config::read(paths)?)
        .map_err(|error| Failure::new(Exit::Usage, anyhow::anyhow!(error)))?;
    options.logins = options.config.logins(&|name| std::env::var_os(name));
    Ok(Order {
        budget: typed.budget,
        gpu: typed.gpu,
        first_touch: typed.first_touch,
        hosts: typed.hosts,
        session_manager: typed.session_manager.map(|it| it.0),
        fis_role: typed.fis_role,
        json: typed.json,
        options,
    })
}

/// A running selftest.
struct Run<'a> {
    order: &'a Order,
    cloud: &'a Cloud,
    paths: &'a Paths,
    key: &'a UserKey,
    /// The prefix of the drives' names.
    name: String,
    budget: Budget,
    lines: Lines,
    report: Report,
    signals: Signals,
    /// The resources that could not be deleted.
    left: Vec<String>,
    interrupted: Option<End>,
}

/// Checks everything that can be checked here. Returns the exit code: 0 if nothing failed and
/// nothing is left.
async fn selftest(
    order: &Order,
    cloud: &Cloud,
    paths: &Paths,
    key: &UserKey,
) -> Result<u8, Failure> {
    cloud.check_machine()?;
    let random = SessionId::random().map_err(|error| Failure::new(Exit::Failed, error))?;
    let name = format!("selftest-{}", &random.0[..8]);
    let began = cloud.clock.now();
    let json = order.json.clone();
    let json = json.unwrap_or_else(|| PathBuf::from(format!("xdrive-{name}.json")));
    let mut run = Run {
        order,
        cloud,
        paths,
        key,
        name,
        budget: Budget::new(order.budget),
        lines: Lines::default(),
        report: Report::stderr(),
        // Installed for the whole run: between two sessions nothing else receives signals.
        signals: Signals::install().map_err(anyhow::Error::from)?,
        left: Vec::new(),
        interrupted: None,
    };
    let owner = account::ask(&mut run).await;
    if let Some(owner) = &owner {
        former::clear(&mut run, owner).await;
        host::ask(&mut run, owner).await;
    }
    let spent = run.budget.spent();
    run.report.print(&format!(
        "spent about ${spent:.4} of {}; {}",
        order.budget,
        match run.left.as_slice() {
            [] => "nothing is left that is billed".to_owned(),
            left => format!("left, and billed: {}", left.join(", ")),
        }
    ));
    let document = finding::Document {
        version: 1,
        xdrive: env!("CARGO_PKG_VERSION"),
        drives: run.name.clone(),
        owner,
        region: cloud.ec2.region().to_owned(),
        place: cloud.place,
        began: began.to_string(),
        ended: cloud.clock.now().to_string(),
        budget_dollars: order.budget.dollars(),
        spent_dollars: spent,
        lines: run.lines.all(),
        left: &run.left,
    };
    document.write(&json)?;
    run.report
        .print(&format!("the report is {}", json.display()));
    Ok(run.code())
}

impl Run<'_> {
    /// Prints a line, and keeps it for the report.
    fn add(&mut self, line: Finding) -> Result<(), Failure> {
        self.lines.add(line)
    }

    /// A drive of this run.
    fn drive(&self, of: &str) -> Result<DriveName, Failure> {
        let name = format!("{}-{of}", self.name).parse();
        name.map_err(|error| Failure::new(Exit::Failed, anyhow::Error::new(error)))
    }

    /// Whether a signal has asked for the end by now.
    fn is_interrupted(&mut self) -> bool {
        let came = self.signals.asked();
        self.interrupted = self.interrupted.or(came);
        self.interrupted.is_some()
    }

    /// Whether `code` is that of the signal which has asked for the end.
    fn is_code_of_interruption(&self, code: u8) -> bool {
        let end = self.interrupted.map(Exit::from);
        end.is_some_and(|end| end.code() == code)
    }

    fn code(&self) -> u8 {
        if !self.left.is_empty() {
            Exit::TryAgain.code()
        } else if let Some(end) = self.interrupted {
            Exit::from(end).code()
        } else {
            self.lines.worst().map_or(0, Exit::code)
        }
    }

    /// Fails with the reason if this place has no hosts.
    fn require_hosts(&self) -> Result<(), &'static str> {
        match self.cloud.place {
            Place::Aws | Place::Folder => Ok(()),
            Place::Endpoint if self.order.hosts => Ok(()),
            Place::Endpoint => Err(
                "what answers at an endpoint of its own need not have hosts: --hosts asks all the \
                 same",
            ),
            Place::Paper => Err("this EC2 has states only, and no hosts"),
        }
    }
}
