//! The tests that need more than one module: real parts, one harness.
//!
//! What `shell/test.sh` runs shows each promise and each feature at least once, on a machine where a
//! machine matters. Variants of these, which boot one more machine or wait, are in a module `wide`
//! beside their file, or in a folder `wide` where a whole file is of that kind: `shell/test.sh --all`
//! runs them too.

#![expect(
    clippy::unwrap_used,
    reason = "a test that fails says where; helpers of tests are not seen as tests"
)]

/// The name that libtest has for the test function `$test` of the calling module. A test that runs
/// itself as another process is selected by it; the compiler notices one that was renamed.
macro_rules! test_name {
    ($test:ident) => {{
        let _: fn() = $test;
        let path = concat!(module_path!(), "::", stringify!($test));
        path.split_once("::").expect("a crate's name comes first").1
    }};
}

mod boto;
mod folded;
mod folder;
mod host;
mod house;
mod local_api;
mod local_instances;
mod loops;
mod model;
mod moto;
#[cfg(target_arch = "x86_64")]
mod nfs;
mod release;
mod sdk;
mod serve;
mod session;
mod ssh;
