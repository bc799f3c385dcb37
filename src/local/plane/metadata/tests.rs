use super::*;
use crate::session::{Holder, Session};

fn service(folder: &Path) -> Metadata {
    service_of(folder, None)
}

/// The service of a machine with this role, whose state directory is `folder` too.
fn service_of(folder: &Path, role: Option<&str>) -> Metadata {
    let machine = Machine {
        instance: "i-0123456789abcdef0".to_owned(),
        image: "ami-1".to_owned(),
        instance_type: "m7i.large".to_owned(),
        zone: "eu-central-1b".to_owned(),
        user_data: Vec::new(),
        tokens_required: true,
        hop_limit: 1,
        role: role.map(str::to_owned),
        public: true,
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
    Metadata::new(folder.to_owned(), &machine, network.address, folder)
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

/// A good token of `service`.
fn token(service: &Metadata) -> String {
    let (status, token) = ask(
        service,
        &Method::PUT,
        "/latest/api/token",
        &[(TOKEN_TTL, "21600")],
    );
    assert_eq!(status, 200);
    token
}

#[test]
fn without_a_role_there_are_no_credentials_and_with_one_they_are_that_ones() {
    let folder = tempfile::tempdir().unwrap();
    let without = service(folder.path());
    let with_token = token(&without);
    let iam = "/latest/meta-data/iam/";
    assert_eq!(
        ask(&without, &Method::GET, iam, &[(TOKEN, &with_token)]).0,
        404
    );

    let folder = tempfile::tempdir().unwrap();
    let service = service_of(folder.path(), Some("lab"));
    let token = token(&service);
    let get = |path: &str| {
        let path = format!("{iam}{path}");
        ask(&service, &Method::GET, &path, &[(TOKEN, &token)])
    };
    assert_eq!(ask(&service, &Method::GET, iam, &[]).0, 401);
    assert_eq!(get("").1, "info\nsecurity-credentials/");
    assert_eq!(get("security-credentials/"), (200, "lab".to_owned()));
    let info: serde_json::Value = serde_json::from_str(&get("info").1).unwrap();
    assert_eq!(
        info["InstanceProfileArn"],
        "arn:aws:iam::000000000000:instance-profile/lab"
    );
    // A folder whose key is gone.
    assert_eq!(get("security-credentials/lab").0, 500);
    let own = crate::Credentials {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "secret".to_owned(),
    };
    let key = serde_json::to_vec(&own).unwrap();
    fs::write(folder.path().join("credentials.json"), key).unwrap();
    let (status, document) = get("security-credentials/lab");
    assert_eq!(status, 200);
    let given: serde_json::Value = serde_json::from_str(&document).unwrap();
    let session = Session::parse(given["Token"].as_str().unwrap(), &own).unwrap();
    let of = Holder::Role {
        name: "lab".to_owned(),
        instance: "i-0123456789abcdef0".to_owned(),
    };
    assert_eq!(session.holder, of);
    let key = session.credentials(&own).key;
    for (name, value) in [
        ("Code", "Success"),
        ("Type", "AWS-HMAC"),
        ("AccessKeyId", &key.access_key_id),
        ("SecretAccessKey", &key.secret_access_key),
        ("Expiration", &seconds(session.expires)),
    ] {
        assert_eq!(given[name], value, "{name}");
    }
    assert_eq!(get("security-credentials/other").0, 404);
    assert_eq!(get("security-credentials/lab/more").0, 404);
}
