//! The parts of the host that a container has: mounts, and Docker's socket.

use xdrive::host::container::Came;
use xdrive::host::facts::ScriptError;
use xdrive::host::places::Places;
use xdrive::host::scripts::{ContainerOrder, Image};

use crate::host::machine::{Disk, Machine, order};

fn with(image: Image, mounts: Option<&[&str]>, docker: Option<bool>) -> ContainerOrder {
    let mounts = mounts.map(|all| all.iter().map(|it| it.parse().unwrap()).collect());
    ContainerOrder {
        places: Places { mounts, docker },
        ..order(image, &[])
    }
}

/// The message of a mount that was refused.
fn refused(answer: Result<impl std::fmt::Debug, ScriptError>) -> String {
    match answer {
        Err(ScriptError::Mount(words)) => words,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_mount_stays_in_work_and_belongs_to_the_images_user() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    machine
        .sh(
            "cd /tmp && docker create --name made xdrive/image:latest sh > /dev/null && \
             docker commit --change 'USER 1000:1000' made user:1 > /dev/null && docker rm made",
        )
        .await;
    let image = Image::Reference("user:1".into());
    machine
        .sh("mkdir -p /v1/work/old && touch /v1/work/one")
        .await;
    let mounts = ["old:/old", "new/a/b:/new:ro", "one:/etc/one"];
    let start = with(image, Some(&mounts), None);
    let made = machine.host.container(&start).await.unwrap();
    assert_eq!((made.came, made.docker), (Came::Created, false));
    let owners = machine
        .sh("cd /v1/work && stat -c %u:%g old new new/a new/a/b one | tr '\\n' ' '")
        .await;
    assert_eq!(owners, "0:0 1000:1000 1000:1000 1000:1000 0:0 ");
    let seen = machine
        .sh("docker exec xdrive-demo sh -c '[ -f /etc/one ] && ls -d /old /new | cat'")
        .await;
    assert_eq!(seen, "/new\n/old\n");

    // A start follows links: neither one that leads out, nor one below which a folder would be made.
    for link in ["/etc", "../docker", "/v1/xdrive", "/nowhere"] {
        machine
            .sh(&format!(
                "docker stop -t 0 xdrive-demo > /dev/null; cd /v1/work && rm -rf new && ln -s {link} new"
            ))
            .await;
        let words = refused(machine.host.container(&with(Image::Kept, None, None)).await);
        assert_eq!(words, "a link in /work leads the mount new/a/b out of it");
        machine
            .sh("[ ! -e /etc/a ] && [ ! -e /nowhere ] && [ ! -e /v1/docker/a ]")
            .await;
    }
    machine.sh("cd /v1/work && rm new && mkfifo new").await;
    let fifo = with(Image::Kept, Some(&["new:/new"]), None);
    let words = refused(machine.host.container(&fifo).await);
    assert_eq!(words, "the mount new is neither a folder nor a file");
    machine.sh("cd /v1/work && rm new && ln -s old new").await;
    let within = machine.host.container(&with(Image::Kept, None, None)).await;
    assert_eq!(within.unwrap().came, Came::Started);
    machine.sh("[ -d /v1/work/old/a/b ]").await;

    // What docker refuses leaves the drive with its layer and the mounts that it had.
    machine
        .sh("docker exec -u 0 xdrive-demo sh -c 'echo layer > /note'")
        .await;
    let file = with(Image::Kept, Some(&["old:/etc/one"]), None);
    let words = machine.host.container(&file).await.unwrap_err().to_string();
    assert!(words.contains("/v1/work/old"), "{words}");
    assert!(!words.contains("/run/xdrive"), "{words}");
    let after = machine.host.container(&with(Image::Kept, None, None)).await;
    assert!(matches!(after.unwrap().came, Came::Recreated(_)));
    let layer = machine
        .sh("docker exec xdrive-demo sh -c 'cat /note; [ -d /new ] && [ -d /old ] && echo both'")
        .await;
    assert_eq!(layer, "layer\nboth\n");
}

/// The fault: `/work` of an adopted disk was root's.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn beside_the_files_of_an_adopted_disk_work_is_the_images_users() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    machine.load_image().await;
    machine
        .sh(
            "cd /tmp && docker create --name made xdrive/image:latest sh > /dev/null && \
             docker commit --change 'USER 1000:1000' made user:1 > /dev/null && docker rm made; \
             mkdir -p /v1/work/v1/old",
        )
        .await;
    let start = with(Image::Reference("user:1".into()), Some(&["v1:/v1"]), None);
    machine.host.container(&start).await.unwrap();
    let owners = machine
        .sh("cd /v1/work && stat -c %u:%g . v1 v1/old | tr '\\n' ' '")
        .await;
    assert_eq!(owners, "1000:1000 0:0 0:0 ");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn containers_started_through_dockers_socket_are_stopped_and_not_committed() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let archive = machine
        .archive("sh bash cat env id ls mkdir ps rm sleep stat touch docker")
        .await;
    let image = machine
        .host
        .load_image("docker", &archive[..])
        .await
        .unwrap();
    let start = with(Image::Loaded(image), None, Some(true));
    let made = machine.host.container(&start).await.unwrap();
    assert!(made.docker);
    // From its own image: the container has the labels of the drive's.
    machine
        .sh("docker exec xdrive-demo sh -c 'echo mine > /note'; \
             docker commit xdrive-demo own:1 > /dev/null; \
             docker exec xdrive-demo docker run -d --name other --network none \
             --entrypoint sh own:1 -c 'echo other > /note; trap : TERM; while :; do sleep 1; done'")
        .await;
    let runs = "docker ps --format '{{.Names}}' | sort";
    assert_eq!(machine.sh(runs).await, "other\nxdrive-demo\n");
    let found = machine.host.running(None).await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.docker), ("xdrive-demo", true));
    let same = machine.host.container(&with(Image::Kept, None, None)).await;
    assert_eq!(same.unwrap().came, Came::Running);

    let closed = machine.host.close("test").await.unwrap();
    assert!(closed.unmounted, "{closed:?}");
    drop(machine);
    assert!(disk.is_clean());

    let mut second = Machine::boot().await;
    second.attach(&disk);
    second.host.mount(&disk.order(2, false)).await.unwrap();
    let again = second.host.container(&with(Image::Kept, None, None)).await;
    let again = again.unwrap();
    assert!(again.docker && again.came != Came::Created, "{again:?}");
    let both = second
        .sh("docker exec xdrive-demo cat /note; docker ps -a --format '{{.Names}} {{.State}}' | sort")
        .await;
    assert_eq!(both, "mine\nother exited\nxdrive-demo running\n");
    second.sh("docker start other > /dev/null").await;
    let layer = second
        .sh("sleep 1; docker exec other cat /note; docker image inspect -f ok xdrive/drive:latest || :")
        .await;
    assert!(layer.starts_with("other\n"), "{layer}");

    // Another group has the socket on another machine.
    second.sh("chgrp 4321 /run/docker.sock").await;
    let moved = second.host.container(&with(Image::Kept, None, None)).await;
    assert!(matches!(moved.unwrap().came, Came::Recreated(_)));
    let groups = second.sh("docker exec xdrive-demo id -G").await;
    assert!(groups.split_whitespace().any(|it| it == "4321"), "{groups}");
    let taken = second
        .host
        .container(&with(Image::Kept, None, Some(false)))
        .await;
    assert!(!taken.unwrap().docker);
}

