//! The EC2 in a folder on a loopback port: answered and refused requests, and its end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials as Identity;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use rustix::process::Signal;
use xdrive::local::Settings;
use xdrive::local::wire::{EnvironmentError, Server, environment};

use crate::folder::{Folder, Served};
use crate::session::served::ServedSite;
use harness::DEADLINE;

const QUESTION: &str = "Action=DescribeVolumes&Version=2016-11-15";
const FORM: &str = "application/x-www-form-urlencoded";

async fn serve() -> Served {
    Folder::in_real_time(Settings::default()).serve().await
}

impl Served {
    /// Headers of a request signed `ago` seconds before now with `secret`.
    fn signed(&self, host: &str, secret: &str, ago: u64) -> Vec<(String, String)> {
        let key = &self.folder.local.credentials().access_key_id;
        let identity = Identity::from_keys(key, secret, None).into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(self.folder.local.region())
            .name("ec2")
            .time(SystemTime::now() - Duration::from_secs(ago))
            .settings(SigningSettings::default())
            .build()
            .unwrap()
            .into();
        let signable = SignableRequest::new(
            "POST",
            format!("http://{host}/"),
            [("content-type", FORM), ("host", host)].into_iter(),
            SignableBody::Bytes(QUESTION.as_bytes()),
        )
        .unwrap();
        let (instructions, _) = sign(signable, &params).unwrap().into_parts();
        [("content-type", FORM), ("host", host)]
            .into_iter()
            .chain(instructions.headers())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn secret(&self) -> String {
        self.folder.local.credentials().secret_access_key.clone()
    }

    fn own_headers(&self) -> Vec<(String, String)> {
        self.signed(&self.address, &self.secret(), 0)
    }

    /// The whole response to one request on a new connection.
    async fn ask(&self, headers: Vec<(String, String)>, body: Vec<u8>) -> String {
        let address = self.address.clone();
        tokio::task::spawn_blocking(move || {
            let mut stream = connect(&address);
            // A server that refuses need not read to the end.
            let _ = stream.write_all(&head(&headers, body.len()));
            let _ = stream.write_all(&body);
            read_all(&mut stream)
        })
        .await
        .unwrap()
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn head(headers: &[(String, String)], length: usize) -> Vec<u8> {
    let length = length.to_string();
    let mut head = String::from("POST / HTTP/1.1\r\n");
    for (name, value) in headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .chain([("connection", "close"), ("content-length", &length)])
    {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    head.into_bytes()
}

fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_request_is_answered() {
    let served = serve().await;
    let answer = served.ask(served.own_headers(), QUESTION.into()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("<DescribeVolumesResponse xmlns="),
        "{answer}"
    );
    let localhost = served.address.replace("127.0.0.1", "localhost");
    let headers = served.signed(&localhost, &served.secret(), 0);
    let answer = served.ask(headers, QUESTION.into()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_sign_or_signs_wrongly_or_late_is_refused() {
    let served = serve().await;
    let mut unsigned = served.own_headers();
    unsigned.retain(|(name, _)| name != "authorization");
    let wrong = served.signed(&served.address, "wrong", 0);
    let late = served.signed(&served.address, &served.secret(), 16 * 60);
    for (headers, status, code) in [
        (unsigned, "403", "MissingAuthenticationToken"),
        (wrong, "401", "AuthFailure"),
        (late, "400", "RequestExpired"),
    ] {
        let answer = served.ask(headers, QUESTION.into()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.contains(&format!("<Code>{code}</Code>")), "{answer}");
    }
    let changed = "Action=DeleteVolume&Version=2016-11-15".into();
    let answer = served.ask(served.own_headers(), changed).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_is_refused_even_if_it_could_sign() {
    let served = serve().await;
    let mut page = served.own_headers();
    page.push(("origin".to_owned(), format!("http://{}", served.address)));
    let port = served.address.rsplit_once(':').unwrap().1;
    let rebound = served.signed(&format!("rebound.example:{port}"), &served.secret(), 0);
    for headers in [page, rebound] {
        let answer = served.ask(headers, QUESTION.into()).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(!answer.contains("access-control"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_end_is_cut_off() {
    let served = serve().await;
    let answer = served
        .ask(served.own_headers(), vec![b'a'; (1 << 20) + 1])
        .await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_in_hand_is_finished_and_idle_connections_are_not_waited_for() {
    let served = serve().await;
    let idle = connect(&served.address);
    let mut busy = connect(&served.address);
    let (first, rest) = QUESTION.split_at(10);
    busy.write_all(&head(&served.own_headers(), QUESTION.len()))
        .unwrap();
    busy.write_all(first.as_bytes()).unwrap();
    // The server has accepted the connection once it has answered a later one.
    served.ask(served.own_headers(), QUESTION.into()).await;

    served.stop.send(()).unwrap();
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while TcpStream::connect(&served.address).is_ok() {
        assert!(tokio::time::Instant::now() < deadline, "it still listens");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    busy.write_all(rest.as_bytes()).unwrap();
    let answer = tokio::task::spawn_blocking(move || read_all(&mut busy))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    tokio::time::timeout(DEADLINE, served.running)
        .await
        .expect("an idle connection does not keep it")
        .unwrap();
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_what_a_shell_needs_while_it_is_served() {
    let served = serve().await;
    let script = environment(&served.folder.local).unwrap();
    let output = std::process::Command::new("sh")
        .env_clear()
        .env("AWS_SESSION_TOKEN", "left over")
        .arg("-c")
        .arg(format!(
            "{script}\necho \"$AWS_ENDPOINT_URL $AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY \
             $AWS_REGION ${{AWS_SESSION_TOKEN-none}}\""
        ))
        .output()
        .unwrap();
    let key = served.folder.local.credentials();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!(
            "http://{} {} {} us-east-1 none\n",
            served.address, key.access_key_id, key.secret_access_key
        )
    );
    // Any other process that opens the folder gets the same environment.
    assert_eq!(
        environment(&served.folder.reopen().unwrap()).unwrap(),
        script
    );

    served.stop.send(()).unwrap();
    served.running.await.unwrap();
    let error = environment(&served.folder.local).unwrap_err();
    assert!(matches!(error, EnvironmentError::NotServed(_)));
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("xdrive local serve"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_served_once_and_a_taken_port_is_named() {
    let served = serve().await;
    let twice = Server::bind(served.folder.local.clone(), 0)
        .await
        .unwrap_err();
    assert!(format!("{twice:#}").contains(&served.address), "{twice:#}");
    let other = Folder::in_real_time(Settings::default());
    let port = served.address.rsplit_once(':').unwrap().1.parse().unwrap();
    let taken = Server::bind(other.local.clone(), port).await.unwrap_err();
    assert!(format!("{taken:#}").contains(&served.address), "{taken:#}");
}

#[test]
fn the_program_serves_until_it_is_asked_to_end() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut served = ServedSite::paper("");
        assert!(
            served.url().starts_with("http://127.0.0.1:"),
            "{}",
            served.url()
        );
        let environment = served.environment();
        assert!(environment.status.success(), "{environment:?}");
        let printed = String::from_utf8(environment.stdout).unwrap();
        assert!(printed.contains(served.url()), "{printed}");

        assert_eq!(served.end(signal).code(), Some(0), "{signal:?}");
        no_environment(&served);
    }
}

#[test]
fn a_killed_program_leaves_no_environment_behind() {
    let mut served = ServedSite::paper("");
    assert_eq!(served.end(Signal::KILL).code(), None);
    no_environment(&served);
}

/// Checks that `xdrive local env` fails with a hint.
fn no_environment(served: &ServedSite) {
    let environment = served.environment();
    assert_eq!(environment.status.code(), Some(69), "{environment:?}");
    assert_eq!(environment.stdout, b"");
    let printed = String::from_utf8(environment.stderr).unwrap();
    assert!(
        printed.contains("hint: ") && printed.contains("xdrive local serve"),
        "{printed}"
    );
}
