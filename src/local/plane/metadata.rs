//! The instance metadata service (EC2 user guide, *Use the Instance Metadata Service to access
//! instance metadata*), version 2: a token first, then everything else.
//!
//! It serves a folder: a file is a value, a folder is a list. It is read at each request, so that a
//! new notice shows at once. The socket is made in the instance's network namespace and nowhere
//! else; no other instance, and not the host, can reach it.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;

use super::folder::Folder;
use super::network::Network;
use super::{Machine, sent_keys};
use xdrive_ground::clock::Clock;

const ADDRESS: &str = "169.254.169.254:80";
/// The versions in use that cloud-init and the SDKs ask for; others are not found, as on EC2.
const VERSIONS: [&str; 7] = [
    "1.0",
    "2009-04-04",
    "2016-09-02",
    "2018-09-24",
    "2020-10-27",
    "2021-03-23",
    "latest",
];
const TOKEN: &str = "x-aws-ec2-metadata-token";
const TOKEN_TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";
/// The longest a token may live, in seconds: six hours.
const LONGEST: u64 = 21_600;

/// The service of one instance.
#[derive(Debug)]
pub(super) struct Metadata {
    folder: PathBuf,
    tokens_required: bool,
    tokens: Mutex<HashMap<String, Instant>>,
}

impl Metadata {
    /// Answers from `folder`.
    pub(super) fn new(folder: PathBuf, tokens_required: bool) -> Self {
        Self {
            folder,
            tokens_required,
            tokens: Mutex::default(),
        }
    }

    /// Serves `listener` until the runtime ends.
    pub(super) async fn serve(self, listener: tokio::net::TcpListener) -> anyhow::Error {
        let this = Arc::new(self);
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => return anyhow::Error::new(error).context("metadata service"),
            };
            let this = Arc::clone(&this);
            tokio::spawn(async move {
                let service = hyper::service::service_fn(|request: Request<_>| {
                    let answer =
                        this.answer(request.method(), request.uri().path(), request.headers());
                    std::future::ready(Ok::<_, std::convert::Infallible>(answer))
                });
                let connection = hyper::server::conn::http1::Builder::new();
                // A client may hang up in the middle.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }

    fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let answer = match *method {
            Method::PUT if path == "/latest/api/token" => self.issue(headers),
            Method::GET | Method::HEAD => match self.refuse(headers) {
                None => self.read(path),
                Some(status) => Err(status),
            },
            _ => Err(StatusCode::METHOD_NOT_ALLOWED),
        };
        let mut response = match answer {
            Ok((body, ttl)) => {
                let mut response = Response::new(Full::from(body));
                if let Some(ttl) = ttl {
                    response.headers_mut().insert(TOKEN_TTL, ttl.into());
                }
                response
            }
            Err(status) => {
                let mut response = Response::new(Full::from(status.to_string()));
                *response.status_mut() = status;
                response
            }
        };
        let headers = response.headers_mut();
        headers.insert(
            http::header::SERVER,
            http::HeaderValue::from_static("EC2ws"),
        );
        headers.insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("text/plain"),
        );
        response
    }

    /// A new token, for as many seconds as asked.
    fn issue(&self, headers: &HeaderMap) -> Result<(Vec<u8>, Option<u64>), StatusCode> {
        // A request through a proxy is not the instance's own.
        if headers.contains_key("x-forwarded-for") {
            return Err(StatusCode::FORBIDDEN);
        }
        let ttl = headers
            .get(TOKEN_TTL)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .filter(|ttl| (1..=LONGEST).contains(ttl))
            .ok_or(StatusCode::BAD_REQUEST)?;
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        let token = hex::encode(random);
        let now = Instant::now();
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, end| *end > now);
        tokens.insert(token.clone(), now + Duration::from_secs(ttl));
        Ok((token.into_bytes(), Some(ttl)))
    }

    /// The refusal of a request without a good token.
    fn refuse(&self, headers: &HeaderMap) -> Option<StatusCode> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        match headers.get(TOKEN) {
            None => self.tokens_required.then_some(StatusCode::UNAUTHORIZED),
            Some(token) => {
                let end = token.to_str().ok().and_then(|token| tokens.get(token));
                end.is_none_or(|end| *end <= Instant::now())
                    .then_some(StatusCode::UNAUTHORIZED)
            }
        }
    }

    /// The value or list at `path`.
    fn read(&self, path: &str) -> Result<(Vec<u8>, Option<u64>), StatusCode> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let Some(version) = parts.next() else {
            return Ok((VERSIONS.join("\n").into_bytes(), None));
        };
        if !VERSIONS.contains(&version) {
            return Err(StatusCode::NOT_FOUND);
        }
        let mut at = self.folder.clone();
        for part in parts {
            // Only names: no part leads out of the folder.
            if part.starts_with('.') || part.contains('\0') {
                return Err(StatusCode::NOT_FOUND);
            }
            at.push(part);
        }
        let value = if at.is_dir() {
            list(&at)
        } else if sent_keys::are_at(&self.folder, &at) {
            sent_keys::read(&at, Clock::system().boot())
        } else {
            fs::read(&at)
        };
        value
            .map(|value| (value, None))
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => StatusCode::NOT_FOUND,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            })
    }
}

