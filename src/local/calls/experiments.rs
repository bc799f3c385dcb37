//! Fault Injection Service: the one action that interrupts spot instances.
//!
//! Sources: AWS FIS API reference; AWS FIS user guide, *Actions reference*, *Targets for AWS FIS*.
//! All else in the service is refused, never ignored. An experiment runs within `StartExperiment`:
//! afterwards it is completed, or failed if there was nothing to interrupt.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::request::{Request, new_id};
use super::{Answer, Reading};
use crate::catalog;
use crate::change::Change;
use crate::experiment::{Asked, Experiment, Start, Template};
use crate::interrupt::{interrupt, running_spot};
use crate::wire::{ApiError, Xml};

const ACTION: &str = "aws:ec2:send-spot-instance-interruptions";

/// The name of the action's target.
const TARGET: &str = "SpotInstances";

const TYPE: &str = "aws:ec2:spot-instance";

/// The shortest time before an interruption, and here the only one: the notice comes at once.
const BEFORE: (&str, Duration) = ("PT2M", Duration::from_mins(2));

/// `CreateExperimentTemplate`.
pub(super) fn create_template(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let asked: Asked = read(request)?;
    check(&asked)?;
    let templates = &change.world.templates;
    let mut known = templates.iter();
    let known = known.find(|(_, known)| known.asked.client_token == asked.client_token);
    let (id, template) = if let Some((id, known)) = known {
        if known.asked != asked {
            return Err(conflict());
        }
        (id.clone(), known.clone())
    } else {
        let template = Template {
            created: change.now,
            asked,
        };
        let id = new_id("EXT")?;
        let templates = &mut change.world.templates;
        templates.insert(id.clone(), template.clone());
        (id, template)
    };
    Ok(of_template(&id, &template, &change.world.region))
}

/// `DeleteExperimentTemplate`. Experiments that it started go on.
pub(super) fn delete_template(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let id = request.required("Id")?;
    let template = change.world.templates.remove(id);
    let template = template.ok_or_else(|| no_such("experiment template", id))?;
    Ok(of_template(id, &template, &change.world.region))
}

/// `StartExperiment`.
pub(super) fn start(request: Request<'_>, change: &mut Change<'_>) -> Answer {
    let start: Start = read(request)?;
    let mut known = change.world.experiments.iter();
    let known = known.find(|(_, known)| known.start.client_token == start.client_token);
    if let Some((id, known)) = known {
        if known.start != start {
            return Err(conflict());
        }
        return Ok(of_experiment(id, known, "initiating"));
    }
    let template = change.world.templates.get(&start.experiment_template_id);
    let template =
        template.ok_or_else(|| no_such("experiment template", &start.experiment_template_id))?;
    let asked = template.asked.clone();
    let instances: Vec<String> = targets(&asked, &change.world.region);
    let standing = instances.iter().all(|id| running_spot(change, id).is_ok());
    let failed = (instances.is_empty() || !standing)
        .then(|| "Target resolution returned empty set".to_owned());
    if failed.is_none() {
        for instance in &instances {
            interrupt(change, instance, BEFORE.1)?;
        }
    }
    let experiment = Experiment {
        start,
        asked,
        started: change.now,
        failed,
    };
    let id = new_id("EXP")?;
    let answer = of_experiment(&id, &experiment, "initiating");
    change.world.experiments.insert(id, experiment);
    Ok(answer)
}

/// `GetExperiment`.
pub(super) fn get(reading: &Reading<'_>) -> Answer {
    let id = reading.request.required("Id")?;
    let experiment = reading.world.experiments.get(id);
    let experiment = experiment.ok_or_else(|| no_such("experiment", id))?;
    Ok(of_experiment(id, experiment, "completed"))
}

fn read<T: DeserializeOwned>(request: Request<'_>) -> Result<T, ApiError> {
    serde_json::from_str(request.required("Body")?).map_err(|error| invalid(error.to_string()))
}

