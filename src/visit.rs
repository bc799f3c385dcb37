//! Verbs on a drive that is up: who visits its host is attached as a guest is, or only asks.
//!
//! A visit launches, mounts and starts nothing. What it looks at of a drive that is asleep is read from
//! a snapshot, without a host or a key. `stop`, `gc` and the end of a scratch drive close what is there.

mod again;
mod checkpoint;
mod containers;
mod copy;
mod difference;
mod files;
mod finish;
mod look;
mod now;
mod ports;
mod proxy;
mod resize;
pub(crate) mod runs;
mod scratch;
mod stop;
mod up;
mod visitor;
mod workers;

pub(crate) use crate::host::on_record::{ContainerState, OnRecord};
pub(crate) use crate::host::ports::Listener;
pub(crate) use crate::host::sftp::{Attributes, Entry, Kind};
pub(crate) use again::{LastRun, last_run};
pub(crate) use checkpoint::checkpoint;
pub(crate) use containers::{Containers, list_containers, remove_container};
pub(crate) use copy::copy;
pub(crate) use difference::{Comparison, Difference, differences};
pub(crate) use finish::{Finished, finish_drive};
pub(crate) use look::{Look, list_files, show_files};
pub(crate) use now::sync;
pub(crate) use ports::{Ports, list_ports};
pub(crate) use proxy::proxy;
pub(crate) use resize::resize;
pub(crate) use runs::{Listed, Wanted, list_runs, logs, run_asleep};
pub(crate) use scratch::{Disposable, end_scratch};
pub(crate) use stop::{Manner, stop};
pub(crate) use up::demand_host;
pub use visitor::Visitor;
pub(crate) use workers::{Leader, Network, come_again};
