//! The facts that a host reports about itself, and the checks of them.

use std::collections::BTreeMap;

use super::finding::Finding;
use crate::cloud::Place;

/// The script that is run on the host.
pub(super) const SCRIPT: &str = include_str!("../../../shell/selftest");

/// Facts by name, as `shell/selftest` and `shell/first_touch.py` print them.
#[derive(Debug, Default)]
pub(super) struct Facts(BTreeMap<String, String>);

impl Facts {
    /// Parses the script's output; none if it did not reach its end.
    pub(super) fn read(text: &str) -> Option<Self> {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let facts: BTreeMap<String, String> = pairs
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        facts.contains_key("end").then_some(Self(facts))
    }

    /// Why a script failed, if it did.
    pub(super) fn failed(&self) -> Option<&str> {
        Some(self.get("failed")).filter(|why| !why.is_empty())
    }

    /// The value of a fact; empty without it.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The lines of a host of the default kind.
    pub(super) fn judge(&self, place: Place) -> Vec<Finding> {
        vec![
            self.machine("machine image"),
            self.sshd(),
            self.docker(),
            self.drive(),
            self.unwritten(place),
            self.metadata(),
            self.ipv6(),
        ]
    }

    /// The system; it has run xdrive's user data, since without that no login works.
    pub(super) fn machine(&self, name: &'static str) -> Finding {
        let (system, kernel, arch) = (self.get("system"), self.get("kernel"), self.get("arch"));
        Finding::ok(name, format!("{system}, kernel {kernel}, {arch}"))
    }

    fn sshd(&self) -> Finding {
        const NAME: &str = "sshd";
        let refuses = self.get("sshd_refuses");
        if !refuses.is_empty() {
            return Finding::failed(NAME, format!("sshd -T says: {refuses}"), None);
        }
        let wanted: [(&str, &[&str]); 5] = [
            ("hostkey", &["/etc/ssh/xdrive_host_ed25519"]),
            ("authorizedkeysfile", &["/etc/ssh/xdrive_authorized_keys"]),
            (
                "permitrootlogin",
                &["prohibit-password", "without-password"],
            ),
            ("pubkeyauthentication", &["yes"]),
            ("allowtcpforwarding", &["yes"]),
        ];
        for (name, values) in wanted {
            let is = self.get(&format!("sshd_{name}"));
            let first = is.split(' ').next().unwrap_or_default();
            if !values.contains(&first) {
                let hint =
                    "something on the image goes before /etc/ssh/sshd_config.d/00-xdrive.conf";
                return Finding::failed(NAME, format!("{name} is {is:?}"), Some(hint));
            }
        }
        Finding::ok(NAME, "xdrive's settings are in force")
    }

    fn docker(&self) -> Finding {
        let (root, on) = (self.get("docker_root"), self.get("docker_root_on"));
        let version = self.get("docker_version");
        let words = format!("{root} on {on}, Docker {version}");
        if on == "/v1" && root.starts_with("/v1/") {
            Finding::ok("docker data-root", words)
        } else {
            let hint = "images and containers would not be on the drive";
            Finding::failed("docker data-root", words, Some(hint))
        }
    }

    fn drive(&self) -> Finding {
        match self.get("drive") {
            mounted if mounted.starts_with("ext4 ") => Finding::ok("drive", mounted),
            other => Finding::failed("drive", format!("/v1 is {other:?}"), None),
        }
    }

    fn unwritten(&self, place: Place) -> Finding {
        const NAME: &str = "unwritten data";
        if place == Place::Folder {
            return Finding::not_asked(NAME, "its kernel is this computer's, whose limits stay");
        }
        match self.get("dirty_bytes").parse::<u64>() {
            Ok(0) | Err(_) => Finding::failed(
                NAME,
                "vm.dirty_bytes is not set",
                Some("a notice may leave less time than writing takes"),
            ),
            Ok(bytes) => Finding::ok(NAME, format!("at most {bytes} bytes")),
        }
    }

