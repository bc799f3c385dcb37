//! The plan as tables: what is seen, and what follows.

mod fixtures;
mod lease;
mod odd;
mod promises;
mod ready;
mod saved;
mod verify;
