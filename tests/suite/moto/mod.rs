//! xdrive against moto, an independent EC2, and the same against the EC2 in a folder.
//!
//! [`server`] starts moto and runs a test in another process, whose environment points at it: so
//! the SDK finds endpoint, region and credentials as it does for users. [`life`] takes a drive
//! through its life; [`calls`] makes every call of xdrive to both. Where they disagree the test
//! names the one that AWS agrees with. [`faults`] fails every call of such a life in every way.
//! [`verbs`] are the commands that need no host.
//! What moto cannot do is worked around here, never in the program.

mod addresses;
mod calls;
mod faults;
mod groups;
mod ingress;
mod life;
mod modified;
mod roles;
pub(crate) mod server;
mod shares;
mod verbs;
mod wide;
