//! The instance metadata service (EC2 user guide, *Use the Instance Metadata Service to access
//! instance metadata*), version 2: a token first, then everything else.
//!
//! It serves a folder: a file is a value, a folder is a list. It is read at each request, so that a
//! new notice shows at once.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::json;

use super::folder::Folder;
use super::inside::METADATA;
use super::network::Network;
use super::role::{self, Role};
use super::stamp::seconds;
use super::{Machine, sent_keys};
use xdrive_ground::clock::Clock;

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
    /// The instance's address.
    address: Ipv4Addr,
    tokens_required: bool,
    hop_limit: u32,
    role: Option<Role>,
    tokens: Mutex<HashMap<String, Instant>>,
}

impl Metadata {
    /// Answers from `folder` for `machine`, which has this address, in the state directory `dir`.
    pub(super) fn new(folder: PathBuf, machine: &Machine, address: Ipv4Addr, dir: &Path) -> Self {
        Self {
            folder,
            address,
            tokens_required: machine.tokens_required,
            hop_limit: machine.hop_limit,
            role: Role::from_machine(machine, dir),
            tokens: Mutex::default(),
        }
    }

    /// Serves `listener` until the runtime ends.
    pub(super) async fn serve(self, listener: tokio::net::TcpListener) -> anyhow::Error {
        let this = Arc::new(self);
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => return anyhow::Error::new(error).context("metadata service"),
            };
            let this = Arc::clone(&this);
            let is_far = !this.is_own(peer);
            tokio::spawn(async move {
                let service = hyper::service::service_fn(async |request: Request<Incoming>| {
                    let (method, path) = (request.method(), request.uri().path());
                    if is_far && this.hop_limit < 2 && *method == Method::PUT {
                        // The answer is lost after its last hop: the client gives up, or never does.
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, std::convert::Infallible>(this.answer(method, path, request.headers()))
                });
                let connection = hyper::server::conn::http1::Builder::new();
                // A client may hang up in the middle.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    }

    /// Whether a client is the instance itself, and not a container on it. The kernel has it come from
    /// the address that it calls.
    fn is_own(&self, peer: SocketAddr) -> bool {
        peer.ip() == METADATA || peer.ip() == self.address
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
        } else if let Some(role) = self.role.as_ref().filter(|it| it.is_at(&self.folder, &at)) {
            role.credentials(Clock::system().now())
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
    if machine.public {
        put(folder.join("meta-data/public-ipv4"), &address)?;
    }
    role::describe(folder, machine, now)?;
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

/// An instance's host name, as EC2 makes it from the address (user guide, *IP name*).
pub(super) fn host_name(network: &Network) -> String {
    format!("ip-{}", network.address.to_string().replace('.', "-"))
}

#[cfg(test)]
mod tests;
