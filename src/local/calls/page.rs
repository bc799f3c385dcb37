//! `MaxResults` and `NextToken`: a long answer in pages.
//!
//! Items come in the order of their ids, and a token names the last one returned: an item that is
//! made or deleted between two pages neither repeats nor hides another. To clients it is opaque.

use sha2::{Digest as _, Sha256};

use super::request::Request;
use crate::wire::{ApiError, Xml};

/// The requested part of an answer.
pub(super) struct Page {
    call: &'static str,
    limit: usize,
    after: Option<String>,
}

impl Page {
    /// The requested page: between `least` and 1000 items (more count as 1000), all without
    /// `MaxResults`. Pages and ids (`by_id`) exclude each other.
    pub(super) fn new(
        request: Request<'_>,
        call: &'static str,
        least: u32,
        by_id: bool,
    ) -> Result<Self, ApiError> {
        let limit = request.number("MaxResults")?;
        if let Some(limit) = limit {
            if by_id {
                return Err(ApiError::client(
                    "InvalidParameterCombination",
                    "The parameter MaxResults cannot be used with a list of ids in the same request",
                ));
            }
            if limit < least {
                return Err(ApiError::client(
                    "InvalidParameterValue",
                    format!(
                        "Value ( {limit} ) for parameter maxResults is invalid. Expecting a value \
                         greater than or equal to {least}."
                    ),
                ));
            }
        }
        let after = request
            .text("NextToken")
            .map(|token| open(call, token))
            .transpose()?;
        let limit = limit.map_or(usize::MAX, |limit| limit.min(1000) as usize);
        Ok(Self { call, limit, after })
    }

    /// The page's part of `items`, each with the key it is ordered by, as the list `name`; and
    /// `nextToken` if there is more.
    pub(super) fn answer(
        &self,
        name: &'static str,
        items: impl IntoIterator<Item = (String, Vec<Xml>)>,
    ) -> Vec<Xml> {
        let mut items = Vec::from_iter(items);
        items.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut rest = items
            .into_iter()
            .skip_while(|(key, _)| self.after.as_ref().is_some_and(|after| key <= after));
        let mut page = Vec::new();
        let mut last = None;
        for (key, item) in rest.by_ref().take(self.limit) {
            last = Some(key);
            page.push(item);
        }
        let token = last
            .filter(|_| rest.next().is_some())
            .map(|key| Xml::text("nextToken", seal(self.call, &key)));
        [Xml::list(name, page)].into_iter().chain(token).collect()
    }
}

fn seal(call: &str, key: &str) -> String {
    format!("{}{}", hex::encode(key), check(call, key))
}

fn open(call: &str, token: &str) -> Result<String, ApiError> {
    let key = token
        .len()
        .checked_sub(16)
        .and_then(|split| token.split_at_checked(split));
    let key = key.and_then(|(digits, sum)| {
        let key = String::from_utf8(hex::decode(digits).ok()?).ok()?;
        (check(call, &key) == sum).then_some(key)
    });
    key.ok_or_else(|| ApiError::client("InvalidParameterValue", "Unable to parse pagination token"))
}

fn check(call: &str, key: &str) -> String {
    hex::encode(&Sha256::digest(format!("{call} {key}"))[..8])
}
