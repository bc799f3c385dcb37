//! The endpoints that environment and profile name, by service (AWS SDKs and tools reference guide,
//! *Service-specific endpoints*).

use std::collections::HashMap;

use super::profiles::{Profiles, SettingError, variable};

/// The services that are called: the end of a variable's name, and the key in a profile's services.
const SERVICES: [(&str, &str); 11] = [
    ("EBS", "ebs"),
    ("EC2", "ec2"),
    ("EC2_INSTANCE_CONNECT", "ec2_instance_connect"),
    ("EFS", "efs"),
    ("FIS", "fis"),
    ("PRICING", "pricing"),
    ("SERVICE_QUOTAS", "service_quotas"),
    ("SIGNIN", "signin"),
    ("SSO", "sso"),
    ("SSO_OIDC", "sso_oidc"),
    ("STS", "sts"),
];

/// Where the services are, if not where AWS has them.
#[derive(Debug, Clone, Default)]
pub(super) struct Endpoints {
    /// The endpoint of all services without one of their own.
    all: Option<String>,
    own: HashMap<&'static str, String>,
}

impl Endpoints {
    /// All services at one place.
    pub(super) fn at(url: &str) -> Self {
        Self {
            all: Some(url.to_owned()),
            own: HashMap::new(),
        }
    }

    /// The endpoints of the environment, then of the profile. Fails where one is no URL.
    pub(super) fn read(profiles: &Profiles) -> Result<Self, SettingError> {
        if is_true(
            "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
            "ignore_configured_endpoint_urls",
            profiles,
        )? {
            return Ok(Self::default());
        }
        let of_profile = |key: &str| format!("{key} of profile {}", profiles.name());
        let of_environment = |name: &str| match variable(name)? {
            Some(url) => checked(url, name).map(Some),
            None => Ok(None),
        };
        let all = of_environment("AWS_ENDPOINT_URL")?;
        let mut own = HashMap::new();
        for (name, key) in SERVICES {
            let mut url = of_environment(&format!("AWS_ENDPOINT_URL_{name}"))?;
            if url.is_none() && all.is_none() {
                let configured = profiles.service(key, "endpoint_url");
                let place = || of_profile(&format!("endpoint_url of {key}, services"));
                url = configured.map(|it| checked(it, &place())).transpose()?;
            }
            if let Some(url) = url {
                own.insert(name, url);
            }
        }
        let configured = profiles.chosen("endpoint_url").filter(|_| all.is_none());
        let configured = configured.map(|it| checked(it.to_owned(), &of_profile("endpoint_url")));
        let all = all.map(Ok).or(configured).transpose()?;
        Ok(Self { all, own })
    }

    /// The endpoint of a service, by the end of its variable's name.
    pub(super) fn for_service(&self, service: &str) -> Option<&str> {
        self.own
            .get(service)
            .or(self.all.as_ref())
            .map(String::as_str)
    }

    /// The endpoint of all services without one of their own.
    pub(super) fn all(&self) -> Option<&str> {
        self.all.as_deref()
    }

    /// Refuses an empty variable that the SDK's own calls for credentials would take for a URL.
    pub(super) fn check_empty() -> Result<(), SettingError> {
        let own = ["_SIGNIN", "_SSO", "_SSO_OIDC", "_STS", ""];
        for name in own.map(|it| format!("AWS_ENDPOINT_URL{it}")) {
            if std::env::var_os(&name).is_some_and(|it| it.is_empty()) {
                return Err(SettingError::Wrong {
                    place: name,
                    why: "is set and empty, and the credentials are fetched by a call: unset it"
                        .to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Whether a variable, else a key of the profile, says yes. As for the AWS CLI all but `true` is a no.
pub(super) fn is_true(name: &str, key: &str, profiles: &Profiles) -> Result<bool, SettingError> {
    let value = match variable(name)? {
        Some(value) => Some(value),
        None => profiles.chosen(key).map(str::to_owned),
    };
    Ok(value.is_some_and(|it| it.eq_ignore_ascii_case("true")))
}

/// The `url` if it is one of a host, by HTTP or HTTPS.
fn checked(url: String, place: &str) -> Result<String, SettingError> {
    let parsed: Option<http::Uri> = url.parse().ok();
    let is_url = parsed.is_some_and(|it| {
        matches!(it.scheme_str(), Some("http" | "https"))
            && it.host().is_some_and(|it| !it.is_empty())
    });
    if is_url {
        return Ok(url);
    }
    Err(SettingError::Wrong {
        place: format!("{place} = {url:?}"),
        why: "is no URL such as https://ec2.example.com".to_owned(),
    })
}
