//! The disks' folder, kept in place between one reading of a snapshot and the next: a snapshot is read
//! in thousands of calls, and to mount the folder for one takes longer than the call.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::PlaneError;
use super::copies::Disks;

/// How long it is kept: longer than the calls of one who reads block after block are apart, over a
/// line of 100 ms. The process ends so much later.
const LINGER: Duration = Duration::from_millis(150);

/// The disks that this process reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Option<Use>>>);

#[derive(Debug)]
struct Use {
    disks: Arc<Disks>,
    last: Instant,
}

impl Kept {
    /// As [`Disks::open`]. Kept only where a runtime will wait for the end of that.
    pub(super) fn open(&self, dir: &Path) -> Result<Arc<Disks>, PlaneError> {
        let Ok(runtime) = Handle::try_current() else {
            return Disks::open(dir).map(Arc::new);
        };
        let mut kept = self.lock();
        if let Some(kept) = &mut *kept {
            kept.last = Instant::now();
            return Ok(Arc::clone(&kept.disks));
        }
        let disks = Arc::new(Disks::open(dir)?);
        *kept = Some(Use {
            disks: Arc::clone(&disks),
            last: Instant::now(),
        });
        drop(kept);
        // Dropped unrun if the runtime ends already.
        let closing = Closing(self.clone());
        runtime.spawn_blocking(move || closing.wait());
        Ok(disks)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets them go when it is dropped.
struct Closing(Kept);

impl Closing {
    /// Waits until nobody has asked for a while.
    fn wait(self) {
        loop {
            let unused = self.0.lock().as_ref().map(|kept| kept.last.elapsed());
            match unused.and_then(|unused| LINGER.checked_sub(unused)) {
                Some(rest) => sleep(rest),
                None => return,
            }
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let unused = self.0.lock().take();
        // It may unmount, for which nobody waits.
        drop(unused);
    }
}
