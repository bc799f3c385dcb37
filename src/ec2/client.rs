//! The clients: their EC2, credentials and retries.
//!
//! Two SDK clients over one HTTP client. `patient` retries as the SDK does: for calls that only
//! read or may safely be repeated. `once` never repeats a call: a lost answer must reach the caller
//! as [`super::Kind::Ambiguous`], not as a second launch. (It also keeps the SDK from retrying
//! `InsufficientInstanceCapacity`, an HTTP 500, for six seconds.)

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_ec2::config::interceptors::FinalizerInterceptorContextRef;
use aws_sdk_ec2::config::retry::{RetryConfig, RetryPartition, TokenBucket};
use aws_sdk_ec2::config::timeout::TimeoutConfig;
use aws_sdk_ec2::config::{Intercept, StalledStreamProtectionConfig};
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::date_time::Format;
use jiff::{SignedDuration, Timestamp};

use super::Error;
use super::account::{Account, AccountError, Loaded};
use super::endpoints::Endpoints;
use super::https::Https;
use super::owner::owner_of;
use super::price::{Known, Price};
use super::source::Source;
use super::storage::StoragePrices;
use super::trace::Trace;
use crate::clock::Clock;
use crate::retry::retry;

/// How long one attempt of a call to the EC2 in a folder may take. It may wait for a slow disk to
/// write an instance's data; the limit only keeps a call from hanging for ever.
const ATTEMPT: Duration = Duration::from_mins(5);

/// How often a call to the EBS direct APIs is sent. Within a region a reader is faster than their limits
/// allow (EBS endpoints and quotas: 1000 blocks of a snapshot and 50 lists a second, not adjustable), and
/// AWS asks for retries (EBS user guide, *FAQ for EBS direct APIs*); the adaptive mode slows the sender.
const BLOCK_ATTEMPTS: u32 = 10;

/// Pauses before repeating a call that EC2 throttled (`RequestLimitExceeded`): its token buckets
/// refill every second.
const THROTTLED: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// An EC2 that is reached without account, environment or configuration.
#[derive(Debug)]
pub struct Direct {
    /// The HTTP client for all requests.
    pub http: SharedHttpClient,
    /// The region that calls are signed for.
    pub region: String,
    /// The id of the access key that signs them.
    pub access_key_id: String,
    /// The access key itself.
    pub secret_access_key: String,
    /// The time that they are signed with.
    pub clock: Clock,
}

/// EC2, for one caller in one region. Cheap to clone.
#[derive(Clone)]
pub struct Ec2 {
    pub(super) patient: aws_sdk_ec2::Client,
    pub(super) once: aws_sdk_ec2::Client,
    pub(super) ebs: aws_sdk_ebs::Client,
    pub(super) efs: aws_sdk_efs::Client,
    pub(super) connect: aws_sdk_ec2instanceconnect::Client,
    pub(super) quotas: aws_sdk_servicequotas::Client,
    pub(super) profile: Option<String>,
    pub(super) clock: Clock,
    pub(super) https: Https,
    /// The credentials for calls that no SDK client makes.
    pub(super) credentials: Option<SharedCredentialsProvider>,
    /// Fault Injection Service's endpoint, if one is set (`AWS_ENDPOINT_URL_FIS`, or one for all).
    pub(super) fis_at: Option<String>,
    /// AWS Price List's endpoint, likewise.
    pub(super) prices_at: Option<String>,
    /// Prices on demand, by their types.
    pub(super) on_demand: Arc<Known<String, Option<Price>>>,
    /// The prices of storage, once they were asked for; none where they are not to be had.
    pub(super) storage: Arc<tokio::sync::OnceCell<Option<StoragePrices>>>,
    /// Placement scores by the ids of zones, by the set of types that was scored.
    pub(super) scores: Arc<Known<Vec<String>, BTreeMap<String, u8>>>,
    sts: aws_sdk_sts::Client,
    source: Option<Source>,
    region: String,
    is_aws: bool,
}

