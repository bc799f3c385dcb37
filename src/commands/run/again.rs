//! `xdrive run --again`: the order of the last run, as if it had been typed.
//!
//! Whoever may write on the drive may have written that order. Its words go to the container alone, and
//! its numbers are those that could have been typed. What launches comes from the drive's tags. Of a
//! drive that is not the caller's own, neither those count, nor what a host would do elsewhere. Nothing
//! is posted from here to an address that an order names.

use anyhow::{Context as _, anyhow};

use super::super::{Context, block_on, key};
use super::ordered::Ordered;
use crate::config::launch::LaunchOptions;
use crate::config::quantity::{self, Spool};
use crate::config::{Config, NotifyUrl, Options, Paths, S3Prefix};
use crate::ec2::Price;
use crate::failure::{Exit, Failure};
use crate::quote::join;
use crate::report::{Report, one_line};
use crate::session::Request;
use crate::visit::{LastRun, Visitor, last_run};

/// The most characters of a command that are shown.
const SHOWN: usize = 200;

/// The most flags that are named in a refusal.
const NAMED: usize = 8;

/// What is typed beside `--again`.
#[derive(Clone, Copy)]
pub(super) struct Typed<'a> {
    pub(super) config: &'a Config,
    pub(super) is_detached: bool,
}

/// Fills `ordered` and `request` with the order of the drive's last run, but for what is `typed`.
pub(super) fn begin_with(
    typed: Typed<'_>,
    ordered: &mut Ordered,
    request: &mut Request,
    paths: &Paths,
    context: &Context,
) -> Result<(), Failure> {
    let opening = context.opening(request.place(), request.options.config.once.shared);
    let visitor = Visitor {
        key: key(paths)?,
        reach: request.options.reach.clone(),
    };
    let last = block_on(async {
        let cloud = context.open(paths).await?;
        last_run(opening, &cloud, visitor).await
    })?;
    fill(typed, ordered, request, last)
}

