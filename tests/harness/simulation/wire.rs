//! The wire between the SDK and the EC2 in a folder: single calls fail, lose their answers, arrive
//! twice or are their process's last; and every call that could break a promise is checked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use tokio::sync::watch;
use xdrive::ec2::{Ec2, Snapshot, SnapshotState, Volume};
use xdrive::local::Local;
use xdrive::local::wire::InProcess;

use super::{Hidden, World, drive};

/// The calls that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Calls that change something.
    Changes,
    /// `Describe…`, `Get…` and `List…`.
    Looks,
}

/// The fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call never arrives.
    Unsent,
    /// The call is carried out, and its answer lost.
    Unanswered,
    /// The call is carried out twice.
    Twice,
    /// EC2 refuses it with this status and code, without carrying it out (unless it answers that
    /// what shall be destroyed does not exist).
    Refused(u16, &'static str),
    /// The process is killed before it is sent.
    KilledBefore,
    /// The process is killed after it was carried out.
    KilledAfter,
}

/// The ways to fail: an AWS code of each kind, and cut connections.
pub const WAYS: [(&str, Fault); 16] = [
    ("never sent", Fault::Unsent),
    ("answer lost", Fault::Unanswered),
    ("carried out twice", Fault::Twice),
    ("throttled", Fault::Refused(503, "RequestLimitExceeded")),
    ("failed on EC2's side", Fault::Refused(500, "InternalError")),
    ("unavailable", Fault::Refused(503, "Unavailable")),
    (
        "no capacity",
        Fault::Refused(500, "InsufficientInstanceCapacity"),
    ),
    (
        "no spot capacity",
        Fault::Refused(400, "MaxSpotInstanceCountExceeded"),
    ),
    ("over the quota", Fault::Refused(400, "VcpuLimitExceeded")),
    ("denied", Fault::Refused(403, "UnauthorizedOperation")),
    ("credentials expired", Fault::Refused(400, "RequestExpired")),
    ("invalid", Fault::Refused(400, "InvalidParameterValue")),
    (
        "no such instance",
        Fault::Refused(400, "InvalidInstanceID.NotFound"),
    ),
    (
        "no such volume",
        Fault::Refused(400, "InvalidVolume.NotFound"),
    ),
    ("in the wrong state", Fault::Refused(400, "IncorrectState")),
    ("unknown to xdrive", Fault::Refused(400, "SomethingNew")),
];

impl Fault {
    /// Whether it happens to looks: they are many, so one fault of each kind that xdrive treats
    /// differently.
    pub fn happens_to_looks(self) -> bool {
        match self {
            Self::Unsent => true,
            Self::Refused(_, code) => [
                "RequestLimitExceeded",
                "InternalError",
                "UnauthorizedOperation",
            ]
            .contains(&code),
            _ => false,
        }
    }
}

/// The wire of one process.
#[derive(Clone)]
pub struct Wire {
    inner: SharedHttpConnector,
    fault: Option<(Calls, usize, Fault)>,
    changes: Arc<AtomicUsize>,
    looks: Arc<AtomicUsize>,
    killed: watch::Sender<bool>,
    hidden: Arc<Mutex<Hidden>>,
    truth: Ec2,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

impl Wire {
    pub fn new(world: &World, local: &Local, fault: Option<(Calls, usize, Fault)>) -> Self {
        Self {
            inner: SharedHttpConnector::new(InProcess::new(local.clone())),
            fault,
            changes: Arc::default(),
            looks: Arc::default(),
            killed: watch::Sender::new(false),
            hidden: Arc::clone(&world.hidden),
            truth: world.truth.clone(),
        }
    }

    fn counter(&self, calls: Calls) -> &AtomicUsize {
        match calls {
            Calls::Changes => &self.changes,
            Calls::Looks => &self.looks,
        }
    }

    /// How many such calls were made.
    pub fn count(&self, calls: Calls) -> usize {
        self.counter(calls).load(Ordering::Relaxed)
    }

