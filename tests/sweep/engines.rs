//! A drive on the Docker of two Debians, 20.10 and 26.1, from each to the other and back; and hosts
//! whose own settings would have the newer one keep its images elsewhere.
//!
//! The newer one's tree is built here (`shell/local/machine.sh trixie`), and for nothing else. Debian
//! has had no Docker 25: its releases go from 20.10 to 26.1.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use libtest_mimic::{Completion, Trial};

use crate::host::Host;
use crate::long;
use crate::release;
use crate::running::Running;
use crate::site::Site;
use harness::home::machine;
use harness::registry::{OPEN, Registry, publish};
use harness::{cache, id};

/// Debian's release with the newer Docker.
const NEXT: &str = "trixie";

/// The command of a session: prints the file of the container's own layer, and waits.
const WAITS: &str = "cat /layer 2>/dev/null; echo there; until [ -e /work/end ]; do sleep 0.1; done; \
                     rm /work/end";
const THERE: &str = "there\n";

/// A container of the user's, beside the drive's. Its volume is Docker's.
const MAKES: &str = "docker create --name own --label kind=own --env COLOUR=blue --volume things:/things \
                     --entrypoint sh xdrive/image:latest -c 'while :; do sleep 1; done' >/dev/null";

/// The fields of a container that Docker's versions describe alike, as a template of `docker
/// inspect`.
const DESCRIBED: &str = "{{json .Id}} {{json .Created}} {{json .Image}} {{json .Config.Labels}} \
    {{json .Config.Env}} {{json .Config.Hostname}} {{json .Config.Entrypoint}} {{json .Config.Cmd}} \
    {{json .HostConfig.Binds}} {{json .Mounts}} {{json .GraphDriver.Data.UpperDir}}";

/// The settings of a machine whose Docker keeps images in containerd's store.
const SWITCHED_ON: &str = "{\"features\": {\"containerd-snapshotter\": true}, \"debug\": true}";

pub(crate) fn trials() -> [Trial; 2] {
    [
        (
            "a_drive_goes_to_a_newer_docker_and_back",
            goes_and_comes as Run,
        ),
        (
            "a_docker_that_keeps_images_elsewhere_is_refused",
            is_refused,
        ),
    ]
    .map(|(name, run)| {
        long::trial(name, true, move || {
            let mut build = Command::new(release::top().join("shell/local/machine.sh"));
            release::run(build.arg(NEXT).stdout(Stdio::null()))?;
            run(&Site::new(false)?)?;
            Ok(Completion::Completed)
        })
    })
}

type Run = fn(&Site) -> anyhow::Result<()>;

/// A machine image, and the version of its Docker.
struct Age {
    ami: String,
    docker: &'static str,
}

impl Age {
    fn old() -> anyhow::Result<Self> {
        let (_, ami) = machine("machine")?;
        let docker = "20.10.";
        Ok(Self { ami, docker })
    }

    fn new() -> anyhow::Result<Self> {
        let (_, ami) = machine(NEXT)?;
        let docker = "26.";
        Ok(Self { ami, docker })
    }
}

fn goes_and_comes(site: &Site) -> anyhow::Result<()> {
    let (old, new) = (Age::old()?, Age::new()?);
    println!("drive, session: Docker");
    for (drive, ages) in [
        ("from-old", &[&old, &new, &old, &new][..]),
        ("from-new", &[&new, &old, &new]),
    ] {
        let mut described = None;
        for (round, age) in (1..).zip(ages) {
            let this = format!("{drive}, {round}: {}", age.docker);
            let now = stay(site, drive, round, age).context(this.clone())?;
            let first = described.get_or_insert_with(|| now.clone());
            ensure!(*first == now, "{this}: at first\n{first}now\n{now}");
            println!("{this}");
        }
        site.count_snapshots(drive, true)?;
    }
    Ok(())
}

/// A session that finds all of those before, and adds as much; what Docker says of the containers.
fn stay(site: &Site, drive: &str, round: usize, age: &Age) -> anyhow::Result<String> {
    let session = work(site, drive, &age.ami)?;
    let so_far = lines(round - 1);
    ensure!(session.printed() == so_far + THERE, "{}", session.printed());
    if round > 1 {
        is_started_again(&session)?;
    }
    let host = Host::find(site)?;
    let version = host.run("docker version --format '{{.Server.Version}}'")?;
    ensure!(version.starts_with(age.docker), "Docker is {version}");
    keeps_images_on_drive(&host)?;
    if round == 1 {
        host.run(MAKES)?;
    }
    host.run(&format!(
        "set -e; docker start own >/dev/null
         docker exec own sh -c 'echo {round} >>/own; echo {round} >>/things/own'
         docker exec xdrive-{drive} sh -c 'echo {round} >>/layer'"
    ))?;
    let files = host.run(&format!(
        "docker exec own cat /own /things/own; docker exec xdrive-{drive} cat /layer"
    ))?;
    ensure!(files == lines(round).repeat(3), "{files}");
    adds_images(&host, round)?;
    has_images(&host, round)?;
    let described = host.run(&format!(
        "docker inspect --format '{DESCRIBED}' own xdrive-{drive}"
    ))?;
    end(site, &host, session)?;
    let read = site.xdrive(&["cat", &format!("{drive}:/layer")])?;
    ensure!(read.code == 0 && read.stdout == lines(round), "{read:?}");
    Ok(described)
}

/// The lines that so many sessions have written.
fn lines(rounds: usize) -> String {
    let rounds: Vec<String> = (1..=rounds).map(|round| round.to_string()).collect();
    rounds
        .iter()
        .flat_map(|round| [round.as_str(), "\n"])
        .collect()
}

