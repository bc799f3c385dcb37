//! The checks of a host's GPUs: whether it has those of its type, and whether their driver is
//! ready.
//!
//! The container is never made without the GPUs on the host's bus: it would run slowly at a GPU's
//! price, and the next session would make it anew. Some images build the driver at their first
//! boot; the session waits for it while the container's image is loaded.

use anyhow::anyhow;

use super::container_failure;
use crate::cloud::Cloud;
use crate::ec2::Instance;
use crate::failure::Failure;
use crate::host::Gpus;
use crate::host::scripts::Host;
use crate::report::Report;

/// Waits until the container of `host` can have the GPUs of `instance`; returns at once if it has
/// none.
pub(super) async fn wait_ready(
    host: &Host,
    gpus: Gpus,
    instance: &Instance,
    cloud: &Cloud,
    report: &Report,
) -> Result<(), Failure> {
    match gpus {
        Gpus::Ready => Ok(()),
        Gpus::None => check_type(instance, cloud).await,
        Gpus::Waiting => {
            let step = report.step("wait for the NVIDIA driver, which a first boot may build");
            let names = host.gpus(cloud.timing.driver).await;
            let names = names.map_err(container_failure::from_script_error)?;
            step.done(&format!("the NVIDIA driver is ready: {}", counted(&names)));
            Ok(())
        }
    }
}

/// Makes each GPU of `host` so many resources of Docker's Swarm, before its containers run.
pub(super) async fn slice(host: &Host, slices: u32, report: &Report) -> Result<(), Failure> {
    let step = report.step("make slices of the GPUs");
    let there = host.slice_gpus(slices).await;
    match there.map_err(container_failure::from_script_error)? {
        0 => report.warn("--slices: there is no GPU, or what runs here began without them"),
        all => step.done(&format!("the GPUs are in {all} slices")),
    }
    Ok(())
}

/// Refuses an instance whose bus has no GPU although its type has one. EC2 is asked only about
/// types whose names begin with g or p: all with NVIDIA GPUs do.
async fn check_type(instance: &Instance, cloud: &Cloud) -> Result<(), Failure> {
    let name = &instance.instance_type;
    if !name.starts_with(['g', 'p']) {
        return Ok(());
    }
    // A denied call is reported where types are chosen; here it only costs this check.
    let types = cloud.ec2.instance_types(std::slice::from_ref(name)).await;
    match types.as_deref() {
        Ok([kind]) if kind.needs_driver() => Err(container_failure::no_gpu(anyhow!(
            "{} is a {name}, which has an NVIDIA GPU, and its system sees none on its bus",
            instance.id.after("the")
        ))),
        _ => Ok(()),
    }
}

/// The GPUs' names, each with its count.
fn counted(names: &[String]) -> String {
    let kinds = names.chunk_by(|one, other| one == other);
    let words: Vec<String> = kinds
        .filter_map(|kind| match kind {
            [name] => Some(name.clone()),
            [name, ..] => Some(format!("{} × {name}", kind.len())),
            [] => None,
        })
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_gpus_are_counted() {
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(counted(&names(&["Tesla T4"])), "Tesla T4");
        assert_eq!(counted(&names(&["A10G"; 4])), "4 × A10G");
        assert_eq!(counted(&names(&["A10G", "L4", "L4"])), "A10G, 2 × L4");
    }
}
