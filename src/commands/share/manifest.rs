//! `xdrive share manifest`: a share as a volume of Kubernetes.
//!
//! By NFS alone, which every cluster's nodes can mount without a driver (Kubernetes documentation, *Volumes*,
//! `nfs`). Nodes find the mount target of their own zone by the file system's DNS name (EFS user guide,
//! *Mounting on Amazon EC2 with a DNS name*), so they have to be in its VPC.
//!
//! Names are quoted: `2024` and `true` are others' words in YAML. A claim that is named is the only one that
//! the volume is for.

use std::fmt::Write as _;

use super::super::print;
use crate::cloud::Cloud;
use crate::config::quantity::Invalid;
use crate::ec2::Partition;
use crate::failure::Failure;
use crate::ids::{FileSystemId, ShareName};
use crate::launch::shares;
use crate::report::Report;

/// How a share is mounted (EFS user guide, *Recommended NFS mount settings*).
const OPTIONS: [&str; 7] = [
    "nfsvers=4.1",
    "rsize=1048576",
    "wsize=1048576",
    "hard",
    "timeo=600",
    "retrans=2",
    "noresvport",
];

/// The image of the job: it has wget, which checks certificates, and tar.
const IMAGE: &str = "public.ecr.aws/docker/library/alpine:3.22";

/// The longest address, in bytes.
const LONGEST: usize = 2000;

/// `xdrive share manifest`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The share.
    #[arg(value_name = "NAME")]
    pub name: ShareName,

    /// Let no pod write to it.
    #[arg(long, conflicts_with = "job")]
    pub read_only: bool,

    /// The namespace of the claim and the job [default: the one that kubectl uses].
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    pub namespace: Option<String>,

    /// Also a job that fills the share with what a gzip'd tar archive at this address has.
    #[arg(long, value_name = "URL", value_parser = address)]
    pub job: Option<String>,
}

/// Prints the manifest. Returns the exit code.
pub(super) async fn run(cloud: &Cloud, args: &Args) -> Result<u8, Failure> {
    let share = shares::demand(cloud, &args.name).await?;
    let id = &share.of.id;
    if share.of.targets == 0 {
        Report::stderr().warn(&format!(
            "nothing can mount {}: it has no mount target yet, and needs one in each zone with nodes\n  \
             aws efs create-mount-target --file-system-id {id} --subnet-id ID --security-groups ID",
            share.name
        ));
    }
    print(&manifest(args, &share.of.id, cloud.ec2.region()))
}

/// The documents, in YAML.
fn manifest(args: &Args, id: &FileSystemId, region: &str) -> String {
    let name = &args.name;
    let domain = Partition::of_region(region).domain();
    let (mode, writes) = if args.read_only {
        ("ReadOnlyMany", "true")
    } else {
        ("ReadWriteMany", "false")
    };
    // A volume's own `readOnly` counts for nothing where its claim says no more.
    let read_only = args.read_only.then_some("ro");
    let options = OPTIONS.into_iter().chain(read_only);
    let options: Vec<String> = options.map(|option| format!("    - {option}\n")).collect();
    let options = options.concat();
    let namespace = namespaced(args.namespace.as_deref());
    let (volume, claim) = match &args.namespace {
        None => (format!("xdrive-{name}"), String::new()),
        Some(of) => (
            format!("xdrive-{of}-{name}"),
            format!("  claimRef:\n    namespace: \"{of}\"\n    name: \"{name}\"\n"),
        ),
    };
    // NFS has no sizes; that of a claim counts against quotas.
    let mut text = format!(
        "\
apiVersion: v1
kind: PersistentVolume
metadata:
  name: {volume}
spec:
  capacity:
    storage: 1Gi
  accessModes:
    - {mode}
  persistentVolumeReclaimPolicy: Retain
  storageClassName: \"\"
{claim}  mountOptions:
{options}  nfs:
    server: {id}.efs.{region}.{domain}
    path: /
    readOnly: {writes}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: \"{name}\"
{namespace}spec:
  accessModes:
    - {mode}
  storageClassName: \"\"
  volumeName: {volume}
  resources:
    requests:
      storage: 1Gi
"
    );
    if let Some(address) = &args.job {
        text.push_str(&job(name, &namespace, address));
    }
    text
}

