//! Fault Injection Service: an experiment that interrupts one spot instance, as EC2 does.
//!
//! Sources: AWS FIS API reference, *`CreateExperimentTemplate`*, *`StartExperiment`*,
//! *`GetExperiment`*, *`DeleteExperimentTemplate`*; AWS FIS user guide, *Actions reference*;
//! smithy.io,
//! *AWS restJson1 protocol*. The calls are signed by [`super::signed`].
//!
//! An experiment's target is the ARN of that one instance. It has no tag and no filter, so no other
//! instance can be its target. The template is deleted once its one experiment is started, which
//! goes on without it (user guide, *Delete an experiment template*).

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::https::Answer;
use super::signed::Scope;
use super::{DRIVE, Ec2, OWNER, Partition};
use crate::ids::{DriveName, InstanceId};
use crate::retry::retry;

/// Pauses before a call without an answer, or a throttled one, is repeated. All calls may be
/// repeated: those that create have a token.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// The action of every template.
const ACTION: &str = "aws:ec2:send-spot-instance-interruptions";

/// The shortest delay: EC2 gives notice at once, and terminates two minutes later.
const BEFORE: &str = "PT2M";

/// The regions without this action (EC2 user guide, *Initiate a Spot Instance interruption*).
const WITHOUT: [&str; 5] = [
    "ap-northeast-3",
    "ap-southeast-3",
    "cn-north-1",
    "cn-northwest-1",
    "me-central-1",
];

/// The instance that a template names if it is never started; it does not exist.
const NONE: &str = "i-0123456789abcdef0";

/// Why there is no experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoExperiment {
    /// The service refused: its code and its words.
    #[error("{code}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error's code.
        code: String,
        /// The error's message.
        message: String,
    },
    /// The request failed, or its answer cannot be parsed.
    #[error("{0}")]
    Failed(String),
}

impl NoExperiment {
    /// Whether the caller lacks the right.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code.starts_with("AccessDenied"))
    }

    /// Whether no answer came.
    #[must_use]
    pub fn is_no_answer(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "ResourceNotFoundException")
    }

    fn passes(&self) -> bool {
        match self {
            Self::Refused { status, code, .. } => *status >= 500 || code.starts_with("Throttl"),
            Self::Failed(_) => true,
        }
    }
}

/// The result of starting an experiment.
#[derive(Debug)]
pub struct Injection {
    /// The experiment's id; `None` if it was not to be started.
    pub experiment: Result<Option<String>, NoExperiment>,
    /// The template that could not be deleted, which costs nothing, and why.
    pub left: Option<(String, NoExperiment)>,
}

/// The state of an experiment (API reference, *`ExperimentState`*).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The experiment runs, or is about to.
    Running,
    /// The experiment interrupted the instance.
    Completed,
    /// The experiment failed or was stopped; why.
    Failed(String),
}

impl Ec2 {
    /// Whether AWS documents this action for this region.
    #[must_use]
    pub fn has_interruptions(&self) -> bool {
        !WITHOUT.contains(&self.region())
    }

    /// The endpoint of Fault Injection Service.
    #[must_use]
    pub fn fis_endpoint(&self) -> String {
        if let Some(url) = &self.fis_at {
            return url.trim_end_matches('/').to_owned();
        }
        endpoint(self.region())
    }

