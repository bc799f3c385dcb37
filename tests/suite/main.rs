//! The tests that need more than one module: real parts, one harness.

#![expect(
    clippy::unwrap_used,
    reason = "a test that fails says where; helpers of tests are not seen as tests"
)]

mod boto;
mod host;
mod house;
mod local_api;
mod local_instances;
mod loops;
mod model;
mod moto;
mod sdk;
mod serve;
mod session;
mod ssh;
