//! The user's account: credentials, region and endpoint, found where every AWS tool finds them.
//!
//! That is `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL` and the other variables of the
//! environment, then `~/.aws/config` and `~/.aws/credentials`, web identity, containers, and an
//! instance's role (AWS SDKs and tools reference guide, *Standardized credential providers*). A
//! variable or key that is set and empty is not set. What is missing or wrong is found before the
//! first call, so that the error can be xdrive's own: the SDK's own loader ends the program for some
//! values, also of settings that xdrive has no use for, and is not called. The SDK's providers of
//! credentials are. The credentials fetched for that sign the first calls. A program that asks for a password
//! or a second factor (`credential_process`) runs once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::identity::IdentityCache;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::sso::SsoCredentialsProvider;
use aws_config::timeout::TimeoutConfig;
use aws_config::web_identity_token::WebIdentityTokenCredentialsProvider;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_smithy_async::rt::sleep::TokioSleep;

use super::Partition;
use super::client::SigningTime;
use super::endpoints::{Endpoints, is_true};
use super::error::causes;
use super::https;
use super::profiles::{Profiles, SettingError, Sso, variable};
use super::source::Source;
use crate::clock::{BootTime, Clock};

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
    /// A profile, variable, key or file that is not there or makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// No place has credentials.
    #[error("no AWS credentials were found")]
    NoCredentials,
    /// There are credentials, but they cannot be used; the reason.
    #[error("the AWS credentials cannot be used: {0}")]
    Unusable(String),
    /// The credentials of a profile that uses `aws login` cannot be used; the reason.
    #[error("the AWS credentials of `aws login` cannot be used: {0}")]
    LoggedOut(String),
    /// The role of a profile asks for a second factor's code, and was not given.
    #[error("the role of profile {profile} was not given: {why}")]
    SecondFactor {
        /// The profile.
        profile: String,
        /// The reason.
        why: String,
    },
}

/// An account whose settings were read.
pub(super) struct Loaded {
    /// The configuration of all clients.
    pub(super) config: SdkConfig,
    pub(super) source: Source,
    pub(super) endpoints: Endpoints,
}

impl Account {
    /// The partition of the region that flags, environment or profile name. No call is made.
    pub fn partition(&self) -> Result<Option<Partition>, SettingError> {
        let region = match &self.region {
            Some(region) => Some(region.clone()),
            None => match of_environment()? {
                Some(region) => Some(region),
                None => of_profile(&Profiles::read(self.profile.as_deref())?),
            },
        };
        Ok(region.map(|region| Partition::of_region(&region)))
    }

    /// Reads configuration, credentials and their source. Credentials that have to be fetched (an
    /// assumed role, SSO) are fetched now.
    pub(super) async fn load(&self, clock: &Clock) -> Result<Loaded, AccountError> {
        let profiles = Profiles::read(self.profile.as_deref())?;
        let endpoints = Endpoints::read(&profiles)?;
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(ATTEMPT)
            .build();
        let flag = |name, key| is_true(name, key, &profiles);
        let is_fips = flag("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")?;
        let is_dual = flag("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint")?;
        let surroundings = ProviderConfig::without_region()
            .with_http_client(https::client())
            .with_time_source(SigningTime(clock.clone()))
            .with_sleep_impl(TokioSleep::new())
            .with_retry_config(RetryConfig::standard())
            .with_timeout_config(timeouts.clone())
            .with_use_fips(Some(is_fips))
            .with_use_dual_stack(Some(is_dual))
            .with_behavior_version(Some(BehaviorVersion::latest()));
        let region = self.region(&profiles, &endpoints, &surroundings).await?;
        let surroundings = surroundings.with_region(Some(region.clone()));
        let provider = self.provider(&profiles, &surroundings)?;
        let mut config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(region)
            .http_client(https::client())
            .time_source(SigningTime(clock.clone()))
            .sleep_impl(TokioSleep::new())
            .retry_config(RetryConfig::standard())
            .timeout_config(timeouts)
            .identity_cache(IdentityCache::lazy().build())
            .use_fips(is_fips)
            .use_dual_stack(is_dual);
        config.set_endpoint_url(endpoints.all().map(str::to_owned));
        match provider.provide_credentials().await {
            Ok(fetched) => {
                let source = Source::from_credentials(&fetched, &profiles);
                let provider = SharedCredentialsProvider::new(Fetched {
                    last: Mutex::new((fetched, clock.boot())),
                    chain: provider,
                    clock: clock.clone(),
                });
                Ok(Loaded {
                    config: config.credentials_provider(provider).build(),
                    source,
                    endpoints,
                })
            }
            Err(CredentialsError::CredentialsNotLoaded(_)) => Err(AccountError::NoCredentials),
            Err(error) => Err(unusable(causes(&error), &profiles)),
        }
    }

