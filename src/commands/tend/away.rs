//! `xdrive tend --away`: tends from a tiny instance of the user's own.
//!
//! An ordinary run on an ordinary drive, of calls that exist: `run -d --restart` of this very program, which
//! `cp` brings there. So `ps` shows it, `stop` ends it, and whoever else tends begins it again where its
//! instance is lost. No code of the user's runs there. It works by the role of its instance, for this caller.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use sha2::{Digest as _, Sha256};

use super::super::{Context, connect, visitor, whole};
use crate::config::quantity::{LONGEST_RUN, Size};
use crate::config::{Config, InstanceProfile, Once, Options, Paths, Reach};
use crate::ec2::{Arch, Speed, StoragePrices};
use crate::failure::{Exit, Failure};
use crate::ids::DriveName;
use crate::launch::cost::Disks;
use crate::opener::{Drive, Opening};
use crate::report::Report;
use crate::session::{Request, Task, criu_archive};
use crate::transfer::{Copying, Order};
use crate::visit;

/// The drive of the tender.
const NAME: &str = "tender";

/// The drive's size in GiB: the image, and the program some times over.
const SIZE: u32 = 4;

/// The image that Amazon publishes, which the program's C library and certificates are in.
const IMAGE: &str = "public.ecr.aws/amazonlinux/amazonlinux:2023";

/// How long it tends without any run that is wanted.
const IDLE: Duration = Duration::from_mins(10);

/// How often it is begun again at most: as long as its time is not over.
const TRIES: u32 = 1000;

/// The command of the run: waits for the program, which is copied once the drive is up, and becomes it.
/// Others log in where this instance is let in: not at its container's address, but at its own.
const TENDS: &str = r#"n=0
until [ -x "$0" ]; do
    n=$((n + 1)); [ $n -le 600 ] || { echo "the program did not come" >&2; exit 1; }
    sleep 1
done
for old in ./xdrive-*; do [ "$old" = "$0" ] || rm -f "$old"; done
for at in $XDRIVE_ADDRESSES; do set -- "$@" --cidr "$at"; done
exec "$0" tend "$@""#;

/// Where it tends, of `xdrive tend`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Have a tiny instance tend while runs are wanted, and leave (--instance-profile).
    ///
    /// An ordinary run on the drive `tender`: `xdrive ps tender` shows it, `xdrive stop tender` ends it.
    #[arg(long, conflicts_with_all = ["once", "drive", "cidr"])]
    pub away: bool,

    /// The instance profile whose role tends; `xdrive policy --tend` prints what it needs.
    #[arg(
        long,
        value_name = "PROFILE",
        requires = "away",
        hide_short_help = true
    )]
    pub instance_profile: Option<InstanceProfile>,

    /// The image of its container [default: Amazon Linux 2023 from ECR Public].
    #[arg(long, value_name = "IMAGE", requires = "away", hide_short_help = true)]
    pub image: Option<String>,

    /// The xdrive for Linux that is to run there [default: this one].
    #[arg(long, value_name = "FILE", requires = "away", hide_short_help = true)]
    pub program: Option<PathBuf>,
}

/// Whose drives are tended, how hosts are reached, and for how long.
pub(super) struct Tending {
    /// The owners besides this caller.
    pub(super) owners: Vec<String>,
    /// Whether all drives are.
    pub(super) shared: bool,
    /// How long it goes on without any wanted run.
    pub(super) until_idle: Option<Duration>,
    /// How hosts are reached from here.
    pub(super) reach: Reach,
}

/// What is there of the tender.
enum Found {
    /// It tends, by this run.
    Tends(String),
    /// It is wanted, and its instance was lost.
    Lost,
    /// It does not tend; this is the caller, for whom it is to.
    Nothing(String),
}

