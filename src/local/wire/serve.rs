//! The server: the same EC2 on a loopback port, for other processes; or on an address inside an instance.
//!
//! No browser can call it: a request with an `Origin` is refused, and so is a `Host` that is not
//! its address, as an attacker's name for 127.0.0.1 ("DNS rebinding") would bring. Both before the
//! signature is verified.

use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::announcement::Announcement;
use super::respond;
use crate::Local;

/// The largest body read. EC2's largest request is a `RunInstances` with 16 KiB of user data and
/// 50 tags for each of a few resources.
const BODY: usize = 1 << 20;

/// The path, before an address, by which an instance asks for what is mounted from there.
const TARGET: &str = "/mount-target/";

/// How long a client may take to send its headers, and then its body.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long connections may take to end after the shutdown began. A running call is always
/// finished: it has its own thread, and the process waits for it.
const GRACE: Duration = Duration::from_secs(10);

/// A [`Local`] on a port, from [`Server::bind`] on; [`Server::run`] answers.
#[derive(Debug)]
pub struct Server {
    local: Local,
    listener: TcpListener,
    address: SocketAddr,
    announcement: Announcement,
}

impl Server {
    /// Listens on `port` of 127.0.0.1 (0: any free one), and writes its URL to the state directory.
    /// An error if the port is in use, or if another process serves this directory.
    pub async fn bind(local: Local, port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .with_context(|| format!("cannot listen on 127.0.0.1:{port}"))?;
        let address = listener.local_addr()?;
        let (dir, url) = (local.dir().to_owned(), format!("http://{address}"));
        let announcing = move || Announcement::make(&dir, &url);
        let announcement = tokio::task::spawn_blocking(announcing).await??;
        Ok(Self {
            local,
            listener,
            address,
            announcement,
        })
    }

    /// The server's URL, such as `http://127.0.0.1:43125`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers until `shutdown` is ready; then accepts no more connections and requests, finishes
    /// the running ones, and returns.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self {
            local,
            listener,
            address,
            announcement,
        } = self;
        let hosts = ["127.0.0.1", "localhost", "[::1]"];
        let hosts: Arc<[_]> = hosts
            .map(|name| format!("{name}:{}", address.port()))
            .into();
        let (ending, ended) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let hosts = Arc::clone(&hosts);
                        let connection = Connection { local: local.clone(), hosts, instance: None };
                        connections.spawn(connection.converse(stream, ended.clone()));
                    }
                    Err(error) => wait_after(&error).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(listener);
        drop(announcement);
        ending.send_replace(());
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            tracing::warn!("connections are still open after {GRACE:?}");
        }
    }
}

