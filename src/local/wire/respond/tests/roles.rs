//! Temporary credentials, against a paper EC2: whom they name, what they allow, and their ends.

use std::path::Path;

use xdrive_ground::clock::Clock;

use super::{Bytes, Credentials, Local, Request, Session, signed_by};
use crate::OpenOptions;
use crate::plane::PaperPlane;
use crate::session::{Holder, Temporary};
use crate::wire::respond::respond;

const SETTINGS: &str = "[instance-profiles.lab]\npolicy = \"lab.json\"\n[instance-profiles.free]\n";

/// The policy of the role `lab`, with wildcards in the names of actions.
const POLICY: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": ["ec2:describeVol*", "EC2:CreateV?lume"], "Resource": "*"},
    {"Effect": "Deny", "Action": "ec2:DescribeVolumesModifications", "Resource": "*"}
]}"#;

const CALLER: &str = "Action=GetCallerIdentity&Version=2011-06-15";
const SESSION: &str = "Action=GetSessionToken&Version=2011-06-15";
const VOLUMES: &str = "Action=DescribeVolumes&Version=2016-11-15";
const INSTANCES: &str = "Action=DescribeInstances&Version=2016-11-15";

/// A paper EC2 on tokio's paused clock, with roles.
struct Folder {
    dir: tempfile::TempDir,
    local: Local,
}

fn open(dir: &Path) -> anyhow::Result<Local> {
    let noon = "2026-11-21T12:00:00Z".parse().unwrap();
    Local::open(OpenOptions::new(dir, PaperPlane, Clock::tokio(noon)))
}

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("settings.toml"), SETTINGS).unwrap();
        std::fs::write(dir.path().join("lab.json"), POLICY).unwrap();
        let local = open(dir.path()).unwrap();
        Self { dir, local }
    }

    /// An instance.
    fn launch(&self) -> String {
        let order = [
            (
                "ImageId",
                "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id",
            ),
            ("InstanceType", "t3.micro"),
            ("MinCount", "1"),
            ("MaxCount", "1"),
            ("IamInstanceProfile.Name", "lab"),
        ];
        let order = order.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let made = self
            .local
            .call("RunInstances", &crate::wire::Params::new(order));
        let made = format!("{:?}", made.unwrap());
        let id = made.split('"').find(|word| word.starts_with("i-"));
        id.unwrap().to_owned()
    }

    /// The credentials of a role in an instance, for an hour.
    fn role(&self, name: &str, instance: &str) -> Temporary {
        let session = Session {
            holder: Holder::Role {
                name: name.to_owned(),
                instance: instance.to_owned(),
            },
            expires: self.local.clock().now() + jiff::SignedDuration::from_hours(1),
        };
        session.credentials(self.local.credentials())
    }

    fn ask(&self, by: &Temporary, service: &str, body: &str) -> (u16, String) {
        self.ask_with(&by.key, Some(&by.token), service, body)
    }

    /// The folder's answer to a request that is signed with `key` and has a session token.
    fn ask_with(
        &self,
        key: &Credentials,
        token: Option<&str>,
        service: &str,
        body: &str,
    ) -> (u16, String) {
        let mut request: Request = http::Request::post("http://localhost/")
            .body(Bytes::copy_from_slice(body.as_bytes()))
            .unwrap();
        let token = token.map(|token| ("x-amz-security-token", token));
        let mut headers: Vec<_> = token.into_iter().collect();
        if body.starts_with('{') {
            headers.push((
                "x-amz-target",
                "AWSEC2InstanceConnectService.SendSSHPublicKey",
            ));
        }
        for (name, value) in &headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let at = self.local.clock().now();
        let request = signed_by(key, at, service, &headers, request);
        let (parts, body) = respond(&self.local, &request).into_parts();
        let kind = parts.headers.get("x-amzn-errortype");
        let kind = kind.map_or("", |kind| kind.to_str().unwrap());
        let body = String::from_utf8(body.to_vec()).unwrap();
        (parts.status.as_u16(), format!("{kind}{body}"))
    }
}

/// The text of an element of a document.
fn element<'a>(document: &'a str, name: &str) -> &'a str {
    let (_, rest) = document.split_once(&format!("<{name}>")).unwrap();
    rest.split_once('<').unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_role_is_named_with_its_instance_and_held_to_its_policy() {
    let folder = Folder::new();
    let instance = folder.launch();
    let role = folder.role("lab", &instance);
    let (status, who) = folder.ask(&role, "sts", CALLER);
    assert_eq!(status, 200, "{who}");
    let arn = format!("arn:aws:sts::000000000000:assumed-role/lab/{instance}");
    assert_eq!(element(&who, "Arn"), arn);
    assert!(element(&who, "UserId").ends_with(&format!(":{instance}")));

    assert_eq!(folder.ask(&role, "ec2", VOLUMES).0, 200);
    let make = "Action=CreateVolume&Version=2016-11-15&Size=1&AvailabilityZone=us-east-1a";
    assert_eq!(folder.ask(&role, "ec2", make).0, 200);
    let (status, refused) = folder.ask(&role, "ec2", INSTANCES);
    assert_eq!(status, 403);
    assert_eq!(element(&refused, "Code"), "UnauthorizedOperation");
    let words = format!("User: {arn} is not authorized to perform: ec2:DescribeInstances");
    assert!(refused.contains(&words), "{refused}");
    let tagged = format!(
        "{make}&TagSpecification.1.ResourceType=volume&\
         TagSpecification.1.Tag.1.Key=a&TagSpecification.1.Tag.1.Value=b"
    );
    let (_, refused) = folder.ask(&role, "ec2", &tagged);
    assert!(refused.contains("perform: ec2:CreateTags"), "{refused}");

    let free = folder.role("free", &instance);
    assert_eq!(folder.ask(&free, "ec2", INSTANCES).0, 200);
    let own = folder.local.credentials();
    assert_eq!(folder.ask_with(own, None, "ec2", INSTANCES).0, 200);
}

