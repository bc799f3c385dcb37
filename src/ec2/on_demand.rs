//! Prices of AWS Price List: what instances cost on demand, and storage.
//!
//! Sources: AWS Price List API reference, `GetProducts`; AWS Billing user guide, *Using the AWS Price List Query API*,
//! which names its endpoints. One is enough for all regions of a partition. The call is signed by
//! [`super::signed`]; its right, `pricing:GetProducts`, is optional: without it no price is known, and none is made up.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::error::{Error, Kind};
use super::partition::Partition;
use super::signed::Scope;
use super::{Ec2, Market, Price, StoragePrices, Zone};

const CALL: &str = "GetProducts";

/// The attributes of what an instance of xdrive is billed as, beside its type and its region.
const INSTANCE: [(&str, &str); 4] = [
    ("operatingSystem", "Linux"),
    ("preInstalledSw", "NA"),
    ("tenancy", "Shared"),
    ("capacitystatus", "Used"),
];

/// How long the list may take to answer: nothing waits long for a price.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many types are asked about at once.
const AT_ONCE: usize = 8;

impl Ec2 {
    /// The prices on demand of these types in this region, an hour; those without one are missing. Fails if AWS has
    /// no price list there, or the caller lacks the right.
    pub async fn on_demand_prices(
        &self,
        types: &[String],
    ) -> Result<BTreeMap<String, Price>, Error> {
        let mut found = BTreeMap::new();
        for types in types.chunks(AT_ONCE) {
            let mut asked = JoinSet::new();
            for name in types.iter().cloned() {
                let ec2 = self.clone();
                asked.spawn(async move { (ec2.on_demand_price(&name).await, name) });
            }
            while let Some(Ok((price, name))) = asked.join_next().await {
                found.extend(price?.map(|price| (name, price)));
            }
        }
        Ok(found)
    }

    /// The price of an instance of this type there, in US dollars an hour; none where that is not known.
    pub async fn hourly_price(
        &self,
        instance_type: &str,
        zone: &Zone,
        market: Market,
    ) -> Result<Option<f64>, Error> {
        match market {
            Market::Spot => self.spot_price(instance_type, zone).await,
            Market::OnDemand => {
                let price = self.on_demand_price(instance_type).await?;
                Ok(price.map(Price::dollars))
            }
        }
    }

