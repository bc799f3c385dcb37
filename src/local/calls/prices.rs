//! AWS Price List: what instances cost on demand, and disks.
//!
//! Sources: AWS Price List API reference, `GetProducts`; a product's attributes and terms are those of its answers
//! and of the files that AWS publishes. Prices of instances are those of us-east-1, in each region.

use serde_json::{Value, json};

use super::{Answer, Reading};
use crate::catalog::{Storage, TYPES, dollars, storage};
use crate::wire::{ApiError, Xml};

/// The only service here.
const EC2: &str = "AmazonEC2";

/// A product: its family, its attributes beside those that all have, its unit, and its price in millionths of a
/// dollar.
struct Product {
    family: &'static str,
    attributes: Value,
    unit: &'static str,
    price: u32,
}

/// `GetProducts`: the products that meet all filters, each with its price on demand.
pub(super) fn products(reading: &Reading<'_>) -> Answer {
    let body = reading.request.required("Body")?;
    let asked: Value = serde_json::from_str(body)
        .map_err(|error| ApiError::client("SerializationException", error.to_string()))?;
    if asked["ServiceCode"] != EC2 {
        return Err(invalid("Value for ServiceCode is unknown here"));
    }
    let none = Vec::new();
    let filters = asked["Filters"].as_array().unwrap_or(&none);
    let is_known = |filter: &&Value| filter["Type"] == "TERM_MATCH";
    if !filters.iter().all(|filter| is_known(&filter)) {
        return Err(invalid(
            "Only filters of the type TERM_MATCH are known here",
        ));
    }
    let region = &reading.inner.region;
    let mut found = Vec::new();
    for (number, product) in (1..).zip(all(&storage(region))) {
        let written = written(number, &product, region);
        let attributes = &written["product"]["attributes"];
        let meets = |filter: &Value| {
            let field = filter["Field"].as_str().unwrap_or_default();
            let own = match field {
                "productFamily" => &written["product"]["productFamily"],
                field => &attributes[field],
            };
            let (own, wanted) = (own.as_str(), filter["Value"].as_str());
            own.zip(wanted)
                .is_some_and(|(own, wanted)| own.eq_ignore_ascii_case(wanted))
        };
        if filters.iter().all(meets) {
            // The list is one of documents in strings.
            found.push(written.to_string());
        }
    }
    let most = asked["MaxResults"].as_u64().unwrap_or(100);
    found.truncate(usize::try_from(most).unwrap_or(100));
    let answer = json!({"FormatVersion": "aws_v1", "PriceList": found});
    Ok(vec![Xml::text("document", answer)])
}

fn invalid(why: &str) -> ApiError {
    ApiError::client("InvalidParameterException", why)
}

/// All products: the types, and gp3's storage, operations and throughput, and snapshots.
fn all(rates: &Storage) -> Vec<Product> {
    let usage = |name: &str| format!("{}{name}", rates.prefix);
    let types = TYPES.iter().map(|kind| Product {
        family: "Compute Instance",
        attributes: json!({
            "instanceType": kind.name,
            "operatingSystem": "Linux",
            "preInstalledSw": "NA",
            "tenancy": "Shared",
            "capacitystatus": "Used",
            "marketoption": "OnDemand",
            "licenseModel": "No License required",
            "vcpu": kind.vcpus.to_string(),
            "usagetype": usage(&format!("BoxUsage:{}", kind.name)),
            "operation": "RunInstances",
        }),
        unit: "Hrs",
        price: kind.on_demand_price(),
    });
    let of_gp3 = |family, name: &str, unit, price| Product {
        family,
        attributes: json!({"volumeApiName": "gp3", "usagetype": usage(name)}),
        unit,
        price,
    };
    let disks = [
        of_gp3("Storage", "EBS:VolumeUsage.gp3", "GB-Mo", rates.gib),
        of_gp3(
            "System Operation",
            "EBS:VolumeP-IOPS.gp3",
            "IOPS-Mo",
            rates.operation,
        ),
        of_gp3(
            "Provisioned Throughput",
            "EBS:VolumeP-Throughput.gp3",
            "GiBps-mo",
            1024 * rates.mib,
        ),
        Product {
            family: "Storage Snapshot",
            attributes: json!({"usagetype": usage("EBS:SnapshotUsage")}),
            unit: "GB-Mo",
            price: rates.snapshot,
        },
    ];
    types.chain(disks).collect()
}

/// A product as AWS writes it.
fn written(number: u32, product: &Product, region: &str) -> Value {
    let sku = format!("LOCAL{number:011}");
    let (term, rate) = (
        format!("{sku}.JRTCKXETXF"),
        format!("{sku}.JRTCKXETXF.6YS6EN2CT7"),
    );
    let mut attributes = product.attributes.clone();
    for (name, value) in [
        ("servicecode", EC2),
        ("regionCode", region),
        ("locationType", "AWS Region"),
    ] {
        attributes[name] = value.into();
    }
    json!({
        "product": {"productFamily": product.family, "attributes": attributes, "sku": sku},
        "serviceCode": EC2,
        "terms": {"OnDemand": {term: {
            "priceDimensions": {rate.clone(): {
                "unit": product.unit,
                "endRange": "Inf",
                "beginRange": "0",
                "rateCode": rate,
                "appliesTo": [],
                "pricePerUnit": {"USD": format!("{}0000", dollars(product.price))},
            }},
            "sku": sku,
            "offerTermCode": "JRTCKXETXF",
            "termAttributes": {},
        }}},
        "version": "20261101000000",
    })
}
