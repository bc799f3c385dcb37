//! Where in the account's network instances are launched: the default VPC, or a subnet's.
//!
//! Only looks. What lets a laptop in is [`super::group`]'s.

use aws_sdk_ec2::types::Filter;

use super::{Ec2, Error, SubnetId, VpcId, Zone, convert};

/// A subnet: one zone's part of a VPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// Its id.
    pub id: SubnetId,
    /// The VPC that it is a part of.
    pub vpc: VpcId,
    /// The zone that it is in: all its instances are.
    pub zone: Zone,
}

impl Ec2 {
    /// The region's default VPC (`DescribeVpcs`); `None` if it was deleted.
    pub async fn default_vpc(&self) -> Result<Option<VpcId>, Error> {
        const CALL: &str = "DescribeVpcs";
        let is_default = Filter::builder().name("is-default").values("true").build();
        let answer = self
            .patient
            .describe_vpcs()
            .filters(is_default)
            .send()
            .await
            .map_err(|error| Error::of(CALL, &error))?;
        answer
            .vpcs()
            .first()
            .map(|vpc| convert::id("the default VPC's id", vpc.vpc_id()))
            .transpose()
            .map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// One subnet by id (`DescribeSubnets`); [`super::Kind::NotFound`] if there is none.
    pub async fn subnet(&self, id: &SubnetId) -> Result<Subnet, Error> {
        const CALL: &str = "DescribeSubnets";
        let answer = self
            .patient
            .describe_subnets()
            .subnet_ids(id.as_str())
            .send()
            .await
            .map_err(|error| Error::of(CALL, &error))?;
        let subnet = answer
            .subnets()
            .first()
            .ok_or_else(|| Error::unreadable(CALL, "no subnet is in it"))?;
        convert::subnet(subnet).map_err(|doubt| Error::unreadable(CALL, doubt))
    }
}
