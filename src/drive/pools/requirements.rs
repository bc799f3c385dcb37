//! The requirements of a launch: types by name, or the resources that a type must have.
//!
//! Flags, the configuration and the drive's tag `xdrive:type` use the same text, so that another
//! laptop launches what was chosen once: `t3.medium,m5.large`, or `cpus=4,memory=16,gpus=1`.

use std::fmt;
use std::str::FromStr;

use crate::ec2::InstanceType;

/// The most types that can be named: each is asked for in every zone.
const MOST: usize = 10;

/// The instances to launch: by type, or by resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirements {
    /// Any of these types, the preferred one first; at least one, none twice.
    Types(Vec<String>),
    /// Any type with these resources.
    AtLeast(Resources),
}

/// The least resources of a type; zero where it does not matter. Burstable types never meet them:
/// their cost depends on their use, so they are launched only by name or in the free tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory, in GiB.
    pub memory: u32,
    /// NVIDIA's GPUs. A type with any GPU is taken only if GPUs are required.
    pub gpus: u32,
}

impl Resources {
    /// The default: enough for a notebook.
    pub const DEFAULT: Self = Self {
        cpus: 2,
        memory: 4,
        gpus: 0,
    };
}

/// The requirements that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRequirements(String);

impl Requirements {
    /// Types in order of preference. Each text may name several, with commas between.
    pub fn types<S: AsRef<str>>(names: &[S]) -> Result<Self, InvalidRequirements> {
        let mut types: Vec<String> = Vec::new();
        for name in names.iter().flat_map(|names| names.as_ref().split(',')) {
            let name = name.trim();
            if !is_type(name) {
                return Err(InvalidRequirements(format!(
                    "{name:?} is not an instance type such as t3.medium"
                )));
            }
            if !types.iter().any(|known| known == name) {
                types.push(name.to_owned());
            }
        }
        match types.len() {
            0 => Err(InvalidRequirements("no instance type is named".to_owned())),
            1..=MOST => Ok(Self::Types(types)),
            many => Err(InvalidRequirements(format!(
                "{many} instance types are named; {MOST} are the most"
            ))),
        }
    }
}

/// `FAMILY.SIZE` (EC2 instance types guide, *Naming conventions*).
fn is_type(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    name.len() <= 32
        && name
            .split_once('.')
            .is_some_and(|(family, size)| is_part(family) && is_part(size))
}

impl FromStr for Requirements {
    type Err = InvalidRequirements;

    fn from_str(text: &str) -> Result<Self, InvalidRequirements> {
        if !text.contains('=') {
            return Self::types(&[text]);
        }
        let mut resources = Resources::default();
        for part in text.split(',') {
            let (what, number) = part.split_once('=').unwrap_or((part, ""));
            let number = number.parse().map_err(|_| {
                InvalidRequirements(format!("{part:?} is not a requirement such as cpus=4"))
            })?;
            match what {
                "cpus" => resources.cpus = number,
                "memory" => resources.memory = number,
                "gpus" => resources.gpus = number,
                _ => return Err(InvalidRequirements(format!("{what:?} is no resource"))),
            }
        }
        // Written again it would be nothing, which is refused.
        if resources == Resources::default() {
            return Err(InvalidRequirements(format!("{text:?} requires nothing")));
        }
        Ok(Self::AtLeast(resources))
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources = match self {
            Self::Types(types) => return f.pad(&types.join(",")),
            Self::AtLeast(resources) => resources,
        };
        let parts = [
            ("cpus", resources.cpus),
            ("memory", resources.memory),
            ("gpus", resources.gpus),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, number)| *number > 0)
            .map(|(what, number)| format!("{what}={number}"))
            .collect();
        f.pad(&parts.join(","))
    }
}

/// Writes the resources in words, such as `4 CPUs, 16 GiB and 1 NVIDIA GPU`.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |number| if number == 1 { "" } else { "s" };
        let parts = [
            (self.cpus, format!("{} CPU{}", self.cpus, plural(self.cpus))),
            (self.memory, format!("{} GiB", self.memory)),
            (
                self.gpus,
                format!("{} NVIDIA GPU{}", self.gpus, plural(self.gpus)),
            ),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(_, words)| words)
            .collect();
        f.pad(&match parts.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => parts.join(""),
        })
    }
}

impl Resources {
    /// Whether a type has all of them, no accelerator unless GPUs are required, and is not burstable.
    #[must_use]
    pub fn is_met_by(&self, kind: &InstanceType) -> bool {
        self.is_within(kind) && !kind.burstable
    }

    /// As [`Self::is_met_by`], burstable or not.
    pub(super) fn is_within(&self, kind: &InstanceType) -> bool {
        self.is_had_by(kind) && (self.gpus > 0 || !kind.has_accelerator)
    }

    /// Whether a type has all of them, whatever else it has.
    pub(super) fn is_had_by(&self, kind: &InstanceType) -> bool {
        kind.cpus >= self.cpus
            && u64::from(kind.memory) >= u64::from(self.memory) * 1024
            && kind.gpus >= self.gpus
    }
}

impl InstanceType {
    /// The order of types whose price is not known: GPUs first; and eight GiB of memory cost about
    /// as much as a CPU.
    pub(super) fn weight(&self) -> (u32, u64) {
        let memory = u64::from(self.memory);
        (self.gpus, u64::from(self.cpus) * 8 * 1024 + memory)
    }
}
