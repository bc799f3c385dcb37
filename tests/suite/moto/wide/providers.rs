//! Credentials and their sources: every kind of provider, with a profile in a file, and stand-ins
//! for the services behind them. Moto accepts any.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use portable_pty::CommandBuilder;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::folded::unfolded;
use crate::moto::server::Moto;
use harness::{Pty, write_script};

const XDRIVE: &str = env!("CARGO_BIN_EXE_xdrive");

/// The caller of a login.
const SESSION: &str = "arn:aws:iam::123456789012:user/ada";

/// The file's name of an SSO session called `lab`: the SHA-1 of its name.
const TOKEN: &str = "3953f9ddf975ab5097ee468d99555c5b441169bf.json";
/// The name for a session called `my s`.
const SPACED_TOKEN: &str = "0c7996447a94dbce9f8315523628dbd9577ef662.json";

/// A key that was made for this test.
const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\n\
    MHcCAQEEIDYS/yA2EjRRzAQkTMfpBONvbgEWuBWi89W8vFLY2U3roAoGCCqGSM49\n\
    AwEHoUQDQgAEk3yebUxArneXw1Tu5T08I6N1d+KnOIRqwmIZE67Urc9KSWD+ca5O\n\
    O/IU1wUaN8Ne3X5nD/HHKU+zgAXSyGThHw==\n\
    -----END EC PRIVATE KEY-----\n";

/// A service with one answer. It ends with the test's process.
struct StandIn {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    fn answering(status: u16, answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let line = first_line(&mut stream);
                let answer = answer(&line);
                log.lock().unwrap().push(line);
                // The client may have closed its connection.
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} Status\r\nx-aws-ec2-metadata-token-ttl-seconds: 600\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n{answer}",
                    answer.len()
                );
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads a whole request.
fn first_line(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            let length = length.split("content-length:").nth(1);
            let length = length.and_then(|it| it.lines().next()?.trim().parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return head.lines().next().unwrap_or_default().to_owned();
            }
        }
        match stream.read(&mut chunk).unwrap_or(0) {
            0 => return String::new(),
            length => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}

/// The time `hours` from now.
fn time(hours: i64) -> String {
    (Timestamp::now() + SignedDuration::from_hours(hours)).to_string()
}

/// A user with a `~/.aws` and nothing in the environment.
struct User {
    moto: Moto,
}

impl User {
    fn new(config: &str) -> Self {
        let user = Self {
            moto: Moto::start_bare(),
        };
        fs::create_dir_all(user.aws()).unwrap();
        fs::write(user.aws().join("config"), config).unwrap();
        user
    }

    fn aws(&self) -> PathBuf {
        self.moto.home().join(".aws")
    }

    /// Writes the files of `aws login`, valid for so many hours.
    fn is_logged_in(&self, hours: i64) {
        let folder = self.aws().join("login/cache");
        fs::create_dir_all(&folder).unwrap();
        let token = json!({
            "accessToken": {
                "accessKeyId": "ASIAOLD", "secretAccessKey": "example", "sessionToken": "old",
                "accountId": "123456789012", "expiresAt": time(hours),
            },
            "tokenType": "aws_sigv4", "refreshToken": "again",
            "clientId": "arn:aws:signin:::devtools/same-device", "dpopKey": KEY,
        });
        let name = format!("{}.json", hex::encode(Sha256::digest(SESSION)));
        fs::write(folder.join(name), token.to_string()).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.moto.command(XDRIVE.as_ref());
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            command.env_remove(name);
        }
        command.args(words);
        command
    }

    /// Checks that `xdrive doctor` with these flags reports credentials from `source`.
    fn has(&self, words: &[&str], environment: &[(&str, &str)], source: &str) {
        let mut command = self.command(&[words, &["doctor"]].concat());
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let text = unfolded(&text(&output));
        assert!(
            text.contains(&format!("ok  credentials    {source}\n")),
            "{source}: {text}"
        );
        assert_eq!(output.status.code(), Some(0), "{text}");
    }
}

fn text(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8(both).unwrap()
}