/// Mostly too many open files: some are closed in a moment.
async fn wait_after(error: &std::io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// How many connections of an instance are served at once: each may wait for a lock, and has a thread
/// meanwhile.
const INSIDE: usize = 64;

/// Answers on `listener`, inside this `instance`, under the name that is in `url`, by what `open` gives for
/// each connection. Ends when it is dropped; a running call is finished all the same.
pub(crate) async fn serve_inside(
    listener: TcpListener,
    open: impl Fn() -> anyhow::Result<Local> + Send + Sync + 'static,
    url: &str,
    instance: &str,
) -> Infallible {
    let host = url.trim_start_matches("http://");
    let hosts: Arc<[_]> = [host.to_owned(), format!("{host}:80")].into();
    let open = Arc::new(open);
    let instance: Arc<str> = instance.into();
    // Nobody ends it: each connection goes with its client or with the process.
    let (_ending, ended) = watch::channel(());
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= INSIDE {
            connections.join_next().await;
        }
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                wait_after(&error).await;
                continue;
            }
        };
        let (open, hosts, ended) = (Arc::clone(&open), Arc::clone(&hosts), ended.clone());
        let instance = Some(Arc::clone(&instance));
        connections.spawn(async move {
            let opened = tokio::task::spawn_blocking(move || open()).await;
            match opened.map_err(anyhow::Error::from).flatten() {
                Ok(local) => {
                    let connection = Connection {
                        local,
                        hosts,
                        instance,
                    };
                    connection.converse(stream, ended).await;
                }
                // The client sees a connection that breaks off.
                Err(error) => tracing::error!("cannot open the EC2 for an instance: {error:#}"),
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// The context of every connection.
#[derive(Debug, Clone)]
struct Connection {
    local: Local,
    /// The names of its address, with the port.
    hosts: Arc<[String]>,
    /// The instance that it is inside; none on this computer.
    instance: Option<Arc<str>>,
}

impl Connection {
    /// Serves one connection to its end, or to the end of the request in hand once `ended`.
    async fn converse(self, stream: TcpStream, mut ended: watch::Receiver<()>) {
        let service = service_fn(|request| {
            let connection = self.clone();
            async move { Ok::<_, Infallible>(connection.answer(request).await) }
        });
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
        );
        let result = tokio::select! {
            result = connection.as_mut() => result,
            // The sender outlives every connection, so an error is the end as well.
            _ = ended.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            tracing::debug!(%error, "a connection broke");
        }
    }

    async fn answer(&self, request: http::Request<Incoming>) -> http::Response<Full<Bytes>> {
        if let Err(why) = check_origin(request.headers(), request.uri(), &self.hosts) {
            return plain(StatusCode::FORBIDDEN, why);
        }
        if let Some(instance) = &self.instance
            && let Some(address) = request.uri().path().strip_prefix(TARGET)
        {
            return self
                .target(Arc::clone(instance), address.parse().ok())
                .await;
        }
        let (parts, body) = request.into_parts();
        let body = match tokio::time::timeout(TIMEOUT, Limited::new(body, BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return plain(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the request is larger than 1 MiB",
                );
            }
            Ok(Err(_)) => return plain(StatusCode::BAD_REQUEST, "the request's body broke off"),
            Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the request did not end"),
        };
        let local = self.local.clone();
        let request = http::Request::from_parts(parts, body);
        let on_its_way = local.delays().call;
        let answer = tokio::task::spawn_blocking(move || respond(&local, &request)).await;
        tokio::time::sleep(on_its_way).await;
        match answer {
            Ok(response) => response.map(Full::new),
            Err(error) => {
                tracing::error!(%error, "a call did not end as it should");
                plain(StatusCode::INTERNAL_SERVER_ERROR, "the call panicked")
            }
        }
    }
}

impl Connection {
    /// The file system behind a mount target's address, for the instance's `mount.nfs4`: no part of AWS, where
    /// the network decides.
    async fn target(
        &self,
        instance: Arc<str>,
        address: Option<Ipv4Addr>,
    ) -> http::Response<Full<Bytes>> {
        let local = self.local.clone();
        let look = move || local.mountable(&instance, address?);
        match tokio::task::spawn_blocking(look).await {
            Ok(Some(id)) => http::Response::new(Full::from(id)),
            Ok(None) | Err(_) => plain(StatusCode::NOT_FOUND, "no NFS answers there"),
        }
    }
}

/// Refuses a browser's requests for a page, and any other name for this address than those in `hosts`.
fn check_origin(
    headers: &HeaderMap,
    uri: &http::Uri,
    hosts: &[String],
) -> Result<(), &'static str> {
    if headers.contains_key(ORIGIN) {
        return Err("requests from web pages are refused");
    }
    let mut given = headers.get_all(HOST).iter();
    let (Some(host), None) = (given.next(), given.next()) else {
        return Err("exactly one Host is needed");
    };
    let written = uri
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    for host in std::iter::once(host.as_bytes()).chain(written) {
        if !hosts
            .iter()
            .any(|here| host.eq_ignore_ascii_case(here.as_bytes()))
        {
            return Err("this is not the Host that listens here");
        }
    }
    Ok(())
}

fn plain(status: StatusCode, why: &'static str) -> http::Response<Full<Bytes>> {
    let mut response = http::Response::new(Full::from(format!("{why}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::check_origin;
    use http::HeaderMap;
    use http::header::{HOST, ORIGIN};

    fn checked(headers: &[(http::HeaderName, &str)], uri: &str) -> bool {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .fold(HeaderMap::new(), |mut all, (name, value)| {
                all.append(name, value);
                all
            });
        let hosts = ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"].map(str::to_owned);
        check_origin(&headers, &uri.parse().unwrap(), &hosts).is_ok()
    }

    #[test]
    fn only_this_address_under_its_own_names_is_served() {
        for host in [
            "127.0.0.1:4000",
            "localhost:4000",
            "LOCALHOST:4000",
            "[::1]:4000",
        ] {
            assert!(checked(&[(HOST, host)], "/"), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:4001",
            "rebound.example:4000",
            "127.0.0.1:4000.example",
            "localhost.:4000",
            "",
        ] {
            assert!(!checked(&[(HOST, host)], "/"), "{host}");
        }
        assert!(!checked(&[], "/"));
        assert!(!checked(&[(HOST, "localhost:4000"), (HOST, "x:4000")], "/"));
        assert!(!checked(&[(HOST, "localhost:4000")], "http://x:4000/"));
    }

    #[test]
    fn a_web_page_is_refused_whatever_it_is_called() {
        for origin in ["http://localhost:4000", "https://x.example", "null", ""] {
            assert!(!checked(&[(HOST, "localhost:4000"), (ORIGIN, origin)], "/"));
        }
    }
}