    /// The region: of the flag, else of the environment, of the profile, or of the instance that
    /// xdrive runs on.
    async fn region(
        &self,
        profiles: &Profiles,
        endpoints: &Endpoints,
        surroundings: &ProviderConfig,
    ) -> Result<Region, AccountError> {
        let mut region = self.region.clone();
        if region.is_none() {
            region = of_environment()?.or_else(|| of_profile(profiles));
        }
        if region.is_none() && has_metadata(profiles)? {
            let metadata = ImdsRegionProvider::builder().configure(surroundings);
            region = metadata.build().region().await.map(|it| it.to_string());
        }
        let region = region.ok_or(AccountError::NoRegion)?;
        // The SDK would resolve a host of that name in vain, which takes a while. Where an endpoint is
        // named, any word does.
        let is_right = match endpoints.all() {
            None => is_region(&region),
            Some(_) => is_label(&region),
        };
        if is_right {
            Ok(Region::new(region))
        } else {
            Err(AccountError::NotARegion(region))
        }
    }

    /// The chain of credentials, of what is set. A profile given by flag precedes the environment's
    /// keys, as in the AWS CLI; otherwise they precede it.
    fn provider(
        &self,
        profiles: &Profiles,
        surroundings: &ProviderConfig,
    ) -> Result<SharedCredentialsProvider, AccountError> {
        let mut chain = match self.profile {
            Some(_) => None,
            None => Some(CredentialsProviderChain::first_try(
                "Environment",
                EnvironmentVariableCredentialsProvider::new(),
            )),
        };
        let mut add = |name: &'static str, provider: SharedCredentialsProvider| {
            chain = Some(match chain.take() {
                Some(chain) => chain.or_else(name, provider),
                None => CredentialsProviderChain::first_try(name, provider),
            });
        };
        add("Profile", of_files(profiles, surroundings));
        let token = variable("AWS_WEB_IDENTITY_TOKEN_FILE")?.and(variable("AWS_ROLE_ARN")?);
        let by_token = token.is_some() && self.profile.is_none();
        if by_token {
            let provider = WebIdentityTokenCredentialsProvider::builder().configure(surroundings);
            add(
                "WebIdentityToken",
                SharedCredentialsProvider::new(provider.build()),
            );
        }
        if by_token || profiles.calls() {
            Endpoints::check_empty()?;
        }
        if is_in_container()? {
            let provider = EcsCredentialsProvider::builder().configure(surroundings);
            add(
                "EcsContainer",
                SharedCredentialsProvider::new(provider.build()),
            );
        }
        if has_metadata(profiles)? {
            let provider = ImdsCredentialsProvider::builder().configure(surroundings);
            add(
                "Ec2InstanceMetadata",
                SharedCredentialsProvider::new(provider.build()),
            );
        }
        let chain = chain.ok_or(AccountError::NoCredentials)?;
        Ok(SharedCredentialsProvider::new(chain))
    }
}

