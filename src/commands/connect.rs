//! `xdrive connect`: one session.

use std::sync::Arc;

use anyhow::anyhow;

use super::{Context, Names, key, local};
use crate::cloud::{self, Cloud, Which};
use crate::config::{self, Config, GitUser, Options, Paths};
use crate::failure::{Exit, Failure};
use crate::ids::{DriveAt, DriveIn};
use crate::report::Report;
use crate::saves;
use crate::session::{self, Named, Request};
use crate::ssh::escape;

/// The list of escapes, with which the help of `connect` ends.
pub(crate) fn escapes() -> String {
    let list = escape::HELP.replace('\r', "");
    list.trim_start_matches("~?\n").to_owned()
}

/// `xdrive connect`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The drive: letters, digits, `.`, `_`, `-`.
    ///
    /// 64 at most, the first a letter or a digit. With @N the session works on a fork of generation N,
    /// the drive NAME.at-N, which is made if there is none. With /CONTAINER it is in a container of that
    /// name beside the drive's main one, which --image makes the first time.
    #[arg(value_name = "NAME[@N][/CONTAINER]")]
    pub drive: DriveIn<DriveAt>,

    /// Settings of the session.
    #[command(flatten)]
    pub config: Config,

    /// Run this in the container instead of a shell.
    ///
    /// Its input, output and exit code are xdrive's.
    #[arg(last = true, value_name = "CMD", help_heading = None)]
    pub command: Vec<String>,
}

/// Runs a session. Returns its exit code.
pub(crate) fn run(args: Args, context: &Context) -> Result<u8, Failure> {
    let paths = context.paths()?;
    begin(request(args, &paths)?, &paths, context)
}

/// Runs the session of `request`. Returns its exit code.
pub(super) fn begin(mut request: Request, paths: &Paths, context: &Context) -> Result<u8, Failure> {
    request.yes = context.yes;
    request.ineffective = context.ineffective.clone();
    let which = context.which(paths)?;
    request.check(&which.command(paths))?;
    super::block_on(async {
        if let Which::Local = which
            && !request.options.config.dry_run
            && let Some(code) = local::offer(paths, context.yes).await?
        {
            return Ok(code);
        }
        if request.options.config.aws && !request.options.config.dry_run {
            let chain = cloud::credentials(&context.account, &which.command(paths)).await?;
            // What cannot be had is known before anything is launched.
            chain.document().await?;
            request.credentials = Some(Arc::new(chain));
        }
        let cloud = Cloud::open(&which, paths).await?;
        let names = Names::find(&cloud, paths).filter(|_| !request.options.config.dry_run);
        let drive = request.drive.clone();
        let key = key(paths)?;
        if !request.options.config.dry_run
            && let Some(of) = request.fork_of.take()
        {
            let opening = context.opening(
                super::whole(drive.clone()),
                request.options.config.once.shared,
            );
            let code = saves::fork_once(opening, cloud.clone(), of).await?;
            if code != 0 {
                return Ok(code);
            }
        }
        let code = session::connect(request, cloud, key).await?;
        if let Some(names) = names {
            names.add(&drive);
        }
        Ok(code)
    })
}

/// The request: flags over configuration.
pub fn request(args: Args, paths: &Paths) -> Result<Request, Failure> {
    let (flags, file) = (args.config, Config::read(paths)?);
    let mut options = Options::choose(flags.clone(), file.clone())
        .map_err(|error| Failure::new(Exit::Usage, anyhow!(error)))?;
    bring_along(&mut options, &flags, &file)?;
    let DriveIn { drive, container } = args.drive;
    let named = container.map(|name| Named {
        name,
        image: options.image.take(),
        places: flags.places(),
    });
    if named.is_some() {
        // What is typed is about that container, and what is configured about the main one.
        options.places = file.places();
    }
    let (drive, fork_of) = match drive.generation {
        Some(generation) => (drive.name.at(generation), Some(drive)),
        None => (drive.name, None),
    };
    let mut request = Request {
        named,
        fork_of,
        command: if flags.once.no_terminal {
            session::shell_without_terminal()
        } else {
            args.command
        },
        criu: paths.criu.clone(),
        ..Request::new(drive, options)
    };
    request.add_described()?;
    Ok(request)
}

/// Finds what comes along into the container: variables, the agent, Git's identity, logins.
fn bring_along(options: &mut Options, flags: &Config, file: &Config) -> Result<(), Failure> {
    let caller = |name: &str| std::env::var_os(name);
    let variables = &mut options.variables;
    file.add_variables(variables, false, &caller)
        .map_err(|error| {
            let error = error.context("the variables that the configuration brings along");
            Failure::new(Exit::Config, error).hint("xdrive help config lists its keys")
        })?;
    flags
        .add_variables(variables, true, &caller)
        .map_err(|error| {
            let hint = "-e NAME=VALUE, or -e NAME for one that is set here";
            Failure::new(Exit::Usage, error).hint(hint)
        })?;
    let config = &options.config;
    options.agent = match config.agent.then(|| config::agent(&caller)).transpose() {
        Ok(agent) => agent,
        Err(error) if flags.agent => {
            let hint = "eval \"$(ssh-agent)\" && ssh-add starts one; without -A none is needed";
            return Err(Failure::new(Exit::Unavailable, error).hint(hint));
        }
        Err(error) => {
            Report::stderr().warn(&format!("no agent is forwarded: {error:#}"));
            None
        }
    };
    options.git = (!config.no_git).then(GitUser::find).flatten();
    options.logins = config.logins(&caller);
    Ok(())
}
