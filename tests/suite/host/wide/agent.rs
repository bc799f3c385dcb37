//! The SSH agent that is led into the container: root of the host listens there.

use xdrive::host::scripts::Image;

use crate::host::machine::{Disk, Machine};

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn a_container_that_moves_its_folders_leads_root_to_no_file_of_the_hosts() {
    let disk = Disk::new(2048);
    let machine = Machine::with_drive(&disk).await;
    let archive = machine.archive("sh ln ls mkdir mv sleep").await;
    let image = machine.host.load_image("tools", &archive[..]).await;
    machine.start(Image::Loaded(image.unwrap()), &[]).await;
    let scripts = machine.sh("ls -d /var/lib/xdrive/scripts/*").await;
    let init = machine
        .sh("docker inspect -f '{{.State.Pid}}' xdrive-demo")
        .await;
    let (scripts, init) = (scripts.trim(), init.trim());
    let agent = format!(
        "SSH_AUTH_SOCK=/no/agent python3 -I -S {scripts}/agent.py {init} agent.x \
         sh -c 'ls -l /proc/{init}/root/run/xdrive; exit 7'"
    );
    let output = machine.ssh.run(&agent, b"").await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status, 7, "{output:?}");
    assert!(printed.contains("srw------- 1 root root 0 "), "{printed}");
    let left = "docker exec xdrive-demo ls /run/xdrive";
    assert_eq!(machine.sh(left).await, "");

    machine
        .sh("mkdir -p /tmp/outside/xdrive; echo kept > /tmp/outside/xdrive/agent.x")
        .await;
    machine
        .sh("docker exec xdrive-demo sh -c 'mv /run /moved && ln -s /tmp/outside /run'")
        .await;
    let output = machine.ssh.run(&agent, b"").await.unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status, 1, "{output:?}");
    assert!(printed.contains("no agent in the container: "), "{printed}");
    let outside = "cd /tmp/outside/xdrive; ls; cat agent.x";
    assert_eq!(machine.sh(outside).await, "agent.x\nkept\n");
    let remove = format!(
        "python3 -I -S {scripts}/inside.py remove {init} agent.x || ls /tmp/outside/xdrive"
    );
    assert_eq!(machine.sh(&remove).await, "agent.x\n");
}
