//! A credentials endpoint in the container, answered by this computer's own chain: what AWS's SDKs
//! ask where a container of ECS would (AWS SDKs and tools reference guide, *Container credential
//! provider*).
//!
//! It is a port of the container's loopback that leads to this process, so that nothing listens on
//! this computer. Only a request with the session's token gets an answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq as _;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::container::{ContainerSession, token};
use super::forwards::server;
use crate::config::Variables;
use crate::ec2::Chain;
use crate::failure::{Exit, Failure};
use crate::ids::SessionId;
use crate::ssh::Ssh;
use crate::ssh::remote::{Here, RemoteForward, RemoteWanted};

/// How long a client may take to send its request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The path of the credentials.
const PATH: &str = "/credentials";

/// An endpoint that answers; dropping it ends that.
pub(super) struct Endpoint {
    forward: RemoteForward,
    token: String,
    region: String,
    answering: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

impl Endpoint {
    /// Opens one in the container, over a connection beside `ssh`.
    pub(super) async fn open(
        ssh: &Ssh,
        inside: &ContainerSession,
        session: &SessionId,
        chain: &Arc<Chain>,
    ) -> Result<Self, Failure> {
        // So that the first answer is there at once, however long the launch took.
        chain.document().await?;
        let token = token()?;
        let (service, connections) = mpsc::unbounded_channel();
        let wanted = RemoteWanted {
            server: server(inside, &format!("{session}-aws")),
            bind: "localhost".to_owned(),
            port: 0,
            is_exact: false,
            to: Here::Service(service),
        };
        let forward = RemoteForward::open(ssh, wanted).await.map_err(|error| {
            let why = anyhow!(error).context("no credentials endpoint in the container");
            Failure::new(Exit::Unavailable, why)
        })?;
        let answering = answer_all(connections, Arc::clone(chain), token.clone());
        Ok(Self {
            forward,
            region: chain.region().to_owned(),
            token,
            answering: tokio::spawn(answering),
        })
    }

    /// Sets what SDKs find it by.
    pub(super) fn name_in(&self, variables: &mut Variables) {
        let address = format!("http://127.0.0.1:{}{PATH}", self.forward.port());
        variables.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &address);
        variables.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", &self.token);
        // SDKs read the one, and the older AWS CLI the other.
        variables.set_missing("AWS_REGION", &self.region);
        variables.set_missing("AWS_DEFAULT_REGION", &self.region);
    }
}

async fn answer_all(
    mut connections: mpsc::UnboundedReceiver<DuplexStream>,
    chain: Arc<Chain>,
    token: String,
) {
    let mut answering = JoinSet::new();
    loop {
        tokio::select! {
            connection = connections.recv() => match connection {
                Some(stream) => {
                    answering.spawn(converse(stream, Arc::clone(&chain), token.clone()));
                }
                None => return,
            },
            Some(_) = answering.join_next() => {}
        }
    }
}

/// Serves one connection to its end.
async fn converse(stream: DuplexStream, chain: Arc<Chain>, token: String) {
    let service = service_fn(|request: http::Request<Incoming>| {
        let (chain, token) = (Arc::clone(&chain), token.clone());
        async move {
            let (head, _) = request.into_parts();
            let is_known = head.method == Method::GET && head.uri.path() == PATH;
            let (status, document) = match (is_authorized(&head.headers, &token), is_known) {
                (false, _) => (
                    StatusCode::UNAUTHORIZED,
                    problem("the token is not this session's"),
                ),
                (true, false) => (StatusCode::NOT_FOUND, problem("only credentials are here")),
                (true, true) => match chain.document().await {
                    Ok(document) => (StatusCode::OK, document),
                    Err(error) => (
                        StatusCode::INTERNAL_SERVER_ERROR,
                        problem(&error.to_string()),
                    ),
                },
            };
            let mut response = Response::new(document);
            *response.status_mut() = status;
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            Ok::<_, Infallible>(response)
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks off gets no error.
    drop(serving.await);
}

fn problem(message: &str) -> String {
    serde_json::json!({ "message": message }).to_string()
}

/// Whether the request has the token. The time that this takes reveals nothing but its length.
fn is_authorized(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(AUTHORIZATION);
    given.is_some_and(|given| given.as_bytes().ct_eq(token.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_authorized() {
        let mut headers = HeaderMap::new();
        assert!(!is_authorized(&headers, "0f12"));
        for (given, expected) in [("0f12", true), ("0f1", false), ("0F12", false), ("", false)] {
            headers.insert(AUTHORIZATION, given.parse().unwrap());
            assert_eq!(is_authorized(&headers, "0f12"), expected, "{given}");
        }
    }
}
