//! The tests that need more than one module: real parts, one harness.

#![expect(
    clippy::unwrap_used,
    reason = "a test that fails says where; helpers of tests are not seen as tests"
)]

mod between;
mod boto;
mod evidence;
mod folder;
mod harness;
mod host;
mod house;
mod line;
mod loops;
mod model;
mod moto;
mod paper;
mod plane;
mod registry;
mod sdk;
mod serve;
mod serving;
mod session;
mod ssh;
