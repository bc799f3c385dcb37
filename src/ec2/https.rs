//! The HTTP client of the calls to AWS, and plain HTTPS through it: the same proxy, the same
//! certificates.
//!
//! The SDK passes it to interceptors. So it is known after the first call, which also shows whether
//! calls go to AWS at all: [`Ec2::reached`] has it from then on. A request of [`Reached::get`]
//! carries no credentials and nothing of the account.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_sdk_ec2::config::Intercept;
use aws_sdk_ec2::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, ConnectorBuilder};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorSettings, SharedHttpClient,
};
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;

use super::Ec2;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// How long an answer may be, in bytes.
const LONGEST: usize = 4096;

/// The ends of the host names of AWS's own endpoints, by partition (AWS general reference, *AWS
/// service endpoints*).
const AWS: [&str; 6] = [
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".amazonaws.eu",
    ".api.aws",
    ".api.amazonwebservices.com.cn",
    ".api.amazonwebservices.eu",
];

/// The header in which services that speak REST name an error.
const ERROR: &str = "x-amzn-errortype";

/// The client of calls over the network: rustls with the system's certificates, and the proxy of the
/// environment (`HTTPS_PROXY`, `NO_PROXY`), as an SDK of AWS has by default.
pub(super) fn client() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector =
            ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.set_proxy_config(Some(ProxyConfig::from_env()));
        connector.build()
    })
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The error that its header names.
    pub(super) error: Option<String>,
    /// The body.
    pub(super) text: String,
}

impl Answer {
    /// The document of an answer, none if it has none; or the error's code and its message (smithy.io, *AWS restJson1
    /// protocol* and *AWS JSON 1.1 protocol*, *Operation error serialization*).
    pub(super) fn document(&self) -> Result<Option<Value>, (String, String)> {
        let body: Option<Value> = serde_json::from_str(&self.text).ok();
        if (200..300).contains(&self.status) {
            return Ok(body);
        }
        let body = body.unwrap_or_default();
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let code = self.error.clone().or_else(|| text("__type"));
        let code = code.unwrap_or_else(|| format!("HTTP {}", self.status));
        // Some services put a namespace before it, and an address behind.
        let code = code.split(':').next().unwrap_or_default();
        let code = code.rsplit('#').next().unwrap_or_default().to_owned();
        let message = text("message").or_else(|| text("Message"));
        Err((code, message.unwrap_or_default()))
    }
}

/// The HTTP client, and the endpoint, of the first call.
#[derive(Debug, Clone, Default)]
pub(super) struct Https(Arc<OnceLock<Seen>>);

struct Seen {
    components: RuntimeComponents,
    /// Whether it went to a public endpoint.
    is_public: bool,
}

/// Without the components: the SDK's log prints them, and they hold the interceptor that has this.
impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen")
            .field("is_public", &self.is_public)
            .finish_non_exhaustive()
    }
}

#[dyn_dispatch_hint]
impl Intercept for Https {
    fn name(&self) -> &'static str {
        "xdrive's look at the HTTP client"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.get_or_init(|| Seen {
            components: components.clone(),
            is_public: is_public(context.request().uri()),
        });
        Ok(())
    }
}

/// Whether this is a region's public EC2 endpoint. The user has set any other, an AWS endpoint
/// within a VPC included, so that calls go nowhere else.
fn is_public(uri: &str) -> bool {
    let uri: Option<http::Uri> = uri.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    (host.starts_with("ec2.") || host.starts_with("ec2-fips."))
        && AWS.iter().any(|end| host.ends_with(end))
}

/// An [`Ec2`] that a call was made to, so that its HTTP client is known.
#[derive(Debug, Clone, Copy)]
pub struct Reached<'a> {
    pub(super) ec2: &'a Ec2,
    seen: &'a Seen,
}

impl Ec2 {
    /// The means of its first call, for requests that no SDK client makes. An error before that call.
    pub fn reached(&self) -> Result<Reached<'_>, String> {
        let seen = self.https.0.get().ok_or("no call was made yet")?;
        Ok(Reached { ec2: self, seen })
    }
}

