//! The simulation of the caller's rights by IAM: `SimulatePrincipalPolicy`.
//!
//! The request is built here (IAM API reference, *`SimulatePrincipalPolicy`*, *Making query
//! requests*) and signed by [`super::signed`]. One request asks, for one kind of resource in one role,
//! about all calls that concern it, with what EC2 itself would say of it: of one that is made the tags
//! in the request, of one that is xdrive's its own tags, of any other none. It does not see service
//! control policies with conditions.

use form_urlencoded::Serializer;

use super::calls::{CALLS, Role};
use super::https::Answer;
use super::signed::Scope;
use super::{DRIVE, Ec2, OWNER, Partition};

/// The API's version.
const VERSION: &str = "2010-05-08";

/// An action that the caller may not take, as IAM simulates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forbidden {
    /// Such as `ec2:RunInstances`.
    pub action: String,
    /// The kind of resource, such as `instance`; `*` for a call that only reads.
    pub on: &'static str,
    /// `implicitDeny` (nothing allows it) or `explicitDeny`.
    pub decision: String,
}

/// Why there is no simulation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSimulation {
    /// The caller has no policies to simulate.
    #[error("{0}")]
    NoPrincipal(&'static str),
    /// IAM refused: its code and message.
    #[error("{code}: {message}")]
    Refused {
        /// Its code.
        code: String,
        /// Its message.
        message: String,
    },
    /// The request failed, or its answer cannot be parsed.
    #[error("{0}")]
    Failed(String),
}

impl NoSimulation {
    fn is(&self, expected: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == expected)
    }

    /// Whether the caller may not simulate.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.is("AccessDenied")
    }
}

impl Ec2 {
    /// The number of results, and which of xdrive's calls IAM denies to `owner`, the caller. A call
    /// must have been made before.
    pub async fn simulate(&self, owner: &str) -> Result<(usize, Vec<Forbidden>), NoSimulation> {
        let partition = Partition::of_arn(owner).unwrap_or_default();
        let mut principal = principal(owner)?;
        let account = owner.split(':').nth(4).unwrap_or_default();
        let (mut count, mut forbidden) = (0, Vec::new());
        for (on, tags, actions) in questions() {
            let arn = thing(partition, self.region(), account, (on, tags));
            let ask = |principal: &str| question(principal, owner, (&arn, tags), &actions);
            let mut asked = self.iam(partition, &ask(&principal)).await;
            if asked.as_ref().is_err_and(|error| error.is("NoSuchEntity"))
                && let Some((_, role)) = principal.rsplit_once(":role/")
            {
                // A caller's ARN lacks the path that the role may have.
                let words = [
                    ("Action", "GetRole"),
                    ("Version", VERSION),
                    ("RoleName", role),
                ];
                let found = self.iam(partition, &words.map(own)).await?;
                principal = all(&found, "Arn")
                    .next()
                    .map(str::to_owned)
                    .ok_or_else(|| {
                        NoSimulation::Failed(format!("GetRole tells no ARN of {role}"))
                    })?;
                asked = self.iam(partition, &ask(&principal)).await;
            }
            let answer = asked?;
            let named = all(&answer, "EvalActionName");
            let decisions: Vec<_> = named.zip(all(&answer, "EvalDecision")).collect();
            if decisions.len() != actions.len() {
                let (given, wanted) = (decisions.len(), actions.len());
                return Err(NoSimulation::Failed(format!(
                    "{wanted} actions were asked about, and {given} answered"
                )));
            }
            count += decisions.len();
            for (action, decision) in decisions {
                if decision != "allowed" {
                    forbidden.push(Forbidden {
                        action: action.to_owned(),
                        on,
                        decision: decision.to_owned(),
                    });
                }
            }
        }
        Ok((count, forbidden))
    }