/// The job that fills the share. A pod that fails is followed by another one, which begins anew.
fn job(name: &ShareName, namespace: &str, address: &str) -> String {
    // Kubernetes puts a variable's value for `$(NAME)`, and `$` for `$$` (Kubernetes API, *EnvVar*).
    let address = quoted(&address.replace('$', "$$"));
    format!(
        "\
---
apiVersion: batch/v1
kind: Job
metadata:
  name: fill-{name}
{namespace}spec:
  backoffLimit: 4
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: fill
          image: {IMAGE}
          command: [\"sh\", \"-e\", \"-o\", \"pipefail\", \"-c\"]
          args: ['wget -q -O - \"$ADDRESS\" | tar -xz -C /share']
          env:
            - name: ADDRESS
              value: {address}
          volumeMounts:
            - name: share
              mountPath: /share
      volumes:
        - name: share
          persistentVolumeClaim:
            claimName: \"{name}\"
"
    )
}

fn namespaced(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("  namespace: \"{name}\"\n"))
}

/// A text in double quotes, as YAML has it in common with JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                let _ = write!(quoted, "\\{character}");
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// A namespace (Kubernetes documentation, *Object Names and IDs*, RFC 1123 label).
fn namespace(text: &str) -> Result<String, Invalid> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_hyphen = |byte: Option<u8>| byte == Some(b'-');
    let ends = [text.bytes().next(), text.bytes().last()];
    let is_name = (1..=63).contains(&text.len())
        && text.bytes().all(is_inner)
        && !ends.into_iter().any(is_hyphen);
    if is_name {
        return Ok(text.to_owned());
    }
    Err(Invalid::with(
        "it is no namespace of Kubernetes",
        "such as default",
    ))
}

/// The address of an archive.
fn address(text: &str) -> Result<String, Invalid> {
    let url: Option<http::Uri> = text.parse().ok();
    let is_web = url.is_some_and(|url| {
        let host = url.host().unwrap_or_default();
        matches!(url.scheme_str(), Some("https" | "http")) && !host.is_empty()
    });
    if is_web && text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    let hint = "such as https://example.com/set.tar.gz";
    Err(Invalid::with("it is not the address of a file", hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Args {
        Args {
            name: "data".parse().unwrap(),
            read_only: false,
            namespace: None,
            job: None,
        }
    }

    fn made(args: &Args, region: &str) -> String {
        manifest(args, &"fs-0123".parse().unwrap(), region)
    }

    #[test]
    fn a_volume_and_its_claim_name_each_other_and_the_file_system() {
        let text = made(&args(), "us-east-1");
        assert!(text.contains("server: fs-0123.efs.us-east-1.amazonaws.com\n"));
        assert!(text.contains("volumeName: xdrive-data\n"), "{text}");
        assert!(text.contains("- nfsvers=4.1\n") && text.contains("readOnly: false\n"));
        assert!(!text.contains("namespace") && !text.contains("kind: Job"));
        let chinese = made(&args(), "cn-north-1");
        assert!(chinese.contains("server: fs-0123.efs.cn-north-1.amazonaws.com.cn\n"));
        let read_only = Args {
            read_only: true,
            namespace: Some("team".to_owned()),
            ..args()
        };
        let text = made(&read_only, "us-east-1");
        assert_eq!(text.matches("- ReadOnlyMany\n").count(), 2, "{text}");
        assert!(text.contains("readOnly: true\n") && text.contains("    - ro\n"));
        assert_eq!(text.matches("namespace: \"team\"\n").count(), 2, "{text}");
        assert_eq!(text.matches(": xdrive-team-data\n").count(), 2, "{text}");
    }

    #[test]
    fn nodes_mount_a_share_as_hosts_do() {
        let host = include_str!("../../../shell/host/share");
        let options = format!(" -o {},nodev ", OPTIONS.join(","));
        assert!(host.contains(&options), "{options}");
    }

    #[test]
    fn an_address_is_a_value_and_nothing_else() {
        let evil = "https://example.com/a\"b\\c'$$(x)#y";
        let with_job = Args {
            job: Some(evil.to_owned()),
            namespace: Some("team".to_owned()),
            ..args()
        };
        let text = made(&with_job, "us-east-1");
        assert!(
            text.contains("value: \"https://example.com/a\\\"b\\\\c'$$$$(x)#y\"\n"),
            "{text}"
        );
        assert_eq!(text.matches("  namespace: \"team\"\n").count(), 3, "{text}");
    }

    #[test]
    fn what_is_no_namespace_or_address_is_refused() {
        for text in ["", "-a", "a-", "A", "a\nb", "a: b", &"a".repeat(64)] {
            assert!(namespace(text).is_err(), "{text:?}");
        }
        assert!(namespace("kube-system").is_ok());
        for text in [
            "",
            "set.tar.gz",
            "file:///etc/passwd",
            "https://",
            "https://a/b c",
            "https://a/\n",
        ] {
            assert!(address(text).is_err(), "{text:?}");
        }
    }
}
