//! An EC2 in a folder: the EC2 Query API over real Linux machines, with no daemon of its own.
//!
//! ```text
//! request ─ wire (query in, SigV4, XML out) ─ calls (EC2's behaviour) ─ store (one JSON file)
//!                                                   └─ plane (paper, or namespaces and disks)
//! ```
//!
//! The rest of xdrive sees none of this: it speaks to an `aws-sdk-ec2` client. All state is one
//! directory, usable by several processes at once; what time does is computed from stamps.

pub mod plane;
pub mod wire;

use std::path::PathBuf;

use wire::{ApiError, Params, Xml};

/// How to open an EC2 in a folder.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The state directory; made if it is not there.
    pub dir: PathBuf,
    /// Paper or real.
    pub plane: plane::Plane,
    /// Its time.
    pub clock: crate::clock::Clock,
}

/// A random key made with the state directory (mode 0600 there): the only one that signs.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `AKIA…`.
    pub access_key_id: String,
    /// The secret half.
    pub secret_access_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// An EC2 in a folder, opened. Cheap to clone; all clones and all processes share the folder.
#[derive(Debug, Clone)]
pub struct Local {}

impl Local {
    /// Opens it, and completes or undoes what a killed process left half done.
    pub fn open(options: OpenOptions) -> anyhow::Result<Self> {
        let _ = options;
        todo!()
    }

    /// The key that requests must be signed with.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        todo!()
    }

    /// The region it is.
    #[must_use]
    pub fn region(&self) -> &str {
        todo!()
    }

    /// Its time.
    #[must_use]
    pub fn clock(&self) -> &crate::clock::Clock {
        todo!()
    }

    /// The state directory.
    #[must_use]
    pub fn dir(&self) -> &std::path::Path {
        todo!()
    }

    /// Carries out one call. Blocks for as long as the data plane takes.
    ///
    /// The answer is the response element: `<DescribeVolumesResponse>` with `<volumeSet>` in it
    /// (the wire adds namespace and request id); for STS what stands in
    /// `<GetCallerIdentityResult>`; for EC2 Instance Connect children that are the members of its
    /// JSON answer.
    pub fn call(&self, action: &str, params: &Params) -> Result<Xml, ApiError> {
        let _ = (action, params);
        todo!()
    }
}
