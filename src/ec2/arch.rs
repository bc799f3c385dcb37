//! The architectures of instances, images and programs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The architecture that programs are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Arch {
    /// Intel's and AMD's.
    #[serde(rename = "x86_64")]
    X86_64,
    /// Graviton's.
    #[serde(rename = "arm64")]
    Arm64,
}

impl Arch {
    /// The two architectures.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Arm64];

    /// As EC2 writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "arm64",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Arch {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|arch| arch.as_str() == given)
            .ok_or_else(|| format!("{given:?} is neither x86_64 nor arm64"))
    }
}
