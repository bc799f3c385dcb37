//! The fault proxy: an HTTP proxy between a client and its EC2 that passes requests on, and injects
//! faults. The client is a whole xdrive with an account; EC2 is any server at the other end.
//!
//! It is a proxy, set by `HTTP_PROXY`, because requests must be passed on as they were signed, with
//! the host's name. Each connection has one request, so that a cut connection is one call's.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// A call, as its request shows it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The call's name, such as `RunInstances`.
    pub action: String,
    /// The call's parameters, if it has them in a form.
    pub params: BTreeMap<String, String>,
    /// How many calls of this action came, this one included.
    pub number: usize,
    /// The id of the key that signs it.
    key: String,
}

impl Asked {
    /// A call of this name alone.
    pub fn new(action: &str) -> Self {
        Self {
            action: action.to_owned(),
            ..Self::default()
        }
    }

    /// Whether it destroys something.
    pub fn destroys(&self) -> bool {
        self.action.starts_with("Delete") || self.action.starts_with("Terminate")
    }

    /// Whether it is of EBS direct APIs: it reads or lists blocks.
    fn is_of_blocks(&self) -> bool {
        self.action.ends_with("SnapshotBlocks")
            || matches!(
                self.action.as_str(),
                "GetSnapshotBlock" | "ListChangedBlocks"
            )
    }

    /// Whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        ["Describe", "Get", "List"]
            .iter()
            .any(|verb| self.action.starts_with(verb))
    }
}

/// The fate of a call.
#[derive(Debug, Clone)]
pub enum Fate {
    /// The call is passed on, and its answer passed back.
    Passed,
    /// The call never arrives: the connection is cut.
    Unsent,
    /// The call is passed on, and its answer lost.
    Unanswered,
    /// The call is passed on twice; the second answer is passed back.
    Twice,
    /// EC2 refuses it: status, code, message.
    Refused(u16, &'static str, &'static str),
    /// The call never arrives, and another server answers: status and a page.
    Page(u16, &'static str),
}

type Decide = Box<dyn FnMut(&Asked) -> Fate + Send>;
type Change = Box<dyn FnMut(&Asked, String) -> String + Send>;

/// The proxy. It ends when it is dropped.
pub struct FaultProxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    over: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

struct State {
    /// The id of the key whose calls are passed on and not counted.
    observer: Option<String>,
    counts: BTreeMap<String, usize>,
    calls: Vec<String>,
    decide: Decide,
    change: Change,
}

impl FaultProxy {
    /// A proxy on a free port, which passes everything on.
    pub fn new() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// A proxy that listens there.
    pub fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            observer: None,
            counts: BTreeMap::new(),
            calls: Vec::new(),
            decide: Box::new(|_| Fate::Passed),
            change: Box::new(|_, answer| answer),
        }));
        let over = Arc::new(AtomicBool::new(false));
        let (shared, ends) = (Arc::clone(&state), Arc::clone(&over));
        let listening = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let state = Arc::clone(&shared);
                // A client may have closed its connection.
                std::thread::spawn(move || drop(serve(stream, &state)));
            }
        });
        Self {
            address,
            state,
            over,
            listening: Some(listening),
        }
    }

    /// The value for `HTTP_PROXY`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on calls that are signed with the key of this id are passed on and not counted.
    pub fn observe_by(&self, key: &str) {
        self.state().observer = Some(key.to_owned());
    }

    /// From now on `decide` returns the fate of each call; counting begins anew.
    pub fn decide(&self, decide: impl FnMut(&Asked) -> Fate + Send + 'static) {
        let mut state = self.state();
        state.counts.clear();
        state.calls.clear();
        state.decide = Box::new(decide);
    }

    /// From now on `change` rewrites every answer of EC2.
    pub fn change(&self, change: impl FnMut(&Asked, String) -> String + Send + 'static) {
        self.state().change = Box::new(change);
    }

    /// The calls since the last [`Self::decide`], in their order.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A connection wakes the listener, which then ends.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

