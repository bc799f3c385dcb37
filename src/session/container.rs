//! From a mounted drive to a running container, with Jupyter forwarded: the main one, which always
//! runs, and the one with a name if the session is in one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use tokio::task::JoinSet;

use crate::cloud::Cloud;
use crate::config::Variables;
use crate::drive::tags::Settings;
use crate::ec2::Instance;
use crate::failure::Failure;
use crate::host::container::{Came, CommandId, Container, ContainerSignal};
use crate::host::facts::ScriptError;
use crate::host::ports::JUPYTER_PORT;
use crate::host::scripts::{ContainerOrder, Host, Image};
use crate::host::{EarlyConnection, MountedDrive};
use crate::ids::{ContainerName, SessionId};
use crate::report::{Report, Step, Text};
use crate::ssh::forward::{Forward, ForwardError};
use crate::ssh::{DedicatedConnection, Ssh, SshError};

use super::local_ports::{JupyterPlace, jupyter_place};
use super::request::Request;
use super::shares::Shares;
use super::start::{Asked, describe_start, described, first_image, image, left_in, start_named};
use super::thawed::reported;
use super::{browser, build, container_failure, gpu, ingress};
use crate::access::Ready;
use crate::attached::warn_of_docker;

/// A session inside its container. Dropping it closes Jupyter's port.
pub(super) struct ContainerSession {
    pub(super) host: Host,
    pub(super) container: Container,
    /// Whether what is frozen on the drive may go on.
    pub(super) thaws: bool,
    /// The terminal in it whose shell was frozen, and has gone on.
    pub(super) thawed: Option<String>,
    /// The terminal that an earlier session left in it, if it has a name.
    left: Option<String>,
    notebook: Option<Arc<Notebook>>,
    jupyter: JoinSet<()>,
}

/// The connections into a container: Jupyter's forwarded port, and the dedicated connection of the
/// shell. They are opened while the container starts, and usable once it has an address.
pub(super) struct Connections {
    /// Jupyter's; none without Jupyter.
    jupyter: Option<JupyterForward>,
    line: Result<DedicatedConnection, SshError>,
}

/// Jupyter's forwarded port, before Jupyter is started.
struct JupyterForward {
    opened: Result<Forward, ForwardError>,
    /// Where it was requested on this computer.
    wanted: JupyterPlace,
}

impl Connections {
    /// Opens both, Jupyter's only if it has a `place`. The shell's is the `early` one if there is one,
    /// with its shell if that `is_ready`.
    pub(super) async fn open(
        ssh: &Ssh,
        place: Option<JupyterPlace>,
        early: Option<EarlyConnection>,
        is_ready: bool,
    ) -> Self {
        let jupyter = place.map(|wanted| {
            let opened = Forward::open(ssh, wanted.port, (Ipv4Addr::UNSPECIFIED, 0).into());
            JupyterForward { opened, wanted }
        });
        let line = match early {
            Some(early) => early.beside(ssh, is_ready).await,
            None => DedicatedConnection::open(ssh).await,
        };
        Self { jupyter, line }
    }
}

/// The host at which a session has arrived, with its drive mounted.
pub(super) struct Arrival<'a> {
    pub(super) instance: &'a Instance,
    pub(super) ssh: &'a Ssh,
    pub(super) host: &'a Host,
    pub(super) mounted: &'a MountedDrive,
    /// The container, and a connection into it, that were there on arrival.
    pub(super) ready: Ready,
    /// The drive's own settings.
    pub(super) settings: &'a Settings,
    /// The shares of its containers.
    pub(super) shares: &'a Shares,
    /// Whether what is frozen on the drive may go on.
    pub(super) thaws: bool,
}

