//! The settings of AWS's tools, in every variable and key, with every odd value: none ends in a panic.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::served::ServedSite;
use harness::home::PATH;

/// The variables that AWS's tools read.
const VARIABLES: [&str; 52] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_ACCOUNT_ID",
    "AWS_ACCOUNT_ID_ENDPOINT_MODE",
    "AWS_AUTH_SCHEME_PREFERENCE",
    "AWS_CA_BUNDLE",
    "AWS_CLI_AUTO_PROMPT",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DATA_PATH",
    "AWS_DEFAULTS_MODE",
    "AWS_DEFAULT_OUTPUT",
    "AWS_DEFAULT_PROFILE",
    "AWS_DEFAULT_REGION",
    "AWS_DISABLE_CLOCK_SKEW_CORRECTION",
    "AWS_DISABLE_REQUEST_COMPRESSION",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
    "AWS_EC2_METADATA_V1_DISABLED",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_EBS",
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_FIS",
    "AWS_ENDPOINT_URL_IAM",
    "AWS_ENDPOINT_URL_SIGNIN",
    "AWS_ENDPOINT_URL_SSO",
    "AWS_ENDPOINT_URL_SSO_OIDC",
    "AWS_ENDPOINT_URL_STS",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_LOGIN_CACHE_DIRECTORY",
    "AWS_MAX_ATTEMPTS",
    "AWS_METADATA_SERVICE_TIMEOUT",
    "AWS_NEW_RETRIES_2026",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_REQUEST_CHECKSUM_CALCULATION",
    "AWS_REQUEST_MIN_COMPRESSION_SIZE_BYTES",
    "AWS_RESPONSE_CHECKSUM_VALIDATION",
    "AWS_RETRY_MODE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SDK_UA_APP_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_SIGV4A_SIGNING_REGION_SET",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];

/// The keys of profiles.
const KEYS: [&str; 45] = [
    "account_id_endpoint_mode",
    "auth_scheme_preference",
    "aws_access_key_id",
    "aws_account_id",
    "aws_secret_access_key",
    "aws_session_token",
    "ca_bundle",
    "cli_pager",
    "credential_process",
    "credential_source",
    "defaults_mode",
    "disable_request_compression",
    "duration_seconds",
    "ec2_metadata_service_endpoint",
    "ec2_metadata_service_endpoint_mode",
    "endpoint_discovery_enabled",
    "endpoint_url",
    "external_id",
    "ignore_configured_endpoint_urls",
    "login_session",
    "max_attempts",
    "metadata_service_num_attempts",
    "metadata_service_timeout",
    "mfa_serial",
    "output",
    "parameter_validation",
    "region",
    "request_checksum_calculation",
    "request_min_compression_size_bytes",
    "response_checksum_validation",
    "retry_mode",
    "role_arn",
    "role_session_name",
    "s3",
    "sdk_ua_app_id",
    "services",
    "sigv4a_signing_region_set",
    "source_profile",
    "sso_account_id",
    "sso_region",
    "sso_role_name",
    "sso_session",
    "sso_start_url",
    "use_fips_endpoint",
    "web_identity_token_file",
];

const VALUES: [&str; 4] = ["", "legacy", " gr\u{fc}n://\t;#[=", "{LONG}"];

/// A user whose only account is a paper EC2.
struct User {
    served: ServedSite,
}

impl User {
    fn new() -> Self {
        let user = Self {
            served: ServedSite::paper(""),
        };
        fs::write(user.config(), user.profile("")).unwrap();
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.served.site.path(name)
    }

    fn config(&self) -> PathBuf {
        self.path("config")
    }

    /// A profile with keys and all that is needed, but for what `own` says of it.
    fn profile(&self, own: &str) -> String {
        let variables = BTreeMap::from_iter(self.served.variables());
        let value = |name: &str| variables[name].clone();
        let keys = [
            ("region", "us-east-1".to_owned()),
            ("endpoint_url", self.served.url().to_owned()),
            ("aws_access_key_id", value("AWS_ACCESS_KEY_ID")),
            ("aws_secret_access_key", value("AWS_SECRET_ACCESS_KEY")),
        ];
        let key = own.split('=').next().unwrap_or_default().trim();
        let lines = keys.iter().filter(|(name, _)| *name != key);
        let lines = lines.map(|(name, value)| format!("{name} = {value}\n"));
        format!("[default]\n{}{own}\n", lines.collect::<String>())
    }

    fn list(&self, config: &Path, variables: &[(&str, &OsStr)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xdrive"))
            .arg("list")
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.path(""))
            .env("AWS_CONFIG_FILE", config)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    /// Checks how a list ends with the profile or variables: with this code and, if it fails, a text.
    fn ends(&self, own: &str, variables: &[(&str, &str)], code: i32, text: &str) {
        let config = self.path("own");
        fs::write(&config, self.profile(own)).unwrap();
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, it)| (*name, OsStr::new(it)))
            .collect();
        let output = self.list(&config, &variables);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{own} {variables:?}: {printed}"
        );
        assert!(printed.contains(text), "{own} {variables:?}: {printed}");
    }
}

/// Checks that a value was taken, or refused with a code of xdrive's own and a hint.
fn check(what: &str, output: &Output) {
    let text = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 1 | 69 | 76 | 77 | 78)),
        "{what}: {code:?} {text}"
    );
    assert!(!text.contains("panicked"), "{what}: {text}");
    assert!(
        text.len() < 12_000 && !text.contains("SdkError"),
        "{what}: {text}"
    );
}