/// A deciding closure that panicked has failed its test already.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn serve(mut client: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let (head, body) = request(&mut client)?;
    let mut asked = asked(&head, &body);
    let fate = {
        let mut state = lock(state);
        if state.observer.as_ref() == Some(&asked.key) {
            Fate::Passed
        } else {
            let count = state.counts.entry(asked.action.clone()).or_default();
            *count += 1;
            asked.number = *count;
            state.calls.push(asked.action.clone());
            (state.decide)(&asked)
        }
    };
    let passed = || -> io::Result<Vec<u8>> {
        let answer = pass_on(&head, &body)?;
        // moto has no blocks of a snapshot that EC2 made, and fails as a server does whose failure may
        // pass: the SDK would try ten times, for a minute.
        if asked.is_of_blocks() && answer.starts_with(b"HTTP/1.1 500") {
            let code = "ValidationException";
            return Ok(refusal(&asked, 400, code, "there are no blocks of it"));
        }
        Ok(changed(&asked, answer, state))
    };
    let answer = match fate {
        Fate::Passed => passed()?,
        Fate::Unsent => return client.shutdown(Shutdown::Both),
        Fate::Unanswered => {
            passed()?;
            return client.shutdown(Shutdown::Both);
        }
        Fate::Twice => {
            passed()?;
            passed()?
        }
        Fate::Refused(status, code, message) => refusal(&asked, status, code, message),
        Fate::Page(status, page) => whole(status, "text/html", page),
    };
    client.write_all(&answer)
}

/// Head and body, both as they came.
fn request(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8192];
    loop {
        let length = client.read(&mut chunk)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..length]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end + 2]).into_owned();
        let length = header(&head, "content-length").map_or(0, |it| it.parse().unwrap());
        if bytes.len() >= end + 4 + length {
            return Ok((head, bytes[end + 4..end + 4 + length].to_vec()));
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn asked(head: &str, body: &[u8]) -> Asked {
    let params: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
    let (_, path) = target(head);
    let path = path.split('?').next().unwrap_or_default();
    let credential = header(head, "authorization").and_then(|it| it.split("Credential=").nth(1));
    let key = credential.and_then(|it| it.split('/').next());
    let action = match header(head, "x-amz-target") {
        Some(target) => target.rsplit('.').next().unwrap_or_default().to_owned(),
        None if path.starts_with("/snapshots/") && path.ends_with("/blocks") => {
            "ListSnapshotBlocks".to_owned()
        }
        None if path.starts_with("/snapshots/") && path.ends_with("/changedblocks") => {
            "ListChangedBlocks".to_owned()
        }
        None if path.starts_with("/snapshots/") => "GetSnapshotBlock".to_owned(),
        None => params.get("Action").cloned().unwrap_or_default(),
    };
    Asked {
        action,
        params,
        number: 0,
        key: key.unwrap_or_default().to_owned(),
    }
}

/// Host and port of a request, and its path: a proxy gets both as one URL.
fn target(head: &str) -> (&str, &str) {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let rest = target.strip_prefix("http://").unwrap_or_default();
    rest.split_at(rest.find('/').unwrap_or(rest.len()))
}

/// The whole answer.
fn pass_on(head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let (host, path) = target(head);
    let mut server = TcpStream::connect(host)?;
    let verb = head.split(' ').next().unwrap_or_default();
    let path = if path.is_empty() { "/" } else { path };
    let mut kept = format!("{verb} {path} HTTP/1.1\r\n");
    for line in head.lines().skip(1) {
        if !line.to_lowercase().starts_with("connection:") {
            kept.push_str(line);
            kept.push_str("\r\n");
        }
    }
    server.write_all(format!("{kept}connection: close\r\n\r\n").as_bytes())?;
    server.write_all(body)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    Ok(answer)
}

/// The rewritten answer; an answer that is no text is not changed.
fn changed(asked: &Asked, answer: Vec<u8>, state: &Mutex<State>) -> Vec<u8> {
    let text = match String::from_utf8(answer) {
        Ok(text) => text,
        Err(error) => return error.into_bytes(),
    };
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return text.into_bytes();
    };
    let before = body.to_owned();
    let after = (lock(state).change)(asked, before.clone());
    let lines = head.lines().filter(|line| {
        let name = line.split(':').next().unwrap_or_default().to_lowercase();
        name != "connection" && (name != "content-length" || after == before)
    });
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    if after != before {
        lines.push(format!("content-length: {}", after.len()));
    }
    let head = lines.join("\r\n");
    format!("{head}\r\nconnection: close\r\n\r\n{after}").into_bytes()
}

/// A refusal, in the protocol of the called service.
fn refusal(asked: &Asked, status: u16, code: &str, message: &str) -> Vec<u8> {
    if asked.action == "GetCallerIdentity" {
        let body = format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}\
             </Message></Error><RequestId>0</RequestId></ErrorResponse>"
        );
        return whole(status, "text/xml", &body);
    }
    if asked.params.contains_key("Action") {
        let body = format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error>\
             </Errors><RequestID>0</RequestID></Response>"
        );
        return whole(status, "text/xml", &body);
    }
    let body = format!("{{\"__type\": \"{code}\", \"message\": \"{message}\"}}");
    whole(status, "application/json", &body)
}

fn whole(status: u16, kind: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
