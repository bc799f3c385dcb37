//! A change of the world: lock, read, catch up, act, write.
//!
//! A change that touches the data plane writes its intent to the state file first
//! ([`Change::effect`]). If this process dies, the next holder of the lock finds the intent and
//! completes or undoes it ([`recover`]). A file or machine is made before its record and removed
//! after it, so one without a record is always left over.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::caller::Caller;
use super::plane::{Firewall, Plane, PlaneError};
use super::records::{Ending, Group, Instance};
use super::store::{Lock, StoreError};
use super::wire::ApiError;
use super::world::{Intent, World};
use super::{Inner, Local};
use xdrive_ground::clock::BootTime;

/// Programs that a killed process had started, such as losetup(8), outlive it by a moment: the
/// kernel frees its lock before it signals its children. Recovery cannot see them, so it first
/// waits until they must have ended…
const LAST_GASP: Duration = Duration::from_millis(300);
/// … and is then tried this often, as one may still be running.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// A change under way.
pub(super) struct Change<'a> {
    pub(super) local: &'a Local,
    /// Whoever asks for it.
    pub(super) caller: &'a Caller,
    pub(super) world: World,
    /// The time of the change: read once, under the lock, so that time stamps never run backwards.
    pub(super) now: Timestamp,
    lock: Lock,
}

impl Change<'_> {
    /// Runs `effect` on the data plane, after writing `intent` and the records as they are. On
    /// paper it writes nothing, since nothing can be half done.
    pub(super) fn effect(
        &mut self,
        intent: Intent,
        effect: impl FnOnce(&dyn Plane) -> Result<(), PlaneError>,
    ) -> Result<(), PlaneError> {
        if !self.world.real {
            return Ok(());
        }
        self.world.unfinished = Some(intent);
        self.local
            .0
            .store
            .write(&self.lock, &self.world)
            .map_err(anyhow::Error::from)?;
        effect(&*self.local.0.plane)
    }

    /// Replaces the record of the group `id`, and with it what its rules let through.
    pub(super) fn set_group(&mut self, id: &str, group: &Group) -> Result<(), PlaneError> {
        self.guarded(|world| {
            world.groups.insert(id.to_owned(), group.clone());
        })
    }

    /// Changes the records, and with them what may reach the machines.
    pub(super) fn guarded(&mut self, change: impl Fn(&mut World)) -> Result<(), PlaneError> {
        let mut changed = self.world.clone();
        change(&mut changed);
        let firewall = self.local.0.firewall(&changed);
        if firewall != self.local.0.firewall(&self.world) {
            // Until the call succeeds the file has the old record: a kill undoes both.
            self.effect(Intent::Sweep, |plane| plane.guard(&firewall))?;
        }
        change(&mut self.world);
        Ok(())
    }

    /// Guards the machines that were launched since an intent was written: until then each is open.
    pub(super) fn guard_new(&self) -> Result<(), PlaneError> {
        self.local
            .0
            .plane
            .guard(&self.local.0.firewall(&self.world))
    }

    /// The moment `at` on the clock that machines use.
    pub(super) fn boot_time(&self, at: Timestamp) -> BootTime {
        let clock = &self.local.0.clock;
        let now = self.world.now(clock.now());
        clock.boot().on_this_clock(now, at)
    }

    /// Orders the machine to shut down. The next call finds one that is off already. Repeating the
    /// order is harmless, so a death right after it leaves nothing half done.
    pub(super) fn power_off(&self, instance: &str) -> Result<(), PlaneError> {
        let inner = &self.local.0;
        match inner.plane.power_off(instance, inner.delays.shutdown_grace) {
            Err(PlaneError::Gone) => Ok(()),
            outcome => outcome,
        }
    }

    /// Orders the machine to reboot. The next call finds one that is off already.
    pub(super) fn reboot(&self, instance: &str) -> Result<(), PlaneError> {
        let inner = &self.local.0;
        match inner.plane.reboot(instance, inner.delays.shutdown_grace) {
            Err(PlaneError::Gone) => Ok(()),
            outcome => outcome,
        }
    }
}