/// Without its clients and credentials.
impl std::fmt::Debug for Ec2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ec2")
            .field("profile", &self.profile)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl Ec2 {
    /// The EC2 of the user's account: AWS's, or the endpoint that its configuration names. Makes no
    /// call to EC2, but may fetch credentials from elsewhere.
    pub async fn of_account(account: &Account, clock: Clock) -> Result<Self, AccountError> {
        let Loaded {
            config,
            source,
            endpoints,
        } = account.load(&clock).await?;
        Ok(Self {
            source: Some(source),
            profile: account.profile.clone(),
            ..Self::configured(&config, &endpoints, clock)
        })
    }

    /// The profile of `~/.aws/config` that was given, if any.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// The EC2 that `direct` leads to.
    ///
    /// Nothing is read from the environment or from `~/.aws`, so a broken profile there does no
    /// harm.
    #[must_use]
    pub fn direct(direct: Direct) -> Self {
        let Direct {
            http,
            region,
            access_key_id,
            secret_access_key,
            clock,
        } = direct;
        let credentials = Credentials::from_keys(access_key_id, secret_access_key, None);
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region))
            .endpoint_url("http://localhost")
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .sleep_impl(TokioSleep::new())
            .time_source(SigningTime(clock.clone()))
            .http_client(http)
            // On a busy computer a launch may take longer than stalled streams are allowed.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder()
                    .operation_attempt_timeout(ATTEMPT)
                    .build(),
            )
            .build();
        Self::configured(&config, &Endpoints::at("http://localhost"), clock)
    }

    pub(super) fn configured(config: &SdkConfig, endpoints: &Endpoints, clock: Clock) -> Self {
        let at = |service| endpoints.for_service(service).map(str::to_owned);
        // A retry budget of its own: by default all clients of a process in one region share one,
        // and a client that fails often would leave the others without retries.
        let https = Https::default();
        let partition = |name| RetryPartition::custom(name).build();
        let mut patient = aws_sdk_ec2::config::Builder::from(config)
            .retry_config(RetryConfig::standard())
            .retry_partition(partition("xdrive"))
            .interceptor(Trace)
            .interceptor(https.clone());
        patient.set_endpoint_url(at("EC2"));
        let patient = patient.build();
        // The adaptive mode slows down for each throttled call, so retries of those cost nothing of the
        // retry budget: calls side by side would have used it up before they are slow enough.
        let paced = TokenBucket::builder().throttling_retry_cost(0).build();
        let paced = RetryPartition::custom("xdrive-ebs").token_bucket(paced);
        let mut ebs = aws_sdk_ebs::config::Builder::from(config)
            .retry_config(RetryConfig::adaptive().with_max_attempts(BLOCK_ATTEMPTS))
            .retry_partition(paced.build())
            .interceptor(Trace);
        ebs.set_endpoint_url(at("EBS"));
        let mut efs = aws_sdk_efs::config::Builder::from(config)
            .retry_config(RetryConfig::standard())
            .retry_partition(partition("xdrive-efs"))
            .interceptor(Trace);
        efs.set_endpoint_url(at("EFS"));
        let mut connect = aws_sdk_ec2instanceconnect::config::Builder::from(config)
            .retry_config(RetryConfig::standard())
            .retry_partition(partition("xdrive-connect"))
            .interceptor(Trace);
        connect.set_endpoint_url(at("EC2_INSTANCE_CONNECT"));
        let mut quotas = aws_sdk_servicequotas::config::Builder::from(config)
            .retry_config(RetryConfig::standard())
            .retry_partition(partition("xdrive-quotas"))
            .interceptor(Trace);
        quotas.set_endpoint_url(at("SERVICE_QUOTAS"));
        let mut sts = aws_sdk_sts::config::Builder::from(config).interceptor(Trace);
        sts.set_endpoint_url(at("STS"));
        let once = patient
            .to_builder()
            .retry_config(RetryConfig::disabled())
            .build();
        Self {
            patient: aws_sdk_ec2::Client::from_conf(patient),
            once: aws_sdk_ec2::Client::from_conf(once),
            ebs: aws_sdk_ebs::Client::from_conf(ebs.build()),
            efs: aws_sdk_efs::Client::from_conf(efs.build()),
            connect: aws_sdk_ec2instanceconnect::Client::from_conf(connect.build()),
            quotas: aws_sdk_servicequotas::Client::from_conf(quotas.build()),
            profile: None,
            credentials: config.credentials_provider(),
            fis_at: at("FIS"),
            prices_at: at("PRICING"),
            on_demand: Arc::default(),
            storage: Arc::default(),
            scores: Arc::default(),
            sts: aws_sdk_sts::Client::from_conf(sts.build()),
            clock,
            source: None,
            region: config.region().map_or_else(String::new, Region::to_string),
            is_aws: endpoints.all().is_none(),
            https,
        }
    }

    /// Where the credentials came from; the EC2 in a folder has its own.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The region, such as `us-east-1`.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Whether AWS itself is called, not the endpoint of an `AWS_ENDPOINT_URL` or of `--local`.
    #[must_use]
    pub fn is_aws(&self) -> bool {
        self.is_aws
    }

    /// The owner of what the caller makes (STS `GetCallerIdentity`): see [`super::Ownership`].
    pub async fn owner(&self) -> Result<String, Error> {
        self.caller().await.owner
    }

    /// The caller, and how far this computer's clock is off: one `GetCallerIdentity`, whose answer
    /// has the time even if it is an error. STS refuses signatures that are five minutes off.
    pub async fn caller(&self) -> Caller {
        const CALL: &str = "GetCallerIdentity";
        let answered = Answered::default();
        let request = self.sts.get_caller_identity().customize();
        let answer = request.interceptor(answered.clone()).send().await;
        let at = answered.0.get().copied();
        let at = at.and_then(|at| Timestamp::try_from(at).ok());
        Caller {
            owner: match &answer {
                Ok(answer) => match answer.arn() {
                    Some(arn) => Ok(owner_of(arn).to_owned()),
                    None => Err(Error::unreadable(CALL, "the caller's ARN is missing")),
                },
                Err(error) => Err(Error::from_sdk(CALL, error)),
            },
            clock_skew: at.map(|at| self.clock.now().duration_since(at)),
        }
    }
}

