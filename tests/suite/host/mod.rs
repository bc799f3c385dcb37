//! The scripts on a real host: an instance of the local EC2's data plane, booted from real user
//! data.

mod arriving;
mod boot;
mod budget;
mod clients;
mod closing;
mod commands;
mod containers;
mod facts;
mod freezing;
mod idle;
mod keys;
mod lease;
mod machine;
mod notice;
mod results;
mod retries;
mod strangers;
mod volumes;
mod wide;
