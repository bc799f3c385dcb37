//! The SDK's HTTP client in this process, instead of a socket.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;

use super::respond;
use crate::Local;

/// An HTTP client whose requests a [`Local`] in this process answers, on a thread that may block. A
/// call whose caller stops waiting is carried out all the same, as on a server.
#[derive(Debug, Clone)]
pub struct InProcess {
    local: Local,
}

impl InProcess {
    /// A client of `local`.
    #[must_use]
    pub fn new(local: Local) -> Self {
        Self { local }
    }
}

impl HttpClient for InProcess {
    fn http_connector(
        &self,
        _settings: &HttpConnectorSettings,
        _components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let local = self.local.clone();
        HttpConnectorFuture::new(async move {
            let request = into_http(request)?;
            let on_its_way = local.delays().call;
            let response = tokio::task::spawn_blocking(move || respond(&local, &request))
                .await
                .map_err(|error| ConnectorError::other(error.into(), None))?;
            tokio::time::sleep(on_its_way).await;
            HttpResponse::try_from(response.map(SdkBody::from))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

fn into_http(request: HttpRequest) -> Result<http::Request<Bytes>, ConnectorError> {
    let (parts, body) = request
        .try_into_http1x()
        .map_err(|error| ConnectorError::user(error.into()))?
        .into_parts();
    // EC2 has no call whose body is a stream.
    let body = body
        .bytes()
        .ok_or_else(|| ConnectorError::user("the body is a stream".into()))?;
    Ok(http::Request::from_parts(
        parts,
        Bytes::copy_from_slice(body),
    ))
}
