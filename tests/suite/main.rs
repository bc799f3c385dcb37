//! The tests that need more than one module: real parts, one harness.

#![expect(
    clippy::unwrap_used,
    reason = "a test that fails says where; helpers of tests are not seen as tests"
)]

mod boto;
mod evidence;
mod fault_connector;
mod fault_proxy;
mod harness;
mod host;
mod house;
mod local_api;
mod local_instances;
mod loops;
mod model;
mod moto;
mod registry;
mod sdk;
mod serve;
mod serving;
mod session;
mod simulation;
mod ssh;
