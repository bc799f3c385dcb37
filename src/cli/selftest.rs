//! `xdrive selftest`.

use std::path::PathBuf;

use clap::Args;

use super::Reach;
use crate::config;
use crate::ec2::{Price, SubnetId};

/// What its help ends with.
pub(super) const END: &str = "\
The report:
  version         1
  xdrive          the version that wrote it
  drives          what the names of the drives begin with that were made
  owner           the caller, if that could be found out
  region, place   where: aws, endpoint (one of its own), folder or paper
  began, ended    when (RFC 3339)
  budget_dollars, spent_dollars
                  what was allowed, and what is estimated to have been spent
  lines           a list: name; result (ok, failed or not-asked); found for ok,
                  why and perhaps a hint for the others; dollars where a host
                  was had for it
  left            ids of what could not be cleared away, and is still billed";

/// `xdrive selftest`.
#[derive(Debug, Args)]
pub struct Selftest {
    /// The most that may be spent, in US dollars. Nothing is begun that could cost more than is left
    /// of it, should this computer vanish.
    #[arg(long, value_name = "DOLLARS", default_value = "0.50")]
    pub budget: Price,

    /// Also launch a type with a GPU.
    #[arg(long)]
    pub gpu: bool,

    /// Also ask Session Manager, with instances that have this instance profile (which needs
    /// `AmazonSSMManagedInstanceCore`).
    #[arg(long, value_name = "PROFILE", value_parser = config::instance_profile)]
    pub session_manager: Option<String>,

    /// Also have Fault Injection Service take back a spot instance of selftest's own, in a role
    /// that you have made for it: it trusts `fis.amazonaws.com`, and allows
    /// `ec2:SendSpotInstanceInterruptions` and `ec2:DescribeInstances`.
    #[arg(long, value_name = "ARN", value_parser = config::role)]
    pub fis_role: Option<String>,

    /// Launch hosts also where an endpoint of its own answers (`AWS_ENDPOINT_URL`), which need not
    /// have any.
    #[arg(long)]
    pub hosts: bool,

    /// Where the report is written [default: xdrive-selftest-….json in this folder].
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// The image of the drives that are made: a registry's, or an archive [default: as for new
    /// drives].
    #[arg(long, value_name = "REFERENCE|TAR")]
    pub image: Option<String>,

    /// The subnet to launch in [default: the default VPC, any zone].
    #[arg(long, value_name = "SUBNET")]
    pub subnet: Option<SubnetId>,

    /// How hosts are reached.
    #[command(flatten)]
    pub reach: Reach,
}
