//! A resource that is still billed, as scripts read it.

use serde::Serialize;

use crate::ec2::GibiBytes;

/// Something that is still billed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Billed {
    /// Kind of the resource.
    #[cfg_attr(test, schemars(extend("enum" = ["instance", "volume", "snapshot"])))]
    pub(super) kind: &'static str,
    /// Id in EC2.
    pub(super) id: String,
    /// Size; of a snapshot that of its volume. An instance has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gib: Option<GibiBytes>,
    /// US dollars a month, about; of a snapshot at most. An instance is billed by the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dollars_a_month: Option<f64>,
}