    /// Interrupts `instance` by an experiment with this `role`, tagged with `drive` and `owner`,
    /// the caller. Without an instance it makes and deletes the template only. The template is
    /// deleted in any case, so this must be awaited to its end.
    pub async fn inject_interruption(
        &self,
        owner: &str,
        drive: &DriveName,
        role: &str,
        instance: Option<&InstanceId>,
    ) -> Injection {
        let token = match token() {
            Ok(token) => token,
            Err(error) => {
                return Injection {
                    experiment: Err(error),
                    left: None,
                };
            }
        };
        let tags = json!({DRIVE: drive.as_str(), OWNER: owner});
        let arn = self.arn(owner, instance);
        let body = template(&token, &arn, role, &tags);
        let created = self.fis(Method::POST, "/experimentTemplates", Some(&body));
        let created = created.await.and_then(|answer| {
            let id = answer["experimentTemplate"]["id"].as_str();
            id.map(str::to_owned).ok_or_else(unreadable)
        });
        let template = match created {
            Ok(template) => template,
            Err(error) => {
                // It may have been made all the same.
                let perhaps =
                    format!("perhaps an experiment template with the tag {DRIVE}={drive}");
                let left = error.passes().then(|| (perhaps, error.clone()));
                return Injection {
                    experiment: Err(error),
                    left,
                };
            }
        };
        let experiment = if instance.is_some() {
            let body =
                json!({"clientToken": token, "experimentTemplateId": template, "tags": tags});
            let started = self.fis(Method::POST, "/experiments", Some(&body)).await;
            started.and_then(|answer| {
                let id = answer["experiment"]["id"].as_str();
                id.map(|id| Some(id.to_owned())).ok_or_else(unreadable)
            })
        } else {
            Ok(None)
        };
        let path = format!("/experimentTemplates/{template}");
        let left = match self.fis(Method::DELETE, &path, None).await {
            Ok(_) => None,
            Err(error) if error.is_not_found() => None,
            Err(error) => Some((template, error)),
        };
        Injection { experiment, left }
    }

    /// The state of that experiment.
    pub async fn experiment(&self, id: &str) -> Result<State, NoExperiment> {
        let path = format!("/experiments/{id}");
        let answer = self.fis(Method::GET, &path, None).await?;
        let state = &answer["experiment"]["state"];
        let reason = state["reason"].as_str().unwrap_or_default();
        match state["status"].as_str() {
            Some("completed") => Ok(State::Completed),
            Some(status @ ("failed" | "stopped" | "cancelled")) => {
                Ok(State::Failed(format!("{status}: {reason}")))
            }
            Some(_) => Ok(State::Running),
            None => Err(unreadable()),
        }
    }

    fn arn(&self, owner: &str, instance: Option<&InstanceId>) -> String {
        let partition = Partition::of_arn(owner).unwrap_or_default();
        let account = owner.split(':').nth(4).unwrap_or_default();
        let id = instance.map_or(NONE, InstanceId::as_str);
        format!(
            "arn:{partition}:ec2:{}:{account}:instance/{id}",
            self.region()
        )
    }

    async fn fis(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, NoExperiment> {
        let passes =
            |answer: &Result<_, NoExperiment>| answer.as_ref().is_err_and(NoExperiment::passes);
        retry(&AGAIN, passes, || self.fis_once(method.clone(), path, body)).await
    }

    async fn fis_once(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, NoExperiment> {
        let failed = NoExperiment::Failed;
        let request = http::Request::builder()
            .method(method)
            .uri(self.fis_endpoint() + path)
            .header("content-type", "application/json")
            .body(body.map(Value::to_string).unwrap_or_default())
            .map_err(|error| failed(error.to_string()))?;
        let scope = Scope {
            service: "fis",
            region: self.region(),
        };
        let reached = self.reached().map_err(failed)?;
        let answer = reached.signed(scope, request).await.map_err(failed)?;
        read(&answer)
    }
}

/// An answer, parsed.
fn read(answer: &Answer) -> Result<Value, NoExperiment> {
    match answer.document() {
        Ok(document) => document.ok_or_else(unreadable),
        Err((code, message)) => Err(NoExperiment::Refused {
            status: answer.status,
            code,
            message,
        }),
    }
}

fn unreadable() -> NoExperiment {
    NoExperiment::Failed("the answer of Fault Injection Service is unreadable".to_owned())
}

fn token() -> Result<String, NoExperiment> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| NoExperiment::Failed(format!("no random bytes: {error}")))?;
    Ok(hex::encode(random))
}

/// The host of Fault Injection Service in `region`.
fn endpoint(region: &str) -> String {
    let domain = Partition::of_region(region).domain();
    format!("https://fis.{region}.{domain}")
}

/// The template whose one action interrupts the instance `arn`.
fn template(token: &str, arn: &str, role: &str, tags: &Value) -> Value {
    json!({
        "clientToken": token,
        "description": "xdrive selftest: takes its own spot instance back",
        "roleArn": role,
        "stopConditions": [{"source": "none"}],
        "targets": {"own": {
            "resourceType": "aws:ec2:spot-instance",
            "resourceArns": [arn],
            "selectionMode": "ALL",
        }},
        "actions": {"interrupt": {
            "actionId": ACTION,
            "parameters": {"durationBeforeInterruption": BEFORE},
            "targets": {"SpotInstances": "own"},
        }},
        "tags": tags,
    })
}

