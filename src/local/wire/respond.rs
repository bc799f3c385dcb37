//! Answers an HTTP request: one request in, one response out.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE};
use http::{HeaderName, HeaderValue};
use jiff::Timestamp;

use super::message::{Answer, ApiError, Question};
use super::protocol::Service;
use super::signature::{self, Refusal, Signer};
use super::{Params, Xml};
use crate::session::Session;
use crate::{Credentials, Local};

/// Carries out `request` on `local`, for whoever signed it with its key or by a session made with
/// that; every refusal is a response too. Blocks for as long as the call does.
#[must_use]
pub fn respond(local: &Local, request: &http::Request<Bytes>) -> http::Response<Bytes> {
    let responder = Responder {
        key: local.credentials(),
        region: local.region(),
        now: local.clock().now(),
    };
    responder.respond(
        request,
        |session| local.caller(session),
        |caller, action, params| local.call_as(caller, action, params),
    )
}

/// The context that a request is checked in.
struct Responder<'a> {
    key: &'a Credentials,
    region: &'a str,
    now: Timestamp,
}

impl Responder<'_> {
    /// Calls `find` for whoever signed by a session or without one, and `call` with its caller.
    fn respond<C>(
        &self,
        request: &http::Request<Bytes>,
        find: impl FnOnce(Option<&Session>) -> Result<Option<C>, ApiError>,
        call: impl FnOnce(&C, &str, &Params) -> Result<Xml, ApiError>,
    ) -> http::Response<Bytes> {
        let service = Service::from_request(request);
        let id = request_id();
        let answer = self
            .admit(service, request, find)
            .and_then(|(caller, question)| {
                let answer = call(&caller, &question.action, &question.params)?;
                Ok(service.write(answer, &id))
            })
            .unwrap_or_else(|error| {
                tracing::debug!(%error, "refused");
                service.write_error(&error, &id)
            });
        self.finish(answer, &id)
    }

    /// Verifies the signature before it parses: an unknown caller learns nothing about calls.
    fn admit<C>(
        &self,
        service: Service,
        request: &http::Request<Bytes>,
        find: impl FnOnce(Option<&Session>) -> Result<Option<C>, ApiError>,
    ) -> Result<(C, Question), ApiError> {
        let signer = Signer {
            key: self.key,
            region: service.signing_region(self.region),
            service: service.signing_name(),
        };
        let session = signature::verify(request, signer, self.now)
            .map_err(|refusal| service.refuse(&refusal))?;
        let caller = find(session.as_ref())?.ok_or_else(|| service.refuse(&Refusal::UnknownKey))?;
        Ok((caller, service.read(request)?))
    }

    fn finish(&self, answer: Answer, request_id: &str) -> http::Response<Bytes> {
        let mut response = http::Response::new(answer.body);
        *response.status_mut() = answer.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
        // Clients compute from it how far their clock is off. It is this clock, not the machine's:
        // otherwise the SDK would correct a test's paused clock by the difference.
        let date = self.now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(date) = HeaderValue::from_str(&date) {
            headers.insert(DATE, date);
        }
        if let Ok(id) = HeaderValue::from_str(request_id) {
            headers.insert(HeaderName::from_static("x-amzn-requestid"), id);
        }
        headers.extend(answer.headers);
        response
    }
}

/// A random UUID, as AWS numbers requests. Without randomness it is all zeros: it names a line
/// in a log, and no call should fail for it.
fn request_id() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        bytes = [0; 16];
    }
    let hex = hex::encode(bytes);
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

#[cfg(test)]
mod tests;
