//! Instance types, with what a choice between them depends on.
//!
//! Named types are looked up by name; for required resources, all that could have them are listed
//! (current generation, no bare metal: those boot for a quarter of an hour and have another shape),
//! and the choice is the caller's. A GPU counts only if NVIDIA made it: drivers and container
//! toolkit of the public images are NVIDIA's. A part of one (`g6f`, `gr6f`) is not counted, but its
//! type needs the driver too.
//!
//! Prices, and where a type is sold, are in [`super::prices`].

use aws_sdk_ec2::types::{self as sdk, Filter};
use serde::Serialize;

use super::pages::read_pages;
use super::{Arch, Ec2, Error, Market};

/// The maker of the GPUs that count.
const NVIDIA: &str = "NVIDIA";

/// Types a page: the most that `DescribeInstanceTypes` allows.
const PAGE: i32 = 100;

/// A type of instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that EC2 says of a type, and none follows from another"
)]
pub struct InstanceType {
    /// The type's name, such as `t3.medium`.
    pub name: String,
    /// Virtual CPUs.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub cpus: u32,
    /// Memory, in MiB.
    #[cfg_attr(test, schemars(range(min = 1)))]
    #[serde(rename = "memory_mib")]
    pub memory: u32,
    /// How many whole GPUs of NVIDIA's it has.
    pub gpus: u32,
    /// Whether it has a part of one of NVIDIA's, and no whole one.
    pub part_of_gpu: bool,
    /// Whether it has an accelerator of any kind: a GPU, also a part of one or another maker's, or
    /// what AWS lists as Neuron, inference, media or FPGA.
    #[serde(skip)]
    pub has_accelerator: bool,
    /// Whether that is AWS's own, Trainium or Inferentia: it needs a driver of its own.
    #[serde(skip)]
    pub is_neuron: bool,
    /// The architecture that its programs are compiled for.
    pub arch: Arch,
    /// Whether its CPUs are meant for bursts: above a baseline they cost extra.
    pub burstable: bool,
    /// Whether AWS's free tier has it.
    #[serde(skip)]
    pub free_tier: bool,
    /// Whether it is sold as spot.
    #[serde(skip)]
    pub spot: bool,
    /// Whether it is sold on demand.
    #[serde(skip)]
    pub on_demand: bool,
}

impl InstanceType {
    /// The family of the type of this name, such as `c6a` of c6a.large.
    #[must_use]
    pub fn family_of(name: &str) -> &str {
        name.split('.').next().unwrap_or_default()
    }

    /// Whether it needs NVIDIA's driver.
    #[must_use]
    pub fn needs_driver(&self) -> bool {
        self.gpus > 0 || self.part_of_gpu
    }

    /// The price of a vCPU-hour above its baseline, on top of its own price, in US cents; `None` if
    /// it is not burstable. Burstable types run in unlimited mode unless the account's default
    /// differs; after hours of load, terminating one bills every credit it has not earned (Amazon
    /// EC2 On-Demand pricing, *T2/T3/T4g Unlimited Mode Pricing*: for Linux, in all sizes, markets
    /// and regions).
    #[must_use]
    pub fn surplus_cents(&self) -> Option<u32> {
        match self.name.split('.').next() {
            _ if !self.burstable => None,
            Some("t4g") => Some(4),
            _ => Some(5),
        }
    }

    /// US dollars an hour that it costs more with all of its vCPUs at work for ever, at most; zero for types without
    /// bursts.
    #[must_use]
    pub fn most_surplus(&self) -> f64 {
        let cents = self.surplus_cents().unwrap_or(0) * self.cpus;
        f64::from(cents) / 100.0
    }

    /// Whether it is sold in that market at all.
    #[must_use]
    pub fn is_sold(&self, market: Market) -> bool {
        match market {
            Market::Spot => self.spot,
            Market::OnDemand => self.on_demand,
        }
    }
}

impl Ec2 {
    /// The types called `names` (100 at most), in no order. If EC2 does not know all of them, its
    /// error names the unknown (`InvalidInstanceType`), and none is returned. Types that run
    /// neither `x86_64` nor `arm64` programs (Macs) are left out.
    pub async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, Error> {
        const CALL: &str = "DescribeInstanceTypes";
        let names = names.iter().map(|name| name.as_str().into()).collect();
        let answer = self
            .patient
            .describe_instance_types()
            .set_instance_types(Some(names))
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        read(answer.instance_types()).map_err(|doubt| Error::unreadable(CALL, doubt))
    }

    /// Every type of the current generation that is sold in `market`, runs programs of one of
    /// `archs`, is no bare metal and not burstable; or, if `is_free`, every one in the free tier,
    /// burstable or not; all pages.
    pub async fn instance_types_for(
        &self,
        market: Market,
        archs: &[Arch],
        is_free: bool,
    ) -> Result<Vec<InstanceType>, Error> {
        let archs: Vec<&str> = archs.iter().map(|arch| arch.as_str()).collect();
        let kept: (&str, &[&str]) = if is_free {
            ("free-tier-eligible", &["true"])
        } else {
            ("burstable-performance-supported", &["false"])
        };
        self.types_where(&[
            kept,
            ("current-generation", &["true"]),
            ("bare-metal", &["false"]),
            ("supported-usage-class", &[market.as_str()]),
            ("processor-info.supported-architecture", &archs),
        ])
        .await
    }