/// The names in a folder, one a line; folders end with a slash.
fn list(folder: &Path) -> std::io::Result<Vec<u8>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{}{slash}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(names.join("\n").into_bytes())
}

/// Binds the service's address in the network namespace `name`. Only a thread of its own goes
/// there; the socket stays in the namespace it was made in.
pub(super) fn listen(name: &str) -> anyhow::Result<TcpListener> {
    let namespace = Path::new("/run/netns").join(name);
    let there = move || -> anyhow::Result<TcpListener> {
        let file = fs::File::open(&namespace)?;
        move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&file),
            Some(LinkNameSpaceType::Network),
        )?;
        let listener = TcpListener::bind(ADDRESS)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    std::thread::spawn(there)
        .join()
        .map_err(|_| anyhow!("the thread that binds {ADDRESS} panicked"))?
        .with_context(|| format!("binding {ADDRESS} in {name}"))
}

/// Writes a machine's metadata below `folder`.
pub(super) fn describe(
    folder: &Path,
    machine: &Machine,
    network: &Network,
    now: Timestamp,
) -> anyhow::Result<()> {
    let address = network.address.to_string();
    let name = host_name(network);
    // A zone is its region and a letter.
    let region = machine
        .zone
        .trim_end_matches(|c: char| c.is_ascii_lowercase());
    let interface = format!("network/interfaces/macs/{}", network.mac);
    let ranges = machine.vpc_cidrs.join("\n");
    let first = machine.vpc_cidrs.first().map_or("", String::as_str);
    let values = [
        ("ami-id", machine.image.as_str()),
        ("ami-launch-index", "0"),
        ("hostname", &name),
        ("instance-action", "none"),
        ("instance-id", &machine.instance),
        ("instance-type", &machine.instance_type),
        ("local-hostname", &name),
        ("local-ipv4", &address),
        ("mac", &network.mac),
        ("placement/availability-zone", &machine.zone),
        ("placement/region", region),
        ("services/domain", "amazonaws.com"),
        ("services/partition", "aws"),
        (&format!("{interface}/device-number"), "0"),
        (&format!("{interface}/local-ipv4s"), &address),
        (&format!("{interface}/mac"), &network.mac),
        (&format!("{interface}/owner-id"), &machine.account),
        (&format!("{interface}/vpc-ipv4-cidr-block"), first),
        (&format!("{interface}/vpc-ipv4-cidr-blocks"), &ranges),
    ];
    let put = |path: PathBuf, value: &str| -> anyhow::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, value).with_context(|| format!("writing {}", path.display()))
    };
    for (path, value) in values {
        put(folder.join("meta-data").join(path), value)?;
    }
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        other => other,
    };
    let document = json!({
        "accountId": machine.account,
        "architecture": architecture,
        "availabilityZone": machine.zone,
        "imageId": machine.image,
        "instanceId": machine.instance,
        "instanceType": machine.instance_type,
        "pendingTime": seconds(now),
        "privateIp": address,
        "region": region,
        "version": "2017-09-30",
    });
    put(
        folder.join("dynamic/instance-identity/document"),
        &format!("{document:#}"),
    )
}

