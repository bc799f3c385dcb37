//! The plan as tables: what is seen, and what follows.

mod fixtures;
mod odd;
mod promises;
mod ready;
mod saved;