#[test]
fn no_value_of_any_variable_or_key_ends_in_a_panic() {
    let user = User::new();
    let values: Vec<OsString> = VALUES
        .iter()
        .map(|it| it.replace("{LONG}", &"a".repeat(5_000)).into())
        .chain([OsString::from_vec(b"\xff\xfe".to_vec())])
        .collect();
    let role = "[profile by role]\nregion = us-east-1\nrole_arn = arn:aws:iam::1:role/a\n\
                source_profile = default\n";
    let with_role = user.path("with role");
    fs::write(&with_role, user.profile("") + role).unwrap();
    let bare = user.path("bare");
    fs::write(
        &bare,
        format!(
            "[default]\nregion=us-east-1\nendpoint_url={}\n",
            user.served.url()
        ),
    )
    .unwrap();
    let mut cases = Vec::new();
    for value in &values {
        for name in VARIABLES {
            cases.push((name, user.config(), vec![(name, value.clone())]));
            if name.contains("ENDPOINT_URL") {
                let role = ("AWS_PROFILE", "by role".into());
                cases.push((name, with_role.clone(), vec![(name, value.clone()), role]));
            }
            if name.contains("CONTAINER") || name.contains("IDENTITY") || name.contains("ROLE") {
                let sts = ("AWS_ENDPOINT_URL_STS", user.served.url().into());
                let role = ("AWS_ROLE_ARN", "arn:aws:iam::1:role/a".into());
                let token = (
                    "AWS_WEB_IDENTITY_TOKEN_FILE",
                    with_role.clone().into_os_string(),
                );
                let variables = vec![sts, role, token, (name, value.clone())];
                cases.push((name, bare.clone(), variables));
                cases.push((name, bare.clone(), vec![(name, value.clone())]));
            }
        }
        for (number, key) in KEYS.into_iter().enumerate() {
            let config = user.path(&format!("{number}-{}", cases.len()));
            let line = [key.as_bytes(), b" = ", value.as_encoded_bytes()].concat();
            let line = String::from_utf8_lossy(&line).into_owned();
            fs::write(&config, user.profile(&line)).unwrap();
            cases.push((key, config, Vec::new()));
        }
    }
    std::thread::scope(|scope| {
        for some in cases.chunks(cases.len().div_ceil(4)) {
            let user = &user;
            scope.spawn(move || {
                for (what, config, variables) in some {
                    let variables = variables.iter().map(|(name, it)| (*name, it.as_os_str()));
                    let variables: Vec<_> = variables.collect();
                    check(
                        &format!("{what} {variables:?}"),
                        &user.list(config, &variables),
                    );
                }
            });
        }
    });
}

#[test]
fn a_setting_that_xdrive_has_no_use_for_is_not_read_and_an_empty_one_is_not_set() {
    let user = User::new();
    let url = user.served.url();
    for own in [
        "retry_mode = legacy",
        "max_attempts = 0",
        "retry_mode =",
        "endpoint_url =",
    ] {
        let variables = [("AWS_ENDPOINT_URL", url)];
        user.ends(own, &variables, 0, "no drives");
    }
    for (name, value) in [
        ("AWS_RETRY_MODE", "legacy"),
        ("AWS_RETRY_MODE", ""),
        ("AWS_MAX_ATTEMPTS", "abc"),
        ("AWS_MAX_ATTEMPTS", "0"),
        ("AWS_ENDPOINT_URL", ""),
        ("AWS_ENDPOINT_URL_EC2", ""),
        ("AWS_REGION", ""),
        ("AWS_PROFILE", ""),
    ] {
        user.ends("", &[(name, value)], 0, "no drives");
    }
    let regions = [("AWS_REGION", ""), ("AWS_DEFAULT_REGION", "us-east-1")];
    user.ends("region =", &regions, 0, "no drives");
}

#[test]
fn a_setting_that_is_wrong_is_named() {
    let user = User::new();
    for (own, variables, text) in [
        ("region =", &[][..], "no AWS region is set"),
        (
            "region = us_east_1",
            &[],
            "\"us_east_1\" is not written like an AWS region",
        ),
        (
            "",
            &[("AWS_ENDPOINT_URL_EC2", "localhost:4566")],
            "AWS_ENDPOINT_URL_EC2 = \"localhost:4566\" is no URL such as https://",
        ),
        (
            "endpoint_url = example.com",
            &[],
            "endpoint_url of profile default = \"example.com\" is no URL such as",
        ),
        (
            "",
            &[("AWS_PROFILE", "typo")],
            "there is no AWS profile \"typo\"",
        ),
        (
            "role_arn = arn:aws:iam::1:role/a\nsource_profile = gone",
            &[],
            "there is no AWS profile \"gone\", the source_profile of default",
        ),
        (
            "sso_session = gone",
            &[],
            "sso_session = gone of profile default names no sso-session",
        ),
        (
            "a line without a sign",
            &[],
            "/own cannot be parsed: line 6 is no key = value",
        ),
    ] {
        user.ends(own, variables, 78, text);
    }
}

#[test]
fn a_profile_with_spaces_and_keys_as_the_aws_cli_reads_them() {
    let user = User::new();
    let profile = user.profile("");
    let config = user.path("spaces");
    let indented = profile
        .replace("[default]", "[profile 'my dev']")
        .replace('\n', "\n  ");
    fs::write(&config, indented.replace(" = ", ": ")).unwrap();
    let output = user.list(&config, &[("AWS_PROFILE", OsStr::new("my dev"))]);
    assert!(output.status.success(), "{output:?}");
    let keys = profile.replace("[default]", "[my dev]");
    fs::write(&config, keys).unwrap();
    let none = user.path("none");
    let variables = [
        ("AWS_PROFILE", OsStr::new("my dev")),
        ("AWS_SHARED_CREDENTIALS_FILE", config.as_os_str()),
    ];
    let output = user.list(&none, &variables);
    assert!(output.status.success(), "{output:?}");
}
