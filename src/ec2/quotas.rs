//! Quotas: how many vCPUs of a family an account may run at once, by market.
//!
//! EC2's refusals do not say which quota they are about. Names and codes: AWS General Reference,
//! *Amazon EC2 instance type quotas*; what counts against which, by the letters that a type's name
//! begins with: EC2 user guide, *Amazon EC2 On-Demand Instances quotas*, *Spot Instance quotas*.

use aws_sdk_servicequotas::types::ServiceQuota;

use super::{Ec2, Error, Market};

/// A quota of vCPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quota {
    /// The quota's code, such as `L-34B43A08`.
    pub code: &'static str,
    /// As Service Quotas shows it.
    pub name: &'static str,
}

const fn quota(code: &'static str, name: &'static str) -> Quota {
    Quota { code, name }
}

/// Families by their letters, then their quotas as spot and on demand.
type Row = (&'static [&'static str], Option<Quota>, Option<Quota>);

/// The families that have a quota.
const FAMILIES: &[Row] = &[
    (
        &["a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"],
        Some(quota(
            "L-34B43A08",
            "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
        )),
        Some(quota(
            "L-1216C47A",
            "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
        )),
    ),
    (
        &["g", "gr", "vt"],
        Some(quota("L-3819A6DF", "All G and VT Spot Instance Requests")),
        Some(quota("L-DB2E81BA", "Running On-Demand G and VT instances")),
    ),
    (
        &["p2", "p3", "p4"],
        Some(quota(
            "L-7212CCBC",
            "All P4, P3 and P2 Spot Instance Requests",
        )),
        Some(quota("L-417A185B", "Running On-Demand P instances")),
    ),
    (
        &["p5"],
        Some(quota("L-C4BD4855", "All P5 Spot Instance Requests")),
        Some(quota("L-417A185B", "Running On-Demand P instances")),
    ),
    // For later families the page names no spot quota.
    (
        &["p"],
        None,
        Some(quota("L-417A185B", "Running On-Demand P instances")),
    ),
    (
        &["x"],
        Some(quota("L-E3A00192", "All X Spot Instance Requests")),
        Some(quota("L-7295265B", "Running On-Demand X instances")),
    ),
    (
        &["f"],
        Some(quota("L-88CF9481", "All F Spot Instance Requests")),
        Some(quota("L-74FC7D96", "Running On-Demand F instances")),
    ),
    (
        &["inf"],
        Some(quota("L-B5D1601B", "All Inf Spot Instance Requests")),
        Some(quota("L-1945791B", "Running On-Demand Inf instances")),
    ),
    (
        &["trn"],
        Some(quota("L-6B0D517C", "All Trn Spot Instance Requests")),
        Some(quota("L-2C3B7624", "Running On-Demand Trn instances")),
    ),
    (
        &["dl"],
        Some(quota("L-85EED4F7", "All DL Spot Instance Requests")),
        Some(quota("L-6E869C2A", "Running On-Demand DL instances")),
    ),
    (
        &["hpc"],
        None,
        Some(quota("L-F7808C92", "Running On-Demand HPC instances")),
    ),
    (
        &["u"],
        None,
        Some(quota(
            "L-43DA4232",
            "Running On-Demand High Memory instances",
        )),
    ),
];

impl Quota {
    /// The quota that a type counts against in a market, if it is known.
    #[must_use]
    pub fn for_type(instance_type: &str, market: Market) -> Option<Self> {
        let family = instance_type.split('.').next().unwrap_or_default();
        let end = family.find(|letter: char| !letter.is_ascii_lowercase());
        let letters = &family[..end.unwrap_or(family.len())];
        // With its generation: some letters have one quota each generation.
        let generation = &family[..family.len().min(letters.len() + 1)];
        let of = |name: &str| {
            let row = FAMILIES.iter().find(|(names, ..)| names.contains(&name));
            row.map(|(_, spot, on_demand)| match market {
                Market::Spot => *spot,
                Market::OnDemand => *on_demand,
            })
        };
        of(generation).or_else(|| of(letters)).flatten()
    }
}

impl Ec2 {
    /// How many vCPUs a quota allows now (Service Quotas `GetServiceQuota`).
    pub async fn quota(&self, quota: Quota) -> Result<f64, Error> {
        const CALL: &str = "GetServiceQuota";
        let request = self.quotas.get_service_quota().service_code("ec2");
        let answer = request
            .quota_code(quota.code)
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        let value = answer.quota().and_then(ServiceQuota::value);
        value.ok_or_else(|| Error::unreadable(CALL, "it has no value"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_type_counts_against_the_quota_of_its_family() {
        let code = |name, market| Quota::for_type(name, market).map(|quota| quota.code);
        for (name, spot, on_demand) in [
            ("m5.large", Some("L-34B43A08"), Some("L-1216C47A")),
            ("c7i-flex.large", Some("L-34B43A08"), Some("L-1216C47A")),
            ("im4gn.large", Some("L-34B43A08"), Some("L-1216C47A")),
            ("r8g.large", Some("L-34B43A08"), Some("L-1216C47A")),
            ("g4dn.xlarge", Some("L-3819A6DF"), Some("L-DB2E81BA")),
            ("gr6f.4xlarge", Some("L-3819A6DF"), Some("L-DB2E81BA")),
            ("vt1.3xlarge", Some("L-3819A6DF"), Some("L-DB2E81BA")),
            ("p3dn.24xlarge", Some("L-7212CCBC"), Some("L-417A185B")),
            ("p4d.24xlarge", Some("L-7212CCBC"), Some("L-417A185B")),
            ("p5en.48xlarge", Some("L-C4BD4855"), Some("L-417A185B")),
            ("p6-b200.48xlarge", None, Some("L-417A185B")),
            ("x2idn.16xlarge", Some("L-E3A00192"), Some("L-7295265B")),
            ("f2.6xlarge", Some("L-88CF9481"), Some("L-74FC7D96")),
            ("inf2.xlarge", Some("L-B5D1601B"), Some("L-1945791B")),
            ("trn1.2xlarge", Some("L-6B0D517C"), Some("L-2C3B7624")),
            ("dl1.24xlarge", Some("L-85EED4F7"), Some("L-6E869C2A")),
            ("hpc7g.4xlarge", None, Some("L-F7808C92")),
            ("u-6tb1.112xlarge", None, Some("L-43DA4232")),
            ("u7i-12tb.224xlarge", None, Some("L-43DA4232")),
            ("mac2.metal", None, None),
            ("qx9.large", None, None),
        ] {
            assert_eq!(code(name, Market::Spot), spot, "{name}");
            assert_eq!(code(name, Market::OnDemand), on_demand, "{name}");
        }
    }

    #[test]
    fn a_code_has_one_name() {
        let mut names = BTreeMap::new();
        let quotas = FAMILIES
            .iter()
            .flat_map(|(_, spot, on_demand)| [*spot, *on_demand]);
        for Quota { code, name } in quotas.flatten() {
            assert_eq!(*names.entry(code).or_insert(name), name);
        }
    }
}