    /// The price on demand of this type in this region, an hour. It is asked for once, also where it is not to be
    /// had.
    pub async fn on_demand_price(&self, instance_type: &str) -> Result<Option<Price>, Error> {
        let known = || {
            self.on_demand
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(known) = known().get(instance_type) {
            return known.clone();
        }
        let asked = self.ask_on_demand_price(instance_type).await;
        known().insert(instance_type.to_owned(), asked.clone());
        asked
    }

    async fn ask_on_demand_price(&self, instance_type: &str) -> Result<Option<Price>, Error> {
        let mut filters = vec![
            ("instanceType", instance_type),
            ("regionCode", self.region()),
        ];
        filters.extend(INSTANCE);
        let listed = self.products(&filters).await?;
        let prices = listed.iter().filter_map(|product| {
            let attributes = &product["product"]["attributes"];
            // A list of blocks of capacity has other prices for the same type.
            let is_on_demand =
                matches!(attributes["marketoption"].as_str(), None | Some("OnDemand"));
            let is_it = attributes["instanceType"] == instance_type && is_on_demand;
            is_it.then(|| price(product, "Hrs")).flatten()
        });
        Ok(prices.max())
    }

    /// The prices of storage in this region. AWS is asked once, for some seconds at most; where it does not say, they
    /// are the default.
    pub async fn storage_prices(&self) -> StoragePrices {
        let asked = || async { self.ask_storage_prices().await.ok().flatten() };
        self.storage.get_or_init(asked).await.unwrap_or_default()
    }

    /// The prices of storage as far as they are known: nothing is asked for.
    #[must_use]
    pub fn known_storage_prices(&self) -> StoragePrices {
        self.storage.get().copied().flatten().unwrap_or_default()
    }

    /// Asks for the prices of storage; none where the list lacks one of them.
    async fn ask_storage_prices(&self) -> Result<Option<StoragePrices>, Error> {
        let region = ("regionCode", self.region());
        let volumes = [("volumeApiName", "gp3"), region];
        let snapshots = [("productFamily", "Storage Snapshot"), region];
        let (volumes, snapshots) =
            tokio::try_join!(self.products(&volumes), self.products(&snapshots))?;
        Ok(storage_prices(&[volumes, snapshots].concat()))
    }

    /// The products that meet all of these filters, a page of them at most.
    async fn products(&self, filters: &[(&str, &str)]) -> Result<Vec<Value>, Error> {
        let failed = |why: String| Error::of_kind(CALL, Kind::Invalid, why);
        let (url, region) = self.price_list().map_err(failed)?;
        let filters = filters.iter();
        let filters = filters
            .map(|(field, value)| json!({"Type": "TERM_MATCH", "Field": field, "Value": value}));
        let body = json!({
            "ServiceCode": "AmazonEC2",
            "FormatVersion": "aws_v1",
            "Filters": filters.collect::<Value>(),
            "MaxResults": 100,
        });
        let request = http::Request::post(url)
            .header("content-type", "application/x-amz-json-1.1")
            .header("x-amz-target", format!("AWSPriceListService.{CALL}"))
            .body(body.to_string())
            .map_err(|error| failed(error.to_string()))?;
        let scope = Scope {
            service: "pricing",
            region: &region,
        };
        let reached = self.reached().map_err(failed)?;
        let answer = timeout(PATIENCE, reached.signed(scope, request)).await;
        let late = || Err(format!("no answer within {} s", PATIENCE.as_secs()));
        let answer = answer.unwrap_or_else(|_| late());
        let answer = answer.map_err(|why| Error::of_kind(CALL, Kind::Ambiguous, why))?;
        let document = answer
            .document()
            .map_err(|(code, message)| Error::refused(CALL, answer.status, code, message))?;
        let listed = document.as_ref().and_then(|it| it["PriceList"].as_array());
        let listed = listed.ok_or_else(|| Error::unreadable(CALL, "it has no list of prices"))?;
        // Documents in strings; a few clients of AWS's have seen them as they are.
        let read = |product: &Value| match product.as_str() {
            Some(text) => serde_json::from_str(text),
            None => Ok(product.clone()),
        };
        let products: Result<Vec<Value>, _> = listed.iter().map(read).collect();
        products.map_err(|error| Error::unreadable(CALL, error))
    }

    /// The URL of the price list, and the region that its requests are signed for.
    fn price_list(&self) -> Result<(String, String), String> {
        let partition = Partition::of_region(self.region());
        let region = match partition {
            Partition::Aws => "us-east-1",
            Partition::Cn => "cn-northwest-1",
            Partition::UsGov | Partition::Eusc => {
                return Err(format!("AWS has no price list for {partition}"));
            }
        };
        let own = self.prices_at.as_ref();
        let url = own.map_or_else(
            || format!("https://api.pricing.{region}.{}", partition.domain()),
            |url| url.trim_end_matches('/').to_owned(),
        );
        Ok((format!("{url}/"), region.to_owned()))
    }
}

/// The price on demand of a product, in US dollars for one of this unit; none if it has another currency or
/// unit, or is free.
fn price(product: &Value, unit: &str) -> Option<Price> {
    let terms = product["terms"]["OnDemand"].as_object()?;
    let dimensions = terms
        .values()
        .filter_map(|term| term["priceDimensions"].as_object());
    let of_unit = dimensions
        .flat_map(|dimensions| dimensions.values())
        .filter(|dimension| dimension["unit"] == unit);
    let prices =
        of_unit.filter_map(|dimension| dimension["pricePerUnit"]["USD"].as_str()?.parse().ok());
    prices.filter(|price| *price > Price::default()).max()
}

/// The prices of storage by these products of a region; none if one of them is missing.
fn storage_prices(products: &[Value]) -> Option<StoragePrices> {
    let of = |usage: &str, unit: &str| {
        let is_it = |product: &&Value| {
            let attributes = &product["product"]["attributes"];
            let own = attributes["usagetype"].as_str().unwrap_or_default();
            let place = attributes["locationType"].as_str();
            // Other regions have a prefix, such as `EUC1-`. A disk at a customer's is another product.
            matches!(place, None | Some("AWS Region"))
                && (own == usage || own.ends_with(&format!("-{usage}")))
        };
        let found = products.iter().filter(is_it);
        found.filter_map(|product| price(product, unit)).max()
    };
    Some(StoragePrices {
        volume: of("EBS:VolumeUsage.gp3", "GB-Mo")?,
        iops: of("EBS:VolumeP-IOPS.gp3", "IOPS-Mo")?,
        throughput: of("EBS:VolumeP-Throughput.gp3", "GiBps-mo")?,
        snapshot: of("EBS:SnapshotUsage", "GB-Mo")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::speed::tests::speed;
    use super::super::{Speed, loopback};
    use super::*;

    /// A product as AWS writes it.
    fn product(kind: &str, option: &str, unit: &str, money: &str) -> Value {
        json!({
            "product": {"attributes": {"instanceType": kind, "marketoption": option}, "sku": "A"},
            "terms": {
                "OnDemand": {"A.T": {"priceDimensions": {"A.T.R": {
                    "unit": unit,
                    "pricePerUnit": {money: "0.0960000000"},
                }}}},
                "Reserved": {"A.R": {"priceDimensions": {"A.R.R": {
                    "unit": "Hrs",
                    "pricePerUnit": {"USD": "0.0610000000"},
                }}}},
            },
        })
    }

    /// The price of an m5.large in the answer that lists these products, and the request.
    async fn asked(products: &[Value]) -> (Result<Option<Price>, Error>, String) {
        let listed: Vec<String> = products.iter().map(Value::to_string).collect();
        let body = json!({"FormatVersion": "aws_v1", "PriceList": listed}).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let answer: &'static [u8] = (head + &body).into_bytes().leak();
        let (url, server) = loopback::answering(vec![answer].leak());
        let mut ec2 = loopback::after_a_call().await;
        ec2.prices_at = Some(url);
        let price = ec2.on_demand_price("m5.large").await;
        (price, server.join().unwrap().remove(0))
    }

    #[tokio::test]
    async fn the_price_is_that_of_the_type_on_demand_by_the_hour() {
        let right = product("m5.large", "OnDemand", "Hrs", "USD");
        let block = json!({"product": {"attributes": {"instanceType": "m5.large", "marketoption": "CapacityBlock"}},
            "terms": {"OnDemand": {"B": {"priceDimensions": {"B": {"unit": "Hrs", "pricePerUnit": {"USD": "9"}}}}}}});
        let (price, request) = asked(&[right, block]).await;
        assert_eq!(price.unwrap(), Some("0.096".parse().unwrap()));
        for words in [
            "x-amz-target: awspricelistservice.getproducts",
            "/us-east-1/pricing/aws4_request",
            r#"{"field":"regioncode","type":"term_match","value":"us-east-1"}"#,
        ] {
            assert!(request.contains(words), "{words}: {request}");
        }
    }

    #[tokio::test]
    async fn what_is_of_another_type_unit_or_currency_is_no_price() {
        for other in [
            product("m5.xlarge", "OnDemand", "Hrs", "USD"),
            product("m5.large", "OnDemand", "Quantity", "USD"),
            product("m5.large", "OnDemand", "Hrs", "CNY"),
            json!({"terms": {"OnDemand": "none"}}),
            json!(7),
        ] {
            assert_eq!(
                asked(std::slice::from_ref(&other)).await.0,
                Ok(None),
                "{other}"
            );
        }
        assert_eq!(asked(&[]).await.0, Ok(None));
    }

    #[tokio::test]
    async fn a_refusal_is_an_error_of_its_kind() {
        const DENIED: &[u8] = b"HTTP/1.1 400 B\r\nconnection: close\r\ncontent-length: 55\r\n\r\n\
            {\"__type\":\"AccessDeniedException\",\"Message\":\"may not\"} ";
        let (url, server) = loopback::answering(&[DENIED]);
        let mut ec2 = loopback::after_a_call().await;
        ec2.prices_at = Some(url);
        let error = ec2.on_demand_price("m5.large").await.unwrap_err();
        assert_eq!((error.kind, &*error.message), (Kind::Denied, "may not"));
        server.join().unwrap();
    }

    fn part(usage: &str, place: &str, unit: &str, dollars: &str) -> Value {
        json!({
            "product": {"attributes": {"usagetype": usage, "locationType": place}},
            "terms": {"OnDemand": {"A": {"priceDimensions": {"B": {
                "unit": unit,
                "pricePerUnit": {"USD": dollars},
            }}}}},
        })
    }

    const REGION: &str = "AWS Region";

    fn frankfurt() -> Vec<Value> {
        vec![
            part("EUC1-EBS:VolumeUsage.gp3", "AWS Outposts", "GB-Mo", "0.3"),
            part("EUC1-EBS:VolumeUsage.gp3", REGION, "GB-Mo", "0.0952000000"),
            part("EUC1-EBS:VolumeP-IOPS.gp3", REGION, "IOPS-Mo", "0.006"),
            part(
                "EUC1-EBS:VolumeP-Throughput.gp3",
                REGION,
                "GiBps-mo",
                "49.152",
            ),
            part("EUC1-EBS:SnapshotArchiveStorage", REGION, "GB-Mo", "0.0135"),
            part("EUC1-EBS:SnapshotUsage", REGION, "GB-Mo", "0.054"),
        ]
    }

    #[test]
    fn prices_are_those_of_the_region() {
        let prices = storage_prices(&frankfurt()).unwrap();
        assert_eq!(prices.volume(100, Speed::default()).cents(), 952);
        assert_eq!(
            prices.volume(100, speed(4_000, 225)).cents(),
            952 + 600 + 480
        );
        assert_eq!(prices.snapshot(100).cents(), 540);
        assert_eq!(prices.stored(50 << 30).cents(), 270);
    }

    #[test]
    fn a_list_that_lacks_a_price_is_none() {
        for missing in [1, 2, 3, 5] {
            let mut products = frankfurt();
            products.remove(missing);
            assert_eq!(storage_prices(&products), None, "{missing}");
        }
        assert_eq!(storage_prices(&[json!(7)]), None);
    }
}
