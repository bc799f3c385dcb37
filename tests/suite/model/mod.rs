//! The real plan, checked against everything that can happen to it within bounds.
//!
//! [`stateright`] walks through every order of events of a small EC2 ([`world`], [`effects`],
//! [`events`]) and one or two xdrives ([`client`], [`steps`], [`calls`]). The plan, the proofs and
//! the overlay of what a process knows are the real ones; what stands around them is abstract:
//! time is ticks, the data on a disk is a set of bits, one for each thing that a user was told is
//! safe. So the promises are about bytes, not about tags.
//!
//! A check is bounded by what may go wrong ([`check::Budget`]): within its budget every state is
//! visited. Two clients awake have too many: those checks begin close to the race ([`races`],
//! [`asleep`]) and end after so many actions, more of them with `XDRIVE_LONG` set. [`broken`] has plans with one fault each; every one of them
//! must be found out, and the true plan must pass the same check.

mod abandoned;
mod actions;
mod asleep;
mod broken;
mod calls;
mod check;
mod checkpoints;
mod client;
mod configurations;
mod destroy;
mod digest;
mod effects;
mod events;
mod forks;
mod lease;
mod lists;
mod past;
mod races;
mod recover;
mod steps;
mod values;
mod world;
