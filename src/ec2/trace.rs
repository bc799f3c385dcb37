//! Log events of every call to AWS, with `XDRIVE_LOG=xdrive::ec2=debug`.
//!
//! One event when an attempt is about to be sent and one when it has ended, with the call's name: a
//! call that the SDK repeats shows each time. Parameters and answers are never logged: they hold
//! user data and tags. A call that is not in [`super::calls`] is a mistake.

use aws_sdk_ec2::config::Intercept;
use aws_sdk_ec2::config::interceptors::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;

use super::calls;

/// Logs each attempt; changes nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace;

#[dyn_dispatch_hint]
impl Intercept for Trace {
    fn name(&self) -> &'static str {
        "xdrive's trace"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let call = call(config);
        debug_assert!(calls::find(call).is_some(), "{call} is not in the list");
        tracing::debug!(target: "xdrive::ec2", call, "sending");
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let status = context.response().map(|answer| answer.status().as_u16());
        tracing::debug!(target: "xdrive::ec2", call = call(config), status, "answered");
        Ok(())
    }
}

fn call(config: &ConfigBag) -> &str {
    config.load::<Metadata>().map_or("a call", Metadata::name)
}
