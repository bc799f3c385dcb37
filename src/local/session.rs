//! Temporary credentials: a role's in an instance, or those that the folder's caller asks STS for.
//!
//! All that is to be known of them is in their session token, which is
//! `hex(role|instance|expiry|HMAC)`; access key and secret are HMACs of the token. All are made with
//! the folder's key, so that whoever has that key verifies them without a record, and nobody else can
//! make any.

use aws_sigv4::sign::v4::calculate_signature;
use jiff::Timestamp;
use subtle::ConstantTimeEq as _;

use super::store::Credentials;

/// The length of a secret access key of AWS's.
const SECRET: usize = 40;

/// The holder of temporary credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder {
    /// The caller whom the folder's key stands for.
    Owner,
    /// The role of an instance.
    Role {
        /// The role's name, which has no `|`.
        name: String,
        /// The instance's id.
        instance: String,
    },
}

/// A session: who may sign, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) holder: Holder,
    /// The end, in whole seconds.
    pub(super) expires: Timestamp,
}

/// The credentials of a session.
pub(super) struct Temporary {
    pub(super) key: Credentials,
    pub(super) token: String,
}

impl Session {
    /// Its credentials in the folder with the key `own`.
    pub(super) fn credentials(&self, own: &Credentials) -> Temporary {
        let words = self.words();
        let code = code(own, "token", &words);
        let token = hex::encode(format!("{words}|{code}"));
        let mut id = code_of(own, "id", &token, 16);
        id.make_ascii_uppercase();
        Temporary {
            key: Credentials {
                access_key_id: format!("ASIA{id}"),
                secret_access_key: code_of(own, "secret", &token, SECRET),
            },
            token,
        }
    }

    /// The session of a token that was made with the key `own`; none of any other text.
    pub(super) fn parse(token: &str, own: &Credentials) -> Option<Self> {
        let text = String::from_utf8(hex::decode(token).ok()?).ok()?;
        let [role, instance, expires, given] = text.split('|').collect::<Vec<_>>()[..] else {
            return None;
        };
        let holder = if role.is_empty() {
            Holder::Owner
        } else {
            Holder::Role {
                name: role.to_owned(),
                instance: instance.to_owned(),
            }
        };
        let session = Self {
            holder,
            expires: Timestamp::from_second(expires.parse().ok()?).ok()?,
        };
        let expected = code(own, "token", &session.words());
        let is_made_here: bool = expected.as_bytes().ct_eq(given.as_bytes()).into();
        is_made_here.then_some(session)
    }

    fn words(&self) -> String {
        let (role, instance) = match &self.holder {
            Holder::Owner => ("", ""),
            Holder::Role { name, instance } => (name.as_str(), instance.as_str()),
        };
        format!("{role}|{instance}|{}", self.expires.as_second())
    }
}

/// The HMAC-SHA256 of a text, in hexadecimal digits; another one for each `purpose`.
fn code(own: &Credentials, purpose: &str, text: &str) -> String {
    let text = format!("{purpose}|{text}");
    calculate_signature(&own.secret_access_key, text.as_bytes())
}

/// The first `digits` of [`code`].
fn code_of(own: &Credentials, purpose: &str, text: &str, digits: usize) -> String {
    code(own, purpose, text).chars().take(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &str) -> Credentials {
        Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: secret.to_owned(),
        }
    }

    fn sessions() -> [Session; 2] {
        let expires = Timestamp::from_second(1_800_000_000).unwrap();
        let role = Holder::Role {
            name: "lab+1=,.@_-".to_owned(),
            instance: "i-0123456789abcdef0".to_owned(),
        };
        [role, Holder::Owner].map(|holder| Session { holder, expires })
    }

    #[test]
    fn a_token_says_all_of_its_session_to_whoever_has_the_key() {
        let own = key("secret");
        for session in sessions() {
            let made = session.credentials(&own);
            assert_eq!(Session::parse(&made.token, &own), Some(session.clone()));
            assert!(made.key.access_key_id.starts_with("ASIA"));
            assert_eq!(made.key.access_key_id.len(), 20);
            assert_eq!(made.key.secret_access_key.len(), SECRET);
            let again = session.credentials(&own);
            assert!(again.key == made.key && again.token == made.token);
            assert_eq!(Session::parse(&made.token, &key("other")), None);
            assert!(session.credentials(&key("other")).key != made.key);
        }
    }

    #[test]
    fn a_token_that_anybody_changed_or_made_up_is_none() {
        let own = key("secret");
        for session in sessions() {
            let token = session.credentials(&own).token;
            let text = String::from_utf8(hex::decode(&token).unwrap()).unwrap();
            for (from, to) in [("18000", "28000"), ("i-0", "i-1"), ("lab", "all")] {
                let changed = hex::encode(text.replace(from, to));
                assert!(changed == token || Session::parse(&changed, &own).is_none());
            }
            for end in 0..token.len() {
                assert_eq!(Session::parse(&token[..end], &own), None, "{end}");
            }
            assert_eq!(Session::parse(&format!("{token}00"), &own), None);
        }
        for wrong in ["", "left over", "7c7c7c", "ff"] {
            assert_eq!(Session::parse(wrong, &own), None, "{wrong}");
        }
    }
}
