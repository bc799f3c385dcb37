//! The signer of these tests is the crate's, but the first signature is AWS's own example.

use super::*;

const BODY: &str = "Action=DescribeVolumes&Version=2016-11-15";

fn key() -> Credentials {
    Credentials {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
    }
}

fn signer(key: &Credentials) -> Signer<'_> {
    Signer {
        key,
        region: "us-east-1",
        service: "ec2",
    }
}

fn noon() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

/// A request signed at noon with `key`.
fn signed(key: &Credentials) -> http::Request<Bytes> {
    let mut request = http::Request::post("http://localhost/")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Bytes::from_static(BODY.as_bytes()))
        .unwrap();
    let identity = Identity::from_keys(&key.access_key_id, &key.secret_access_key, None).into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("ec2")
        .time(noon().into())
        .settings(SigningSettings::default())
        .build()
        .unwrap()
        .into();
    let signable = SignableRequest::new(
        "POST",
        "http://localhost/",
        [("content-type", "application/x-www-form-urlencoded")].into_iter(),
        SignableBody::Bytes(BODY.as_bytes()),
    )
    .unwrap();
    let (instructions, _) = sign(signable, &params).unwrap().into_parts();
    instructions.apply_to_request_http1x(&mut request);
    request
}

#[test]
fn the_worked_example_of_aws_is_accepted() {
    // IAM user guide, *Signature Version 4 signing process*: ListUsers with query parameters.
    let request = http::Request::get("/?Action=ListUsers&Version=2010-05-08")
        .header("host", "iam.amazonaws.com")
        .header(
            "content-type",
            "application/x-www-form-urlencoded; charset=utf-8",
        )
        .header("x-amz-date", "20150830T123600Z")
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        )
        .body(Bytes::new())
        .unwrap();
    let key = key();
    let signer = Signer {
        service: "iam",
        ..signer(&key)
    };
    let then = "2015-08-30T12:36:10Z".parse().unwrap();
    assert_eq!(verify(&request, signer, then), Ok(None));
}

#[test]
fn a_signature_is_valid_for_a_quarter_of_an_hour_either_way() {
    let key = key();
    let request = signed(&key);
    for seconds in [-900, 0, 900] {
        let now = noon() + jiff::SignedDuration::from_secs(seconds);
        assert_eq!(verify(&request, signer(&key), now), Ok(None), "{seconds}");
    }
    for seconds in [-901, 901] {
        let now = noon() + jiff::SignedDuration::from_secs(seconds);
        let signed = noon();
        assert_eq!(
            verify(&request, signer(&key), now),
            Err(Refusal::Expired { signed, now })
        );
    }
}

#[test]
fn any_change_after_signing_is_a_mismatch() {
    let key = key();
    let mut body = signed(&key);
    *body.body_mut() = Bytes::from_static(b"Action=DeleteVolume&Version=2016-11-15");
    let mut method = signed(&key);
    *method.method_mut() = http::Method::PUT;
    let mut query = signed(&key);
    *query.uri_mut() = "http://localhost/?Action=DeleteVolume".parse().unwrap();
    let mut host = signed(&key);
    *host.uri_mut() = "http://elsewhere/".parse().unwrap();
    let mut header = signed(&key);
    header
        .headers_mut()
        .insert("content-type", "text/plain".parse().unwrap());
    for request in [body, method, query, host, header] {
        assert_eq!(
            verify(&request, signer(&key), noon()),
            Err(Refusal::Mismatch),
            "{request:?}"
        );
    }
}

#[test]
fn another_secret_is_a_mismatch_and_another_key_unknown() {
    let key = key();
    let mut other = key.clone();
    other.secret_access_key.push('x');
    assert_eq!(
        verify(&signed(&other), signer(&key), noon()),
        Err(Refusal::Mismatch)
    );
    other.access_key_id.push('X');
    assert_eq!(
        verify(&signed(&other), signer(&key), noon()),
        Err(Refusal::UnknownKey)
    );
}

#[test]
fn a_session_token_belongs_to_nobody_here() {
    let key = key();
    let mut request = signed(&key);
    request
        .headers_mut()
        .insert(TOKEN, "left over".parse().unwrap());
    assert_eq!(
        verify(&request, signer(&key), noon()),
        Err(Refusal::UnknownKey)
    );
}

#[test]
fn another_region_service_or_day_is_out_of_scope() {
    let key = key();
    let elsewhere = Signer {
        region: "eu-central-1",
        ..signer(&key)
    };
    let other_service = Signer {
        service: "sts",
        ..signer(&key)
    };
    for signer in [elsewhere, other_service] {
        let refusal = verify(&signed(&key), signer, noon()).unwrap_err();
        assert!(matches!(refusal, Refusal::Scope(_)), "{refusal:?}");
    }
    let mut another_day = signed(&key);
    another_day
        .headers_mut()
        .insert(DATE, "20261122T120000Z".parse().unwrap());
    let refusal = verify(&another_day, signer(&key), noon()).unwrap_err();
    assert!(matches!(refusal, Refusal::Scope(_)), "{refusal:?}");
}

#[test]
fn an_unsigned_request_and_half_a_signature_are_distinguished() {
    let key = key();
    let mut request = signed(&key);
    request.headers_mut().remove(AUTHORIZATION);
    assert_eq!(
        verify(&request, signer(&key), noon()),
        Err(Refusal::Missing)
    );
    for half in [
        "Basic abc",
        "AWS4-HMAC-SHA256x Credential=a/b/c/d/e, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261121/us-east-1/ec2/aws4_request",
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/x, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/x, SignedHeaders=, Signature=0",
    ] {
        request
            .headers_mut()
            .insert(AUTHORIZATION, half.parse().unwrap());
        let refusal = verify(&request, signer(&key), noon()).unwrap_err();
        assert!(
            matches!(refusal, Refusal::Incomplete(_)),
            "{half}: {refusal:?}"
        );
    }
    request.headers_mut().remove(DATE);
    let refusal = verify(&request, signer(&key), noon()).unwrap_err();
    assert!(matches!(refusal, Refusal::Incomplete(_)), "{refusal:?}");
}