/// Starts the containers and opens the connections into the session's, unless both were ready on
/// arrival; prints where Jupyter is.
pub(super) async fn enter(
    request: &Request,
    session: &SessionId,
    arrival: Arrival<'_>,
    cloud: &Cloud,
    report: &Report,
) -> Result<(ContainerSession, DedicatedConnection), Failure> {
    let Arrival {
        instance,
        ssh,
        host,
        mounted,
        ready,
        settings,
        shares,
        thaws,
    } = arrival;
    let wanted = request.options.image.as_deref();
    let known = mounted.source.as_deref();
    let asked = match (wanted, known) {
        (None, None) => Some(first_image(request, settings, &cloud.image)?),
        (wanted, _) => wanted.map(Asked::Here),
    };
    // A container that runs as it is to be has them.
    let is_kept = request.options.places.are_kept() && request.options.shares.is_none();
    let has_shares = is_kept && ready.container.is_some() && request.named.is_none();
    let reach = async {
        if has_shares {
            return Ok(None);
        }
        shares.reach(instance, cloud, report).await
    };
    let open = async {
        ingress::settle(request, settings, instance, cloud, report).await;
        Ok(())
    };
    let (image, (), shares, ()) = tokio::try_join!(
        image(host, asked.as_ref(), known, request, report),
        gpu::wait_ready(host, mounted.gpus, instance, cloud, report),
        reach,
        open,
    )?;
    if let Some(slices) = request.options.launch.slices {
        gpu::slice(host, slices, report).await?;
    }
    let order = ContainerOrder {
        drive: request.drive.clone(),
        named: None,
        image,
        environment: Vec::new(),
        places: request.options.places.clone(),
        shares,
    };
    let step = report.step("start the container");
    let is_as_it_was = order.image == Image::Kept && is_kept;
    let running = ready.container.filter(|_| is_as_it_was);
    let is_ready = running.is_some();
    let place = jupyter_place(&request.options).filter(|_| request.named.is_none());
    let (container, connections) = tokio::join!(
        async {
            match running {
                Some(container) => Ok(container),
                None => host.container(&order).await,
            }
        },
        Connections::open(ssh, place, ready.early, is_ready),
    );
    let container = container.map_err(container_failure::from_script_error)?;
    step.done(&describe_start(&container));
    let commands = described(&container, asked.as_ref())?;
    if commands.is_empty() && request.named.is_none() {
        thaw_notebooks(thaws, host, report).await;
        let (mut inside, line) = join(connections, host, container, session, report).await?;
        inside.thaws = thaws;
        return Ok((inside, line));
    }
    // They go stale meanwhile.
    drop(connections);
    build::finish(host, &container, &commands, report).await?;
    let container = match &request.named {
        None => container,
        Some(named) => start_named(request, named, order.shares, host, report).await?,
    };
    thaw_notebooks(thaws, host, report).await;
    let left = left_in(host, &container).await;
    let connections = Connections::open(ssh, jupyter_place(&request.options), None, false).await;
    let (mut inside, line) = join(connections, host, container, session, report).await?;
    (inside.left, inside.thaws) = (left, thaws);
    Ok((inside, line))
}

/// Before Jupyter is started: the server that is frozen goes on then.
async fn thaw_notebooks(thaws: bool, host: &Host, report: &Report) {
    if thaws {
        reported(host.thaw_notebooks(), report).await;
    }
}

/// Enters a container that runs, over these connections.
pub(super) async fn join(
    connections: Connections,
    host: &Host,
    container: Container,
    session: &SessionId,
    report: &Report,
) -> Result<(ContainerSession, DedicatedConnection), Failure> {
    let Connections { jupyter, line } = connections;
    warn_of_docker(&container, report);
    let inside = ContainerSession::open(host, session, container, jupyter, report).await;
    Ok((inside, line.map_err(anyhow::Error::from)?))
}

