//! The real plan, checked against everything that can happen to it within bounds.
//!
//! [`stateright`] walks through every order of events of a small EC2 ([`world`], [`effects`],
//! [`events`], [`lease`]) and one or two xdrives ([`client`], [`steps`], [`calls`], [`destroy`]). The
//! plan, the proofs and the overlay of what a process knows are the real ones; what stands around
//! them is abstract: time is ticks, the data on a disk is a set of bits, one for each thing that a
//! user was told is safe. So the promises are about bytes; that the drive never forks ([`forks`]) is
//! about tags as well.
//!
//! A check is bounded by what may go wrong ([`check::Budget`]): within its budget every state is
//! visited. Two clients awake have too many where anything goes wrong: those checks begin close to
//! the race ([`races`], [`abandoned`], by way of [`asleep`]), and most end after so many actions.
//! `XDRIVE_LONG` adds 30 actions to those, and to some budgets what their setup says. [`broken`] has
//! plans with one fault each; every one of them must be found out, and the true plan must pass the
//! same check.
//!
//! That every path can still come to a good end is checked in each world by itself, as P4
//! ([`recover`]): every client is dead from there on, and one more run comes that nothing disturbs:
//! a stop, a connect that leaves at once and, under leases, a stop that reaches no host. Each has to
//! end saved with nothing billed but snapshots or, where somebody else destroyed something, stuck
//! with all that is billed listed. What comes of a world, or of a moment of such a run, is asked
//! once, by its digest, so that this holds for two clients too.
//!
//! Left out: guests who join, interrupts (a client that is killed does less), lists whose order
//! among themselves is worse than any mix of their ages, and laptops' clocks that differ: those
//! are what the margin behind a lease is for.

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
