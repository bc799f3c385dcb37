//! The harness of the tests, the sweeps and the benchmarks.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`home`] | the program, the cache that its homes share, and the environment of its users |
//! | [`cloud`], [`server`] | an EC2 in a folder, in this process or served; what is billed there |
//! | [`ids`], [`evidence`] | new ids, and proofs from evidence that is made up |
//! | [`faults`] | two injectors of faults: in process, and on the wire |
//! | [`simulation`] | a drive's life on paper, with its promises checked |
//! | [`sshd`], [`registry`], [`far`] | real servers, and a network of some length |
//! | [`pty`] | a program in a terminal, and what a person would see |
//! | [`leaks`] | what is left in the running system |
//! | [`pace`] | which cases of a sweep are taken, in which order, how many at once |
//! | [`bench`] | xdrive and its parts, as the benchmarks run them |

use std::time::{Duration, Instant};

pub mod bench;
pub mod cloud;
pub mod evidence;
pub mod far;
pub mod faults;
pub mod home;
pub mod ids;
pub mod image;
pub mod leaks;
pub mod pace;
pub mod pty;
pub mod python;
pub mod registry;
pub mod server;
pub mod simulation;
pub mod sshd;

pub use far::{Distance, Far};
pub use home::{cache, program, write_script};
pub use ids::id;
pub use image::{image_with, small_image};
pub use leaks::leaks;
pub use pty::Pty;
pub use python::python;

/// How long anything that should happen at once may take: on a machine with four times as much work
/// as processors, what takes a second alone took up to twenty.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// Polls until `reached`, and fails with `what` when it never is. A look that takes long, such as a
/// program's run, is not taken often: four fifths of the time are others'.
pub fn eventually_within(
    limit: Duration,
    what: impl Fn() -> String,
    mut reached: impl FnMut() -> bool,
) {
    let end = Instant::now() + limit;
    loop {
        let began = Instant::now();
        if reached() {
            return;
        }
        assert!(Instant::now() < end, "never: {}", what());
        std::thread::sleep(Duration::from_millis(5).max(began.elapsed() * 4));
    }
}
