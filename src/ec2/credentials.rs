//! The caller's credentials for programs elsewhere, as AWS's SDKs read them from a container's
//! endpoint: temporary ones, whatever the caller has.
//!
//! Keys for good stay here: they are exchanged for an hour's (STS `GetSessionToken`, which needs no
//! right of its own).

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::Mutex;

use super::account::{Account, AccountError, Loaded};
use super::error::causes;
use super::trace::Trace;
use super::{Error, Kind};
use crate::clock::Clock;

/// How long temporary credentials are good.
const HOUR: Duration = Duration::from_hours(1);

/// How long credentials must still be good to be handed out again. SDKs ask for others some minutes
/// before the end, and wait two seconds for an answer.
const YOUNG: Duration = Duration::from_mins(10);

/// The caller's own chain of credentials.
pub struct Chain {
    provider: SharedCredentialsProvider,
    sts: aws_sdk_sts::Client,
    region: String,
    clock: Clock,
    /// The credentials that were handed out last.
    last: Mutex<Option<Credentials>>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").finish_non_exhaustive()
    }
}

impl Chain {
    /// The chain of the user's account, whichever EC2 the session works on.
    pub async fn of_account(account: &Account, clock: Clock) -> Result<Self, AccountError> {
        let Loaded {
            config, endpoints, ..
        } = account.load(&clock).await?;
        let provider = config.credentials_provider();
        let mut sts = aws_sdk_sts::config::Builder::from(&config).interceptor(Trace);
        sts.set_endpoint_url(endpoints.for_service("STS").map(str::to_owned));
        Ok(Self {
            provider: provider.ok_or(AccountError::NoCredentials)?,
            sts: aws_sdk_sts::Client::from_conf(sts.build()),
            region: config.region().map(ToString::to_string).unwrap_or_default(),
            clock,
            last: Mutex::default(),
        })
    }

    /// The region of the account's configuration.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Temporary credentials as a JSON document (AWS SDKs and tools reference guide, *Container
    /// credential provider*). Long-term keys are exchanged for an hour's; temporary ones keep their
    /// end. They are good for ten minutes at least, if the chain has such.
    pub async fn document(&self) -> Result<String, Error> {
        let mut last = self.last.lock().await;
        let credentials = match last.take().filter(|last| self.is_young(last)) {
            Some(credentials) => credentials,
            None => self.temporary().await?,
        };
        let expires = credentials.expiry().unwrap_or_else(|| self.now());
        let document = json!({
            "AccessKeyId": credentials.access_key_id(),
            "SecretAccessKey": credentials.secret_access_key(),
            "Token": credentials.session_token(),
            "Expiration": format!("{:.0}", Timestamp::try_from(expires).unwrap_or_default()),
        });
        *last = Some(credentials);
        Ok(document.to_string())
    }

    async fn temporary(&self) -> Result<Credentials, Error> {
        let own = self.load().await?;
        match (own.session_token(), own.expiry()) {
            (Some(_), Some(_)) => Ok(own),
            // Their end is not known: the chain is asked again in an hour.
            (Some(token), None) => Ok(until(
                own.access_key_id(),
                own.secret_access_key(),
                token,
                self.now() + HOUR,
            )),
            (None, _) => self.exchanged().await,
        }
    }

    /// The credentials of the chain; the first ones may be from the beginning of the session.
    async fn load(&self) -> Result<Credentials, Error> {
        let unusable = |error: CredentialsError| Error {
            call: "the chain of credentials",
            kind: Kind::Credentials,
            code: String::new(),
            message: causes(&error),
        };
        let own = self
            .provider
            .provide_credentials()
            .await
            .map_err(unusable)?;
        if own.expiry().is_none() || self.is_young(&own) {
            return Ok(own);
        }
        self.provider.provide_credentials().await.map_err(unusable)
    }

    async fn exchanged(&self) -> Result<Credentials, Error> {
        const CALL: &str = "GetSessionToken";
        let asking = self.sts.get_session_token();
        let seconds = i32::try_from(HOUR.as_secs()).unwrap_or(i32::MAX);
        let answer = asking.duration_seconds(seconds).send().await;
        let answer = answer.map_err(|error| Error::from_sdk(CALL, &error))?;
        let Some(given) = answer.credentials() else {
            return Err(Error::unreadable(CALL, "the credentials are missing"));
        };
        let expires = SystemTime::try_from(*given.expiration());
        Ok(until(
            given.access_key_id(),
            given.secret_access_key(),
            given.session_token(),
            expires.unwrap_or_else(|_| self.now() + HOUR),
        ))
    }

    fn is_young(&self, credentials: &Credentials) -> bool {
        credentials
            .expiry()
            .is_some_and(|expires| expires > self.now() + YOUNG)
    }

    fn now(&self) -> SystemTime {
        self.clock.now().into()
    }
}

fn until(id: &str, secret: &str, token: &str, expires: SystemTime) -> Credentials {
    Credentials::new(id, secret, Some(token.to_owned()), Some(expires), "xdrive")
}