#[cfg(test)]
mod tests {
    use super::super::loopback;
    use super::*;

    const OWN: &str = "arn:aws:iam::111122223333:user/me";
    const ROLE: &str = "arn:aws:iam::111122223333:role/fis";
    const MADE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 36\r\nconnection: close\r\n\r\n\
                          {\"experimentTemplate\":{\"id\":\"EXT1\"}} ";

    async fn injection(answers: &'static [&'static [u8]]) -> (Injection, Vec<String>) {
        let mut ec2 = loopback::after_a_call().await;
        let (url, server) = loopback::answering(answers);
        ec2.fis_at = Some(url);
        let instance = "i-0a".parse().unwrap();
        let injection = ec2
            .inject_interruption(OWN, &"own".parse().unwrap(), ROLE, Some(&instance))
            .await;
        (injection, server.join().unwrap())
    }

    #[tokio::test]
    async fn a_template_goes_whose_experiment_may_not_be_started() {
        let (injection, asked) = injection(&[
            MADE,
            b"HTTP/1.1 403 F\r\nx-amzn-errortype: AccessDeniedException:http://x/\r\n\
              content-length: 21\r\nconnection: close\r\n\r\n{\"message\":\"may not\"}",
            MADE,
        ])
        .await;
        let error = injection.experiment.unwrap_err();
        assert!(error.is_denied(), "{error:?}");
        assert_eq!(error.to_string(), "AccessDeniedException: may not");
        assert!(injection.left.is_none());
        assert!(asked[0].starts_with("post /experimenttemplates "));
        assert!(asked[0].contains("/us-east-1/fis/aws4_request, signedheaders="));
        assert!(asked[1].starts_with("post /experiments "));
        assert!(asked[2].starts_with("delete /experimenttemplates/ext1 "));
    }

    #[tokio::test]
    async fn a_lost_answer_is_asked_for_with_the_same_token() {
        const LOST: &[u8] = b"HTTP/1.1 500 F\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let (injection, asked) = injection(&[LOST, MADE, LOST, LOST, LOST, MADE]).await;
        let words = injection.experiment.unwrap_err().to_string();
        assert!(words.starts_with("HTTP 500"), "{words}");
        assert!(injection.left.is_none());
        let body = |asked: &str| asked.split_once("\r\n\r\n").unwrap().1.to_owned();
        assert!(body(&asked[0]).contains("clienttoken"));
        assert_eq!(body(&asked[0]), body(&asked[1]));
        assert!(asked[5].starts_with("delete /experimenttemplates/ext1 "));
    }

    #[test]
    fn only_the_instance_itself_is_a_target() {
        let arn = "arn:aws:ec2:us-east-1:111122223333:instance/i-0a";
        let made = template("token", arn, ROLE, &json!({}));
        let targets = made["targets"].as_object().unwrap();
        assert_eq!(targets.len(), 1);
        let target = targets["own"].as_object().unwrap();
        assert_eq!(target["resourceArns"], json!([arn]));
        assert!(!target.contains_key("resourceTags") && !target.contains_key("filters"));
    }

    #[tokio::test]
    async fn an_endpoint_that_was_named_comes_before_awss_own() {
        let mut ec2 = loopback::after_a_call().await;
        assert_eq!(ec2.fis_endpoint(), "http://127.0.0.1:9");
        ec2.fis_at = None;
        assert_eq!(ec2.fis_endpoint(), "https://fis.us-east-1.amazonaws.com");
        assert!(ec2.has_interruptions());
    }

    #[test]
    fn every_partition_has_an_endpoint_of_its_own() {
        for (region, url) in [
            ("eu-west-1", "https://fis.eu-west-1.amazonaws.com"),
            ("us-gov-west-1", "https://fis.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "https://fis.cn-north-1.amazonaws.com.cn"),
            ("eusc-de-east-1", "https://fis.eusc-de-east-1.amazonaws.eu"),
        ] {
            assert_eq!(endpoint(region), url);
        }
    }
}
