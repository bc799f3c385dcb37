//! The protocols, against a table of two calls.

use aws_credential_types::Credentials as Identity;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;

use super::*;

mod roles;

type Request = http::Request<Bytes>;

fn key() -> Credentials {
    Credentials {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "secret".to_owned(),
    }
}

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn request(service: &str, headers: &[(&'static str, &'static str)], body: &str) -> Request {
    let mut request = http::Request::post("http://localhost/")
        .body(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap();
    for (name, value) in headers {
        request
            .headers_mut()
            .insert(*name, HeaderValue::from_static(value));
    }
    signed(service, headers, request)
}

fn signed(service: &str, headers: &[(&str, &str)], request: Request) -> Request {
    signed_by(&key(), now(), service, headers, request)
}

fn signed_by(
    key: &Credentials,
    at: Timestamp,
    service: &str,
    headers: &[(&str, &str)],
    mut request: Request,
) -> Request {
    let identity = Identity::from_keys(&key.access_key_id, &key.secret_access_key, None).into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name(service)
        .time(at.into())
        .settings(SigningSettings::default())
        .build()
        .unwrap()
        .into();
    let signable = SignableRequest::new(
        request.method().as_str(),
        request.uri().to_string(),
        headers.iter().copied(),
        SignableBody::Bytes(request.body()),
    )
    .unwrap();
    let (instructions, _) = sign(signable, &params).unwrap().into_parts();
    instructions.apply_to_request_http1x(&mut request);
    request
}

/// Answers `DescribeThings`, and any other call with an error that has its parameters.
fn table(action: &str, params: &Params) -> Result<Xml, ApiError> {
    match action {
        "DescribeThings" => Ok(Xml::node(
            "DescribeThingsResponse",
            [Xml::list(
                "thingSet",
                params
                    .list("Id")
                    .into_iter()
                    .map(|id| vec![Xml::text("id", id)]),
            )],
        )),
        "GetCallerIdentity" => Ok(Xml::node(
            "GetCallerIdentityResponse",
            [Xml::text("Account", "000000000000")],
        )),
        "SendSSHPublicKey" => Ok(Xml::node(
            "x",
            [
                Xml::text("Success", true),
                Xml::text("Saw", params.get("InstanceId").unwrap_or_default()),
            ],
        )),
        _ => Err(ApiError {
            status: 500,
            code: "InsufficientInstanceCapacity".to_owned(),
            message: "none <left>".to_owned(),
        }),
    }
}

/// Status, headers and body, with the request id replaced by `ID`.
fn answer(request: &Request) -> (u16, http::HeaderMap, String) {
    let key = key();
    let responder = Responder {
        key: &key,
        region: "us-east-1",
        now: now(),
    };
    let (parts, body) = responder
        .respond(
            request,
            |_| Ok(Some(())),
            |(), action, params| table(action, params),
        )
        .into_parts();
    let id = parts.headers["x-amzn-requestid"].to_str().unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap().replace(id, "ID");
    (parts.status.as_u16(), parts.headers, body)
}

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

#[test]
fn ec2_answers_in_its_namespace_with_the_request_id() {
    let body = "Action=DescribeThings&Version=2016-11-15&Id.1=a+b&Id.2=%26";
    let (status, headers, body) = answer(&request("ec2", &[], body));
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "text/xml;charset=UTF-8");
    assert_eq!(headers["date"], "Sat, 21 Nov 2026 12:00:00 GMT");
    assert_eq!(
        body,
        format!(
            "{HEAD}<DescribeThingsResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
             <requestId>ID</requestId><thingSet><item><id>a b</id></item>\
             <item><id>&amp;</id></item></thingSet></DescribeThingsResponse>"
        )
    );
}

#[test]
fn a_question_may_stand_in_the_address_as_well() {
    let address = "http://localhost/?Version=2016-11-15&Action=DescribeThings&Id.1=a%20%C3%A4";
    let request = http::Request::get(address).body(Bytes::new()).unwrap();
    let (status, _, body) = answer(&signed("ec2", &[], request));
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("<id>a ä</id>"), "{body}");
}

