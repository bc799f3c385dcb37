//! The records of Fault Injection Service: requests as they were made.
//!
//! Fields that are not named here are refused by parsing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

type Map = BTreeMap<String, String>;

/// A template, as requested by `CreateExperimentTemplate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Asked {
    pub(super) client_token: String,
    pub(super) description: String,
    pub(super) role_arn: String,
    pub(super) stop_conditions: Vec<Map>,
    pub(super) targets: BTreeMap<String, Target>,
    pub(super) actions: BTreeMap<String, Action>,
    #[serde(default)]
    pub(super) tags: Map,
}

/// The target of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Target {
    pub(super) resource_type: String,
    pub(super) resource_arns: Vec<String>,
    pub(super) selection_mode: String,
}

/// The action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the API's names")]
pub(super) struct Action {
    pub(super) action_id: String,
    #[serde(default)]
    pub(super) parameters: Map,
    #[serde(default)]
    pub(super) targets: Map,
}

/// An experiment, as requested by `StartExperiment`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Start {
    pub(super) client_token: String,
    pub(super) experiment_template_id: String,
    #[serde(default)]
    pub(super) tags: Map,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Template {
    pub(super) created: Timestamp,
    pub(super) asked: Asked,
}

/// An experiment, with the template as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Experiment {
    pub(super) started: Timestamp,
    pub(super) start: Start,
    pub(super) asked: Asked,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
}