/// Announces a spot interruption (EC2 user guide, *Spot Instance interruption notices*): its action
/// and moment, and the older item that has the moment only.
pub(super) fn announce_interruption(instance: &Folder, at: Timestamp) -> anyhow::Result<()> {
    let at = seconds(at);
    let action = format!(r#"{{"action": "terminate", "time": "{at}"}}"#);
    change(instance, "spot/instance-action", &action)?;
    change(instance, "spot/termination-time", &at)
}

/// Announces an elevated risk of that (EC2 user guide, *EC2 instance rebalance recommendations*).
pub(super) fn recommend_rebalance(instance: &Folder, noticed: Timestamp) -> anyhow::Result<()> {
    let notice = format!(r#"{{"noticeTime": "{}"}}"#, seconds(noticed));
    change(instance, "events/recommendations/rebalance", &notice)
}

/// Sets a value while it may be read: a reader sees all of it or nothing.
fn change(instance: &Folder, name: &str, value: &str) -> anyhow::Result<()> {
    let path = instance.metadata().join("meta-data").join(name);
    let change = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // Outside the served folder, which would list it.
        let new = instance.path().join("imds.new");
        fs::write(&new, value)?;
        fs::rename(new, &path)
    };
    change().with_context(|| format!("writing {}", path.display()))
}

/// A moment in the metadata service's format.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An instance's host name, as EC2 makes it from the address (user guide, *IP name*).
pub(super) fn host_name(network: &Network) -> String {
    format!("ip-{}", network.address.to_string().replace('.', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(folder: &Path) -> Metadata {
        let machine = Machine {
            instance: "i-0123456789abcdef0".to_owned(),
            image: "ami-1".to_owned(),
            instance_type: "m7i.large".to_owned(),
            zone: "eu-central-1b".to_owned(),
            user_data: Vec::new(),
            tokens_required: true,
            account: "000000000000".to_owned(),
            vpc_cidrs: vec!["172.31.0.0/16".to_owned()],
            gpu: None,
            boots: Clock::system().boot(),
        };
        let network = Network {
            address: [10, 99, 3, 4].into(),
            mac: "02:0a:0a:63:03:04".to_owned(),
        };
        describe(folder, &machine, &network, jiff::Timestamp::UNIX_EPOCH).unwrap();
        Metadata::new(folder.to_owned(), true)
    }

    fn ask(
        service: &Metadata,
        method: &Method,
        path: &str,
        header: &[(&'static str, &str)],
    ) -> (u16, String) {
        let mut headers = HeaderMap::new();
        for (name, value) in header {
            headers.insert(*name, value.parse().unwrap());
        }
        let answer = service.answer(method, path, &headers);
        let status = answer.status().as_u16();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let body = runtime
            .block_on(http_body_util::BodyExt::collect(answer.into_body()))
            .unwrap();
        (status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
    }

    #[test]
    fn without_a_token_nothing_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(folder.path());
        assert_eq!(
            ask(&service, &Method::GET, "/latest/meta-data/", &[]).0,
            401
        );
        assert_eq!(
            ask(
                &service,
                &Method::GET,
                "/latest/meta-data/",
                &[(TOKEN, "made-up")]
            )
            .0,
            401
        );
        for ttl in ["0", "21601", "soon"] {
            let answer = ask(
                &service,
                &Method::PUT,
                "/latest/api/token",
                &[(TOKEN_TTL, ttl)],
            );
            assert_eq!(answer.0, 400);
        }
        assert_eq!(ask(&service, &Method::PUT, "/latest/api/token", &[]).0, 400);
        let proxied = [(TOKEN_TTL, "60"), ("x-forwarded-for", "192.0.2.1")];
        assert_eq!(
            ask(&service, &Method::PUT, "/latest/api/token", &proxied).0,
            403
        );
    }

    #[test]
    fn a_token_opens_values_and_lists_and_a_notice_shows_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(folder.path());
        let (status, token) = ask(
            &service,
            &Method::PUT,
            "/latest/api/token",
            &[(TOKEN_TTL, "21600")],
        );
        assert_eq!(status, 200);
        let get = |path: &str| ask(&service, &Method::GET, path, &[(TOKEN, &token)]);
        assert_eq!(
            get("/latest/meta-data/instance-id"),
            (200, "i-0123456789abcdef0".to_owned())
        );
        assert_eq!(
            get("/2021-03-23/meta-data/placement/"),
            (200, "availability-zone\nregion".to_owned())
        );
        assert_eq!(
            get("/latest/meta-data/placement/region"),
            (200, "eu-central-1".to_owned())
        );
        assert_eq!(get("/latest"), (200, "dynamic/\nmeta-data/".to_owned()));
        assert_eq!(get("/latest/user-data").0, 404);
        assert_eq!(get("/2099-01-01/meta-data/").0, 404);
        assert_eq!(get("/latest/meta-data/../../secret").0, 404);
        assert_eq!(get("/latest/meta-data/spot/instance-action").0, 404);

        fs::create_dir(folder.path().join("meta-data/spot")).unwrap();
        fs::write(folder.path().join("meta-data/spot/instance-action"), "{}").unwrap();
        assert_eq!(
            get("/latest/meta-data/spot/instance-action"),
            (200, "{}".to_owned())
        );
        assert_eq!(get("/latest/meta-data/instance-id/more").0, 404);
    }
}