impl Reached<'_> {
    /// Whether the first call went to a public endpoint.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.seen.is_public
    }

    /// The answer of `url` to a plain GET: text of at most 4 KiB, within 5 s.
    pub async fn get(&self, url: &str) -> Result<String, String> {
        let request = http::Request::get(url).body(String::new());
        let request = request.map_err(|error| error.to_string())?;
        match self.send(request, ANSWER, LONGEST).await? {
            Answer {
                status: 200, text, ..
            } => Ok(text),
            Answer { status, .. } => Err(format!("HTTP {status}")),
        }
    }

    /// Posts words to `url`, with a title: plain text, as ntfy and webhooks take it, within 5 s. It goes over
    /// the network wherever calls go.
    pub async fn post(&self, url: &str, title: &str, words: &str) -> Result<(), String> {
        let request = http::Request::post(url)
            .header("title", title)
            .header(http::header::CONTENT_TYPE, "text/plain; charset=utf-8")
            .body(words.to_owned());
        let request = request.map_err(|error| error.to_string())?;
        let sent = self.send_by(&client(), request, ANSWER, LONGEST).await?;
        match sent.status {
            200..300 => Ok(()),
            status => Err(format!("HTTP {status}")),
        }
    }

    /// Sends `request` unchanged; its answer: text of at most so many bytes, within so long.
    pub(super) async fn send(
        &self,
        request: http::Request<String>,
        within: Duration,
        longest: usize,
    ) -> Result<Answer, String> {
        let client = self.seen.components.http_client();
        let client = client.ok_or("there is no HTTP client")?;
        self.send_by(&client, request, within, longest).await
    }

    async fn send_by(
        &self,
        client: &SharedHttpClient,
        request: http::Request<String>,
        within: Duration,
        longest: usize,
    ) -> Result<Answer, String> {
        let answer = self.request(client, request, within, longest);
        tokio::time::timeout(within, answer)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", within.as_secs())))
    }

    async fn request(
        &self,
        client: &SharedHttpClient,
        request: http::Request<String>,
        within: Duration,
        longest: usize,
    ) -> Result<Answer, String> {
        let settings = HttpConnectorSettings::builder()
            .connect_timeout(ANSWER)
            .read_timeout(within)
            .build();
        let request = HttpRequest::try_from(request.map(SdkBody::from));
        let request = request.map_err(|error| error.to_string())?;
        let answer = client
            .http_connector(&settings, &self.seen.components)
            .call(request)
            .await
            .map_err(|error| super::error::causes(&error))?;
        let status = answer.status().as_u16();
        let error = answer.headers().get(ERROR).map(str::to_owned);
        let body = Limited::new(answer.into_body(), longest).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        let text = String::from_utf8(body.into());
        Ok(Answer {
            status,
            error,
            text: text.map_err(|_| "the answer is no text".to_owned())?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use aws_config::{BehaviorVersion, Region, SdkConfig};
    use aws_credential_types::Credentials;
    use aws_credential_types::provider::SharedCredentialsProvider;
    use aws_smithy_async::rt::sleep::TokioSleep;

    use super::*;
    use crate::clock::Clock;
    use crate::ec2::endpoints::Endpoints;

    /// A server that gives each of `answers` once; the requests it received.
    pub(crate) fn answering(
        answers: &'static [&'static [u8]],
    ) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serve = move || {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap();
                asked.push(String::from_utf8_lossy(&request[..length]).to_lowercase());
                stream.write_all(answer).unwrap();
            }
            asked
        };
        (url, std::thread::spawn(serve))
    }

    /// A client without a reachable EC2, after a first call.
    pub(crate) async fn after_a_call() -> Ec2 {
        let ec2 = lost();
        assert!(ec2.once.describe_vpcs().send().await.is_err());
        ec2
    }

    /// A client without a reachable EC2.
    fn lost() -> Ec2 {
        at("http://127.0.0.1:9")
    }

    /// A client whose EC2 accepts connections while the listener lives, and never answers.
    pub(crate) fn silent() -> (Ec2, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ec2 = at(&format!("http://{}", listener.local_addr().unwrap()));
        (ec2, listener)
    }

    fn at(url: &str) -> Ec2 {
        let credentials = Credentials::from_keys("id", "secret", None);
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .sleep_impl(TokioSleep::new())
            .http_client(client())
            .build();
        Ec2::configured(&config, &Endpoints::at(url), Clock::system())
    }

    #[tokio::test]
    async fn a_page_is_read_without_credentials_and_errors_are_returned() {
        let ec2 = lost();
        let (url, server) = answering(&[
            b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nconnection: close\r\n\r\n203.0.113.7\n",
            b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\n\xff",
        ]);
        assert_eq!(ec2.reached().unwrap_err(), "no call was made yet");
        assert!(ec2.once.describe_vpcs().send().await.is_err());
        let printed = format!("{:?}", ec2.https);
        assert!(
            printed.contains("is_public") && printed.len() < 99,
            "{printed}"
        );
        let ec2 = ec2.reached().unwrap();
        assert!(!ec2.is_public());

        assert_eq!(ec2.get(&url).await.unwrap(), "203.0.113.7\n");
        assert_eq!(ec2.get(&url).await.unwrap_err(), "HTTP 502");
        assert_eq!(ec2.get(&url).await.unwrap_err(), "the answer is no text");
        for asked in server.join().unwrap() {
            assert!(asked.starts_with("get / http/1.1\r\n"), "{asked}");
            assert!(!asked.contains("authorization"), "{asked}");
            assert!(!asked.contains("amz"), "{asked}");
        }
        // The server has ended.
        let error = ec2.get(&url).await.unwrap_err();
        assert!(error.contains("refused"), "{error}");
        assert!(ec2.get("no URL").await.is_err());
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_none() {
        static LONG: [u8; 5000] = [b'1'; 5000];
        let ec2 = after_a_call().await;
        let ec2 = ec2.reached().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n";
            stream.write_all(head).unwrap();
            // The client closes once it has read enough.
            let _ = stream.write_all(&LONG);
        });
        let error = ec2.get(&url).await.unwrap_err();
        assert!(error.contains("limit"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn only_what_everybody_has_is_a_public_endpoint() {
        for host in [
            "ec2.us-east-1.amazonaws.com",
            "ec2-fips.us-east-1.amazonaws.com",
            "ec2.eu-central-1.api.aws",
            "ec2.cn-north-1.amazonaws.com.cn",
        ] {
            assert!(is_public(&format!("https://{host}/")), "{host}");
        }
        for url in [
            "http://localhost/",
            "http://127.0.0.1:5000/",
            "https://vpce-0a-b.ec2.us-east-1.vpce.amazonaws.com/",
            "https://ec2.example.com/",
            "https://ec2.amazonaws.com.example.com/",
            "not a URL",
        ] {
            assert!(!is_public(url), "{url}");
        }
    }
}