#[test]
#[ignore = "needs python3 with moto"]
fn doctor_names_the_provider_that_answered() {
    let config = format!(
        "[default]\naws_access_key_id = AKIAFILE\naws_secret_access_key = example\n\
         [profile process]\ncredential_process = {}\n\
         [profile role]\nrole_arn = arn:aws:iam::123456789012:role/dev\nsource_profile = default\n",
        "printf '{\"Version\":1,\"AccessKeyId\":\"AKIA\",\"SecretAccessKey\":\"x\"}'"
    );
    let user = User::new(&config);
    let keys = [
        ("AWS_ACCESS_KEY_ID", "AKIAENV"),
        ("AWS_SECRET_ACCESS_KEY", "example"),
    ];
    user.has(&[], &keys, "the environment (AWS_ACCESS_KEY_ID)");
    user.has(&[], &[], "profile default, by the keys in its file");
    let process = "profile process, by its credential_process";
    user.has(&[], &[("AWS_PROFILE", "process")], process);
    user.has(&["--profile", "process"], &[], process);
    // As in the AWS CLI, a profile flag precedes the environment's keys.
    user.has(&["--profile", "process"], &keys, process);
    user.has(&["--profile", "role"], &[], "profile role, by its role");

    let keys = json!({
        "Code": "Success", "Type": "AWS-HMAC", "LastUpdated": time(-1), "AccessKeyId": "ASIA",
        "SecretAccessKey": "x", "Token": "t", "Expiration": time(5),
    });
    let container = StandIn::answering(200, {
        let keys = keys.to_string();
        move |_| keys.clone()
    });
    let url = format!("{}/role", container.url);
    let bare = User::new("");
    let of_container = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*url)];
    bare.has(&[], &of_container, "the container that xdrive runs in");
    let instance = StandIn::answering(200, move |line| {
        if line.contains("/dev ") {
            keys.to_string()
        } else if line.contains("security-credentials") {
            "dev".to_owned()
        } else {
            "token".to_owned()
        }
    });
    let of_instance = [
        ("AWS_EC2_METADATA_DISABLED", "false"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*instance.url),
    ];
    let role = "the role of the instance that xdrive runs on";
    bare.has(&[], &of_instance, role);
}

#[test]
#[ignore = "needs python3 with moto"]
fn a_profile_of_identity_center_works_whatever_its_name() {
    // As `aws configure sso` writes them. The token's file is called by the SHA-1 of the session's name.
    let spaced = "'my dev'";
    for (profile, section, session, token) in [
        ("lab", "lab", "lab", TOKEN),
        ("my dev", spaced, "my s", SPACED_TOKEN),
        ("by role", "'by role'", "my s", SPACED_TOKEN),
    ] {
        let of_role = "role_arn = arn:aws:iam::123456789012:role/dev\nsource_profile = my dev\n";
        let sso = format!(
            "[profile {}]\nsso_session = {session}\nsso_account_id = 123456789012\n\
             sso_role_name = dev\n[sso-session {}]\nsso_region = us-east-1\n\
             sso_start_url = https://lab.awsapps.com/start\n",
            if profile == "lab" { section } else { spaced },
            if profile == "lab" { "lab" } else { "'my s'" },
        );
        let is_by_role = profile == "by role";
        let role = format!("[profile {section}]\n{of_role}");
        let user = User::new(&if is_by_role { sso + &role } else { sso });
        let folder = user.aws().join("sso/cache");
        fs::create_dir_all(&folder).unwrap();
        let kept = json!({
            "accessToken": "x", "expiresAt": time(8), "region": "us-east-1",
            "startUrl": "https://lab.awsapps.com/start",
        });
        fs::write(folder.join(token), kept.to_string()).unwrap();
        let keys = json!({"roleCredentials": {
            "accessKeyId": "ASIASSO", "secretAccessKey": "x", "sessionToken": "t",
            "expiration": (Timestamp::now() + SignedDuration::from_hours(1)).as_millisecond(),
        }});
        let portal = StandIn::answering(200, move |_| keys.to_string());
        let by = if is_by_role {
            "its role"
        } else {
            "IAM Identity Center (aws sso login)"
        };
        user.has(
            &["--profile", profile],
            &[("AWS_ENDPOINT_URL_SSO", &portal.url)],
            &format!("profile {profile}, by {by}"),
        );
        let asked = portal.asked();
        let line = "GET /federation/credentials?role_name=dev&account_id=123456789012";
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(asked[0].starts_with(line), "{asked:?}");
    }
}

