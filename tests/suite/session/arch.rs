//! The architecture of a drive, and the types it may be launched on.

use super::dry_run::archive;
use super::simulated::{calls, count, paper, traced, with_snapshot};
use super::site::{Ended, Site};

/// An image that a registry has for both architectures.
const REFERENCE: &str = "quay.io/jupyter/minimal-notebook";

fn dry_run(site: &Site, flags: &[&str]) -> Ended {
    let words = ["connect", "demo", "--image", REFERENCE, "--dry-run"];
    traced(site, &[&words, flags].concat())
}

/// The architectures of a dry run's offers.
fn archs(ended: &Ended) -> Vec<String> {
    let offers = ended.is(0).stdout.lines().filter(|line| {
        let number = line.trim().split('.').next().unwrap_or_default();
        number.parse::<u32>().is_ok()
    });
    let mut archs: Vec<String> = offers
        .map(|line| {
            let known = ["x86_64", "arm64"];
            let arch = known.into_iter().find(|arch| line.contains(arch));
            arch.unwrap_or_else(|| panic!("{line}")).to_owned()
        })
        .collect();
    archs.dedup();
    archs
}

#[test]
fn a_need_with_an_image_of_a_registry_is_launched_on_x86_64_unless_arch_says_otherwise() {
    let site = paper();
    let native = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x86_64"
    };
    for need in [&["--memory", "8"][..], &["--cpus", "2"], &["--gpu", "1"]] {
        assert_eq!(archs(&dry_run(&site, need)), [native], "{need:?}");
        let asked =
            |arch: &'static str| archs(&dry_run(&site, &[need, &["--arch", arch]].concat()));
        assert_eq!(asked("arm64"), ["arm64"], "{need:?}");
        assert_eq!(asked("x86_64"), ["x86_64"], "{need:?}");
        let any = asked("any");
        assert!(any.contains(&"arm64".to_owned()) && any.contains(&"x86_64".to_owned()));
    }
    site.configure("arch = \"arm64\"\n");
    assert_eq!(archs(&dry_run(&site, &["--gpu", "1"])), ["arm64"]);
    // A named type decides it.
    assert_eq!(archs(&dry_run(&site, &["--type", "m5.large"])), ["x86_64"]);
    assert_eq!(
        archs(&dry_run(&site, &["--gpu", "1", "--arch", "x86_64"])),
        ["x86_64"]
    );
}

#[test]
fn arch_and_type_have_to_fit() {
    let site = paper();
    dry_run(&site, &["--type", "m7g.large", "--arch", "arm64"]).is(0);
    dry_run(&site, &["--type", "m7g.large,m5.large", "--arch", "x86_64"])
        .is(0)
        .prints("1. m5.large")
        .prints("left out: m7g.large runs arm64 programs, and --arch asks for x86_64");
    let ended = dry_run(&site, &["--type", "m7g.large", "--arch", "x86_64"]);
    ended
        .is(2)
        .reports("error: m7g.large runs arm64 programs, and --arch asks for x86_64")
        .reports("hint: leave --arch (or the configuration's arch) away, or name a type that runs x86_64 programs");
    let arm = archive(&site, "arm64");
    let words = ["connect", "demo", "--image", &arm, "--dry-run"];
    traced(&site, &[&words[..], &["--arch", "x86_64"]].concat())
        .is(2)
        .reports("arm64.tar has arm64 programs, and --arch asks for x86_64")
        .reports("hint: leave --arch away, or name an image that has x86_64 programs");
    traced(&site, &[&words[..], &["--arch", "any"]].concat()).is(0);
    site.configure("arch = \"mips\"\n");
    dry_run(&site, &[]).is(78).reports("mips");
}

#[test]
fn an_existing_drive_keeps_its_architecture_and_a_contradiction_is_one_error() {
    let site = paper();
    with_snapshot(&site, &[("xdrive:arch", "x86_64")]);
    let ended = dry_run(&site, &["--memory", "8", "--arch", "arm64"]);
    ended
        .is(2)
        .reports("error: demo is used on x86_64 alone, and --arch asks for arm64")
        .reports("connect demo --from empty begins anew on the other architecture");
    assert_eq!(count(&ended, "RunInstances"), 0);
    assert_eq!(
        archs(&dry_run(&site, &["--memory", "8", "--arch", "any"])),
        ["x86_64"]
    );
    assert_eq!(archs(&dry_run(&site, &["--arch", "x86_64"])), ["x86_64"]);
    // The configuration applies to new drives.
    site.configure("arch = \"arm64\"\n");
    assert_eq!(archs(&dry_run(&site, &["--memory", "8"])), ["x86_64"]);
    let anew = ["--memory", "8", "--from", "empty"];
    assert_eq!(archs(&dry_run(&site, &anew)), ["arm64"]);
}

#[test]
fn a_part_of_a_gpu_is_no_gpu_that_is_asked_for_and_gets_the_image_with_the_driver() {
    let site = paper();
    let ended = dry_run(&site, &["--gpu", "1", "--arch", "any"]);
    assert!(!ended.is(0).stdout.contains("g6f"), "{}", ended.stdout);
    let ended = dry_run(&site, &["--cpus", "2", "--memory", "8"]);
    assert!(!ended.is(0).stdout.contains("g6f"), "{}", ended.stdout);
    dry_run(&site, &["--type", "g6f.large"])
        .is(0)
        .prints("1. g6f.large  x86_64, 2 CPUs, 8 GiB, part of a GPU  spot")
        .prints("machine image: resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/");
}

#[test]
fn the_type_is_reported_before_the_launch_and_before_the_volume_is_made() {
    let site = paper();
    // No session reaches a host here: an interrupted one is enough.
    let ended = traced_until_a_volume(&site);
    let lines = ended.stderr.lines();
    let at = |what: &str| {
        let found = lines.clone().position(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("no {what} in\n{}", ended.stderr))
    };
    let chosen = at("launching m5.large, x86_64, spot in us-east-1a, $0.0288 an hour");
    assert!(chosen < at("call=\"RunInstances\""));
    let launched = at("launched demo's instance (i-");
    assert_eq!(launched, at(", m5.large spot"), "{}", ended.stderr);
    assert!(launched < at("call=\"CreateVolume\""));
    assert!(calls(&ended).contains(&"CreateVolume".to_owned()));
}

/// A session that ends when its volume cannot be made.
fn traced_until_a_volume(site: &Site) -> Ended {
    let message = "You are not authorized to perform this operation.";
    let denied = xdrive::local::Fault::new("CreateVolume", 403, "UnauthorizedOperation", message);
    super::simulated::plant(site, denied);
    let image = site.image();
    site.configure("");
    let words = [
        "connect", "demo", "--image", &image, "--type", "m5.large", "--", "true",
    ];
    let ended = traced(site, &words);
    ended.is(77);
    ended
}