impl ContainerSession {
    /// Enters `container`, with Jupyter if it has a forward and starts: its failure is printed, and
    /// the shell opens all the same.
    async fn open(
        host: &Host,
        session: &SessionId,
        container: Container,
        jupyter: Option<JupyterForward>,
        report: &Report,
    ) -> Self {
        let mut inside = Self {
            host: host.clone(),
            container,
            left: None,
            thaws: false,
            thawed: None,
            notebook: None,
            jupyter: JoinSet::new(),
        };
        let opened = match jupyter {
            None => Ok(()),
            Some(JupyterForward { opened, wanted }) => match opened {
                Ok(forward) => inside.open_jupyter(session, forward, wanted, report).await,
                Err(error) => Err(error.into()),
            },
        };
        if let Err(error) = opened {
            report.print(&format!("no Jupyter: {error:#}"));
        }
        inside
    }

    /// Starts Jupyter if the image has it. The port accepts connections at once, which wait until
    /// Jupyter listens. The prompt waits only to learn whether the image has Jupyter, and only the
    /// first time.
    async fn open_jupyter(
        &mut self,
        session: &SessionId,
        forward: Forward,
        wanted: JupyterPlace,
        report: &Report,
    ) -> anyhow::Result<()> {
        let address = SocketAddr::new(self.container.address, JUPYTER_PORT);
        forward.set_starting(true);
        forward.retarget(address);
        let notebook = Arc::new(Notebook {
            session: session.clone(),
            container: self.container.named.clone(),
            token: token()?,
            forward,
            wanted,
            report: report.clone(),
            is_printed: AtomicBool::new(false),
            is_up: AtomicBool::new(false),
        });
        self.notebook = Some(Arc::clone(&notebook));
        let host = self.host.clone();
        match self.container.lab {
            None => {
                let step = report.step("start Jupyter");
                if notebook.start(&host).await? {
                    notebook.report_step(step);
                    self.jupyter.spawn(notebook.listen(host));
                }
            }
            Some(true) => {
                notebook.report_step(report.step("start Jupyter"));
                self.jupyter.spawn(async move {
                    match notebook.start(&host).await {
                        Ok(true) => notebook.listen(host).await,
                        Ok(false) => notebook
                            .report
                            .print("no Jupyter: it is not installed any more"),
                        // `reconnected` starts it again.
                        Err(ScriptError::Ssh(_)) => {}
                        Err(error) => notebook.report.print(&format!("no Jupyter: {error}")),
                    }
                });
            }
            // The user may have installed it since.
            Some(false) => {
                self.jupyter.spawn(notebook.start_if_there(host));
            }
        }
        Ok(())
    }

    /// Sends `signal` to a command in the container.
    pub(super) async fn signal(
        &self,
        command: &CommandId,
        signal: ContainerSignal,
    ) -> Result<(), ScriptError> {
        let name = self.container.named.as_ref();
        self.host.signal(name, command, signal).await
    }

    /// The terminal that an earlier session left in the container, or that was frozen there; `main` is that
    /// in the main one.
    pub(super) fn left_shell<'a>(&'a self, main: Option<&'a str>) -> Option<&'a str> {
        match self.container.named {
            _ if self.thawed.is_some() => self.thawed.as_deref(),
            None => main,
            Some(_) => self.left.as_deref(),
        }
    }

    /// Continues over a new connection to the same host. Forwards reconnect by themselves.
    pub(super) fn reconnected(&mut self, host: Host) {
        self.host = host.clone();
        if let Some(notebook) = self.notebook.clone()
            && !notebook.is_up.load(Ordering::Relaxed)
        {
            self.jupyter.abort_all();
            self.jupyter.spawn(notebook.start_if_there(host));
        }
    }

    /// Brings variables along for what Jupyter starts, if there are any and it is here.
    pub(super) fn bring_for_jupyter(&mut self, session: SessionId, variables: Variables) {
        if self.notebook.is_none() || variables.is_empty() {
            return;
        }
        let (host, container) = (self.host.clone(), self.container.clone());
        self.jupyter.spawn(async move {
            let script = variables.script();
            // Without a connection the session has other worries.
            drop(host.bring(&container, &session, &script, false).await);
        });
    }