/// Has the tender tend. A run of it that is wanted, and has no instance, is tended by `once` first: it has
/// ended, or is begun again. Returns the exit code.
pub(super) fn begin(
    args: &Args,
    tending: &Tending,
    once: impl FnOnce(DriveName) -> Result<u8, Failure>,
    context: &Context,
) -> Result<u8, Failure> {
    let paths = &context.paths()?;
    let name: DriveName = NAME.parse().map_err(anyhow::Error::new)?;
    let report = Report::stderr();
    let xdrive = context.which(paths)?.command(paths);
    let program = Program::find(args.program.as_deref())?;
    let request = request(args, &program, &name, tending.reach.clone(), paths)?;
    let look = || super::super::block_on(find(&name, context, paths));
    let mut found = look()?;
    if let Found::Lost = found {
        let code = once(name.clone())?;
        if code != 0 {
            return Ok(code);
        }
        found = look()?;
    }
    let caller = match found {
        Found::Tends(run) => {
            report.print(&format!("{name} tends already, by the run {run}"));
            return Ok(0);
        }
        Found::Lost => {
            let error = anyhow!("the run of {name} waits, as its instance was lost");
            return Err(Failure::new(Exit::TryAgain, error));
        }
        Found::Nothing(caller) => caller,
    };
    let disks = Disks {
        size: SIZE,
        speed: Speed::default(),
        prices: StoragePrices::default(),
    };
    let dollars = 24.0 * (program.hourly() + disks.hourly_cost_beside_price());
    report.print(&format!(
        "{name} is a {} on demand with {SIZE} GiB, about ${dollars:.2} a day in us-east-1 while runs are \
         wanted",
        program.instance_type()
    ));
    let request = Request {
        command: program.words(tending, caller),
        ..request
    };
    let code = connect::begin(request, paths, context)?;
    if code != 0 {
        return Ok(code);
    }
    let copied = super::super::block_on(async {
        for (source, to) in program.files(paths) {
            let drive = context.drive(paths, whole(name.clone()), false).await?;
            let order = Order::Up {
                sources: vec![source],
                to: to.into_bytes(),
            };
            let how = Copying {
                verb: "cp",
                ignores_times: false,
                watches: false,
            };
            let visitor = || visitor(paths, tending.reach.clone());
            let code = visit::copy(drive, visitor, None, order, how).await?;
            if code != 0 {
                return Ok(code);
            }
        }
        Ok(0)
    });
    match copied {
        Ok(0) => {
            report.print(&format!(
                "{name} tends: {xdrive} ps {name}  shows it, {xdrive} stop {name}  ends it"
            ));
            Ok(0)
        }
        Ok(code) => Ok(code),
        Err(failure) => Err(failure.hint(format!(
            "without the program {name} ends by itself; {xdrive} stop {name}  ends it now"
        ))),
    }
}

/// Looks for the tender.
async fn find(name: &DriveName, context: &Context, paths: &Paths) -> Result<Found, Failure> {
    let cloud = context.open(paths).await?;
    let drive = Drive::open(Opening::new(whole(name.clone())), cloud).await?;
    Ok(match (drive.wanted_run(), &drive.facts.host) {
        (Some(run), Some(_)) => Found::Tends(run.id.as_str().to_owned()),
        (Some(_), None) => Found::Lost,
        (None, _) => Found::Nothing(drive.identity.caller),
    })
}

