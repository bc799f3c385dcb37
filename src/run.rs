//! From what was typed to what runs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::CommandFactory as _;
use tokio::runtime::{Builder, Runtime};

use crate::cli::{self, Cli, Command, Connect, Local};
use crate::cloud::{Cloud, Which, folder};
use crate::config::{Config, Options, Paths, Reach};
use crate::ec2::Account;
use crate::failure::{Exit, Failure};
use crate::session;
use crate::session::Request;
use crate::ssh::UserKey;
use crate::{doctor, gc, list, policy, prices, report, selftest};

/// Runs one command; the answer is the exit code.
pub fn run(cli: Cli) -> Result<u8, Failure> {
    let (which, account) = (which(&cli), account(&cli));
    match cli.command {
        Command::Connect(typed) => {
            let paths = Paths::find(cli.local_dir)?;
            let request = request(*typed, &paths)?;
            request.check(&which.command(&paths))?;
            runtime()?.block_on(async {
                let cloud = Cloud::open(&which, &paths).await?;
                session::connect(request, cloud, key(&paths)?).await
            })
        }
        Command::Stop(typed) => {
            let paths = Paths::find(cli.local_dir)?;
            let reach = reach(typed.reach, &paths)?;
            runtime()?.block_on(async {
                let cloud = Cloud::open(&which, &paths).await?;
                let key = key(&paths)?;
                session::stop(typed.drive, typed.shared, reach, cloud, key).await
            })
        }
        Command::List(typed) => {
            let paths = Paths::find(cli.local_dir)?;
            runtime()?.block_on(async {
                let cloud = Cloud::open(&which, &paths).await?;
                list::list(&cloud, typed.drive.as_ref(), typed.json).await
            })?;
            Ok(0)
        }
        Command::Prices(typed) => {
            let paths = Paths::find(cli.local_dir)?;
            let config = Config::read(&paths)?;
            runtime()?.block_on(async {
                let cloud = Cloud::open(&which, &paths).await?;
                prices::prices(&cloud, &typed.types, &config, typed.json).await
            })?;
            Ok(0)
        }
        Command::Gc(typed) => {
            let paths = Paths::find(cli.local_dir)?;
            let order = gc::Order {
                drive: typed.drive,
                dry_run: typed.dry_run,
                snapshots: typed.snapshots.map(usize::from),
                json: typed.json,
                reach: reach(typed.reach, &paths)?,
            };
            runtime()?.block_on(async {
                let cloud = Cloud::open(&which, &paths).await?;
                gc::gc(&order, &cloud, &key(&paths)?).await
            })
        }
        Command::Doctor => {
            let paths = Paths::find(cli.local_dir)?;
            runtime()?.block_on(doctor::examine(&which, &paths))
        }
        Command::Selftest(typed) => {
            let paths = Paths::find(cli.local_dir)?;
            let order = selftest_order(*typed, &paths)?;
            runtime()?.block_on(async {
                let cloud = Cloud::open(&which, &paths).await?;
                selftest::selftest(&order, &cloud, &paths, &key(&paths)?).await
            })
        }
        Command::Policy {
            role,
            kms_key,
            partition,
            selftest,
        } => {
            let order = policy::Order {
                partition,
                selftest,
                role,
                keys: kms_key,
            };
            runtime()?.block_on(policy::print(&order, &account))
        }
        Command::Local(local) => run_local(local, cli.local_dir),
        Command::Man => print(&manual().map_err(anyhow::Error::from)?),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "xdrive", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// The EC2 that was named.
fn which(cli: &Cli) -> Which {
    if cli.local {
        Which::Local
    } else {
        Which::Account(account(cli))
    }
}

fn account(cli: &Cli) -> Account {
    Account {
        profile: cli.profile.clone(),
        region: cli.region.clone(),
    }
}

fn run_local(local: Local, dir: Option<PathBuf>) -> Result<u8, Failure> {
    match local {
        Local::Serve { port } => {
            let paths = Paths::find(dir)?;
            runtime()?.block_on(async {
                let mut signals =
                    crate::signals::Signals::install().map_err(anyhow::Error::from)?;
                let end = async {
                    use crate::signals::Signal;
                    loop {
                        if let Signal::Interrupt { .. } | Signal::Terminate | Signal::Hangup =
                            signals.next().await
                        {
                            break;
                        }
                    }
                };
                let ready = |url: &str| report::data(&format!("{url}\n"));
                folder::serve(&paths, port, ready, end).await?;
                Ok(0)
            })
        }
        Local::Env => print(&folder::environment(&Paths::find(dir)?)?),
        Local::Interrupt { instance, seconds } => {
            let notice = Duration::from_secs(seconds);
            let at = folder::interrupt(&Paths::find(dir)?, &instance, notice)?;
            print(&format!("{instance} ends at {at:.0}\n"))
        }
        Local::Rebalance { instance } => {
            let at = folder::rebalance(&Paths::find(dir)?, &instance)?;
            print(&format!("{instance} is to be left since {at:.0}\n"))
        }
        Local::Supervise {
            dir,
            cache,
            instance,
        } => {
            folder::supervise(&dir, &cache, &instance)?;
            Ok(0)
        }
    }
}

/// The manual page: the program's own, a section for each command, and what the help ends with.
fn manual() -> std::io::Result<String> {
    let mut cli = Cli::command();
    cli.build();
    let mut page = Vec::new();
    let whole = clap_mangen::Man::new(cli.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_options_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    sections(&cli, &mut page)?;
    page.push_str(&end(&cli));
    Ok(page)
}

/// A section for each command below `above`. The flags that all have stand in the program's own.
fn sections(above: &clap::Command, page: &mut String) -> std::io::Result<()> {
    let is_shown =
        |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    for command in above.get_subcommands().filter(is_shown) {
        let name = command.get_bin_name().unwrap_or_default().to_uppercase();
        let hidden = |arg: clap::Arg| {
            let is_everywhere =
                arg.is_global_set() || ["help", "version"].contains(&arg.get_id().as_str());
            arg.hide(is_everywhere)
        };
        let man = clap_mangen::Man::new(command.clone().mut_args(hidden));
        let mut section = Vec::new();
        man.render_synopsis_section(&mut section)?;
        man.render_description_section(&mut section)?;
        man.render_options_section(&mut section)?;
        let section = format!("{}{}", String::from_utf8_lossy(&section), end(command));
        let _ = write!(page, ".SH \"{name}\"\n{}", section.replace(".SH ", ".SS "));
        sections(command, page)?;
    }
    Ok(())
}

/// What the help of a command ends with, line for line: a section for each part, by its first line.
fn end(command: &clap::Command) -> String {
    let text = command.get_after_long_help().map(ToString::to_string);
    let mut sections = String::new();
    for part in text.iter().flat_map(|text| text.split("\n\n")) {
        let (title, lines) = part.split_once('\n').unwrap_or((part, ""));
        let title = title.trim_end_matches(':').to_uppercase();
        let lines = verbatim(lines.trim_end());
        let _ = write!(sections, ".SH \"{title}\"\n.nf\n{lines}\n.fi\n");
    }
    sections
}

/// As roff shows it unchanged (groff manual, *Escape sequences*): these would be a hyphen, accents
/// and an escape else.
fn verbatim(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        match letter {
            '-' => shown.push_str("\\-"),
            '~' => shown.push_str("\\(ti"),
            '^' => shown.push_str("\\(ha"),
            '\\' => shown.push_str("\\e"),
            other => shown.push(other),
        }
    }
    shown
}

/// What `xdrive connect` was asked for: the flags, and the configuration behind them.
pub fn request(typed: Connect, paths: &Paths) -> Result<Request, Failure> {
    let launch = typed.launch.options();
    let flags = Options {
        size: typed.size,
        speed: typed.speed.into(),
        image: typed.image,
        port: typed.port,
        keep: typed.keep,
        checkpoint: typed.checkpoint,
        resume: typed.resume,
        subnet: typed.subnet,
        instance_profile: typed.instance_profile,
        reach: typed.reach.into(),
        ..launch.map_err(|error| Failure::new(Exit::Usage, error))?
    };
    Ok(Request {
        drive: typed.drive,
        options: Options::choose(flags, Config::read(paths)?),
        from: typed.from,
        no_join: typed.no_join,
        shared: typed.shared,
        dry_run: typed.dry_run,
        command: typed.command,
        examination: None,
    })
}

/// What `xdrive selftest` was asked for, and the configuration behind it.
fn selftest_order(typed: cli::Selftest, paths: &Paths) -> Result<selftest::Order, Failure> {
    let flags = Options {
        image: typed.image,
        subnet: typed.subnet,
        reach: typed.reach.into(),
        ..Options::default()
    };
    Ok(selftest::Order {
        budget: typed.budget,
        gpu: typed.gpu,
        hosts: typed.hosts,
        session_manager: typed.session_manager,
        fis_role: typed.fis_role,
        json: typed.json,
        options: Options::choose(flags, Config::read(paths)?),
    })
}

/// How hosts are reached: the flags, and the configuration behind them.
fn reach(typed: cli::Reach, paths: &Paths) -> Result<Reach, Failure> {
    Ok(Reach::from(typed).or(Config::read(paths)?.reach()))
}

fn key(paths: &Paths) -> Result<UserKey, Failure> {
    UserKey::open_or_create(&paths.key).map_err(|error| Failure::new(Exit::Config, error))
}

/// One thread does: everything waits on the network or on child processes.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, error))
}

fn print(text: &str) -> Result<u8, Failure> {
    report::data(text).map_err(anyhow::Error::from)?;
    Ok(0)
}