    /// The types whose name matches `pattern`, such as `t3.*`; all pages.
    pub async fn instance_types_like(&self, pattern: &str) -> Result<Vec<InstanceType>, Error> {
        self.types_where(&[("instance-type", &[pattern])]).await
    }

    async fn types_where(&self, filters: &[(&str, &[&str])]) -> Result<Vec<InstanceType>, Error> {
        const CALL: &str = "DescribeInstanceTypes";
        let filters = filters.iter().map(|(name, values)| {
            let values = values.iter().map(|&value| value.to_owned()).collect();
            Filter::builder()
                .name(*name)
                .set_values(Some(values))
                .build()
        });
        let pages = self
            .patient
            .describe_instance_types()
            .set_filters(Some(filters.collect()))
            .into_paginator()
            .page_size(PAGE)
            .send();
        read_pages(CALL, pages, |page| read(page.instance_types())).await
    }
}

fn read(answers: &[sdk::InstanceTypeInfo]) -> Result<Vec<InstanceType>, String> {
    let types = answers.iter().map(instance_type);
    types.filter_map(Result::transpose).collect()
}

/// Parses a type; `None` if xdrive has no image for its architecture.
fn instance_type(answer: &sdk::InstanceTypeInfo) -> Result<Option<InstanceType>, String> {
    let name = answer
        .instance_type()
        .ok_or("an instance type's name is missing")?
        .as_str()
        .to_owned();
    let processor = answer.processor_info();
    let runs = |arch| {
        processor.is_some_and(|processor| processor.supported_architectures().contains(&arch))
    };
    // Old x86_64 types are listed with i386 as well.
    let arch = if runs(sdk::ArchitectureType::X8664) {
        Arch::X86_64
    } else if runs(sdk::ArchitectureType::Arm64) {
        Arch::Arm64
    } else {
        return Ok(None);
    };
    let number = |what: &str, given: Option<i64>| {
        given
            .and_then(|given| u32::try_from(given).ok())
            .ok_or_else(|| format!("{name}'s {what} is {given:?}"))
    };
    let cpus = answer.v_cpu_info().and_then(sdk::VCpuInfo::default_v_cpus);
    let memory = answer.memory_info().and_then(sdk::MemoryInfo::size_in_mib);
    let gpus = answer
        .gpu_info()
        .map(sdk::GpuInfo::gpus)
        .unwrap_or_default();
    let whole = |gpu: &sdk::GpuDeviceInfo| gpu.count().and_then(|count| u32::try_from(count).ok());
    let part = |gpu: &sdk::GpuDeviceInfo| {
        whole(gpu).unwrap_or(0) == 0 && gpu.logical_gpu_count().unwrap_or(0) > 0
    };
    let of_nvidia = || gpus.iter().filter(|gpu| gpu.manufacturer() == Some(NVIDIA));
    // Inf1 is listed as both (EC2 API reference, *InstanceTypeInfo*).
    let is_neuron = answer.neuron_info().is_some() || answer.inference_accelerator_info().is_some();
    let is_sold = |usage| answer.supported_usage_classes().contains(&usage);
    Ok(Some(InstanceType {
        cpus: number("number of CPUs", cpus.map(i64::from))?,
        memory: number("memory", memory)?,
        gpus: of_nvidia().filter_map(whole).sum(),
        part_of_gpu: of_nvidia().any(part),
        has_accelerator: answer.gpu_info().is_some()
            || is_neuron
            || answer.media_accelerator_info().is_some()
            || answer.fpga_info().is_some(),
        is_neuron,
        arch,
        burstable: answer.burstable_performance_supported().unwrap_or(false),
        free_tier: answer.free_tier_eligible().unwrap_or(false),
        spot: is_sold(sdk::UsageClassType::Spot),
        on_demand: is_sold(sdk::UsageClassType::OnDemand),
        name,
    }))
}

/// The names of all instance types that the SDK knows; there may be newer ones.
#[must_use]
pub fn type_names() -> &'static [&'static str] {
    aws_sdk_ec2::types::InstanceType::values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accelerator_that_ec2_lists_is_one() {
        let plain = || {
            let cpus = sdk::VCpuInfo::builder().default_v_cpus(4).build();
            let memory = sdk::MemoryInfo::builder().size_in_mib(16384).build();
            let processor = sdk::ProcessorInfo::builder()
                .supported_architectures(sdk::ArchitectureType::X8664)
                .build();
            sdk::InstanceTypeInfo::builder()
                .instance_type("m5.xlarge".into())
                .v_cpu_info(cpus)
                .memory_info(memory)
                .processor_info(processor)
        };
        let gpu = sdk::GpuInfo::builder().build();
        let neuron = sdk::NeuronInfo::builder().build();
        let inference = sdk::InferenceAcceleratorInfo::builder().build();
        let media = sdk::MediaAcceleratorInfo::builder().build();
        let fpga = sdk::FpgaInfo::builder().build();
        for (answer, expected) in [
            (plain(), (false, false)),
            (plain().gpu_info(gpu), (true, false)),
            (plain().neuron_info(neuron), (true, true)),
            (plain().inference_accelerator_info(inference), (true, true)),
            (plain().media_accelerator_info(media), (true, false)),
            (plain().fpga_info(fpga), (true, false)),
        ] {
            let read = instance_type(&answer.build()).unwrap().unwrap();
            assert_eq!((read.has_accelerator, read.is_neuron), expected);
        }
    }
}
