//! The fault connector: an HTTP client between the SDK and EC2 that can fail any call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use xdrive::local::Local;
use xdrive::local::wire::InProcess;

/// The fault of one request.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// The request never arrives, and the sender gets an error.
    Refused,
    /// The request is carried out, and the answer is lost.
    AnswerLost,
    /// The request never arrives, and no error comes.
    NoAnswer,
    /// The request is carried out, and no answer comes.
    NoAnswerAfter,
    /// The request is carried out, and another answer comes.
    Answered(u16, &'static str),
}

/// An HTTP client over [`InProcess`] that logs calls and injects planned faults.
#[derive(Debug, Clone)]
pub struct FaultConnector {
    inner: InProcess,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<String>,
    troubles: VecDeque<(String, Trouble)>,
}

impl FaultConnector {
    /// A connector to `local`, without faults yet.
    pub fn new(local: Local) -> Self {
        Self {
            inner: InProcess::new(local),
            state: Arc::default(),
        }
    }

    /// The client for the SDK.
    pub fn client(&self) -> SharedHttpClient {
        SharedHttpClient::new(self.clone())
    }

    /// Plans `trouble` for the next request of `action`, after those planned before.
    pub fn trouble(&self, action: &str, trouble: Trouble) {
        self.state()
            .troubles
            .push_back((action.to_owned(), trouble));
    }

    /// The actions requested since the last call of this, in order.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state().calls)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it looks")
    }

    fn note(&self, action: &str) -> Option<Trouble> {
        let mut state = self.state();
        state.calls.push(action.to_owned());
        let waiting = state.troubles.iter().position(|(of, _)| of == action)?;
        state.troubles.remove(waiting).map(|(_, trouble)| trouble)
    }
}

impl HttpClient for FaultConnector {
    fn http_connector(
        &self,
        _settings: &HttpConnectorSettings,
        _components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for FaultConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = self.clone();
        HttpConnectorFuture::new(async move {
            let action = action(&request);
            match connector.note(&action) {
                None => connector.inner.call(request).await,
                Some(Trouble::Refused) => Err(cut("refused")),
                Some(Trouble::NoAnswer) => std::future::pending().await,
                Some(Trouble::AnswerLost) => {
                    connector.inner.call(request).await?;
                    Err(cut("reset"))
                }
                Some(Trouble::NoAnswerAfter) => {
                    connector.inner.call(request).await?;
                    std::future::pending().await
                }
                Some(Trouble::Answered(status, body)) => {
                    connector.inner.call(request).await?;
                    let response = http::Response::builder()
                        .status(status)
                        .body(SdkBody::from(body))
                        .expect("a response");
                    Ok(HttpResponse::try_from(response).expect("a response"))
                }
            }
        })
    }
}

/// A request's action, from its body or its path.
pub fn action(request: &HttpRequest) -> String {
    let uri = request.uri();
    let path = uri.split_once('?').map_or(uri, |(path, _)| path);
    if let Some((_, path)) = path.split_once("/snapshots/") {
        let action = match path.rsplit('/').next() {
            Some("blocks") => "ListSnapshotBlocks",
            Some("changedblocks") => "ListChangedBlocks",
            _ => "GetSnapshotBlock",
        };
        return action.to_owned();
    }
    form_urlencoded::parse(request.body().bytes().unwrap_or_default())
        .find(|(name, _)| name == "Action")
        .map(|(_, action)| action.into_owned())
        .unwrap_or_default()
}

fn cut(how: &'static str) -> ConnectorError {
    ConnectorError::io(format!("connection {how}").into())
}