    /// The fault of this call, the next of its sort.
    fn fate(&self, request: &HttpRequest) -> Option<Fault> {
        let params = params(request);
        let looks = ["Describe", "Get", "List"]
            .iter()
            .any(|verb| params["Action"].starts_with(verb));
        let calls = if looks { Calls::Looks } else { Calls::Changes };
        let number = self.counter(calls).fetch_add(1, Ordering::Relaxed) + 1;
        let meets = |(sort, at, _): &(Calls, usize, Fault)| *sort == calls && *at == number;
        self.fault.filter(meets).map(|(_, _, fault)| fault)
    }

    /// Ends when the process is killed.
    pub async fn killed(&self) {
        let mut killed = self.killed.subscribe();
        killed.wait_for(|killed| *killed).await.unwrap();
    }

    async fn kill(&self) -> HttpResponse {
        self.killed.send_replace(true);
        std::future::pending().await
    }

    async fn carry_out(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let params = params(&request);
        self.check(&params).await;
        let response = self.inner.call(request).await?;
        let status = response.status();
        let body = response.body().bytes().unwrap().to_vec();
        // An answer with a block is no text, and changes nothing.
        if status.is_success() && params["Action"] != "GetSnapshotBlock" {
            self.take_effect(&params, &String::from_utf8(body).unwrap());
        }
        Ok(response)
    }

    /// Checks the promises for a call of any client (written independently of xdrive's rules).
    async fn check(&self, params: &BTreeMap<String, String>) {
        let id = |name: &str| params.get(name).cloned().unwrap_or_default();
        match params.get("Action").map(String::as_str) {
            Some("DeleteVolume") => {
                if let Some(problem) = self.may_not_delete(&id("VolumeId")).await {
                    self.hidden.lock().unwrap().broken.push(problem);
                }
            }
            // It is in the call that makes a thing, or not there at all.
            Some("CreateTags") if params.values().any(|it| it == "xdrive:discard") => {
                let problem = format!("P1: {} is thrown away from now on", id("ResourceId.1"));
                self.hidden.lock().unwrap().broken.push(problem);
            }
            Some("TerminateInstances") => {
                let instance = id("InstanceId.1");
                let mounted = {
                    let hidden = self.hidden.lock().unwrap();
                    let host = hidden.hosts.get(&instance);
                    host.and_then(|host| host.mounted.clone())
                };
                let Some(volume) = mounted else {
                    return;
                };
                let there = self.truth.volume(&volume.parse().unwrap()).await.unwrap();
                let is_drives = |it: Volume| !it.tags.contains_key("xdrive:discard");
                if there.is_none_or(is_drives) {
                    let problem = format!("P2: {instance} ends with {volume} mounted");
                    self.hidden.lock().unwrap().broken.push(problem);
                }
            }
            _ => {}
        }
    }

