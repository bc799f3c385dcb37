//! The ground of xdrive: time, ids, quoting, retries, signals and the terminal, each of which knows
//! nothing of what stands on it.
//!
//! | module | what it owns |
//! | --- | --- |
//! | [`clock`] | time, as an argument |
//! | [`ids`] | ids, names and generations, parsed once |
//! | [`quote`] | quoting for a shell |
//! | [`retry`] | the retry of a call while its answer is not final |
//! | [`signals`] | signals as values |
//! | [`terminal`] | raw mode, left on every way out |

pub mod clock;
pub mod ids;
pub mod quote;
pub mod retry;
pub mod signals;
pub mod terminal;