/// The provider of the profile's credentials.
fn of_files(profiles: &Profiles, surroundings: &ProviderConfig) -> SharedCredentialsProvider {
    let sso = |sso: &Sso| {
        let provider = SsoCredentialsProvider::builder()
            .configure(surroundings)
            .session_name(&sso.session)
            .region(Region::new(sso.region.clone()))
            .start_url(&sso.start_url)
            .account_id(&sso.account)
            .role_name(&sso.role);
        provider.build()
    };
    if let Some(own) = profiles.sso(profiles.name()) {
        return SharedCredentialsProvider::new(sso(&own));
    }
    let files = EnvConfigFiles::builder();
    let files = files.with_contents(EnvConfigFileKind::Config, profiles.for_sdk());
    let mut provider = ProfileFileCredentialsProvider::builder()
        .configure(surroundings)
        .profile_files(files.build())
        .profile_name(profiles.name_for_sdk());
    for own in profiles.ssos() {
        provider = provider.with_custom_provider(own.source.clone(), sso(&own));
    }
    SharedCredentialsProvider::new(provider.build())
}

/// The region that the environment names.
fn of_environment() -> Result<Option<String>, SettingError> {
    match variable("AWS_REGION")? {
        Some(region) => Ok(Some(region)),
        None => variable("AWS_DEFAULT_REGION"),
    }
}

fn of_profile(profiles: &Profiles) -> Option<String> {
    profiles.chosen("region").map(str::to_owned)
}

/// Whether a container's agent has credentials.
fn is_in_container() -> Result<bool, SettingError> {
    const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    let Some(path) = variable(RELATIVE)? else {
        return Ok(variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")?.is_some());
    };
    // What is set and empty outranks the other one in the SDK.
    if path.starts_with('/') && path.bytes().all(|it| it.is_ascii_graphic()) {
        return Ok(true);
    }
    Err(SettingError::Wrong {
        place: format!("{RELATIVE}={path:?}"),
        why: "is no path such as /v2/credentials".to_owned(),
    })
}

/// Whether the metadata service of an instance is asked.
fn has_metadata(profiles: &Profiles) -> Result<bool, SettingError> {
    let disabled = is_true("AWS_EC2_METADATA_DISABLED", "", profiles)?;
    Ok(!disabled)
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

/// How long fetched credentials are handed out, and how long they must still be good then. (The SDK's clients cache
/// them on their own, until they expire; signed calls beside those do not.)
const HELD: Duration = Duration::from_mins(5);
const GOOD: Duration = Duration::from_mins(1);

/// A provider of the credentials that were fetched last, for a while; then its chain's.
#[derive(Debug)]
struct Fetched {
    last: Mutex<(Credentials, BootTime)>,
    chain: SharedCredentialsProvider,
    clock: Clock,
}

impl Fetched {
    fn last(&self) -> MutexGuard<'_, (Credentials, BootTime)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that were fetched last, if they may be handed out.
    fn held(&self) -> Option<Credentials> {
        let (credentials, at) = &*self.last();
        let now = SystemTime::from(self.clock.now());
        let is_good = credentials
            .expiry()
            .is_none_or(|expires| expires > now + GOOD);
        let is_new = self.clock.boot().since(*at) < HELD;
        (is_good && is_new).then(|| credentials.clone())
    }
}

impl ProvideCredentials for Fetched {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        if let Some(held) = self.held() {
            return future::ProvideCredentials::ready(Ok(held));
        }
        future::ProvideCredentials::new(async {
            let fetched = self.chain.provide_credentials().await?;
            *self.last() = (fetched.clone(), self.clock.boot());
            Ok(fetched)
        })
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

/// Whether `name` can be part of a host's name (RFC 1123, section 2.1).
fn is_label(name: &str) -> bool {
    let is_end = |it: Option<&u8>| it.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let is_fine = |it: &u8| it.is_ascii_alphanumeric() || *it == b'-';
    name.len() <= 63 && is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_fine)
}

#[cfg(test)]
mod tests;
