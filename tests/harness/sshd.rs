//! A real sshd with its own keys, users and configuration; it ends when dropped.
//!
//! It runs in a PID and a mount namespace: killing its first process kills every session, and
//! `/etc/passwd` has the users that the tests need. It listens on its own loopback address, so that
//! no two compete for a port.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Pid;
use xdrive::ssh::{HostKey, Received, Ssh, Target, UserKey};

use crate::{DEADLINE, eventually_within};

pub struct Sshd {
    /// First, so that it is dead before its folder is removed.
    process: Process,
    pub address: SocketAddr,
    pub host_key: HostKey,
    pub user_key: UserKey,
    pub home: tempfile::TempDir,
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Sshd {
    pub fn start() -> Self {
        Self::with("")
    }

    /// Starts one with more lines of configuration, which come first and so have precedence.
    pub fn with(configuration: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = (std::process::id() << 6) + COUNT.fetch_add(1, Ordering::Relaxed);
        let [_, high, middle, low] = number.to_be_bytes();
        let address = SocketAddr::new(Ipv4Addr::new(127, high | 0x80, middle, low).into(), 2222);

        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| home.path().join(name);
        let host_key = HostKey::generate().unwrap();
        let user_key = UserKey::open_or_create(&file("user/key")).unwrap();
        write(&file("host_key"), &host_key.private, 0o600);
        write(&file("authorized_keys"), user_key.public(), 0o644);
        let here = home.path().display();
        let users = format!(
            "root:x:0:0:root:{here}:/bin/sh\n\
             tester:x:4321:4321:tester:{here}:/bin/sh\n\
             sshd:x:105:65534::/run/sshd:/usr/sbin/nologin\n"
        );
        write(&file("passwd"), &users, 0o644);
        // No password, but not locked either: sshd refuses locked accounts whatever their keys.
        let shadow = "root:*:19000::::::\ntester:*:19000::::::\nsshd:*:19000::::::\n";
        write(&file("shadow"), shadow, 0o600);
        std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let configuration = format!(
            "{configuration}\n\
             ListenAddress {address}\n\
             HostKey {here}/host_key\n\
             AuthorizedKeysFile {here}/authorized_keys\n\
             PermitRootLogin prohibit-password\n\
             PasswordAuthentication no\n\
             StrictModes no\nUsePAM no\nPrintMotd no\nPrintLastLog no\nPidFile none\n"
        );
        write(&file("config"), &configuration, 0o644);
        let script = "set -e
            mount --bind \"$1/passwd\" /etc/passwd
            mount --bind \"$1/shadow\" /etc/shadow
            mkdir -p \"$1/run/sshd\" \"$1/lib\"
            mount --bind \"$1/run\" /run
            mount --bind \"$1/lib\" /var/lib
            exec /usr/sbin/sshd -D -e -f \"$1/config\"";
        let log = std::fs::File::create(file("log")).unwrap();
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid"])
            .args(["--fork", "--kill-child", "sh", "-c", script, "sh"])
            .arg(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let sshd = Self {
            process: Process(process),
            address,
            host_key,
            user_key,
            home,
        };
        eventually_within(
            DEADLINE,
            || "sshd listens".to_owned(),
            || TcpStream::connect(address).is_ok(),
        );
        sshd
    }

    pub fn target(&self, user: &str) -> Target {
        Target {
            address: self.address,
            user: user.to_owned(),
            host_key: self.host_key.public.clone(),
            proxy: None,
            received: Received::default(),
        }
    }

    pub async fn connect(&self) -> Ssh {
        self.connect_as("root").await
    }

    pub async fn connect_as(&self, user: &str) -> Ssh {
        match Ssh::connect(&self.target(user), self.user_key.private()).await {
            Ok(ssh) => ssh,
            Err(error) => panic!("{error}; {}", self.log()),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Runs a shell command in its namespaces.
    pub fn inside(&self, words: &str) -> std::process::ExitStatus {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &self.first(), "--mount", "--pid"]);
        nsenter.args(["sh", "-c", words]).status().unwrap()
    }

    /// The process that has the id `inside` in its namespaces, by the id that it has here.
    pub fn process(&self, inside: &str) -> Pid {
        let space = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = space(&self.first());
        let has_id = |pid: &String| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            let id = ids.and_then(|ids| ids.split_whitespace().last());
            id == Some(inside) && space(pid) == own
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let mut names = all.filter_map(|entry| entry.file_name().into_string().ok());
        let found = names.find(has_id).expect("a process with this id");
        Pid::from_raw(found.parse().unwrap()).unwrap()
    }

    /// The server's first process, for which `unshare` waits outside.
    fn first(&self) -> String {
        let unshare = self.process.0.id();
        let children = format!("/proc/{unshare}/task/{unshare}/children");
        let first = std::fs::read_to_string(children).unwrap();
        first.trim().to_owned()
    }

    /// Kills it with everything that runs in it, as a power cut would, except that the kernel
    /// still resets its connections.
    pub fn kill(&mut self) {
        self.process.0.kill().unwrap();
        self.process.0.wait().unwrap();
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}