#[tokio::test(start_paused = true)]
async fn credentials_end_with_their_time_and_with_their_instance() {
    let folder = Folder::new();
    let (first, second) = (folder.launch(), folder.launch());
    let old = folder.role("free", &first);
    tokio::time::advance(std::time::Duration::from_secs(3599)).await;
    assert_eq!(folder.ask(&old, "ec2", VOLUMES).0, 200);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    for (service, body, status, code) in [
        ("ec2", VOLUMES, 400, "RequestExpired"),
        ("sts", CALLER, 403, "ExpiredToken"),
        ("ec2-instance-connect", "{}", 400, "ExpiredTokenException"),
    ] {
        let (given, answer) = folder.ask(&old, service, body);
        assert_eq!(given, status, "{answer}");
        assert!(answer.contains(code), "{answer}");
    }

    let (role, other) = (folder.role("free", &first), folder.role("free", &second));
    let end = [("InstanceId.1".to_owned(), first)];
    folder
        .local
        .call("TerminateInstances", &crate::wire::Params::new(end))
        .unwrap();
    assert_eq!(folder.ask(&role, "ec2", VOLUMES).0, 200);
    tokio::time::advance(std::time::Duration::from_mins(5)).await;
    let (status, answer) = folder.ask(&role, "ec2", VOLUMES);
    assert_eq!((status, element(&answer, "Code")), (401, "AuthFailure"));
    let (_, answer) = folder.ask(&role, "sts", CALLER);
    assert_eq!(element(&answer, "Code"), "InvalidClientTokenId");
    assert_eq!(folder.ask(&other, "ec2", VOLUMES).0, 200);
    let none = folder.role("free", "i-0123456789abcdef0");
    assert_eq!(folder.ask(&none, "ec2", VOLUMES).0, 401);
}

#[tokio::test(start_paused = true)]
async fn credentials_of_another_folder_and_parts_of_them_are_nobodys() {
    let (folder, other) = (Folder::new(), Folder::new());
    let instance = folder.launch();
    let (role, foreign) = (
        folder.role("free", &instance),
        other.role("free", &instance),
    );
    let own = folder.local.credentials();
    let swapped = Credentials {
        access_key_id: own.access_key_id.clone(),
        ..role.key.clone()
    };
    let guessed = Credentials {
        secret_access_key: own.secret_access_key.clone(),
        ..role.key.clone()
    };
    for (key, token) in [
        (&foreign.key, Some(&foreign.token)),
        (&role.key, Some(&foreign.token)),
        (&role.key, None),
        (own, Some(&role.token)),
        (&swapped, Some(&role.token)),
        (&guessed, Some(&role.token)),
    ] {
        let token = token.map(String::as_str);
        let (status, answer) = folder.ask_with(key, token, "ec2", VOLUMES);
        assert_eq!((status, element(&answer, "Code")), (401, "AuthFailure"));
    }
    // A role that is not in the settings any more.
    std::fs::write(folder.dir.path().join("settings.toml"), "").unwrap();
    let later = Folder {
        local: open(folder.dir.path()).unwrap(),
        dir: tempfile::tempdir().unwrap(),
    };
    assert_eq!(later.ask(&role, "ec2", VOLUMES).0, 401);
}

#[tokio::test(start_paused = true)]
async fn sts_gives_the_caller_temporary_credentials_and_those_no_others() {
    let folder = Folder::new();
    let own = folder.local.credentials();
    let asked = format!("{SESSION}&DurationSeconds=3600");
    let (status, made) = folder.ask_with(own, None, "sts", &asked);
    assert_eq!(status, 200, "{made}");
    assert!(
        made.contains("<GetSessionTokenResult><Credentials>"),
        "{made}"
    );
    assert_eq!(element(&made, "Expiration"), "2026-11-21T13:00:00Z");
    let given = Temporary {
        key: Credentials {
            access_key_id: element(&made, "AccessKeyId").to_owned(),
            secret_access_key: element(&made, "SecretAccessKey").to_owned(),
        },
        token: element(&made, "SessionToken").to_owned(),
    };
    let (_, who) = folder.ask(&given, "sts", CALLER);
    let (_, owner) = folder.ask_with(own, None, "sts", CALLER);
    assert_eq!(element(&who, "Arn"), element(&owner, "Arn"));
    assert_eq!(folder.ask(&given, "ec2", INSTANCES).0, 200);
    let (status, again) = folder.ask(&given, "sts", SESSION);
    assert_eq!((status, element(&again, "Code")), (403, "AccessDenied"));
    for wrong in ["899", "129601"] {
        let asked = format!("{SESSION}&DurationSeconds={wrong}");
        let (status, refused) = folder.ask_with(own, None, "sts", &asked);
        assert_eq!(
            (status, element(&refused, "Code")),
            (400, "ValidationError")
        );
    }
    tokio::time::advance(std::time::Duration::from_hours(1)).await;
    let (_, over) = folder.ask(&given, "sts", CALLER);
    assert_eq!(element(&over, "Code"), "ExpiredToken");
}

#[test]
fn a_policy_that_is_not_there_or_none_is_an_error_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("settings.toml"), SETTINGS).unwrap();
    for text in [None, Some("{}")] {
        if let Some(text) = text {
            std::fs::write(dir.path().join("lab.json"), text).unwrap();
        }
        let error = format!("{:#}", open(dir.path()).unwrap_err());
        assert!(error.contains("lab.json"), "{error}");
    }
}