    async fn may_not_delete(&self, id: &str) -> Option<String> {
        let volume = self.truth.volume(&id.parse().unwrap()).await.unwrap()?;
        let tag = |key: &str| volume.tags.get(key).cloned();
        let snapshots = self.truth.snapshots(&drive()).await.unwrap();
        if tag("xdrive:discard").is_some() {
            let is_origin = |it: &Snapshot| Some(&it.id) == volume.snapshot.as_ref();
            let there = snapshots.iter().find(|it| is_origin(it));
            let is_there = there.is_some_and(|it| it.state == SnapshotState::Completed);
            return (!is_there).then(|| format!("P1: {id} is deleted, and its snapshot is gone"));
        }
        if tag("xdrive:generation") == tag("xdrive:base") {
            return None;
        }
        let saved: Vec<String> = snapshots
            .into_iter()
            .filter(|snapshot| snapshot.state == SnapshotState::Completed)
            .filter(|snapshot| snapshot.volume.as_ref() == Some(&volume.id))
            .filter(|snapshot| snapshot.tags["xdrive:kind"] != "checkpoint")
            .filter(|snapshot| {
                snapshot.tags.get("xdrive:generation") == tag("xdrive:generation").as_ref()
            })
            .map(|snapshot| snapshot.id.to_string())
            .collect();
        let hidden = self.hidden.lock().unwrap();
        let content = hidden.contents.get(id).cloned().unwrap_or_default();
        if saved.is_empty() {
            // Created empty, and never handed to a user.
            let unused = tag("xdrive:blank").is_some()
                && tag("xdrive:formatted").is_none()
                && tag("xdrive:generation").as_deref() == Some("1")
                && content.notes.is_empty();
            return (!unused).then(|| format!("P1: {id} is deleted unsaved"));
        }
        let whole = saved.iter().all(|snapshot| {
            hidden
                .contents
                .get(snapshot)
                .is_some_and(|kept| *kept == content)
        });
        (!whole).then(|| format!("P1: {id} is deleted, and its snapshot has less than it"))
    }

    /// Contents follow volumes and snapshots.
    fn take_effect(&self, params: &BTreeMap<String, String>, answer: &str) {
        let mut hidden = self.hidden.lock().unwrap();
        let (made, source) = match params.get("Action").map(String::as_str) {
            Some("CreateVolume") => (element(answer, "volumeId"), params.get("SnapshotId")),
            Some("CreateSnapshot") => (element(answer, "snapshotId"), params.get("VolumeId")),
            _ => return,
        };
        let content = source
            .and_then(|source| hidden.contents.get(source))
            .cloned()
            .unwrap_or_default();
        if content
            .notes
            .intersection(&hidden.discarded)
            .next()
            .is_some()
        {
            let problem = format!("P1: {made} has a note that was discarded");
            hidden.broken.push(problem);
        }
        hidden.contents.entry(made).or_insert(content);
    }
}

impl HttpClient for Wire {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let wire = self.clone();
        HttpConnectorFuture::new(async move {
            let fault = wire.fate(&request);
            let lost = || Err(ConnectorError::io("the line is cut".into()));
            match fault {
                None => wire.carry_out(request).await,
                Some(Fault::Unsent) => lost(),
                Some(Fault::Unanswered) => {
                    wire.carry_out(request).await?;
                    lost()
                }
                Some(Fault::Twice) => {
                    let again = request.try_clone().unwrap();
                    wire.carry_out(request).await?;
                    wire.carry_out(again).await
                }
                Some(Fault::Refused(status, code)) => {
                    // A destroying call gets "not found" only once it was carried out.
                    if code.ends_with(".NotFound") && destroys(&request) {
                        wire.carry_out(request).await?;
                    }
                    Ok(refusal(status, code))
                }
                Some(Fault::KilledBefore) => Ok(wire.kill().await),
                Some(Fault::KilledAfter) => {
                    wire.carry_out(request).await?;
                    Ok(wire.kill().await)
                }
            }
        })
    }
}

fn destroys(request: &HttpRequest) -> bool {
    let action = &params(request)["Action"];
    action.starts_with("Delete") || action.starts_with("Terminate")
}

fn refusal(status: u16, code: &str) -> HttpResponse {
    let body = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>on purpose</Message></Error>\
         </Errors><RequestID>0</RequestID></Response>"
    );
    HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))
}

fn params(request: &HttpRequest) -> BTreeMap<String, String> {
    let body = request.body().bytes().unwrap_or_default();
    let mut params: BTreeMap<_, _> = form_urlencoded::parse(body).into_owned().collect();
    params.insert("Action".into(), crate::faults::connector::action(request));
    params
}

fn element(answer: &str, name: &str) -> String {
    let open = format!("<{name}>");
    let start = answer.find(&open).unwrap() + open.len();
    let end = answer[start..].find('<').unwrap();
    answer[start..start + end].to_owned()
}
