//! The life of an instance, from its first boot to its end, in one loop.
//!
//! Orders come at any moment, and most of their effects are due later: each is a timer, and the
//! loop does what is due first. A moment (the first boot, devices) is due on the clock since the
//! computer's start, which counts while it sleeps; a span (graces, a power cut) on the supervisor's
//! own. Before the first boot there is nothing to shut down or to reboot: it can only end.
//!
//! The supervisor makes and removes the instance's network, cgroups and disks.

use std::future::pending;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, sleep_until};

use super::cgroup::Cgroups;
use super::console::Console;
use super::folder::Folder;
use super::guest;
use super::guest::Guest;
use super::host_lock::HostLock;
use super::order::Order;
use super::{PlaneError, disk, power, root};
use xdrive_ground::clock::{BootTime, Clock};

/// How long an instance gets to power off before it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// A first boot that is due this soon is waited for, so that the launch reports its failure.
const SOON: Duration = Duration::from_millis(100);

/// How often to check whether the computer slept meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The parts of an instance that outlast its boots.
#[derive(Debug)]
pub(super) struct Lifecycle<'a> {
    /// The state directory.
    pub dir: &'a Path,
    /// The instance's.
    pub folder: &'a Folder,
    /// The instance's, made.
    pub cgroups: &'a Cgroups,
    /// The instance's, open.
    pub console: &'a Console,
}

/// The timers that are set.
#[derive(Debug, Default)]
struct Timers {
    /// The first boot.
    boot: Option<BootTime>,
    /// The next device.
    device: Option<BootTime>,
    /// The next request for the shutdown; from the first on the instance is to end.
    ask: Option<Instant>,
    /// The end by force.
    end: Option<Instant>,
    /// The reboot by force.
    reset: Option<Instant>,
    /// Whether the end was forced for a reboot.
    is_reset: bool,
    /// The power cut.
    cut: Option<Instant>,
}

impl Lifecycle<'_> {
    /// Boots the instance at `boots` and obeys `orders` until it has ended. Returns how its process
    /// 1 ended, if it ever had one.
    ///
    /// `up` is called once, when all but the first boot is done, or after that if it is due by then
    /// or soon. Must run on the thread that lives longest ([`Guest::start`]).
    pub(super) async fn run(
        &self,
        boots: BootTime,
        orders: pipe::Receiver,
        up: impl FnOnce(),
    ) -> Result<Option<ExitStatus>, PlaneError> {
        let mut due = Timers::default();
        let mut guest = None;
        if boots.since(Clock::system().boot()) <= SOON {
            on_this_computer(Some(boots)).await;
            guest = Some(self.boot(&mut due).await?);
        } else {
            due.boot = Some(boots);
        }
        up();
        let mut orders = BufReader::new(orders).lines();
        loop {
            tokio::select! {
                status = wait_for_end(&mut guest) => {
                    let status = status.context("waiting for the instance")?;
                    if due.ask.is_some() || !(due.is_reset || guest::asks_for_reboot(status)) {
                        return Ok(Some(status));
                    }
                    due.reset = None;
                    due.is_reset = false;
                    // systemd expects to find none of its cgroups.
                    self.cgroups.kill()?;
                    self.cgroups.remove()?;
                    self.cgroups.create()?;
                    guest = Some(self.boot(&mut due).await?);
                }
                order = orders.next_line() => {
                    let order = order.context("reading orders")?;
                    let order = order.as_deref().and_then(Order::parse);
                    match (order, &guest) {
                        (Some(Order::PowerOff { .. }), None) => return Ok(None),
                        (Some(order), guest) => self.obey(order, guest.as_ref(), &mut due)?,
                        (None, _) => {}
                    }
                }
                () = on_this_computer(due.boot) => {
                    due.boot = None;
                    guest = Some(self.boot(&mut due).await?);
                }
                () = on_this_computer(due.device) => {
                    due.device = None;
                    if let Some(guest) = &guest {
                        due.device = self.plug_in(guest)?;
                    }
                }
                () = at(due.ask) => {
                    if let Some(guest) = &guest {
                        guest.ask_to_power_off()?;
                    }
                    due.ask = Some(Instant::now() + ASK_AGAIN);
                }
                () = at(due.end) => {
                    self.cgroups.kill()?;
                    due.end = None;
                }
                () = at(due.reset) => {
                    due.reset = None;
                    due.is_reset = true;
                    if let Some(guest) = &guest
                        && let Err(error) = power::stop_disks(self.dir, self.folder, guest.init)
                    {
                        tracing::error!(instance = self.folder.name(), %error, "not quite a reset");
                    }
                    self.cgroups.kill()?;
                }
                () = at(due.cut) => {
                    due.cut = None;
                    let Some(guest) = &guest else {
                        return Ok(None);
                    };
                    if let Err(error) = power::cut(self.dir, self.folder, guest.init) {
                        tracing::error!(instance = self.folder.name(), %error, "not quite a power cut");
                    }
                    self.cgroups.kill()?;
                }
            }
        }
    }

    /// Begins to carry out an order; of two ends the earlier holds.
    fn obey(
        &self,
        order: Order,
        guest: Option<&Guest>,
        due: &mut Timers,
    ) -> Result<(), PlaneError> {
        let now = Instant::now();
        match order {
            Order::PowerOff { grace } => {
                due.ask = Some(now);
                due.end = Some(earlier(due.end, now + grace));
            }
            Order::Reboot { grace } => {
                if let Some(guest) = guest {
                    guest.ask_to_reboot()?;
                    due.reset = Some(earlier(due.reset, now + grace));
                }
            }
            Order::Cut { after } => due.cut = Some(earlier(due.cut, now + after)),
            Order::PlugIn => {
                // Before the boot, the boot does it.
                if let Some(guest) = guest {
                    due.device = self.plug_in(guest)?;
                }
            }
        }
        Ok(())
    }

    /// Starts the instance, records its process 1, and gives it its devices.
    async fn boot(&self, due: &mut Timers) -> Result<Guest, PlaneError> {
        let guest = {
            let _mounts = HostLock::Mounts.share()?;
            let _loops = root::lock(self.folder)?;
            Guest::start(self.folder, self.cgroups, self.console).await?
        };
        self.folder.set_init(guest.init)?;
        due.device = self.plug_in(&guest)?;
        Ok(guest)
    }

    /// Gives the instance the devices that are due; when the next one is.
    fn plug_in(&self, guest: &Guest) -> Result<Option<BootTime>, PlaneError> {
        let now = Clock::system().boot();
        if let Err(error) = disk::plug_in(self.dir, self.folder, guest.init, now) {
            // Its user sees a device that does not appear; all else goes on.
            tracing::error!(instance = self.folder.name(), %error, "a device is missing");
        }
        disk::next_due(self.folder, now)
    }
}

/// Waits until the instance has ended: for ever, as long as there is none.
async fn wait_for_end(guest: &mut Option<Guest>) -> std::io::Result<ExitStatus> {
    match guest {
        Some(guest) => guest.wait_for_end().await,
        None => pending().await,
    }
}

/// Waits for a moment, if there is one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

/// Waits for a moment on the clock since this computer's start, if there is one.
async fn on_this_computer(moment: Option<BootTime>) {
    let Some(moment) = moment else {
        return pending().await;
    };
    loop {
        let left = moment.since(Clock::system().boot());
        if left.is_zero() {
            return;
        }
        // The runtime's clock stands still while the computer sleeps.
        sleep(left.min(LOOK_AGAIN)).await;
    }
}

fn earlier(known: Option<Instant>, new: Instant) -> Instant {
    known.map_or(new, |known| known.min(new))
}
