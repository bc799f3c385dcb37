//! The user's account: credentials, region and endpoint, found where every AWS tool finds them.
//!
//! That is the SDK's own chain: `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL` and the other
//! variables of the environment, then `~/.aws/config` and `~/.aws/credentials`, web identity,
//! containers, and an instance's role (AWS SDKs and tools reference guide, *Standardized credential
//! providers*). What is missing is found before the first call, so that the error can be xdrive's
//! own. The credentials fetched for that sign the first calls. A program that asks for a password
//! or a second factor (`credential_process`) runs once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::ProvideRegion as _;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};

use super::Partition;
use super::client::SigningTime;
use super::error::causes;
use super::https;
use super::source::{Profiles, Source};
use crate::clock::Clock;

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(10);

/// How long one attempt of a call may take, its answer included. AWS answers within seconds: after
/// this long the network is lost.
const ATTEMPT: Duration = Duration::from_mins(1);

/// The flags that name an account. For `None` the environment decides, then the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// A profile of `~/.aws/config`.
    pub profile: Option<String>,
    /// A region, such as `us-east-1`.
    pub region: Option<String>,
}

/// Why no call can be made for an account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// No region is set.
    #[error("no AWS region is set")]
    NoRegion,
    /// The region set is not a region's name, and no endpoint is set for which any name would do.
    #[error("{0:?} is not written like an AWS region")]
    NotARegion(String),
    /// No place has credentials.
    #[error("no AWS credentials were found")]
    NoCredentials,
    /// There are credentials, but they cannot be used; the reason.
    #[error("the AWS credentials cannot be used: {0}")]
    Unusable(String),
    /// The same, for a profile that uses `aws login`.
    #[error("the AWS credentials of `aws login` cannot be used: {0}")]
    LoggedOut(String),
    /// The same, for a profile whose role asks for a second factor's code.
    #[error("the role of profile {profile} was not given: {why}")]
    SecondFactor {
        /// The profile.
        profile: String,
        /// The reason.
        why: String,
    },
}

impl Account {
    /// The partition of the region that flags, environment or profile name. No call is made.
    pub async fn partition(&self) -> Option<Partition> {
        let mut region = self.region.clone().map(Region::new);
        if region.is_none() {
            region = EnvironmentVariableRegionProvider::new().region().await;
        }
        if region.is_none() {
            let mut profile = ProfileFileRegionProvider::builder();
            if let Some(name) = &self.profile {
                profile = profile.profile_name(name);
            }
            region = profile.build().region().await;
        }
        region.map(|region| Partition::of_region(region.as_ref()))
    }

    /// Reads configuration, credentials and their source. Credentials that have to be fetched (an
    /// assumed role, SSO) are fetched now.
    pub(super) async fn load(&self, clock: &Clock) -> Result<(SdkConfig, Source), AccountError> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .time_source(SigningTime(clock.clone()))
            .http_client(https::client())
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT)
                    .operation_attempt_timeout(ATTEMPT)
                    .build(),
            );
        if let Some(profile) = &self.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        let config = loader.load().await;
        match config.region() {
            None => return Err(AccountError::NoRegion),
            // The SDK would resolve a host of that name in vain, which takes a while.
            Some(region) if config.endpoint_url().is_none() && !is_region(region.as_ref()) => {
                return Err(AccountError::NotARegion(region.to_string()));
            }
            Some(_) => {}
        }
        let Some(provider) = self.provider(&config, clock) else {
            return Err(AccountError::NoCredentials);
        };
        let profiles = Profiles::read(self.profile.as_deref()).await;
        match provider.provide_credentials().await {
            Ok(fetched) => {
                let source = Source::of(&fetched, &profiles);
                let provider = SharedCredentialsProvider::new(Fetched {
                    first: Mutex::new(Some(fetched)),
                    chain: provider,
                });
                let config = config.into_builder().credentials_provider(provider);
                Ok((config.build(), source))
            }
            Err(CredentialsError::CredentialsNotLoaded(_)) => Err(AccountError::NoCredentials),
            Err(error) => Err(unusable(causes(&error), &profiles)),
        }
    }

    /// The provider of credentials. A profile given by flag precedes the environment's keys, as in
    /// the AWS CLI; in the SDK's own chain they precede it.
    fn provider(&self, config: &SdkConfig, clock: &Clock) -> Option<SharedCredentialsProvider> {
        let has_keys = std::env::var_os("AWS_ACCESS_KEY_ID").is_some();
        let Some(profile) = self.profile.as_ref().filter(|_| has_keys) else {
            return config.credentials_provider();
        };
        let surroundings = ProviderConfig::without_region()
            .with_region(config.region().cloned())
            .with_http_client(config.http_client()?)
            .with_time_source(SigningTime(clock.clone()));
        let named = ProfileFileCredentialsProvider::builder()
            .configure(&surroundings)
            .profile_name(profile);
        Some(SharedCredentialsProvider::new(named.build()))
    }
}

/// The error for credentials that cannot be used, by their profile's settings.
fn unusable(why: String, profiles: &Profiles) -> AccountError {
    if let Some(profile) = profiles.with_second_factor() {
        AccountError::SecondFactor { profile, why }
    } else if profiles.is_login() {
        AccountError::LoggedOut(why)
    } else if why.contains("IMDS") {
        // The instance's role is last in the chain: on no instance, no place had credentials.
        AccountError::NoCredentials
    } else {
        AccountError::Unusable(why)
    }
}

/// A provider of the credentials fetched already, once; after that its chain's. (The SDK caches
/// credentials until they expire.)
#[derive(Debug)]
struct Fetched {
    first: Mutex<Option<Credentials>>,
    chain: SharedCredentialsProvider,
}

impl ProvideCredentials for Fetched {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let first = || self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match first().take() {
            Some(fetched) => future::ProvideCredentials::ready(Ok(fetched)),
            None => self.chain.provide_credentials(),
        }
    }

    fn fallback_on_interrupt(&self) -> Option<Credentials> {
        self.chain.fallback_on_interrupt()
    }
}

/// Whether `name` has a region's form: an area, a direction, a number, as in `us-east-1`,
/// `us-gov-west-1` or `eusc-de-east-1` (AWS general reference, *AWS service endpoints*).
fn is_region(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let [area @ .., number] = parts.as_slice() else {
        return false;
    };
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_lowercase());
    let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
    area.len() >= 2 && area.iter().all(is_word) && is_number
}

#[cfg(test)]
mod tests {
    use super::is_region;

    #[test]
    fn a_zone_or_a_half_name_is_no_region() {
        for name in [
            "us-east-1",
            "us-gov-west-1",
            "eusc-de-east-1",
            "ap-southeast-7",
        ] {
            assert!(is_region(name), "{name}");
        }
        for name in [
            "us-east-1a",
            "us-east1",
            "useast1",
            "us-east",
            "",
            "US-EAST-1",
            "us--1",
            "-1",
        ] {
            assert!(!is_region(name), "{name}");
        }
    }
}
