//! User data: the script that an instance is launched with.
//!
//! A script for cloud-init's boothook stage (cloud-init documentation, *User data formats*: it runs
//! early, at every boot), compressed, since EC2 allows 16 KiB (EC2 user guide, *Run commands when
//! you launch*). Its only secret is the private half of the launch key: that is worthless
//! once the host has made its own key, at the first claim.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::quote::quote;

const SCRIPT: &str = include_str!("../../shell/host/boot");

/// EC2's limit, before base64.
const LIMIT: usize = 16 * 1024;

/// The script's inputs.
#[derive(Clone)]
pub struct BootOrder {
    /// The private half of the host's launch key, in OpenSSH's format.
    pub host_private_key: String,
    /// The public half of that (`ecdsa-sha2-nistp256 AAAA…`), the one in the instance's tag.
    pub host_public_key: String,
    /// The keys that may log in, a line each.
    pub authorized_keys: String,
    /// How long the host waits for the first lease before it powers off; whole seconds.
    pub first_sign: Duration,
    /// The times of its watch.
    pub watch: Watch,
}

/// The times by which a host watches its lease and EC2's notices; whole seconds.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// The pause between two polls. (EC2 user guide, *Spot Instance interruption notices*: "check
    /// for these interruption notices every 5 seconds".)
    pub poll: Duration,
    /// The time from the lease's end, when the host begins to close, to a certain power-off.
    pub margin: Duration,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            margin: Duration::from_mins(5),
        }
    }
}

impl std::fmt::Debug for BootOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BootOrder")
            .field("host_public_key", &self.host_public_key)
            .field("authorized_keys", &self.authorized_keys)
            .field("first_sign", &self.first_sign)
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

/// The user data, gzip, before base64. An error if a key has a NUL or all of it is over 16 KiB.
pub fn user_data(order: &BootOrder) -> Result<Vec<u8>> {
    let mut text = String::from("#cloud-boothook\n#!/bin/sh\n");
    for (name, value) in [
        ("XDRIVE_HOST_PRIVATE_KEY", &order.host_private_key),
        ("XDRIVE_HOST_PUBLIC_KEY", &order.host_public_key),
        ("XDRIVE_AUTHORIZED_KEYS", &order.authorized_keys),
    ] {
        ensure!(!value.contains('\0'), "a key has a NUL byte in it");
        writeln!(text, "{name}={}", quote(value.trim_end()))?;
    }
    for (name, value) in [
        ("XDRIVE_FIRST_SIGN", order.first_sign),
        ("XDRIVE_POLL", order.watch.poll),
        ("XDRIVE_MARGIN", order.watch.margin),
    ] {
        writeln!(text, "{name}={}", value.as_secs())?;
    }
    text.push_str(SCRIPT);

    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(text.as_bytes())
        .context("cannot compress the user data")?;
    let data = gzip.finish().context("cannot compress the user data")?;
    ensure!(
        data.len() <= LIMIT,
        "the user data is {} bytes, and EC2 takes {LIMIT}",
        data.len()
    );
    Ok(data)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn order(authorized_keys: String) -> BootOrder {
        let body = format!("{}\n", "Ab+/9".repeat(14)).repeat(5);
        BootOrder {
            host_private_key: format!(
                "-----BEGIN OPENSSH PRIVATE KEY-----\n{body}-----END OPENSSH PRIVATE KEY-----\n"
            ),
            host_public_key: format!("ssh-ed25519 {}", "AAAA".repeat(17)),
            authorized_keys,
            first_sign: Duration::from_mins(30),
            watch: Watch::default(),
        }
    }

    fn unzipped(data: &[u8]) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(data)
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    #[test]
    fn it_fits_with_room_for_many_keys() {
        let data = user_data(&order("ssh-ed25519 AAAA me@laptop".into())).unwrap();
        assert!(data.len() < LIMIT / 2, "{} bytes", data.len());
        assert!(
            unzipped(&data)
                .starts_with("#cloud-boothook\n#!/bin/sh\nXDRIVE_HOST_PRIVATE_KEY='-----BEGIN")
        );
    }

    #[test]
    fn user_data_that_is_too_long_is_refused_before_ec2_is_asked() {
        let mut noise = vec![0; 2 * LIMIT];
        getrandom::fill(&mut noise).unwrap();
        let error = user_data(&order(hex::encode(noise))).unwrap_err();
        assert!(error.to_string().contains("EC2 takes 16384"), "{error}");
    }

    #[test]
    fn keys_cannot_break_out_of_their_quotes() {
        let nasty = "ssh-ed25519 AAAA o'brien@$(reboot)`reboot`\"\\ ";
        let text = unzipped(&user_data(&order(nasty.into())).unwrap());
        let inputs = text.split_once("set -u").unwrap().0;
        let script = format!("{inputs}\nprintf %s \"$XDRIVE_AUTHORIZED_KEYS\"");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), nasty.trim_end());
    }

    #[test]
    fn the_private_key_is_not_shown() {
        assert!(!format!("{:?}", order(String::new())).contains("PRIVATE"));
    }
}
