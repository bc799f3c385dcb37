//! The parameters of a call.

use std::collections::BTreeMap;

/// The parameters of one Query-protocol call, such as `Filter.1.Value.2=running`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(BTreeMap<String, String>);

impl Params {
    /// From a decoded form body.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    /// The parameter `name`, if given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Removes the parameter `name`, and returns it if given.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Adds a parameter; `false` if it was there already.
    pub(super) fn add(&mut self, name: String, value: String) -> bool {
        self.0.insert(name, value).is_none()
    }

    /// The values of `name.1`, `name.2`, …, in order.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<&str> {
        (1..=self.0.len())
            .map_while(|index| self.get(&format!("{name}.{index}")))
            .collect()
    }

    /// The parameters below `name.1.`, `name.2.`, …, each with that prefix taken off.
    #[must_use]
    pub fn structs(&self, name: &str) -> Vec<Self> {
        (1..=self.0.len())
            .map(|index| self.below(&format!("{name}.{index}")))
            .take_while(|params| !params.0.is_empty())
            .collect()
    }

    /// The parameters below `name.`, with that prefix taken off.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        let prefix = format!("{name}.");
        Self(
            self.0
                .range(prefix.clone()..)
                .map_while(|(key, value)| {
                    Some((key.strip_prefix(&prefix)?.to_owned(), value.clone()))
                })
                .collect(),
        )
    }

    /// Every name given, to refuse unknown ones.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::Params;

    fn params(form: &str) -> Params {
        Params::new(form_urlencoded::parse(form.as_bytes()).into_owned())
    }

    #[test]
    fn lists_keep_their_order_past_nine() {
        let form: Vec<String> = (1..=11).map(|i| format!("Id.{i}=v{i}")).collect();
        let params = params(&form.join("&"));
        assert_eq!(params.list("Id").len(), 11);
        assert_eq!(params.list("Id")[10], "v11");
    }

    #[test]
    fn structs_hold_what_stands_below_their_number() {
        let params = params("Filter.1.Name=a&Filter.1.Value.1=x&Filter.10.Name=no&Filter.2.Name=b");
        let filters = params.structs("Filter");
        assert_eq!(filters.len(), 2);
        assert_eq!(filters[0].list("Value"), ["x"]);
        assert_eq!(filters[1].get("Name"), Some("b"));
    }

    #[test]
    fn names_that_only_begin_alike_are_not_below() {
        let params = params("Ebs.Size=1&EbsOptimized=true&Ebs-x=1");
        assert_eq!(params.below("Ebs").names().collect::<Vec<_>>(), ["Size"]);
    }
}
