//! The user's account: credentials, region and endpoint, found where every AWS tool finds them.
//!
//! That is the SDK's own chain: `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL` and the other
//! variables of the environment, then `~/.aws/config` and `~/.aws/credentials`, web identity,
//! containers, and an instance's role (AWS SDKs and tools reference guide, *Standardized credential
//! providers*). What is missing is found out before the first call, so that it can be said in
//! xdrive's words; and what was fetched for that is what the first calls are signed with. A program
//! that asks for a password or a second factor (`credential_process`) runs once.

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
use super::source::{Profiles, Source};
use crate::clock::Clock;

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(10);

/// How long one attempt of a call may take, answer and all. AWS answers within seconds; whoever
/// has waited this long has lost the network.
const ATTEMPT: Duration = Duration::from_mins(1);

/// How an account is named: what is none here is the environment's, then the profile's.
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
    /// Nobody says which region.
    #[error("no AWS region is set")]
    NoRegion,
    /// What is said is no region's name, and no endpoint says that it need not be one.
    #[error("{0:?} is not written like an AWS region")]
    NotARegion(String),
    /// Nowhere are any.
    #[error("no AWS credentials were found")]
    NoCredentials,
    /// There are some, but they cannot be used; the reason.
    #[error("the AWS credentials cannot be used: {0}")]
    Unusable(String),
    /// The same of a profile that is logged in to by `aws login`.
    #[error("the AWS credentials of `aws login` cannot be used: {0}")]
    LoggedOut(String),
    /// The same of a profile whose role asks for the code of a second factor.
    #[error("the role of profile {profile} was not given: {why}")]
    SecondFactor {
        /// The profile.
        profile: String,
        /// The reason.
        why: String,
    },
}

impl Account {
    /// The partition, as far as region, environment and profile tell it. Nobody is asked.
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

    /// Reads configuration and credentials, and tells where these came from. Credentials that have
    /// to be fetched (an assumed role, SSO) are fetched now.
    pub(super) async fn load(&self, clock: &Clock) -> Result<(SdkConfig, Source), AccountError> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .time_source(SigningTime(clock.clone()))
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
            // It would be looked for in vain under a name of its own, which takes a while.
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

    /// What answers with credentials. A profile that was named goes before the keys of the
    /// environment, as it does for the AWS CLI; the SDK's own chain has it the other way round.
    fn provider(&self, config: &SdkConfig, clock: &Clock) -> Option<SharedCredentialsProvider> {
        let has_keys = std::env::var_os("AWS_ACCESS_KEY_ID").is_some();
        let Some(profile) = self.profile.as_ref().filter(|_| has_keys) else {
            return config.credentials_provider();
        };
        let surroundings = ProviderConfig::without_region()
            .with_region(config.region().cloned())
            .with_time_source(SigningTime(clock.clone()));
        let named = ProfileFileCredentialsProvider::builder()
            .configure(&surroundings)
            .profile_name(profile);
        Some(SharedCredentialsProvider::new(named.build()))
    }
}

/// Why there are credentials that cannot be used, by what their profile says.
fn unusable(why: String, profiles: &Profiles) -> AccountError {
    if let Some(profile) = profiles.with_second_factor() {
        AccountError::SecondFactor { profile, why }
    } else if profiles.is_login() {
        AccountError::LoggedOut(why)
    } else if why.contains("IMDS") {
        // An instance's role is what is asked for last: where there is no instance, nothing else
        // was found either.
        AccountError::NoCredentials
    } else {
        AccountError::Unusable(why)
    }
}

/// Hands out what was fetched already, once; from then on what its chain answers. (The SDK keeps
/// what it gets until that expires.)
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

/// Whether this is written as regions are: an area, a direction, a number, as in `us-east-1`,
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