    /// Makes one call to IAM; its answer, which is XML.
    async fn iam(
        &self,
        partition: Partition,
        words: &[(String, String)],
    ) -> Result<String, NoSimulation> {
        let failed = |error: String| NoSimulation::Failed(error);
        let (host, region) = endpoint(partition);
        let url = match &self.iam_at {
            Some(url) => url.clone(),
            None => format!("https://{host}/"),
        };
        let body = Serializer::new(String::new()).extend_pairs(words).finish();
        let request = http::Request::post(&url)
            .header(
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            )
            .body(body)
            .map_err(|error| failed(error.to_string()))?;
        let scope = Scope {
            service: "iam",
            region,
        };
        let reached = self.reached().map_err(failed)?;
        let answer = reached.signed(scope, request).await;
        let Answer { status, text, .. } = answer.map_err(failed)?;
        if status == 200 {
            return Ok(text);
        }
        let first = |name| all(&text, name).next().unwrap_or_default().to_owned();
        match first("Code") {
            code if code.is_empty() => Err(failed(format!("HTTP {status}"))),
            code => Err(NoSimulation::Refused {
                code,
                message: first("Message"),
            }),
        }
    }
}

/// IAM's endpoint, and the region that its calls are signed for (AWS general reference, *AWS
/// Identity and Access Management endpoints*).
fn endpoint(partition: Partition) -> (&'static str, &'static str) {
    match partition {
        Partition::Aws => ("iam.amazonaws.com", "us-east-1"),
        Partition::UsGov => ("iam.us-gov.amazonaws.com", "us-gov-west-1"),
        Partition::Cn => ("iam.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        Partition::Eusc => ("iam.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
    }
}

/// The principal whose policies apply, by a caller's ARN.
fn principal(owner: &str) -> Result<String, NoSimulation> {
    let parts: Vec<&str> = owner.splitn(6, ':').collect();
    let &[_, partition, _, _, account, name] = &parts[..] else {
        return Err(NoSimulation::NoPrincipal("the caller has no ARN"));
    };
    if name == "root" {
        return Err(NoSimulation::NoPrincipal(
            "the caller is the account itself, whose rights no policy of its own narrows",
        ));
    }
    if name.starts_with("user/") {
        return Ok(owner.to_owned());
    }
    let role = name.strip_prefix("assumed-role/");
    let role = role.and_then(|rest| rest.split('/').next());
    role.map(|role| format!("arn:{partition}:iam::{account}:role/{role}"))
        .ok_or(NoSimulation::NoPrincipal(
            "the caller is neither a user nor a role",
        ))
}

/// Where the tags of a resource are, when EC2 asks IAM about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tagged {
    /// In the request: it is made.
    Request,
    /// On the resource.
    Resource,
    /// Nowhere.
    Nowhere,
}

