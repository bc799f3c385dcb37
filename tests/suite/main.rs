//! The tests that need more than one module: real parts, one harness.
mod folder;
mod house;
mod ssh;