    /// Returns `opened`. If that is a failure and the container ran before this session, prints it
    /// and returns `None`: to end the session would end what runs there.
    pub(super) fn or_go_on_without<T>(
        &self,
        opened: Result<T, Failure>,
        report: &Report,
        json: bool,
    ) -> Result<Option<T>, Failure> {
        match (opened, &self.container.came) {
            (Ok(opened), _) => Ok(Some(opened)),
            (Err(failure), Came::Running) => {
                report.print(&failure.shown(json, failure.exit.code()));
                Ok(None)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// Jupyter's port on this computer.
    pub(super) fn port(&self) -> Option<u16> {
        self.notebook
            .as_ref()
            .map(|notebook| notebook.forward.port())
    }

    /// A function that returns the line of Jupyter's port, once its address was printed.
    pub(super) fn jupyter_line(&self) -> impl Fn() -> Option<String> + Send + use<> {
        let notebook = self.notebook.clone();
        move || {
            let notebook = notebook.as_ref();
            let notebook = notebook.filter(|it| it.is_printed.load(Ordering::Relaxed));
            notebook.map(|it| it.line())
        }
    }
}

/// Jupyter in the container, and its forwarded port. Dropping it closes the port.
struct Notebook {
    /// The session that the token is for.
    session: SessionId,
    /// The name of its container; none for the main one.
    container: Option<ContainerName>,
    token: String,
    forward: Forward,
    /// Where it was requested on this computer.
    wanted: JupyterPlace,
    report: Report,
    /// Whether its address was printed.
    is_printed: AtomicBool,
    /// Whether it has listened.
    is_up: AtomicBool,
}

impl Notebook {
    /// Authorizes the token, and starts Jupyter unless it runs; false if the image has none.
    async fn start(&self, host: &Host) -> Result<bool, ScriptError> {
        let container = self.container.as_ref();
        let started = host.jupyter(container, &self.session, &self.token, self.wanted.freezes);
        let Some(address) = started.await? else {
            return Ok(false);
        };
        self.forward.retarget(address);
        Ok(true)
    }

    /// Holds connections back until Jupyter listens.
    async fn listen(self: Arc<Self>, host: Host) {
        let listens = host.jupyter_listens(self.container.as_ref()).await;
        if let Err(ScriptError::Ssh(_)) = listens {
            return;
        }
        self.is_up.store(true, Ordering::Relaxed);
        self.forward.set_starting(false);
        if let Err(error) = listens {
            self.report
                .print(&format!("Jupyter did not come up: {error}"));
        }
    }

    /// Starts Jupyter if the image has it, and prints its address unless that was done.
    async fn start_if_there(self: Arc<Self>, host: Host) {
        if let Ok(true) = self.start(&host).await {
            if !self.is_printed.load(Ordering::Relaxed) {
                self.report_step(self.report.step("start Jupyter"));
            }
            self.listen(host).await;
        }
    }

    /// Prints its address.
    fn report_step(&self, step: Step) {
        let port = self.forward.port();
        if port != self.wanted.port {
            self.report.print(&format!(
                "port {} is busy: Jupyter gets port {port}",
                self.wanted.port
            ));
        }
        self.is_printed.store(true, Ordering::Relaxed);
        step.done(&Text::link(&self.address()));
        if self.wanted.opens {
            browser::open(self.address(), &self.report);
        }
    }

    fn address(&self) -> String {
        let port = self.forward.port();
        format!("http://127.0.0.1:{port}/lab?token={}", self.token)
    }

    /// The line of its forward.
    fn line(&self) -> String {
        let port = self.forward.port();
        let target = self.forward.target().map(|it| it.to_string());
        format!(
            "127.0.0.1:{port} leads to {}, Jupyter\n{}",
            target.unwrap_or_default(),
            self.address()
        )
    }
}

/// A new token: 16 random bytes, in hexadecimal so that its URL fits a terminal's line.
pub(super) fn token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("no random numbers")?;
    Ok(hex::encode(bytes))
}
