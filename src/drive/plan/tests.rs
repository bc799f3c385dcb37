//! The plan as tables: what is seen, and what follows.

mod checkpoint;
mod fixtures;
mod lease;
mod odd;
mod parked;
mod promises;
mod ready;
mod saved;
mod verify;