#[test]
fn an_error_keeps_its_status_and_code() {
    let (status, _, body) = answer(&request("ec2", &[], "Action=RunThings&Version=2016-11-15"));
    assert_eq!(status, 500);
    assert_eq!(
        body,
        format!(
            "{HEAD}<Response><Errors><Error><Code>InsufficientInstanceCapacity</Code>\
             <Message>none &lt;left&gt;</Message></Error></Errors><RequestID>ID</RequestID>\
             </Response>"
        )
    );
}

#[test]
fn sts_has_its_own_documents() {
    let (status, _, body) = answer(&request(
        "sts",
        &[],
        "Action=GetCallerIdentity&Version=2011-06-15",
    ));
    assert_eq!(status, 200);
    assert_eq!(
        body,
        format!(
            "{HEAD}<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <GetCallerIdentityResult><Account>000000000000</Account></GetCallerIdentityResult>\
             <ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata>\
             </GetCallerIdentityResponse>"
        )
    );
    let (status, _, body) = answer(&request(
        "ec2",
        &[],
        "Action=GetCallerIdentity&Version=2011-06-15",
    ));
    assert_eq!(status, 403);
    assert_eq!(
        body,
        format!(
            "{HEAD}<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>\
             <Type>Sender</Type><Code>SignatureDoesNotMatch</Code>\
             <Message>Credential should be scoped to correct service: sts.</Message></Error>\
             <RequestId>ID</RequestId></ErrorResponse>"
        )
    );
}

#[test]
fn instance_connect_speaks_json() {
    const SEND: (&str, &str) = (
        "x-amz-target",
        "AWSEC2InstanceConnectService.SendSSHPublicKey",
    );
    let send = |headers: &[_], body| answer(&request("ec2-instance-connect", headers, body));
    let (status, headers, body) = send(&[SEND], r#"{"InstanceId":"i-1"}"#);
    assert_eq!(status, 200);
    assert_eq!(headers["content-type"], "application/x-amz-json-1.1");
    assert_eq!(body, r#"{"RequestId":"ID","Saw":"i-1","Success":true}"#);

    let (status, headers, _) = send(&[SEND], "[]");
    assert_eq!(status, 400);
    assert_eq!(headers["x-amzn-errortype"], "SerializationException");

    let other = ("x-amz-target", "AWSEC2InstanceConnectService.Other");
    let (status, headers, _) = send(&[other], "{}");
    assert_eq!(status, 400);
    assert_eq!(headers["x-amzn-errortype"], "UnknownOperationException");
}

#[test]
fn a_question_that_cannot_be_read_is_never_carried_out() {
    for (body, code) in [
        ("Version=2016-11-15", "MissingParameter"),
        ("Action=DescribeThings", "MissingParameter"),
        ("Action=DescribeThings&Version=2014-01-01", "NoSuchVersion"),
        (
            "Action=GetCallerIdentity&Version=2016-11-15",
            "InvalidAction",
        ),
        (
            "Action=SendSSHPublicKey&Version=2016-11-15",
            "InvalidAction",
        ),
        (
            "Action=DescribeThings&Version=2016-11-15&Id.1=a&Id.1=b",
            "MalformedQueryString",
        ),
        (
            "Action=DescribeThings&Version=2016-11-15&Id.1=%01",
            "InvalidParameterValue",
        ),
    ] {
        let (status, _, answer) = answer(&request("ec2", &[], body));
        assert_eq!(status, 400, "{body}");
        assert!(
            answer.contains(&format!("<Code>{code}</Code>")),
            "{body}: {answer}"
        );
    }
}

#[test]
fn each_service_names_a_refused_signature_in_its_own_way() {
    let unsigned = |headers: &[(&'static str, &'static str)], body| {
        let mut request = request("ec2", headers, body);
        request.headers_mut().remove("authorization");
        answer(&request)
    };
    let (status, _, body) = unsigned(&[], "Action=DescribeThings&Version=2016-11-15");
    assert_eq!(status, 403);
    assert!(
        body.contains("<Code>MissingAuthenticationToken</Code>"),
        "{body}"
    );
    let (status, _, body) = unsigned(&[], "Action=GetCallerIdentity&Version=2011-06-15");
    assert_eq!(status, 403);
    assert!(
        body.contains("<Code>MissingAuthenticationToken</Code>"),
        "{body}"
    );
    let (status, headers, _) = unsigned(&[("x-amz-target", "x")], "{}");
    assert_eq!(status, 400);
    assert_eq!(
        headers["x-amzn-errortype"],
        "MissingAuthenticationTokenException"
    );
}