/// The kinds of resources, where their tags are, and the actions that concern them; from the list of
/// calls.
fn questions() -> Vec<(&'static str, Tagged, Vec<String>)> {
    let mut questions: Vec<(&'static str, Tagged, Vec<String>)> = Vec::new();
    for call in CALLS {
        for (kind, role) in call.resources() {
            let tagged = match role {
                Role::New(_) | Role::Copied(_) => Tagged::Request,
                // A fork's original is a drive's. `adopt` needs that no tag is asked for, and a policy
                // that asks for the owner's is meant so.
                Role::Tagged(_) | Role::Original => Tagged::Resource,
                Role::Any | Role::Used => Tagged::Nowhere,
            };
            let same =
                |(on, at, _): &&mut (&str, Tagged, Vec<String>)| (*on, *at) == (kind, tagged);
            match questions.iter_mut().find(same) {
                Some((_, _, actions)) => actions.push(call.action()),
                None => questions.push((kind, tagged, vec![call.action()])),
            }
        }
    }
    questions
}

/// The ARN of a resource, which need not exist. One that is to be made has no id.
fn thing(
    partition: Partition,
    region: &str,
    account: &str,
    (kind, tagged): (&str, Tagged),
) -> String {
    let id = match (kind, tagged) {
        ("*", _) => return kind.to_owned(),
        (_, Tagged::Request) => "*".to_owned(),
        ("snapshot", _) => "snap-0123456789abcdef0".to_owned(),
        _ => format!("{kind}-0123456789abcdef0"),
    };
    let account = match kind {
        "image" | "snapshot" => "",
        _ => account,
    };
    format!("arn:{partition}:ec2:{region}:{account}:{kind}/{id}")
}

/// The parameters of a simulation, with the tags of `owner`'s where they are.
fn question(
    principal: &str,
    owner: &str,
    (arn, tagged): (&str, Tagged),
    actions: &[String],
) -> Vec<(String, String)> {
    let fixed = [
        ("Action", "SimulatePrincipalPolicy"),
        ("Version", VERSION),
        ("PolicySourceArn", principal),
        ("ResourceArns.member.1", arn),
        ("MaxItems", "1000"),
    ];
    let mut words = fixed.map(own).to_vec();
    for (number, action) in (1..).zip(actions) {
        words.push((format!("ActionNames.member.{number}"), action.clone()));
    }
    let key = match tagged {
        Tagged::Request => "aws:RequestTag",
        Tagged::Resource => "aws:ResourceTag",
        Tagged::Nowhere => return words,
    };
    for (number, (tag, value)) in (1..).zip([(DRIVE, "selftest"), (OWNER, owner)]) {
        let entry = format!("ContextEntries.member.{number}");
        words.push((format!("{entry}.ContextKeyName"), format!("{key}/{tag}")));
        words.push((format!("{entry}.ContextKeyType"), "string".to_owned()));
        words.push((
            format!("{entry}.ContextKeyValues.member.1"),
            value.to_owned(),
        ));
    }
    words
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The content of all elements of that name, in order: text without markup, in these answers.
fn all<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(&open)
        .skip(1)
        .filter_map(move |rest| rest.split_once(close.as_str()).map(|(text, _)| text))
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::super::calls::Right;
    use super::super::loopback;
    use super::*;

    const ROLE: &str = "arn:aws:iam::111122223333:role/teams/blue/lab";

    /// The request: head and parameters.
    fn read(stream: &mut TcpStream) -> (String, Vec<(String, String)>) {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        loop {
            let length = stream.read(&mut buffer).unwrap();
            text.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let head = head.to_lowercase();
            let (_, rest) = head.split_once("content-length: ").unwrap();
            let wanted: usize = rest.lines().next().unwrap().parse().unwrap();
            if body.len() == wanted {
                let words = form_urlencoded::parse(body.as_bytes()).into_owned();
                return (head, words.collect());
            }
        }
    }

    /// An IAM in which that role may do all but launch into a subnet.
    fn serve(listener: &TcpListener) {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let (head, words) = read(&mut stream);
            assert!(
                head.contains("/us-east-1/iam/aws4_request, signedheaders="),
                "{head}"
            );
            let word = |name: &str| {
                let found = words.iter().find(|(own, _)| own == name);
                found.map(|(_, value)| value.as_str()).unwrap_or_default()
            };
            let (status, body) = if word("Action") == "GetRole" {
                assert_eq!(word("RoleName"), "lab");
                (
                    200,
                    format!("<GetRoleResult><Role><Arn>{ROLE}</Arn></Role></GetRoleResult>"),
                )
            } else if word("PolicySourceArn") == ROLE {
                let arn = word("ResourceArns.member.1");
                let key = word("ContextEntries.member.1.ContextKeyName");
                // As EC2 asks: the tags of the request for what is made, and for nothing else.
                assert_eq!(
                    key.starts_with("aws:RequestTag/"),
                    arn.ends_with("/*"),
                    "{arn}"
                );
                let on_a_subnet = arn.contains(":subnet/");
                assert!(!on_a_subnet || key.is_empty(), "{key}");
                let actions = words
                    .iter()
                    .filter(|(name, _)| name.starts_with("ActionNames."));
                let members = actions.map(|(_, action)| {
                    let denied = on_a_subnet && action == "ec2:RunInstances";
                    let decision = if denied { "implicitDeny" } else { "allowed" };
                    format!(
                        "<member><EvalActionName>{action}</EvalActionName>\
                         <EvalDecision>{decision}</EvalDecision></member>"
                    )
                });
                (200, members.collect::<String>())
            } else {
                let words =
                    "<Error><Code>NoSuchEntity</Code><Message>no such role</Message></Error>";
                (404, words.to_owned())
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    }

    #[tokio::test]
    async fn iam_is_asked_of_every_call_and_of_a_role_by_its_whole_name() {
        let mut ec2 = loopback::after_a_call().await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        ec2.iam_at = Some(format!("http://{}/", listener.local_addr().unwrap()));
        std::thread::spawn(move || serve(&listener));
        let caller = "arn:aws:sts::111122223333:assumed-role/lab/session";
        let (count, forbidden) = ec2.simulate(caller).await.unwrap();
        assert!(count > CALLS.len(), "{count}");
        let expected = Forbidden {
            action: "ec2:RunInstances".to_owned(),
            on: "subnet",
            decision: "implicitDeny".to_owned(),
        };
        assert_eq!(forbidden, [expected]);
    }

    #[tokio::test]
    async fn a_refusal_is_recognised_by_its_code() {
        let mut ec2 = loopback::after_a_call().await;
        let (url, server) = loopback::answering(&[
            b"HTTP/1.1 403 F\r\ncontent-length: 76\r\nconnection: close\r\n\r\n\
              <Error><Code>AccessDenied</Code><Message>you may not</Message></Error>     \n",
            b"HTTP/1.1 500 F\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        ]);
        ec2.iam_at = Some(url);
        let user = "arn:aws:iam::111122223333:user/me";
        let denied = ec2.simulate(user).await.unwrap_err();
        assert!(denied.is_denied(), "{denied}");
        assert_eq!(denied.to_string(), "AccessDenied: you may not");
        assert_eq!(
            ec2.simulate(user).await.unwrap_err().to_string(),
            "HTTP 500"
        );
        server.join().unwrap();
    }

    #[test]
    fn every_call_that_needs_a_right_is_asked_about() {
        let asked = questions();
        for call in CALLS {
            let action = format!("{}:{}", call.service, call.name);
            let is_asked = asked
                .iter()
                .any(|(_, _, actions)| actions.contains(&action));
            assert_eq!(is_asked, call.right != Right::Free, "{action}");
        }
        let of = |kind: &str, at: Tagged| {
            let mut asked = asked.iter();
            let found = asked.find(|(on, tagged, _)| (*on, *tagged) == (kind, at));
            &found.unwrap().2
        };
        let subnet = of("subnet", Tagged::Nowhere);
        assert!(subnet.iter().all(|action| action == "ec2:RunInstances"));
        let saves = "ec2:CreateSnapshot".to_owned();
        assert!(of("volume", Tagged::Resource).contains(&saves));
        assert!(!of("volume", Tagged::Request).contains(&saves));
        // Both the copy and its original.
        let copies = "ec2:CopySnapshot".to_owned();
        for at in [Tagged::Request, Tagged::Resource] {
            assert!(of("snapshot", at).contains(&copies), "{at:?}");
        }
    }

    #[test]
    fn a_session_stands_for_its_role_and_the_account_for_nobody() {
        let of = |arn: &str| principal(arn).map_err(|error| error.to_string());
        let user = "arn:aws:iam::111122223333:user/me";
        assert_eq!(of(user).unwrap(), user);
        let session = "arn:aws-cn:sts::111122223333:assumed-role/lab/session";
        assert_eq!(
            of(session).unwrap(),
            "arn:aws-cn:iam::111122223333:role/lab"
        );
        assert!(of("arn:aws:iam::111122223333:root").is_err());
        assert!(of("arn:aws:sts::111122223333:federated-user/me").is_err());
        assert!(of("me").is_err());
    }
}
