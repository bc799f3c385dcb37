//! `xdrive policy`: the IAM policy that allows what xdrive does, and no more.
//!
//! Made from the one list of calls ([`crate::ec2::calls`]). What changes or destroys is allowed only
//! on what carries xdrive's tags, and what is made has to carry them from the first moment: tags may
//! be given in the create call, and changed on what has them, and nowhere else. IAM cannot tell one
//! drive's things from another's: whoever has this policy may use every drive of the account.

use serde_json::{Value, json};

use crate::ec2::calls::{CALLS, Right};
use crate::failure::Failure;
use crate::report;

/// Things whose ARNs name no account (Service authorization reference, *Resource types defined by
/// Amazon EC2*).
const OF_NOBODY: [&str; 2] = ["image", "snapshot"];

/// Things that are a drive's also where they only take part in making something.
const OF_A_DRIVE: [&str; 2] = ["snapshot", "volume"];

/// Prints it; `role` is what instances may be given, an IAM role's ARN.
pub fn print(role: Option<&str>) -> Result<u8, Failure> {
    let text = format!("{:#}\n", policy(role));
    report::data(&text).map_err(anyhow::Error::from)?;
    Ok(0)
}

/// The policy document (IAM user guide, *IAM JSON policy elements reference*).
#[must_use]
pub fn policy(role: Option<&str>) -> Value {
    let mut statements = Statements::default();
    let mut creating = Vec::new();
    let mut created: Vec<&str> = Vec::new();
    for call in CALLS {
        let action = format!("{}:{}", call.service, call.name);
        match call.right {
            Right::Free => {}
            Right::Read => statements.allow(&action, &json!("*"), &Value::Null),
            Right::Own { kinds, tag } => statements.allow(&action, &arns(kinds), &carries(tag)),
            Right::Make { kinds, tag, with } => {
                statements.allow(&action, &arns(kinds), &asks_for(tag));
                let (own, others): (Vec<&str>, Vec<&str>) =
                    with.iter().partition(|kind| OF_A_DRIVE.contains(kind));
                statements.allow(&action, &arns(&own), &carries(tag));
                statements.allow(&action, &arns(&others), &Value::Null);
                creating.push(call.name);
                created.extend(kinds);
            }
        }
    }
    created.sort_unstable();
    created.dedup();
    let in_a_create_call = json!({"StringEquals": {"ec2:CreateAction": creating}});
    statements.allow("ec2:CreateTags", &arns(&created), &in_a_create_call);
    // EC2 resolves `resolve:ssm:` images as the caller.
    let parameters = json!("arn:aws:ssm:*::parameter/aws/service/*");
    statements.allow("ssm:GetParameters", &parameters, &Value::Null);
    // Made once in each account, by its first spot request.
    statements.allow(
        "iam:CreateServiceLinkedRole",
        &json!("arn:aws:iam::*:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"),
        &json!({"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}),
    );
    if let Some(role) = role {
        let to_instances = json!({"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}});
        statements.allow("iam:PassRole", &json!(role), &to_instances);
    }
    json!({"Version": "2012-10-17", "Statement": statements.0})
}

/// Statements: actions on the same things under the same condition share one.
#[derive(Default)]
struct Statements(Vec<Value>);

impl Statements {
    /// Where `condition` is null there is none.
    fn allow(&mut self, action: &str, resource: &Value, condition: &Value) {
        if resource.as_array().is_some_and(Vec::is_empty) {
            return;
        }
        let same = |statement: &&mut Value| {
            statement["Resource"] == *resource && statement["Condition"] == *condition
        };
        if let Some(statement) = self.0.iter_mut().find(same)
            && let Some(actions) = statement["Action"].as_array_mut()
        {
            actions.push(json!(action));
            return;
        }
        let mut statement = json!({"Effect": "Allow", "Action": [action], "Resource": resource});
        if !condition.is_null() {
            statement["Condition"] = condition.clone();
        }
        self.0.push(statement);
    }
}

fn arns(kinds: &[&str]) -> Value {
    let arn = |kind: &&str| {
        let account = if OF_NOBODY.contains(kind) { "" } else { "*" };
        json!(format!("arn:aws:ec2:*:{account}:{kind}/*"))
    };
    kinds.iter().map(arn).collect()
}

/// What is used has the tag.
fn carries(tag: &str) -> Value {
    json!({"Null": {format!("aws:ResourceTag/{tag}"): "false"}})
}

/// What is made gets the tag.
fn asks_for(tag: &str) -> Value {
    json!({"Null": {format!("aws:RequestTag/{tag}"): "false"}})
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::policy;

    /// The longest that a managed policy may be, white space not counted (IAM user guide, *IAM and
    /// STS character limits*).
    const LONGEST: usize = 6144;

    fn statements() -> Vec<Value> {
        policy(None)["Statement"].as_array().unwrap().clone()
    }

    fn allows(statement: &Value, action: &str) -> bool {
        let actions = statement["Action"].as_array().unwrap();
        actions.contains(&json!(action))
    }

    #[test]
    fn what_destroys_is_tied_to_a_tag() {
        for action in [
            "ec2:TerminateInstances",
            "ec2:DeleteVolume",
            "ec2:DeleteSnapshot",
            "ec2:DetachVolume",
            "ec2:DeleteSecurityGroup",
            "ec2:RevokeSecurityGroupIngress",
        ] {
            let all = statements();
            let mut found = all.iter().filter(|statement| allows(statement, action));
            let statement = found.next().unwrap();
            let condition = statement["Condition"]["Null"].as_object().unwrap();
            let (key, value) = condition.iter().next().unwrap();
            assert!(
                key.starts_with("aws:ResourceTag/xdrive:"),
                "{action}: {key}"
            );
            assert_eq!(value, "false");
            assert!(found.next().is_none(), "{action} is allowed elsewhere too");
        }
    }

    #[test]
    fn nothing_that_is_no_read_is_allowed_everywhere() {
        for statement in statements() {
            if statement["Resource"] == "*" {
                for action in statement["Action"].as_array().unwrap() {
                    let action = action.as_str().unwrap();
                    assert!(action.starts_with("ec2:Describe"), "{action}");
                }
            }
        }
    }

    #[test]
    fn a_snapshot_is_made_with_its_tag_of_a_volume_that_has_one() {
        let made: Vec<_> = statements()
            .into_iter()
            .filter(|statement| allows(statement, "ec2:CreateSnapshot"))
            .map(|statement| {
                (
                    statement["Resource"].clone(),
                    statement["Condition"].clone(),
                )
            })
            .collect();
        let (asked, carried) = (
            "aws:RequestTag/xdrive:drive",
            "aws:ResourceTag/xdrive:drive",
        );
        assert_eq!(
            made,
            [
                (
                    json!(["arn:aws:ec2:*::snapshot/*"]),
                    json!({"Null": {asked: "false"}})
                ),
                (
                    json!(["arn:aws:ec2:*:*:volume/*"]),
                    json!({"Null": {carried: "false"}})
                ),
            ]
        );
    }

    #[test]
    fn tags_are_given_in_create_calls_and_to_what_has_them() {
        let all = statements();
        let tagging: Vec<_> = all
            .iter()
            .filter(|statement| allows(statement, "ec2:CreateTags"))
            .map(|statement| &statement["Condition"])
            .collect();
        assert_eq!(tagging.len(), 2);
        assert_eq!(tagging[0]["Null"]["aws:ResourceTag/xdrive:drive"], "false");
        assert_eq!(
            tagging[1]["StringEquals"]["ec2:CreateAction"],
            json!([
                "CreateSecurityGroup",
                "CreateSnapshot",
                "CreateVolume",
                "RunInstances"
            ])
        );
    }

    #[test]
    fn it_fits_a_managed_policy() {
        let text = policy(Some("arn:aws:iam::111122223333:role/xdrive")).to_string();
        assert!(text.len() <= LONGEST, "{} characters", text.len());
    }

    #[test]
    fn a_role_may_be_passed_only_if_it_is_named() {
        let passes = |policy: &Value| policy.to_string().contains("iam:PassRole");
        assert!(!passes(&policy(None)));
        assert!(passes(&policy(Some(
            "arn:aws:iam::111122223333:role/xdrive"
        ))));
    }
}