    fn metadata(&self) -> Finding {
        match self.get("metadata_v1") {
            "401" => Finding::ok("metadata", "no answer without a token (IMDSv2)"),
            "" => Finding::not_asked("metadata", "the host has nothing to ask with (curl)"),
            other => {
                let why = format!("a request without a token was answered with {other}");
                Finding::failed("metadata", why, None)
            }
        }
    }

    fn ipv6(&self) -> Finding {
        match (self.get("ipv6"), self.get("ipv6_route")) {
            ("", _) => Finding::not_asked("IPv6", "the subnet gives its instances no such address"),
            (address, "") => {
                let hint = "the subnet's route table has none to ::/0";
                Finding::failed("IPv6", format!("{address} has no route"), Some(hint))
            }
            (address, _) => Finding::ok("IPv6", address),
        }
    }

    /// Whether host and container have the GPUs.
    pub(super) fn gpus(&self) -> Finding {
        let (host, container) = (self.get("gpus"), self.get("container_gpus"));
        if host.is_empty() {
            Finding::failed("GPU", "nvidia-smi finds none on the host", None)
        } else if container.is_empty() {
            Finding::failed("GPU", format!("the container has none of {host}"), None)
        } else {
            Finding::ok("GPU", container)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "system=Amazon Linux 2023\narch=x86_64\nkernel=6.1\n\
        sshd_hostkey=/etc/ssh/xdrive_host_ed25519\n\
        sshd_authorizedkeysfile=/etc/ssh/xdrive_authorized_keys .ssh/authorized_keys\n\
        sshd_permitrootlogin=without-password\nsshd_pubkeyauthentication=yes\n\
        sshd_allowtcpforwarding=yes\ndocker_root=/v1/docker\ndocker_version=25.0\n\
        docker_root_on=/v1\ndrive=ext4 rw,noatime\ndirty_bytes=400000000\nmetadata_v1=401\n\
        ipv6=2001:db8::7/128\nipv6_route=default via fe80::1 dev ens5 \nend=yes\n";

    fn failed(text: &str) -> Vec<Finding> {
        let lines = Facts::read(text).unwrap().judge(Place::Aws);
        let is_good = |line: &Finding| {
            let text = serde_json::to_value(line).unwrap();
            text["result"] == "ok"
        };
        lines.into_iter().filter(|line| !is_good(line)).collect()
    }

    #[test]
    fn a_good_host_has_no_findings() {
        assert_eq!(failed(GOOD), []);
        assert!(Facts::read("system=x\n").is_none(), "cut short");
    }

    #[test]
    fn each_thing_that_is_wrong_fails_in_its_own_line() {
        for (right, wrong) in [
            ("xdrive_host_ed25519", "ssh_host_ed25519_key"),
            ("/etc/ssh/xdrive_authorized_keys ", ""),
            ("without-password", "no"),
            ("sshd_allowtcpforwarding=yes", "sshd_allowtcpforwarding=no"),
            ("sshd_hostkey=", "sshd_refuses="),
            ("docker_root_on=/v1", "docker_root_on=/"),
            ("docker_root=/v1/docker", "docker_root=/var/lib/docker"),
            ("drive=ext4", "drive=xfs"),
            ("dirty_bytes=400000000", "dirty_bytes=0"),
            ("metadata_v1=401", "metadata_v1=200"),
            ("ipv6_route=default", "none="),
        ] {
            let text = GOOD.replace(right, wrong);
            assert_ne!(text, GOOD);
            assert_eq!(failed(&text).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_gpu_has_to_be_in_the_container_too() {
        let result = |text: &str| {
            let line = Facts::read(text).unwrap().gpus();
            serde_json::to_value(line).unwrap()["result"].clone()
        };
        assert_eq!(result("gpus=T4\ncontainer_gpus=T4\nend=yes"), "ok");
        assert_eq!(result("gpus=T4\nend=yes"), "failed");
        assert_eq!(result("end=yes"), "failed");
    }
}