/// Adds an image that is loaded from an archive, and one that is pulled, of the user's container as it
/// is.
fn adds_images(host: &Host, round: usize) -> anyhow::Result<()> {
    let (loaded, pulled) = (format!("loaded:{round}"), format!("pulled:{round}"));
    host.run(&format!(
        "set -e; docker commit own {loaded} >/dev/null; docker save {loaded} >/tmp/image.tar
         docker rmi {loaded} >/dev/null; docker load --quiet </tmp/image.tar >/dev/null
         rm /tmp/image.tar"
    ))?;
    let registry = Registry::start(&host.init());
    host.run(&publish(&loaded, &pulled))?;
    host.run(&format!("docker pull --quiet {OPEN}/{pulled} >/dev/null"))?;
    drop(registry);
    Ok(())
}

/// Runs every image that these sessions added.
fn has_images(host: &Host, rounds: usize) -> anyhow::Result<()> {
    for round in 1..=rounds {
        for image in [format!("loaded:{round}"), format!("{OPEN}/pulled:{round}")] {
            let printed = host.run(&format!(
                "docker run --rm --network none --entrypoint sh {image} -c 'cat /own; echo $COLOUR'"
            ))?;
            ensure!(printed == lines(round) + "blue\n", "{image}: {printed}");
        }
    }
    Ok(())
}

fn keeps_images_on_drive(host: &Host) -> anyhow::Result<()> {
    let info = host.run("docker info --format '{{.Driver}} {{.DockerRootDir}}'")?;
    ensure!(info == "overlay2 /v1/docker\n", "{info}");
    Ok(())
}

/// A session of the drive on a machine of this image, at its command.
fn work(site: &Site, drive: &str, ami: &str) -> anyhow::Result<Running> {
    let image = site.image("small.tar")?;
    let words = [
        "connect",
        drive,
        "--no-jupyter",
        "--image",
        &image,
        "--ami",
        ami,
    ];
    let mut session = site.laptop("home", &[&words[..], &["--", "sh", "-c", WAITS]].concat())?;
    session.until(|session| session.printed().ends_with(THERE))?;
    Ok(session)
}

/// Ends the session's command, and checks that the drive is saved and nothing is left.
fn end(site: &Site, host: &Host, session: Running) -> anyhow::Result<()> {
    host.run("touch /v1/work/end")?;
    let ended = session.end()?;
    ensure!(ended.code == 0, "{}:\n{}", ended.code, ended.stderr);
    nothing_is_left(site)
}

fn nothing_is_left(site: &Site) -> anyhow::Result<()> {
    let left = site.left()?;
    ensure!(left.is_empty(), "left: {}", left.join("\n"));
    Ok(())
}

/// Checks that the settings in an image's `daemon.json` give way to xdrive's. Where xdrive's are
/// taken away on a host, it is refused, and the drive is as it was.
fn is_refused(site: &Site) -> anyhow::Result<()> {
    let drive = "settings";
    let image = Variant::of_next("etc/docker/daemon.json", SWITCHED_ON)?;
    let mut session = work(site, drive, &image.ami)?;
    let host = Host::find(site)?;
    keeps_images_on_drive(&host)?;
    let kept = host.run("docker info --format '{{.Debug}}'")?;
    ensure!(kept == "true\n", "its other settings are gone: {kept}");
    host.run(&format!(
        "docker exec xdrive-{drive} sh -c 'echo 1 >/layer'"
    ))?;

    // The laptop is lost meanwhile: Docker's new start ends the command.
    session.kill()?;
    session.end()?;
    host.run(&format!(
        "set -e; echo '{SWITCHED_ON}' >/etc/docker/daemon.json; systemctl restart docker.service"
    ))?;
    let refused = site.xdrive(&["connect", drive, "--", "true"])?;
    ensure!(refused.code == 69, "{refused:?}");
    for words in [
        "error: dockerd keeps images in containerd's store, not on the drive: its feature \
         containerd-snapshotter is on\n\nhint: nothing is lost: the same command again takes",
        "settings is saved: its snapshot (snap-",
    ] {
        ensure!(refused.stderr.contains(words), "{words}: {refused:?}");
    }
    nothing_is_left(site)?;

    let session = work(site, drive, &Age::new()?.ami)?;
    ensure!(
        session.printed() == lines(1) + THERE,
        "{}",
        session.printed()
    );
    is_started_again(&session)?;
    end(site, &Host::find(site)?, session)
}

/// Checks that the container was not made anew.
fn is_started_again(session: &Running) -> anyhow::Result<()> {
    let reported = session.reported();
    ensure!(reported.contains("started the container"), "{reported}");
    Ok(())
}

/// A machine's image with one more file, in the cache; removed when dropped.
struct Variant {
    folder: PathBuf,
    ami: String,
}

impl Variant {
    /// Makes a variant of [`NEXT`] with the file `name`, which it does not have.
    fn of_next(name: &str, text: &str) -> anyhow::Result<Self> {
        let ami = id("ami");
        let folder = cache()
            .join("local")
            .join(ami.replacen("ami", "machine", 1));
        let variant = Self { folder, ami };
        let (tree, _) = machine(NEXT)?;
        // An instance writes elsewhere: what it boots from can share its files.
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--link"])
            .arg(tree)
            .arg(&variant.folder);
        release::run(&mut copy)?;
        let file = variant.folder.join(name);
        fs::create_dir_all(file.parent().context("no folder")?)?;
        fs::File::create_new(file)?.write_all(text.as_bytes())?;
        Ok(variant)
    }
}

impl Drop for Variant {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("left behind: {}: {error}", self.folder.display());
        }
    }
}