/// The caller, and the offset of this computer's clock.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The owner of what the caller makes: the caller's ARN, without the session name of a role
    /// unless that is a person.
    pub owner: Result<String, Error>,
    /// How far this computer's clock is ahead of AWS's (behind it, if negative), to the second;
    /// none if no answer had a time.
    pub clock_skew: Option<SignedDuration>,
}

/// Keeps the time of an answer.
#[derive(Debug, Clone, Default)]
struct Answered(Arc<OnceLock<SystemTime>>);

#[dyn_dispatch_hint]
impl Intercept for Answered {
    fn name(&self) -> &'static str {
        "the time of an answer"
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context
            .response()
            .and_then(|answer| answer.headers().get("date"));
        if let Some(date) = date.and_then(|text| DateTime::from_str(text, Format::HttpDate).ok()) {
            let _only_the_first_counts = self.0.set(SystemTime::try_from(date)?);
        }
        Ok(())
    }
}

/// Makes one call, and repeats it only while EC2 throttles it: a throttled call is not carried out.
pub(super) async fn unless_throttled<T, E, F>(
    call: &'static str,
    send: impl Fn() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let is_throttled =
        |answer: &Result<T, Error>| answer.as_ref().is_err_and(Error::is_request_throttling);
    let once = || async { send().await.map_err(|error| Error::from_sdk(call, &error)) };
    retry(&THROTTLED, is_throttled, once).await
}

/// The SDK signs with xdrive's clock, so that a test's paused time is the request's too.
#[derive(Debug)]
pub(super) struct SigningTime(pub(super) Clock);

impl TimeSource for SigningTime {
    fn now(&self) -> SystemTime {
        self.0.now().into()
    }
}
