//! The wire: AWS's protocols over HTTP, in front of [`Local::call`](super::Local::call).
//!
//! ```text
//! respond ─ signature (SigV4) ─ protocol (Query or JSON in) ─ call ─ protocol (XML or JSON out)
//!    ├─ in_process: the SDK's HTTP client instead of a socket
//!    └─ serve: the same on a loopback port, for other tools; and inside instances
//! ```
//!
//! EC2 and STS speak the Query protocol (parameters in a form, XML back), EC2 Instance Connect
//! speaks JSON 1.1, the EBS direct APIs REST with JSON and raw blocks, Fault Injection Service
//! and Elastic File System REST with JSON. All share one address: the request itself shows its service.
//!
//! No request is carried out before its signature is verified, in process too: tests take the same
//! path as other tools. Nothing here knows what a call does.

mod announcement;
pub(super) mod blob;
mod efs;
mod fis;
mod in_process;
mod message;
mod params;
mod protocol;
mod respond;
mod rest;
mod serve;
mod signature;
mod xml;

pub use announcement::{EnvironmentError, environment};
pub use in_process::InProcess;
pub use message::ApiError;
pub use params::Params;
pub use respond::respond;
pub use serve::Server;
pub(super) use serve::serve_inside;
pub use xml::Xml;
