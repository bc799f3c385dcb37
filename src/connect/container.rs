//! From a mounted drive to a running container, with Jupyter forwarded.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use tokio::task::JoinSet;

use crate::config::Options;
use crate::drive::DriveName;
use crate::failure::{Exit, Failure};
use crate::host::Ssh;
use crate::host::container::{Came, Container};
use crate::host::facts::HostError;
use crate::host::forward::Forward;
use crate::host::scripts::{ContainerOrder, Host, Image, Mounted};
use crate::report::Report;

/// The port that Jupyter is forwarded to when nobody says otherwise.
const JUPYTER: u16 = 8888;

/// A session in its container. Dropping it closes Jupyter's port.
pub(super) struct Inside {
    pub(super) ssh: Ssh,
    pub(super) host: Host,
    pub(super) container: Container,
    jupyter: JoinSet<()>,
}

/// What the user wants the container to be made from.
enum Wish {
    /// A file.
    Archive(PathBuf),
    /// Something in a registry.
    Reference(String),
}

impl Wish {
    /// A path is written as one, or ends like an archive; everything else is a registry's.
    fn parse(given: &str) -> Self {
        let is_path = given.starts_with(['/', '.', '~'])
            || [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst"]
                .iter()
                .any(|ending| given.ends_with(ending));
        if is_path {
            Self::Archive(PathBuf::from(given))
        } else {
            Self::Reference(given.to_owned())
        }
    }
}

/// Refuses an image file that cannot be read, before anything is launched for it.
pub(super) fn check_image(given: &str) -> Result<(), Failure> {
    match Wish::parse(given) {
        Wish::Archive(path) => source_of(&path).map(drop),
        Wish::Reference(_) => Ok(()),
    }
}

/// Starts the container, opens Jupyter's port, and says where it is.
pub(super) async fn enter(
    drive: &DriveName,
    ssh: &Ssh,
    host: &Host,
    mounted: &Mounted,
    options: &Options,
    default: &Path,
    report: &Report,
) -> Result<Inside, Failure> {
    let image = image(host, mounted, options.image.as_deref(), default, report).await?;
    let order = ContainerOrder {
        drive: drive.to_string(),
        image,
        environment: Vec::new(),
    };
    let step = report.step("start the container");
    let container = host.container(&order).await.map_err(failure)?;
    step.done(&match &container.came {
        Came::Running => "the container runs".to_owned(),
        Came::Started => "started the container".to_owned(),
        Came::Created => "created the container".to_owned(),
        Came::Recreated(why) => format!("recreated the container from its own image: {why}"),
    });
    let mut inside = Inside {
        ssh: ssh.clone(),
        host: host.clone(),
        container,
        jupyter: JoinSet::new(),
    };
    if let Err(error) = inside
        .open_jupyter(options.port.unwrap_or(JUPYTER), report)
        .await
    {
        // A notebook that does not come up is no reason to lose a shell.
        report.say(&format!("no Jupyter: {error:#}"));
    }
    Ok(inside)
}

impl Inside {
    /// Starts Jupyter if the image has it; the port takes connections at once, and they wait until
    /// it is up.
    async fn open_jupyter(&mut self, port: u16, report: &Report) -> anyhow::Result<()> {
        let step = report.step("start Jupyter");
        let token = token()?;
        let Some(address) = self.host.jupyter(&token).await? else {
            return Ok(());
        };
        let forward = Forward::open(&self.ssh, port, address).await?;
        let taken = forward.port();
        if taken != port {
            report.say(&format!("port {port} is busy: Jupyter gets port {taken}"));
        }
        step.done(&format!("http://127.0.0.1:{taken}/lab?token={token}"));
        // The prompt does not wait for it, and neither does who opens the page right away.
        forward.set_starting(true);
        let (host, report) = (self.host.clone(), report.clone());
        self.jupyter.spawn(async move {
            let listens = host.jupyter_listens().await;
            forward.set_starting(false);
            if let Err(error) = listens {
                report.say(&format!("Jupyter did not come up: {error}"));
            }
            std::future::pending().await
        });
        Ok(())
    }
}

/// What the container is to be made from; brings it to the host if it is a file.
async fn image(
    host: &Host,
    mounted: &Mounted,
    wanted: Option<&str>,
    default: &Path,
    report: &Report,
) -> Result<Image, Failure> {
    let wish = match (wanted, &mounted.source) {
        (Some(given), _) => Wish::parse(given),
        (None, Some(_)) => return Ok(Image::Kept),
        (None, None) => Wish::Archive(default.to_owned()),
    };
    let path = match wish {
        Wish::Reference(reference) => return Ok(Image::Reference(reference)),
        Wish::Archive(path) => path,
    };
    let source = source_of(&path)?;
    if mounted.source.as_ref() == Some(&source) {
        return Ok(Image::Kept);
    }
    let step = report.step(format!("load the image {}", path.display()));
    let file = tokio::fs::File::open(&path)
        .await
        .map_err(|error| unreadable(&path, error))?;
    let loaded = host.load_image(&source, file).await.map_err(failure)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    step.done(&format!("loaded the image {name}"));
    Ok(Image::Loaded(loaded))
}

/// What an image file is called on the drive: its name, size and time, so that the same file is
/// not sent twice and a newer one is noticed.
fn source_of(path: &Path) -> Result<String, Failure> {
    let real = std::fs::canonicalize(path).map_err(|error| unreadable(path, error))?;
    let metadata = real.metadata().map_err(|error| unreadable(path, error))?;
    if !metadata.is_file() {
        let error = std::io::Error::other("it is not a file");
        return Err(unreadable(path, error));
    }
    let changed = metadata
        .modified()
        .ok()
        .and_then(|time| jiff::Timestamp::try_from(time).ok())
        .map_or_else(String::new, |time| format!(", {time:.0}"));
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    Ok(format!("{name} ({} bytes{changed})", metadata.len()))
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    let error =
        anyhow::Error::new(error).context(format!("cannot read the image {}", path.display()));
    Failure::new(Exit::Unavailable, error).hint(
        "--image takes a registry reference, or the path of an archive that `docker save` wrote",
    )
}

/// What the host said about the container, for the user.
fn failure(error: HostError) -> Failure {
    match error {
        HostError::Image(words) => Failure::new(Exit::Unavailable, last_first(&words)).hint(
            "--image names another one: an archive that `docker save` wrote, or a reference to a \
             registry that the instance reaches",
        ),
        other => anyhow::Error::new(other)
            .context("the container cannot be started")
            .into(),
    }
}

/// A program's words as an error: its last line says what went wrong, those before it why.
fn last_first(words: &str) -> anyhow::Error {
    let mut lines = words.lines().map(str::to_owned);
    let mut error = anyhow!(lines.next().unwrap_or_default());
    for line in lines {
        error = error.context(line);
    }
    error
}

/// A new token: 16 random bytes, which nobody guesses, in letters that fit a line of the terminal.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("no random numbers")?;
    Ok(hex::encode(bytes))
}
