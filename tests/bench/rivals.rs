//! The two clients, each with a shell in the container and forwards into it.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::ends;
use harness::bench::{Program, program::SSH};

/// How many forwards each has.
const FORWARDS: usize = 8;
/// The end of the prompt in the container.
const PROMPT: &str = "# ";

/// The two clients, and what they need.
pub(crate) struct Rivals {
    /// xdrive and OpenSSH.
    pub(crate) clients: [Client; 2],
    /// The container's server.
    server: Child,
}

/// A client that is measured.
pub(crate) struct Client {
    pub(crate) shell: Shell,
    /// Local ports that lead to the server in the container.
    pub(crate) ports: Vec<u16>,
    /// The local port that leads there by the client's own order of ciphers.
    pub(crate) own: u16,
    /// The words in front of a command in the container.
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// The processes that carry `ports` and `own`, if that is not the shell's.
    carries: Option<[Child; 2]>,
}

/// A shell in a terminal.
pub(crate) struct Shell {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    screen: Box<dyn Read + Send>,
}

impl Rivals {
    pub(crate) async fn begin(program: &Program, drive: &str) -> anyhow::Result<Self> {
        let connect = program.connect(drive);
        let connect = connect.as_std();
        let words: Vec<OsString> = std::iter::once(connect.get_program())
            .chain(connect.get_args())
            .map(ToOwned::to_owned)
            .collect();
        let environment: Vec<_> = connect
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        let ports = ports(FORWARDS)?;
        let mut in_terminal = words.clone();
        // Without the `--` before a command.
        in_terminal.pop();
        in_terminal.push("--no-jupyter".into());
        for port in &ports {
            in_terminal.extend([
                "-L".into(),
                format!("{port}:localhost:{}", ends::PORT).into(),
            ]);
        }
        let shell = Shell::start(&in_terminal, &environment)?;
        let xdrive = Client {
            shell,
            own: ports[0],
            ports,
            words,
            environment,
            carries: None,
        };
        let mut server = xdrive
            .command(&["python3", "-c", ends::SERVER])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // A connection that came too early would find another way.
        let mut listens = [0; 9];
        let stdout = server.stdout.as_mut().context("no output")?;
        stdout.read_exact(&mut listens)?;
        let ssh = ssh(program, drive).await?;
        let clients = [xdrive, ssh];
        Ok(Self { clients, server })
    }

    /// Ends both.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        self.server.kill()?;
        self.server.wait()?;
        let [xdrive, mut ssh] = self.clients;
        for mut carries in ssh.carries.take().into_iter().flatten() {
            carries.kill()?;
            carries.wait()?;
        }
        ssh.shell.end()?;
        xdrive.shell.end()
    }
}

/// OpenSSH's side.
async fn ssh(program: &Program, drive: &str) -> anyhow::Result<Client> {
    let ssh = program.ssh(drive).await?;
    let container = format!("xdrive-{drive}");
    let template = "{{.NetworkSettings.Networks.bridge.IPAddress}}";
    let inspect = ["docker", "inspect", "--format", template, &container];
    let output = Command::new(&ssh[0])
        .args(&ssh[1..])
        .args(inspect)
        .output()?;
    let address = String::from_utf8(output.stdout)?;
    let mut ports = ports(FORWARDS + 1)?;
    let own = ports.pop().context("no port")?;
    let (host, flags) = ssh.split_last().context("no words")?;
    let carry = |ports: &[u16], has_our_order: bool| {
        let is_given = |flag: &&String| has_our_order || !flag.starts_with("-oCiphers=");
        let mut carries = Command::new(&ssh[0]);
        carries.args(flags[1..].iter().filter(is_given)).arg("-N");
        for port in ports {
            let to = format!("{port}:{}:{}", address.trim(), ends::PORT);
            carries.arg("-L").arg(to);
        }
        carries.arg(host).stdin(Stdio::null()).spawn()
    };
    let carries = [carry(&ports, true)?, carry(&[own], false)?];
    let words = |more: &[&str]| -> Vec<OsString> {
        let more = more.iter().map(|word| (*word).to_owned());
        ssh.iter().cloned().chain(more).map(Into::into).collect()
    };
    let mut in_terminal = words(&["docker", "exec", "-it", "-w", "/work", &container, "bash"]);
    let program = ssh.iter().position(|word| word == SSH);
    in_terminal.insert(program.context("no program")? + 1, "-t".into());
    Ok(Client {
        shell: Shell::start(&in_terminal, &[])?,
        ports,
        own,
        words: words(&["docker", "exec", "-i", &container]),
        environment: Vec::new(),
        carries: Some(carries),
    })
}

