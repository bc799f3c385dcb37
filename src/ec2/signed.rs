//! Signed requests without an SDK crate, for services of which xdrive makes a few calls: their
//! crates take too long to compile.
//!
//! They are signed as the SDK signs (Signature Version 4), with the same credentials and by the
//! same clock, and go through the HTTP client of the SDK's calls.

use std::time::{Duration, SystemTime};

use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4::SigningParams;

use super::Ec2;
use super::https::{Answer, Reached};
use super::partition::Partition;
use crate::ids::SnapshotId;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);

/// How long an answer may be, in bytes.
const LONGEST: usize = 256 << 10;

/// How long a permit to read a snapshot from another region holds.
const PERMIT: Duration = Duration::from_hours(1);

/// The version of EC2's API.
const VERSION: &str = "2016-11-15";

/// The scope of a signature.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The service's signing name, such as `fis`.
    pub(super) service: &'a str,
    /// The region that it is signed for.
    pub(super) region: &'a str,
}

impl Reached<'_> {
    /// Signs and sends `request`; the service's answer.
    pub(super) async fn signed(
        &self,
        scope: Scope<'_>,
        mut request: http::Request<String>,
    ) -> Result<Answer, String> {
        let provider = self.ec2.credentials.as_ref();
        let provider = provider.ok_or("there are no credentials")?;
        let credentials = provider.provide_credentials().await;
        let credentials = credentials.map_err(|error| super::error::causes(&error))?;
        let identity = credentials.into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(scope.region)
            .name(scope.service)
            .time(SystemTime::from(self.ec2.clock.now()))
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| error.to_string())?
            .into();
        let headers = request.headers().iter();
        let headers =
            headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let signable = SignableRequest::new(
            request.method().as_str(),
            request.uri().to_string(),
            headers,
            SignableBody::Bytes(request.body().as_bytes()),
        );
        let signed = signable.and_then(|signable| sign(signable, &parameters));
        let (instructions, _) = signed.map_err(|error| error.to_string())?.into_parts();
        instructions.apply_to_request_http1x(&mut request);
        self.send(request, ANSWER, LONGEST).await
    }
}

impl Ec2 {
    /// The signed address by which EC2 reads an encrypted snapshot of the region `from` for a copy in
    /// this one (EC2 API reference, `CopySnapshot`, `PresignedUrl`). The SDK makes none.
    pub(super) async fn copy_permit(
        &self,
        from: &str,
        source: &SnapshotId,
    ) -> Result<String, String> {
        let provider = self.credentials.as_ref();
        let provider = provider.ok_or("there are no credentials")?;
        let credentials = provider.provide_credentials().await;
        let credentials = credentials.map_err(|error| super::error::causes(&error))?;
        let identity = credentials.into();
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(PERMIT);
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(from)
            .name("ec2")
            .time(SystemTime::from(self.clock.now()))
            .settings(settings)
            .build()
            .map_err(|error| error.to_string())?
            .into();
        let address = format!(
            "https://ec2.{from}.{}/?Action=CopySnapshot&Version={VERSION}&SourceRegion={from}\
             &SourceSnapshotId={source}&DestinationRegion={}",
            Partition::of_region(from).domain(),
            self.region()
        );
        let mut request = http::Request::builder().uri(address).body(String::new());
        let request = request.as_mut().map_err(|error| error.to_string())?;
        let none = std::iter::empty();
        let signable = SignableRequest::new(
            "GET",
            request.uri().to_string(),
            none,
            SignableBody::Bytes(b""),
        );
        let signed = signable.and_then(|signable| sign(signable, &parameters));
        let (instructions, _) = signed.map_err(|error| error.to_string())?.into_parts();
        instructions.apply_to_request_http1x(request);
        Ok(request.uri().to_string())
    }
}
