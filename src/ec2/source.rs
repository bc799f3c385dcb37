//! The source of credentials: the place in the SDK's chain that had them.
//!
//! The SDK's providers record it as features of the credentials, and only the provider that has
//! credentials records any.

use std::fmt;

use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature as Feature;

use super::profiles::Profiles;

/// The source of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `AWS_ACCESS_KEY_ID` and its like.
    Environment,
    /// A profile of `~/.aws`, and how it makes them.
    Profile(String, By),
    /// A token in a file, for a role that the environment names.
    WebIdentity,
    /// The container that xdrive runs in.
    Container,
    /// The role of the instance that xdrive runs on.
    InstanceRole,
    /// No provider recorded it.
    Unknown,
}

/// How a profile makes credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By keys in a file.
    Keys,
    /// IAM Identity Center.
    Sso,
    /// `aws login`.
    Login,
    /// A program.
    Process,
    /// A role, by another profile's credentials.
    Role,
    /// A role, by a token in a file.
    WebIdentity,
    /// A role, by the container or instance that xdrive runs on.
    Surroundings,
}

impl Source {
    /// The source of `credentials`, which were loaded with these profiles.
    pub(super) fn from_credentials(credentials: &Credentials, profiles: &Profiles) -> Self {
        let features = credentials.get_property::<Vec<Feature>>();
        let has = |feature| features.is_some_and(|all| all.contains(&feature));
        if has(Feature::CredentialsProfile) || has(Feature::CredentialsSso) {
            let by = if profiles.chosen("role_arn").is_some() {
                if profiles.chosen("web_identity_token_file").is_some() {
                    By::WebIdentity
                } else {
                    By::Role
                }
            } else if has(Feature::CredentialsSso) {
                By::Sso
            } else if has(Feature::CredentialsProfileLogin) {
                By::Login
            } else if has(Feature::CredentialsProcess) {
                By::Process
            } else if has(Feature::CredentialsImds) || has(Feature::CredentialsHttp) {
                By::Surroundings
            } else {
                By::Keys
            };
            Self::Profile(profiles.name().to_owned(), by)
        } else if has(Feature::CredentialsEnvVars) {
            Self::Environment
        } else if has(Feature::CredentialsProfileStsWebIdToken) {
            Self::WebIdentity
        } else if has(Feature::CredentialsHttp) {
            Self::Container
        } else if has(Feature::CredentialsImds) {
            Self::InstanceRole
        } else {
            Self::Unknown
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("the environment (AWS_ACCESS_KEY_ID)"),
            Self::Profile(name, by) => write!(f, "profile {name}, by {by}"),
            Self::WebIdentity => {
                f.write_str("a web identity (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN)")
            }
            Self::Container => f.write_str("the container that xdrive runs in"),
            Self::InstanceRole => f.write_str("the role of the instance that xdrive runs on"),
            Self::Unknown => f.write_str("a place that does not tell its name"),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keys => "the keys in its file",
            Self::Sso => "IAM Identity Center (aws sso login)",
            Self::Login => "aws login",
            Self::Process => "its credential_process",
            Self::Role => "its role",
            Self::WebIdentity => "its role and a web identity's token",
            Self::Surroundings => "what xdrive runs on",
        })
    }
}

/// The names of the profiles of `~/.aws`, in order; none if they cannot be read.
#[must_use]
pub fn profile_names() -> Vec<String> {
    let profiles = Profiles::unchecked(None).unwrap_or_default();
    profiles.names().map(str::to_owned).collect()
}
