//! Building an image on the host, from a folder of this computer, and finishing the container that is
//! made from it.

use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::net::UnixStream as Sending;
use std::task::Poll;

use anyhow::{Context as _, anyhow};
use tokio::io::AsyncRead;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

use super::{container_failure, pull};
use crate::config::DockerLogins;
use crate::failure::{Exit, Failure};
use crate::host::container::Container;
use crate::host::facts::ScriptError;
use crate::host::scripts::{BuildOrder, Host, Image, LoadedImage};
use crate::launch::image::{Base, Build, Context, PostCreate};
use crate::report::{Report, Step};

/// The longest line of a build that a step shows, in characters: its end is cut off.
const SHOWN: usize = 60;

/// Builds an image, unless the drive has it; `known` is the source of the one that the drive's
/// container was made from.
pub(super) async fn image(
    host: &Host,
    build: &Build,
    known: Option<&str>,
    logins: Option<&DockerLogins>,
    report: &Report,
) -> Result<Image, Failure> {
    let (digest, bytes) = digest(build).await?;
    let source = format!("{} ({digest})", build.name);
    if known == Some(source.as_str()) {
        return Ok(Image::Kept);
    }
    let tag = format!("xdrive/build:{digest}");
    let loaded = LoadedImage {
        id: tag.clone(),
        source,
    };
    if host
        .knows(&tag)
        .await
        .map_err(container_failure::from_script_error)?
    {
        return Ok(Image::Loaded(loaded));
    }
    let base = match &build.base {
        Base::Reference(reference) => {
            pull::pull(host, reference, logins, report).await?;
            reference.clone()
        }
        Base::Context(context) => {
            // The build finds them on the drive then, and itself has no login.
            if let Some(logins) = logins {
                let images = build.images();
                for image in images.map_err(|error| unreadable(error.into()))? {
                    pull::pull_by_login(host, &image, logins, report).await?;
                }
            }
            let base = match build.addition("") {
                Some(_) => format!("{tag}-base"),
                None => tag.clone(),
            };
            let order = BuildOrder {
                tag: base.clone(),
                dockerfile: context.dockerfile().to_string_lossy().into_owned(),
                target: build.target.clone(),
                arguments: build.arguments.clone(),
            };
            let megabytes = bytes / 1_000_000;
            let step = report.step(format!(
                "send {megabytes} MB of {} for the build",
                build.name
            ));
            let (packing, packed) = sent(context.clone())?;
            let result = run(host, &order, packed, &step, build).await;
            let all = packing.await.map_err(anyhow::Error::from)?;
            // A build that failed reads no further, and its own message says why.
            result.and_then(|()| Ok(all?))?;
            step.done(&format!("built the image of {}", build.name));
            base
        }
    };
    match build.addition(&base) {
        None if base == tag => {}
        None => {
            return Ok(Image::Loaded(LoadedImage { id: base, ..loaded }));
        }
        Some(addition) => {
            let order = BuildOrder {
                tag,
                dockerfile: "Dockerfile".to_owned(),
                target: None,
                arguments: Vec::new(),
            };
            let step = report.step(format!("set the environment of {}", build.name));
            let context = one_file(&addition)?;
            run(host, &order, &context[..], &step, build).await?;
        }
    }
    Ok(Image::Loaded(loaded))
}

/// Runs these commands, if there are any, in a new container, side by side. Those that fail are
/// reported, and end no other.
pub(super) async fn finish(
    host: &Host,
    container: &Container,
    commands: &[PostCreate],
    report: &Report,
) -> Result<(), Failure> {
    if commands.is_empty() {
        return Ok(());
    }
    let step = report.step("run postCreateCommand");
    let running = commands.iter().map(|PostCreate { name, command }| {
        let what = match name.as_str() {
            "" => "postCreateCommand".to_owned(),
            name => format!("postCreateCommand {}", shown(name)),
        };
        let step = &step;
        async move {
            let mut show = |line: &str| step.now(format!("{what}: {}", shown(line)));
            match host.finish(container, command, &mut show).await {
                Ok(()) => Ok(None),
                Err(ScriptError::NotBuilt(words)) => Ok(Some(format!(
                    "{what} failed, and is not run again: {command}\n{}",
                    words.trim_end()
                ))),
                Err(error) => Err(container_failure::from_script_error(error)),
            }
        }
    });
    let ended: Result<Vec<_>, _> = all(running).await.into_iter().collect();
    let failed: Vec<String> = ended?.into_iter().flatten().collect();
    if failed.is_empty() {
        step.done("ran postCreateCommand");
        return Ok(());
    }
    drop(step);
    for failure in failed {
        report.print(&failure);
    }
    Ok(())
}

/// Runs all of them side by side; their results, in order.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|it| (Box::pin(it), None)).collect();
    poll_fn(|context| {
        for (future, result) in &mut running {
            if result.is_none()
                && let Poll::Ready(ended) = future.as_mut().poll(context)
            {
                *result = Some(ended);
            }
        }
        if running.iter().all(|(_, result)| result.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    running
        .into_iter()
        .filter_map(|(_, result)| result)
        .collect()
}

/// The digest of all that makes the image, and the bytes of its context.
async fn digest(build: &Build) -> Result<(String, u64), Failure> {
    let (context, bytes) = match &build.base {
        Base::Reference(_) => (String::new(), 0),
        Base::Context(context) => {
            let context = context.clone();
            let read = spawn_blocking(move || context.digest()).await;
            read.map_err(anyhow::Error::from)?.map_err(unreadable)?
        }
    };
    Ok((build.digest(&context), bytes))
}

fn unreadable(error: anyhow::Error) -> Failure {
    let error = error.context("the image's folder cannot be read");
    Failure::new(Exit::Unavailable, error)
        .hint("what its build does not need can be left out by a .dockerignore")
}

/// The packed context, and its packing in a thread.
fn sent(
    context: Context,
) -> anyhow::Result<(
    tokio::task::JoinHandle<anyhow::Result<()>>,
    impl AsyncRead + Unpin + Send,
)> {
    let (ours, its) = Sending::pair().context("no pipe can be made")?;
    ours.set_nonblocking(true)?;
    let packing = spawn_blocking(move || context.pack(io::BufWriter::with_capacity(1 << 16, its)));
    Ok((packing, UnixStream::from_std(ours)?))
}

/// A tar with this Dockerfile alone.
fn one_file(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len().try_into()?);
    header.set_mode(0o644);
    archive.append_data(&mut header, "Dockerfile", text.as_bytes())?;
    let mut packed = archive.into_inner()?;
    packed.flush()?;
    Ok(packed)
}

async fn run(
    host: &Host,
    order: &BuildOrder,
    context: impl AsyncRead + Unpin + Send,
    step: &Step,
    build: &Build,
) -> Result<(), Failure> {
    let name = &build.name;
    let mut show = |line: &str| step.now(format!("build {name}: {}", shown(line)));
    let result = host.build(order, context, &mut show).await;
    result.map_err(|error| match error {
        ScriptError::NotBuilt(words) => {
            let words = anyhow!("{}", words.trim_end());
            let what = format!("the image of {name} cannot be built");
            Failure::new(Exit::Unavailable, words.context(what)).hint(
                "`docker build` is done on the instance; the last lines that it printed are above. If it \
                 needs a private image: `docker login` on this computer, and xdrive help container",
            )
        }
        other => container_failure::from_script_error(other),
    })
}

/// A line as a step shows it.
fn shown(line: &str) -> String {
    let plain = line.chars().filter(|c| !c.is_control());
    plain.take(SHOWN).collect()
}