/// Runs `commands` on the host between xdrive's last look at the mounts and Docker's, each time that
/// Docker starts a container.
async fn before_docker_starts(machine: &Machine, commands: &str) {
    machine
        .sh(&format!(
            "docker=$(command -v docker) && cat > /usr/local/bin/docker << END\n#!/bin/sh\n\
             case \"\\$1\" in run | start) {commands};; esac\nexec $docker \"\\$@\"\nEND\n\
             chmod +x /usr/local/bin/docker && [ \"$(command -v docker)\" = /usr/local/bin/docker ]"
        ))
        .await;
}

/// The mounts on the host that are there for Docker.
const BOUND: &str = "grep -o ' /run/xdrive/mounts/[^ ]*' /proc/self/mountinfo || :";

/// The fault: Docker looked up the path that the host had checked.
#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_folder_that_becomes_a_link_while_its_container_starts_is_still_the_drives() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine
        .sh("cd /v1/work && mkdir -p data deep && echo mine > data/shadow && echo mine > deep/shadow && \
             echo host > /etc/host-file")
        .await;
    // As a program in another container of the drive does, in `/work`.
    before_docker_starts(
        &machine,
        "cd /v1/work && mv data data.was && mv deep deep.was && ln -s /etc data && ln -s /etc deep",
    )
    .await;
    let restore = "cd /v1/work && rm data deep && mv data.was data && mv deep.was deep";
    let mounts = ["data:/data", "deep/shadow:/one", "data:/read:ro"];
    let seen = "docker exec xdrive-demo cat /data/shadow /one /read/shadow; \
                docker exec xdrive-demo sh -c 'ls /data/host-file 2> /dev/null || echo hidden; \
                > /read/x' 2> /dev/null || echo kept";
    let start = with(image, Some(&mounts), None);
    machine.host.container(&start).await.unwrap();
    assert_eq!(machine.sh(seen).await, "mine\nmine\nmine\nhidden\nkept\n");
    machine.sh(restore).await;
    machine.sh("docker stop -t 0 xdrive-demo > /dev/null").await;
    let again = machine.host.container(&with(Image::Kept, None, None)).await;
    assert_eq!(again.unwrap().came, Came::Started);
    assert_eq!(machine.sh(seen).await, "mine\nmine\nmine\nhidden\nkept\n");
    assert_eq!(machine.sh(BOUND).await, "");

    // Docker's own start finds nothing, rather than an empty folder of the host's.
    let restart = "! docker restart -t 0 xdrive-demo 2>&1; docker ps -q";
    let words = machine.sh(restart).await;
    assert!(words.contains("no such file or directory"), "{words}");
    machine.sh(restore).await;
    let again = machine.host.container(&with(Image::Kept, None, None)).await;
    assert_eq!(again.unwrap().came, Came::Started);

    // It writes to the drive, and the drive moves on.
    machine
        .sh("docker exec xdrive-demo sh -c 'echo new > /data/new'; cat /v1/work/data.was/new")
        .await;
    assert!(machine.host.close("test").await.unwrap().unmounted);
    drop(machine);
    assert!(disk.is_clean());
    let mut second = Machine::boot().await;
    second.attach(&disk);
    second.host.mount(&disk.order(2, false)).await.unwrap();
    second.sh(restore).await;
    let moved = second.host.container(&with(Image::Kept, None, None)).await;
    assert_eq!(moved.unwrap().came, Came::Started);
    let new = second.sh("docker exec xdrive-demo cat /data/new").await;
    assert_eq!(new, "new\n");
}

