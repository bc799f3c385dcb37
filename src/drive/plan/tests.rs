//! The plan as tables: what is seen, and what follows.

mod checkpoint;
mod copied;
mod fixtures;
mod foreign;
mod lease;
mod leaving;
mod parked;
mod promises;
mod ready;
mod recovery;
mod saved;
mod spared;
mod throwaway;
mod verify;