#[test]
#[ignore = "needs python3 with moto"]
fn a_profile_of_aws_login_works_and_is_renewed_while_it_can_be() {
    let user = User::new(&format!("[profile lab]\nlogin_session = {SESSION}\n"));
    let renewed = json!({
        "accessToken": {
            "accessKeyId": "ASIANEW", "secretAccessKey": "example", "sessionToken": "new",
        },
        "tokenType": "aws_sigv4", "expiresIn": 900, "refreshToken": "and again",
    });
    let signin = StandIn::answering(200, move |_| renewed.to_string());
    let place = [("AWS_ENDPOINT_URL_SIGNIN", &*signin.url)];
    user.is_logged_in(8);
    user.has(&["--profile", "lab"], &place, "profile lab, by aws login");
    assert_eq!(signin.asked(), [""; 0]);
    user.is_logged_in(-1);
    user.has(&["--profile", "lab"], &place, "profile lab, by aws login");
    assert_eq!(signin.asked(), ["POST /v1/token HTTP/1.1"]);
}

#[test]
#[ignore = "needs python3 with moto"]
fn a_login_that_is_over_is_renewed_by_the_command_of_the_hint() {
    let user = User::new(&format!("[profile lab]\nlogin_session = {SESSION}\n"));
    let over = json!({"error": "TOKEN_EXPIRED", "message": "over"}).to_string();
    let signin = StandIn::answering(403, move |_| over.clone());
    let never = user
        .command(&["--profile", "lab", "list"])
        .output()
        .unwrap();
    user.is_logged_in(-1);
    let mut command = user.command(&["--profile", "lab", "list"]);
    command.env("AWS_ENDPOINT_URL_SIGNIN", &signin.url);
    for output in [never, command.output().unwrap()] {
        let text = text(&output);
        assert_eq!(output.status.code(), Some(77), "{text}");
        let error = "error: the AWS credentials of `aws login` cannot be used: ";
        assert!(text.contains(error), "{text}");
        let hint = "\n\nhint: `aws login --profile lab` renews them; xdrive --local needs no";
        assert!(text.contains(hint), "{text}");
    }
}

/// An AWS CLI for the hint: it asks at the terminal.
const CLI: &str = "#!/bin/sh\n\
    [ \"$*\" = 'configure export-credentials --profile lab --format process' ] || exit 2\n\
    printf 'Enter MFA code: ' >/dev/tty\nread -r code </dev/tty\n[ \"$code\" = 123456 ] || exit 1\n\
    printf '{\"Version\":1,\"AccessKeyId\":\"ASIA\",\"SecretAccessKey\":\"x\",\"SessionToken\":\"t\"}'\n";

#[test]
#[ignore = "needs python3 with moto"]
fn a_role_that_asks_for_a_second_factor_is_had_as_the_hint_says() {
    let own = "[profile lab]\nrole_arn = arn:aws:iam::123456789012:role/dev\n\
               mfa_serial = arn:aws:iam::123456789012:mfa/ada\nsource_profile = keys\n\
               [profile keys]\naws_access_key_id = AKIAFILE\naws_secret_access_key = example\n";
    let user = User::new(own);
    let refusal = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User \
                   is not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>";
    let sts = StandIn::answering(403, |_| refusal.to_owned());
    let mut command = user.command(&["--profile", "lab", "list"]);
    command.env("AWS_ENDPOINT_URL_STS", &sts.url);
    let printed = text(&command.output().unwrap());
    assert!(
        printed.starts_with("error: the role of profile lab was not given: "),
        "{printed}"
    );
    let process = "aws configure export-credentials --profile lab --format process";
    let hint = format!(
        "`aws configure set credential_process '{process}' --profile lab-xdrive`, and then \
         --profile lab-xdrive"
    );
    assert!(printed.contains(&hint), "{printed}");

    // That command's output.
    let config = format!("{own}[profile lab-xdrive]\ncredential_process = {process}\n");
    fs::write(user.aws().join("config"), config).unwrap();
    let programs = user.moto.home().join("bin");
    fs::create_dir_all(&programs).unwrap();
    write_script(&programs.join("aws"), CLI);
    let mut command = CommandBuilder::new(XDRIVE);
    command.env_clear();
    for (name, value) in user.command(&[]).get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    command.args(["--profile", "lab-xdrive", "list"]);
    let mut terminal = Pty::start(command);
    terminal.see("Enter MFA code: ");
    terminal.type_in("123456\r");
    terminal.see("no drives");
    terminal.wait();
}