impl Local {
    /// Runs `act` under the lock on the world as it is now. If it succeeds, the world is written;
    /// if it fails, its effects on the data plane are undone and its records are dropped.
    pub(super) fn change<T>(
        &self,
        act: impl FnOnce(&mut Change<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        self.change_as(&self.0.caller, act)
    }

    /// [`Local::change`], for `caller`.
    pub(super) fn change_as<T>(
        &self,
        caller: &Caller,
        act: impl FnOnce(&mut Change<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let inner: &Arc<Inner> = &self.0;
        let lock = inner.store.lock()?;
        let mut world = World::clone(&*inner.read()?);
        let now = world.advance(inner.clock.now());
        recover(inner, &lock, &mut world)?;
        catch_up(inner, &lock, &mut world, now)?;
        let mut change = Change {
            local: self,
            caller,
            world,
            now,
            lock,
        };
        match act(&mut change) {
            Ok(answer) => {
                change.world.unfinished = None;
                change.world.forget(now, &inner.delays);
                inner.store.write(&change.lock, &change.world)?;
                Ok(answer)
            }
            Err(error) => {
                if change.world.unfinished.is_some() {
                    let mut world = World::clone(&*inner.read()?);
                    recover(inner, &change.lock, &mut world)?;
                }
                Err(error)
            }
        }
    }

    /// The world as of now, for reading. Takes the lock only if something must be recorded first:
    /// an instance that switched off, a volume that was released, or a killed call.
    pub(super) fn look(&self) -> Result<Arc<World>, ApiError> {
        let world = self.0.read()?;
        let now = world.now(self.0.clock.now());
        if world.unfinished.is_none()
            && unrecorded_ends(&self.0, &world, now).is_empty()
            && releasing(&world).is_empty()
            && growing(&world, now).is_empty()
        {
            return Ok(world);
        }
        self.change(|change| Ok(Arc::new(change.world.clone())))
    }
}

impl Inner {
    fn read(&self) -> Result<Arc<World>, StoreError> {
        let known = self.store.read()?;
        Ok(known
            .unwrap_or_else(|| Arc::new(World::new(self.real(), &self.region, self.clock.now()))))
    }

    pub(super) fn real(&self) -> bool {
        self.plane.is_real()
    }

    /// What may reach the instances of `world`.
    fn firewall(&self, world: &World) -> Firewall {
        world.firewall(!self.enforces_groups)
    }
}

/// Completes or undoes the call in which a process was killed.
pub(super) fn recover(inner: &Inner, lock: &Lock, world: &mut World) -> Result<(), ApiError> {
    let now = world.now(inner.clock.now());
    let Some(intent) = &world.unfinished else {
        return Ok(());
    };
    tracing::info!(?intent, "cleaning up after a call that did not end");
    let intent = intent.clone();
    if inner.real() {
        std::thread::sleep(LAST_GASP);
    }
    let mut tries = 1;
    while let Err(error) = clean_up(inner, world, &intent, now) {
        if tries == TRIES {
            return Err(error);
        }
        tracing::debug!(%error, tries, "cleaning up failed; trying again");
        tries += 1;
        std::thread::sleep(BETWEEN_TRIES);
    }
    world.unfinished = None;
    inner.store.write(lock, world)?;
    Ok(())
}

/// Brings the data plane and the records of `intent` to the state before or after the call.
/// Harmless when repeated.
fn clean_up(
    inner: &Inner,
    world: &mut World,
    intent: &Intent,
    now: Timestamp,
) -> Result<(), ApiError> {
    let unplug = |volume: &str, instance: &str| match inner.plane.detach(volume, instance) {
        Ok(()) | Err(PlaneError::Gone) => Ok(true),
        Err(PlaneError::Busy) => Ok(false),
        Err(error) => Err(ApiError::from(error)),
    };
    match intent {
        Intent::Sweep => {}
        Intent::Interrupt { instance } => {
            let interruption = world
                .instances
                .get(instance)
                .and_then(Instance::interruption);
            if let Some(interruption) = interruption {
                let left = interruption
                    .at
                    .duration_since(now)
                    .max(SignedDuration::ZERO);
                match inner
                    .plane
                    .interrupt(instance, interruption.at, left.unsigned_abs())
                {
                    Ok(()) | Err(PlaneError::Gone) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Intent::Attach { volume, instance } => {
            let recorded = world.volumes.get(volume).is_some_and(|volume| {
                volume
                    .attachment(now)
                    .is_some_and(|attachment| attachment.instance == *instance)
            });
            if !recorded {
                unplug(volume, instance)?;
            }
        }
        Intent::Detach { volume, instance } => {
            let out = unplug(volume, instance)?;
            if let Some(attachment) = world
                .volumes
                .get_mut(volume)
                .and_then(|volume| volume.attachment_mut(now))
                .filter(|attachment| out && attachment.instance == *instance)
            {
                attachment.detaching.get_or_insert(now);
                attachment.detached = Some(now);
            }
        }
    }
    sweep(inner, world)?;
    Ok(inner.plane.guard(&inner.firewall(world))?)
}

/// Removes from the data plane all that has no record.
pub(super) fn sweep(inner: &Inner, world: &World) -> Result<(), ApiError> {
    if inner.real() {
        let (instances, volumes, snapshots) = world.standing();
        inner.plane.sweep(&instances, &volumes, &snapshots)?;
    }
    Ok(())
}

/// The end of an instance whose machine is off, not recorded yet.
struct UnrecordedEnd {
    id: String,
    since: Timestamp,
    done: Timestamp,
}

/// The ends that are due by the records, or that the machines show.
fn unrecorded_ends(inner: &Inner, world: &World, now: Timestamp) -> Vec<UnrecordedEnd> {
    let candidates = world.instances.iter().filter(|(_, instance)| {
        let terminated = instance
            .termination
            .is_some_and(|ending| ending.done.is_some());
        !terminated && (instance.has_machine() || instance.termination.is_some())
    });
    candidates
        .filter_map(|(id, instance)| {
            let asked = instance.termination.or(instance.stop);
            let interrupted = instance.interruption().filter(|end| end.at <= now);
            let since = asked
                .map(|ending| ending.since)
                .into_iter()
                .chain(interrupted.map(|interruption| interruption.at))
                .min();
            let earliest = since.map(|since| since + inner.delays.terminated);
            let done = if !inner.real() {
                earliest?
            } else if inner.plane.is_up(&instance.machine) {
                return None;
            } else {
                earliest.unwrap_or(now).max(now)
            };
            // On paper exactly when the delay is over; on a real plane now, or when it is over.
            (earliest.is_none_or(|earliest| earliest <= now)).then(|| UnrecordedEnd {
                id: id.clone(),
                since: since.unwrap_or(done),
                done,
            })
        })
        .collect()
}

/// The volumes, each with its instance, that are being detached and that the machine still holds.
fn releasing(world: &World) -> Vec<(String, String)> {
    let held = world.volumes.iter().filter_map(|(id, volume)| {
        let attachment = volume.attachments.last()?;
        let waits = attachment.detaching.is_some() && attachment.detached.is_none();
        waits.then(|| (id.clone(), attachment.instance.clone()))
    });
    held.collect()
}

/// The volumes whose disks are to be larger by `now`, each with its size.
fn growing(world: &World, now: Timestamp) -> Vec<(String, u32)> {
    let volumes = world.volumes.iter();
    let standing = volumes.filter(|(_, volume)| volume.deleting.is_none());
    standing
        .filter_map(|(id, volume)| {
            let gib = volume.modifications.iter().find_map(|it| it.due(now))?;
            Some((id.clone(), gib))
        })
        .collect()
}

/// Records the transitions since the last call.
fn catch_up(inner: &Inner, lock: &Lock, world: &mut World, now: Timestamp) -> Result<(), ApiError> {
    let mut removed = Vec::new();
    let mut changed = false;
    for UnrecordedEnd { id, since, done } in unrecorded_ends(inner, world, now) {
        let had_booted = inner.plane.has_booted(&id);
        // Until all of it is removed its volumes are not free: the next call tries again.
        let had_booted = match had_booted.and_then(|had| inner.plane.clear(&id).map(|()| had)) {
            Ok(had_booted) => had_booted,
            Err(error) => {
                tracing::warn!(%id, %error, "cannot clear what the instance left");
                continue;
            }
        };
        let ending = if had_booted {
            Ending::by_itself(since)
        } else {
            Ending::failed(since)
        };
        world.begin_end(&id, ending);
        removed.extend(world.end(&id, done));
        changed = true;
    }
    for (volume, instance) in releasing(world) {
        // An instance that is off holds no volume; one that is still busy is asked again next time.
        let released = matches!(
            inner.plane.detach(&volume, &instance),
            Ok(()) | Err(PlaneError::Gone)
        );
        if released {
            let attachment = world
                .volumes
                .get_mut(&volume)
                .and_then(|volume| volume.attachment_mut(now));
            if let Some(attachment) = attachment {
                attachment.detached = Some(now);
                changed = true;
            }
        }
    }
    for (id, gib) in growing(world, now) {
        inner.plane.grow_volume(&id, gib)?;
        let volume = world.volumes.get_mut(&id);
        let due =
            volume.and_then(|it| it.modifications.iter_mut().find(|it| it.due(now).is_some()));
        if let Some(modification) = due {
            modification.done = Some(now);
            changed = true;
        }
    }
    if !changed {
        return Ok(());
    }
    removed.retain(|id| world.volumes.get(id).is_some_and(|volume| !volume.root));
    let files = inner.real() && !removed.is_empty();
    world.unfinished = files.then_some(Intent::Sweep);
    inner.store.write(lock, world)?;
    if files {
        for volume in &removed {
            inner.plane.delete_volume(volume)?;
        }
        world.unfinished = None;
        inner.store.write(lock, world)?;
    }
    Ok(())
}

/// The error that a caller receives when the data plane failed.
impl From<PlaneError> for ApiError {
    fn from(error: PlaneError) -> Self {
        let code = match error {
            PlaneError::Busy => "IncorrectState",
            PlaneError::Gone => "IncorrectInstanceState",
            // Not `InsufficientVolumeCapacity`: the other zones are on the same disk.
            PlaneError::Full(_) => "VolumeLimitExceeded",
            PlaneError::Missing(_) => "UnsupportedOperation",
            PlaneError::Other(cause) => {
                return Self {
                    status: 500,
                    code: "InternalError".to_owned(),
                    message: format!("{cause:#}"),
                };
            }
        };
        Self::client(code, error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self {
            status: 500,
            code: "InternalError".to_owned(),
            message: error.to_string(),
        }
    }
}