/// The session that begins the run; its command is still missing. Of the configuration it has the network
/// alone: the rest is about drives that are worked on.
fn request(
    args: &Args,
    program: &Program,
    name: &DriveName,
    reach: Reach,
    paths: &Paths,
) -> Result<Request, Failure> {
    let file = Config::read(paths)?;
    let profile = args.instance_profile.clone().or(file.instance_profile);
    if profile.is_none() {
        let error = anyhow!("--instance-profile names the role by which {name} tends");
        let hint = "xdrive policy --tend prints what that role needs";
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    let flags = Config {
        types: vec![program.instance_type().to_owned()],
        on_demand: true,
        size: Some(Size(SIZE)),
        image: Some(args.image.clone().unwrap_or_else(|| IMAGE.to_owned())),
        instance_profile: profile,
        subnet: file.subnet,
        no_jupyter: true,
        no_git: true,
        once: Once {
            no_join: true,
            ..Once::default()
        },
        ..Config::default()
    };
    let options = Options::choose(flags, Config::default())
        .map_err(|error| Failure::new(Exit::Config, anyhow!(error)))?;
    Ok(Request {
        task: Task::Run {
            limit: LONGEST_RUN,
            is_detached: true,
            tries: Some(TRIES),
        },
        ..Request::new(name.clone(), Options { reach, ..options })
    })
}

/// An xdrive for Linux.
struct Program {
    file: PathBuf,
    /// Its name there, by its content: another version does not wait for itself in vain.
    name: String,
    arch: Arch,
}

impl Program {
    /// The one in `given`, else the one that runs here. Fails if Linux has no such programs.
    fn find(given: Option<&Path>) -> Result<Self, Failure> {
        let file = match given {
            Some(file) => file.to_owned(),
            None => std::env::current_exe().context("this program's own file")?,
        };
        let shown = file.display();
        let open = std::fs::File::open(&file);
        let mut open = open.with_context(|| format!("cannot read {shown}"))?;
        let mut bytes = Vec::new();
        let read = open.read_to_end(&mut bytes);
        read.with_context(|| format!("cannot read {shown}"))?;
        let Some(arch) = arch(&bytes) else {
            let error = anyhow!("{shown} does not run on Linux");
            let hint = "--program names the file of an xdrive for Linux";
            return Err(Failure::new(Exit::Usage, error).hint(hint));
        };
        let digest = hex::encode(&Sha256::digest(&bytes)[..6]);
        Ok(Self {
            name: format!("xdrive-{digest}"),
            file,
            arch,
        })
    }

    /// The files that are copied there, each with its name there: the program last, which begins once it has
    /// come, and finds criu beside it.
    fn files(&self, paths: &Paths) -> Vec<(PathBuf, String)> {
        let criu = criu_archive(&self.file, &paths.criu).and_then(|file| {
            let name = file.file_name()?.to_str()?.to_owned();
            Some((file, name))
        });
        let program = (self.file.clone(), self.name.clone());
        criu.into_iter().chain([program]).collect()
    }

    /// The smallest type with a GiB of memory.
    fn instance_type(&self) -> &'static str {
        match self.arch {
            Arch::X86_64 => "t3.micro",
            Arch::Arm64 => "t4g.micro",
        }
    }

    /// Its price on demand in us-east-1, in US dollars an hour (Amazon EC2 On-Demand pricing).
    fn hourly(&self) -> f64 {
        match self.arch {
            Arch::X86_64 => 0.0104,
            Arch::Arm64 => 0.0084,
        }
    }

    /// The words of the run's command, which tends for this `caller` too.
    fn words(&self, tending: &Tending, caller: String) -> Vec<String> {
        let idle = tending.until_idle.unwrap_or(IDLE).as_secs();
        let program = format!("./{}", self.name);
        let mut words = ["sh", "-c", TENDS, &program].map(str::to_owned).to_vec();
        words.extend(["--until-idle".to_owned(), format!("{idle}s")]);
        if tending.shared {
            words.push("--shared".to_owned());
        } else {
            let owners = tending.owners.iter().cloned().chain([caller]);
            words.extend(owners.flat_map(|owner| ["--owner".to_owned(), owner]));
        }
        words
    }
}

/// The architecture of a program for Linux; none if it is no such program (elf(5)).
fn arch(program: &[u8]) -> Option<Arch> {
    let is_elf = program.starts_with(b"\x7fELF\x02\x01");
    match program.get(18..20).filter(|_| is_elf)? {
        [62, 0] => Some(Arch::X86_64),
        [183, 0] => Some(Arch::Arm64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_for_another_system_is_no_program() {
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(18, 0);
        assert_eq!(arch(&elf), None);
        assert_eq!(arch(&[&elf[..], &[62, 0]].concat()), Some(Arch::X86_64));
        assert_eq!(arch(&[&elf[..], &[183, 0]].concat()), Some(Arch::Arm64));
        assert_eq!(
            arch(b"\xcf\xfa\xed\xfe\x07\0\0\x01\x03\0\0\0\x02\0\0\0\x11\0\x3e\0"),
            None
        );
    }
}