/// Swaps the folder `a` with a link, as fast as it can.
const SWAP: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None)
os.chdir("/v1/work")
while os.path.exists("/run/swap"):
    libc.renameat2(-100, b"a", -100, b"link", 2)
"#;

/// Makes and mounts what is below it again and again: what became of each try, and how often.
const BIND: &str = r"
mkdir /run/bound && touch /run/swap
python3 /run/swap.py &
binds=$(ls /var/lib/xdrive/scripts/*/binds.py)
for try in $(seq 200); do
    printf 'rw:a/file:/x\nrw:a/new/%s:/y\n' $try |
        python3 -I -S $binds make /v1/work /run/bound > /dev/null 2> /run/words
    code=$?
    if [ $code = 0 ]; then cat /run/bound/1; else echo $code; grep -vx -e 'a link in /work leads the mount .* out of it' /run/words; fi
    for it in /run/bound/*; do ! mountpoint -q $it || umount $it; done
done | sort | uniq -c | sort -rn
rm /run/swap
wait
";

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_link_that_comes_and_goes_never_leads_a_mount_out_of_the_drive() {
    let disk = Disk::new(1024);
    let machine = Machine::with_drive(&disk).await;
    machine
        .sh(&format!(
            "mkdir -p /v1/work/a /run/trap && echo mine > /v1/work/a/file && echo trap > /run/trap/file && \
             ln -s /run/trap /v1/work/link && cat > /run/swap.py << 'END'\n{SWAP}\nEND"
        ))
        .await;
    let tries = machine.sh(BIND).await;
    println!("{tries}");
    let mut outcomes: Vec<&str> = tries
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["88", "mine"], "{tries}");
    let trapped = machine.sh("ls /run/trap").await;
    assert_eq!(trapped, "file\n", "a folder was made on the host");
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_start_that_is_killed_with_its_mounts_made_stops_neither_the_next_nor_a_close() {
    let disk = Disk::new(2048);
    let mut machine = Machine::with_drive(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine
        .sh("cd /v1/work && mkdir data && echo mine > data/it && echo file > one")
        .await;
    let kill = "kill -s KILL -- -$(ps -o pgid= -p \\$\\$ | tr -d ' ')".replace("$(", "\\$(");
    let mounts = ["data:/data", "one:/one"];
    let first = with(image, Some(&mounts), None);
    let again = with(Image::Kept, None, None);
    let seen = "docker exec xdrive-demo cat /data/it /one";
    let bound = " /run/xdrive/mounts/xdrive-demo/1\n /run/xdrive/mounts/xdrive-demo/2\n";
    let hooked = "rm /usr/local/bin/docker";

    before_docker_starts(&machine, &kill).await;
    machine.host.container(&first).await.unwrap_err();
    assert_eq!(machine.sh(BOUND).await, bound);
    machine.sh(hooked).await;
    machine.host.container(&first).await.unwrap();
    assert_eq!(machine.sh(seen).await, "mine\nfile\n");
    assert_eq!(machine.sh(BOUND).await, "");

    // A reset host has none of them, and the container is the same.
    machine.sh("docker stop -t 0 xdrive-demo > /dev/null").await;
    before_docker_starts(&machine, &kill).await;
    machine.host.container(&again).await.unwrap_err();
    assert_eq!(machine.sh(BOUND).await, bound);
    machine.sh(&format!("{hooked}; sync")).await;
    machine.reset().await;
    machine.attach(&disk);
    machine.host.mount(&disk.order(2, false)).await.unwrap();
    let started = machine.host.container(&again).await.unwrap();
    assert_eq!(started.came, Came::Started);
    assert_eq!(machine.sh(seen).await, "mine\nfile\n");

    machine.sh("docker stop -t 0 xdrive-demo > /dev/null").await;
    before_docker_starts(&machine, &kill).await;
    machine.host.container(&again).await.unwrap_err();
    assert_eq!(machine.sh(BOUND).await, bound);
    // One that looks at them does not keep the drive, either.
    machine
        .sh("cd /run/xdrive/mounts/xdrive-demo/1; sleep 600 > /dev/null 2>&1 < /dev/null &")
        .await;
    let closed = machine.host.close("test").await.unwrap();
    assert_eq!(
        (closed.unmounted, closed.whole),
        (true, Some(disk.volume.clone()))
    );
    assert_eq!(machine.sh(BOUND).await, "");
    drop(machine);
    assert!(disk.is_clean());
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_container_whose_mounts_docker_looks_up_is_made_again_once_it_does_not_run() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let image = Image::Loaded(machine.load_image().await);
    machine.sh("mkdir /v1/work/data").await;
    let start = with(image, Some(&["data:/data"]), None);
    machine.host.container(&start).await.unwrap();
    // As an earlier xdrive made it.
    machine
        .sh("image=$(docker inspect -f '{{.Image}}' xdrive-demo) && \
             hash=$(docker inspect -f '{{index .Config.Labels \"xdrive.environment\"}}' xdrive-demo) && \
             docker rm -f xdrive-demo > /dev/null && docker run -d -i --init --name xdrive-demo \
             --label xdrive.drive=demo --label xdrive.container= --label xdrive.gpus=none \
             --label xdrive.layout=1 --label xdrive.environment=$hash --label xdrive.keys= \
             --label xdrive.mounts=rw:data:/data --volume /v1/work:/work \
             --mount type=bind,source=/v1/work/data,target=/data --entrypoint sh $image \
             -c 'while read -r _; do :; done' xdrive-idle > /dev/null && \
             sed -i \"s/^container=.*/container=$(docker inspect -f '{{.Id}}' xdrive-demo)/\" /v1/xdrive/layer")
        .await;
    let again = with(Image::Kept, None, None);
    // What runs in it is not ended for that.
    assert_eq!(
        machine.host.container(&again).await.unwrap().came,
        Came::Running
    );
    machine
        .sh("docker exec xdrive-demo sh -c 'echo layer > /note' && docker stop -t 0 xdrive-demo > /dev/null")
        .await;
    let made = machine.host.container(&again).await.unwrap();
    assert_eq!(made.came, Came::Recreated("its mounts changed".into()));
    let seen = machine
        .sh("docker exec xdrive-demo cat /note; docker inspect -f '{{json .HostConfig.Mounts}}' xdrive-demo")
        .await;
    assert!(
        seen.starts_with("layer\n") && !seen.contains("/v1/work"),
        "{seen}"
    );
    machine.sh("docker stop -t 0 xdrive-demo > /dev/null").await;
    assert_eq!(
        machine.host.container(&again).await.unwrap().came,
        Came::Started
    );
}
