//! A notebook server that is frozen with its kernels, and goes on.

use tokio::fs::File;
use xdrive::host::scripts::Image;
use xdrive::ids::SessionId;

use crate::host::machine::{Disk, Machine};
use harness::{cache, home::criu};

/// As a browser does.
const CLIENT: &str = include_str!("../../session/notebook.py");

/// A cell that counts, in a file and in a variable.
const CELL: &str = r#"import time
x = 0
while x < 400:
    x += 1
    print(x, file=open("/work/steps", "a"))
    time.sleep(0.02)
"#;

impl Machine {
    /// Runs a cell at this address of Jupyter's; what it prints.
    async fn cell(&self, url: &str, code: &str, how: &str) -> String {
        let script = format!(
            "cat >/tmp/client <<'END'\n{CLIENT}END\npython3 /tmp/client '{url}' '{code}' {how}"
        );
        self.sh(&format!("{script} 2>&1 || true")).await
    }

    /// Starts Jupyter, or finds it there, for a session with this token; its address with that.
    async fn notebook(&self, token: &str) -> String {
        let session = SessionId(token.into());
        let started = self.host.jupyter(None, &session, token, true).await;
        self.host.jupyter_listens(None).await.unwrap();
        format!("http://{}/?token={token}", started.unwrap().unwrap())
    }

    async fn steps(&self) -> Vec<u32> {
        let said = self.sh("cat /v1/work/steps").await;
        said.lines().map(|line| line.parse().unwrap()).collect()
    }
}

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices), the machine tree, criu and the Jupyter image"]
async fn a_notebook_goes_on_in_the_middle_of_a_cell_for_whoever_has_a_new_token() {
    let disk = Disk::new(4096);
    let machine = Machine::with_drive(&disk).await;
    let archive = File::open(cache().join("local/jupyter.tar")).await.unwrap();
    let image = machine.host.load_image("jupyter", archive).await.unwrap();
    machine.start(Image::Loaded(image), &[]).await;
    let archive = File::open(criu()).await.unwrap();
    machine.host.load_criu(archive).await.unwrap();
    let url = machine.notebook("one").await;
    assert_eq!(machine.cell(&url, "word = \"kept\"", "new").await, "");
    // A browser that stays connected.
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let to = address.replace(':', "/");
    let asks = "GET /api?token=one HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n";
    let browser =
        format!("exec 5<>/dev/tcp/{to}; printf '{asks}' >&5; head -c 9 <&5; exec sleep 1000");
    let write = format!("cat >/tmp/browser <<'END'\n{browser}\nEND\n");
    machine.sh(&write).await;
    let begin = "setsid bash /tmp/browser >/tmp/browses 2>&1 </dev/null & \
                 until [ -s /tmp/browses ]; do sleep 0.05; done; cat /tmp/browses";
    assert_eq!(machine.sh(begin).await, "HTTP/1.1 ");
    assert_eq!(machine.cell(&url, CELL, "same begin").await, "");
    machine
        .sh("until [ -s /v1/work/steps ]; do sleep 0.02; done")
        .await;
    let froze = machine.script("freeze.py all 60").await;
    assert!(froze.contains("froze=notebook "), "{froze}");
    assert!(froze.ends_with(" the notebook server\n"), "{froze}");
    let before = machine.steps().await;
    assert!(!before.is_empty());

    machine.next_generation().await;
    machine.sh("docker restart -t 0 xdrive-demo").await;
    let thawed = machine.host.thaw_notebooks().await.unwrap();
    assert_eq!(thawed.len(), 1);
    assert!(thawed[0].outcome.is_ok(), "{thawed:?}");
    let again = machine.notebook("two").await;
    let said = machine.cell(&again, "print(word, x)", "same").await;
    assert_eq!(said, "kept 400\n");
    let steps: Vec<_> = (1..=400).collect();
    assert_eq!(machine.steps().await, steps);
    let old = machine.cell(&url, "1", "same").await;
    assert!(old.contains("403"), "{old}");
    assert_eq!(machine.sh("ls /v1/xdrive/frozen").await, "");
}
