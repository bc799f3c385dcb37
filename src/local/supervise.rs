//! The processes that calls leave behind: an instance's supervisor, with the API of its folder inside; and what
//! serves a volume whose blocks come late.

use std::path::Path;

use anyhow::Context as _;
use xdrive_ground::clock::Clock;

use super::plane::{self, API_URL, RealPlane};
use super::wire::serve_inside;
use super::{Local, OpenOptions};

/// Supervises an instance of the EC2 in `dir`, whose machine images are in `cache`: brings it up, serves
/// its metadata and the API inside it, and clears up when it ends. Launches start a process that does
/// nothing else.
///
/// Must run on the main thread, outside of any runtime: the instance lives as long as the thread.
pub fn supervise(dir: &Path, cache: &Path, instance: &str) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("this program's path")?;
    let real = RealPlane::new(dir.to_owned(), program, cache.to_owned());
    // Anew for each connection, as every process on the computer does: settings may have changed.
    let open = move || {
        let options = OpenOptions::from_settings(real.clone(), Clock::system())?;
        Local::open(options)
    };
    plane::supervise(dir, cache, instance, |listener| {
        serve_inside(listener, open, API_URL, instance)
    })
}

/// Serves a volume of the EC2 in `dir` whose blocks come late, to a loop device that it makes and until that is
/// detached. Attachments start a process that does nothing else.
pub fn serve_volume(dir: &Path, volume: &str) -> anyhow::Result<()> {
    plane::serve_volume(dir, volume)
}