/// Finds so many ports that nothing listens on.
fn ports(count: usize) -> anyhow::Result<Vec<u16>> {
    let held: std::io::Result<Vec<_>> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect();
    let held = held?;
    let ports = held.iter().map(|it| Ok(it.local_addr()?.port()));
    ports.collect()
}

impl Client {
    /// A command in the container.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        // OpenSSH's words go through a shell on the host.
        let is_ssh = self.carries.is_some();
        let quoted = words.iter().map(|word| {
            if is_ssh {
                xdrive::quote::quote(word)
            } else {
                (*word).to_owned()
            }
        });
        command.args(quoted);
        command.envs(self.environment.iter().cloned());
        command
    }

    fn pid(&self) -> anyhow::Result<u32> {
        let carries = self.carries.as_ref().map(|[ours, _]| ours.id());
        carries
            .or(self.shell.child.process_id())
            .context("it has ended")
    }

    /// The memory, in MiB, before it has carried more than a page.
    pub(crate) fn idle(&self) -> anyhow::Result<f64> {
        drop(ends::open(self.ports[0], 1)?);
        self.memory()
    }

    /// The memory of what carries the forwards, in MiB.
    pub(crate) fn memory(&self) -> anyhow::Result<f64> {
        ends::memory(self.pid()?)
    }

    /// The client's processor time, in seconds.
    pub(crate) fn cpu(&self) -> anyhow::Result<f64> {
        ends::cpu(self.pid()?)
    }
}

impl Shell {
    /// Starts it, and in it a program that sends each byte back.
    fn start(words: &[OsString], environment: &[(OsString, OsString)]) -> anyhow::Result<Self> {
        let pair = native_pty_system().openpty(PtySize::default())?;
        let mut command = CommandBuilder::new(&words[0]);
        command.args(&words[1..]);
        command.env("TERM", "xterm");
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command)?;
        drop(pair.slave);
        let mut shell = Self {
            child,
            keyboard: pair.master.take_writer()?,
            screen: pair.master.try_clone_reader()?,
            master: pair.master,
        };
        shell.until(PROMPT)?;
        shell
            .keyboard
            .write_all(b"stty raw -echo; echo r\"\"eady; cat\r")?;
        shell.until("ready")?;
        // And what the shell has printed besides.
        shell.byte(b'\x01')?;
        Ok(shell)
    }

    /// Reads until this is shown.
    fn until(&mut self, text: &str) -> anyhow::Result<()> {
        let (mut shown, mut buffer) = (String::new(), [0; 4096]);
        while !shown.contains(text) {
            let length = self.screen.read(&mut buffer)?;
            ensure!(length > 0, "it ended:\n{shown}");
            shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        Ok(())
    }

    /// The time until a byte comes back.
    fn byte(&mut self, byte: u8) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.keyboard.write_all(&[byte])?;
        let mut buffer = [0; 4096];
        loop {
            let length = self.screen.read(&mut buffer)?;
            ensure!(length > 0, "it ended");
            if buffer[..length].contains(&byte) {
                return Ok(began.elapsed());
            }
        }
    }

    /// The 50th and the 99th percentile of so many echoes, in milliseconds.
    pub(crate) fn echo(&mut self, count: usize) -> anyhow::Result<[f64; 2]> {
        let times: anyhow::Result<Vec<_>> = (0..count).map(|_| self.byte(b'x')).collect();
        Ok(ends::percentiles(times?))
    }

    /// Ends it, as a closed terminal does.
    fn end(mut self) -> anyhow::Result<()> {
        drop((self.keyboard, self.screen, self.master));
        self.child.wait()?;
        Ok(())
    }
}