/// Refuses what this service does not support, and what is invalid.
fn check(asked: &Asked) -> Result<(), ApiError> {
    let refuse = |why: &str| Err(invalid(why.to_owned()));
    let is_role = asked.role_arn.starts_with("arn:aws") && asked.role_arn.contains(":role/");
    let action = asked.actions.values().next();
    let target = action.and_then(|action| asked.targets.get(action.targets.get(TARGET)?));
    let (Some(action), Some(target)) = (action, target) else {
        return refuse("An action needs a target of the key SpotInstances.");
    };
    let stops = [BTreeMap::from([("source".to_owned(), "none".to_owned())])];
    if asked.client_token.is_empty() || asked.description.is_empty() || !is_role {
        return refuse("clientToken, description and the ARN of a role are required.");
    }
    if asked.actions.len() != 1 || asked.targets.len() != 1 || action.targets.len() != 1 {
        return refuse("Only templates of one action with one target are understood here.");
    }
    if action.action_id != ACTION {
        return refuse("The action does not exist.");
    }
    let duration = ("durationBeforeInterruption".to_owned(), BEFORE.0.to_owned());
    if action.parameters != BTreeMap::from([duration]) {
        return refuse("Only a durationBeforeInterruption of PT2M is understood here.");
    }
    if target.resource_type != TYPE || target.selection_mode != "ALL" {
        return refuse("Only all of some aws:ec2:spot-instance are understood here.");
    }
    if !(1..=5).contains(&target.resource_arns.len()) {
        return refuse("A target needs one to five resourceArns.");
    }
    if asked.stop_conditions != stops {
        return refuse("Only the stop condition of the source none is understood here.");
    }
    Ok(())
}

/// The targets that are instances of this account and region.
fn targets(asked: &Asked, region: &str) -> Vec<String> {
    let prefix = format!("arn:aws:ec2:{region}:{}:instance/", catalog::ACCOUNT);
    let arns = asked.targets.values();
    arns.flat_map(|target| &target.resource_arns)
        .filter_map(|arn| arn.strip_prefix(&prefix))
        .map(str::to_owned)
        .collect()
}

fn of_template(id: &str, template: &Template, region: &str) -> Vec<Xml> {
    let mut body = json!(template.asked);
    if let Some(body) = body.as_object_mut() {
        body.remove("clientToken");
        let account = catalog::ACCOUNT;
        let arn = format!("arn:aws:fis:{region}:{account}:experiment-template/{id}");
        body.insert("id".to_owned(), id.into());
        body.insert("arn".to_owned(), arn.into());
        for stamp in ["creationTime", "lastUpdateTime"] {
            body.insert(stamp.to_owned(), template.created.as_second().into());
        }
    }
    document(&json!({"experimentTemplate": body}))
}

/// The answer for an experiment, in this state unless it failed.
fn of_experiment(id: &str, experiment: &Experiment, state: &str) -> Vec<Xml> {
    let state = match &experiment.failed {
        Some(reason) => json!({"status": "failed", "reason": reason}),
        None => json!({"status": state, "reason": format!("Experiment is {state}.")}),
    };
    document(&json!({"experiment": {
        "id": id,
        "experimentTemplateId": experiment.start.experiment_template_id,
        "roleArn": experiment.asked.role_arn,
        "state": state,
        "targets": experiment.asked.targets,
        "actions": experiment.asked.actions,
        "stopConditions": experiment.asked.stop_conditions,
        "creationTime": experiment.started.as_second(),
        "startTime": experiment.started.as_second(),
        "tags": experiment.start.tags,
    }}))
}

/// An answer of this service is a document as it is.
fn document(body: &Value) -> Vec<Xml> {
    vec![Xml::data("Body", body.to_string().into())]
}

fn invalid(message: String) -> ApiError {
    ApiError::client("ValidationException", message)
}

fn conflict() -> ApiError {
    ApiError {
        status: 409,
        code: "ConflictException".to_owned(),
        message: "The client token was used with other parameters.".to_owned(),
    }
}

fn no_such(what: &str, id: &str) -> ApiError {
    ApiError {
        status: 404,
        code: "ResourceNotFoundException".to_owned(),
        message: format!("The {what} {id} does not exist."),
    }
}