fn fill(
    typed: Typed<'_>,
    ordered: &mut Ordered,
    request: &mut Request,
    last: LastRun,
) -> Result<(), Failure> {
    let LastRun {
        id,
        mut order,
        mut launch,
        is_own,
    } = last;
    let (id, report) = (id.as_str(), Report::stderr());
    let mut given = request.along();
    if typed.is_detached {
        (given.agent, given.aws) = (false, false);
    }
    let mut missing = order.along.missing_in(&given);
    if !missing.is_empty() {
        missing.truncate(NAMED);
        let missing = missing.join(" ");
        let why = anyhow!("the run {id} had something that is not on the drive: {missing}");
        let hint = format!("--again {missing}  brings it along once more");
        return Err(Failure::new(Exit::Usage, why).hint(hint));
    }
    if !is_own {
        let has_more = [
            launch.is_some(),
            order.results.is_some(),
            order.notify.is_some(),
        ];
        (launch, order.results, order.notify) = (None, None, None);
        if has_more.contains(&true) {
            let left =
                "the drive is another's: its launch options, --results and --notify are not taken";
            report.print(left);
        }
    }
    let typed = Options::choose(typed.config.clone(), Config::default());
    let typed = typed.map_err(|error| Failure::new(Exit::Usage, anyhow!(error)))?;
    let notice = typed.launch.notice.unwrap_or_else(|| order.notice());
    let budget = typed.launch.budget.or(order.budget.map(Price::from_cents));
    if let Some(line) = launch {
        let line: LaunchOptions = line.parse().map_err(|error| {
            let error = anyhow::Error::new(error).context("the launch options in its tags");
            Failure::new(Exit::Config, error)
        })?;
        // The drive has that size, or a larger one, already.
        let line = LaunchOptions { size: None, ..line };
        request.options.launch = typed.launch.over(line);
    }
    request.options.launch.notice = Some(notice);
    request.options.launch.budget = budget;
    request.options.config.spool = Some(Spool::nearest(order.kept));
    let limit = || quantity::limit(&format!("{}s", order.limit?)).ok();
    ordered.max = ordered.max.or_else(limit);
    if !ordered.restart {
        ordered.tries = quantity::tries(&order.tries.to_string()).ok();
        ordered.restart = ordered.tries.is_some();
    }
    if ordered.restart && ordered.retry.is_none() {
        ordered.retry = quantity::tries(&order.retry.times.to_string()).ok();
        ordered.retry_on = order.retry.codes;
        ordered.retry_on.sort_unstable();
        ordered.retry_on.dedup();
    }
    if let Some(results) = order.results.filter(|_| ordered.results.is_none()) {
        let place = results.url.parse::<S3Prefix>();
        ordered.results = Some(place.context("the results in its order")?);
        ordered.results_every = quantity::results_every(&format!("{}s", results.every)).ok();
    }
    let address = order
        .notify
        .and_then(|it| it.address.parse::<NotifyUrl>().ok());
    request.posts_to = address.map(|url| url.as_str().to_owned());
    let shown: String = join(&order.words).chars().take(SHOWN).collect();
    report.print(&format!("the run {id} once more: {}", one_line(&shown)));
    request.command = order.words;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    /// The order of a run with all that one may have.
    const ORDER: &str = r#"{"version": 1, "words": ["sh", "-c", "a b"], "notice": 7, "kept": 4194304,
        "tries": 1000, "limit": 1209600, "retry": {"times": 2, "codes": [137, 7, 137]},
        "results": {"url": "s3://bucket/demo", "every": 60},
        "notify": {"address": "https://ntfy.sh/topic", "drive": "demo"}}"#;

    const LINE: &str =
        "type=m5.large market=spot fallback=none size=9 instance_profile=lab notice=7s";

    /// What becomes of `xdrive run` with the flags in `typed`.
    fn filled(typed: &str, last: LastRun) -> Result<(Ordered, Request), Failure> {
        let words = format!("run demo --again {typed}");
        let command = crate::commands::run::Args::augment_args(Command::new("run"));
        let matches = command.try_get_matches_from(words.split_whitespace());
        let matches = matches.unwrap();
        let mut ordered = Ordered::from_arg_matches(&matches).unwrap();
        let config = Config::from_arg_matches(&matches).unwrap();
        let options = Options::choose(config.clone(), Config::default()).unwrap();
        let typed = Typed {
            config: &config,
            is_detached: matches.get_flag("detach"),
        };
        let mut request = Request::new("demo".parse().unwrap(), options);
        fill(typed, &mut ordered, &mut request, last)?;
        Ok((ordered, request))
    }

    fn of_own_drive(order: &str) -> LastRun {
        LastRun::with_order(order, Some(LINE), true)
    }

    #[test]
    fn an_order_is_as_if_it_had_been_typed() {
        let (ordered, request) = filled("", of_own_drive(ORDER)).unwrap();
        assert_eq!(request.command, ["sh", "-c", "a b"]);
        assert_eq!(request.options.config.spool, Some(Spool(4 << 20)));
        let launch = request.options.launch.to_string();
        assert_eq!(launch, LINE.replace(" size=9", ""));
        assert_eq!(ordered.max, Some(Duration::from_hours(14 * 24)));
        assert_eq!(
            (ordered.restart, ordered.tries, ordered.retry),
            (true, Some(1000), Some(2))
        );
        let codes: Vec<u8> = ordered.retry_on.iter().map(|code| code.get()).collect();
        assert_eq!(codes, [7, 137]);
        assert_eq!(ordered.results.unwrap().to_string(), "s3://bucket/demo");
        assert_eq!(ordered.results_every, Some(Duration::from_mins(1)));
        assert_eq!(request.posts_to.as_deref(), Some("https://ntfy.sh/topic"));
        assert!(request.notify.is_none());
    }

    #[test]
    fn what_is_typed_outranks_the_order() {
        let typed = "--gpu 1 --on-demand --notice 9s --max 1h --restart --tries 4 --retry 1 \
                     --results s3://other";
        let (ordered, request) = filled(typed, of_own_drive(ORDER)).unwrap();
        assert_eq!(
            request.options.launch.to_string(),
            "type=gpus=1 market=on-demand fallback=none instance_profile=lab notice=9s"
        );
        assert_eq!(ordered.max, Some(Duration::from_hours(1)));
        assert_eq!((ordered.tries, ordered.retry), (Some(4), Some(1)));
        assert_eq!(ordered.results.unwrap().to_string(), "s3://other");
        assert_eq!(ordered.results_every, None);
    }

    #[test]
    fn of_anothers_drive_only_the_command_and_its_times_are_taken() {
        let last = LastRun::with_order(ORDER, Some(LINE), false);
        let (ordered, request) = filled("", last).unwrap();
        assert_eq!(request.command, ["sh", "-c", "a b"]);
        assert_eq!(request.options.launch.to_string(), "notice=7s");
        assert!(ordered.results.is_none() && request.posts_to.is_none());
        assert_eq!(ordered.tries, Some(1000));
    }

    #[test]
    fn an_order_that_nobody_could_have_typed_has_no_such_effect() {
        let forged = r#"{"version": 1, "words": ["--privileged"], "notice": 99999, "kept": 0,
            "tries": 4000000000, "limit": 18446744073709551615,
            "retry": {"times": 4000000000, "codes": []},
            "notify": {"address": "file:///etc/passwd", "drive": "demo"}}"#;
        let (ordered, request) = filled("", of_own_drive(forged)).unwrap();
        assert_eq!(request.command, ["--privileged"]);
        assert_eq!(request.options.launch.notice, Some(Duration::from_mins(1)));
        assert_eq!(request.options.config.spool, Some(Spool(4 << 20)));
        assert_eq!(
            (ordered.max, ordered.restart, ordered.retry),
            (None, false, None)
        );
        assert_eq!(request.posts_to, None);
        let elsewhere = ORDER.replace("s3://bucket/demo", "--endpoint-url=http://x");
        let refused = filled("", of_own_drive(&elsewhere)).err().unwrap();
        assert!(format!("{:#}", refused.error).contains("the results in its order"));
        let line = LastRun::with_order(ORDER, Some("user_data=x"), true);
        assert_eq!(filled("", line).err().unwrap().exit, Exit::Config);
    }

    #[test]
    fn what_is_not_on_the_drive_is_typed_again() {
        let along = r#""along": {"variables": ["TOKEN"], "agent": true, "aws": true}, "words""#;
        let order = ORDER.replace("\"words\"", along);
        let refused = filled("--aws", of_own_drive(&order)).err().unwrap();
        assert_eq!(refused.exit, Exit::Usage);
        assert_eq!(
            refused.hint.as_deref(),
            Some("--again -e TOKEN -A  brings it along once more")
        );
    }
}
