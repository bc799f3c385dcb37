//! The model checker: the real plan, checked against every order of events within bounds.
//!
//! [`stateright`] searches all orders of events of a small EC2 ([`world`], [`effects`], [`events`],
//! [`lease`]) and one or two xdrives ([`client`], [`steps`], [`calls`], [`destroy`]). The plan, the
//! proofs and the overlay are the real ones; all else is abstract: time is ticks, the data on a
//! disk is a set of bits, one for each acknowledged write. So the promises are about bytes; that
//! the drive never forks ([`forks`]) is about tags as well. What a session throws away
//! ([`throwaways`]) is acknowledged to nobody; a fork that made the drive as a copy of another one
//! ([`copies`]) has acknowledged the bytes of that. A drive may have a run ([`runs`]), whose record is on
//! its disk and which clients of a third sort tend ([`tender`], [`tended`]): then a pass that nobody disturbs
//! has to begin what is wanted, and to mark what is over, from every world on.
//!
//! A check is bounded by what may go wrong ([`check::Budget`]): within its budget every state is
//! visited. Two active clients with faults have too many states: those checks begin close to the
//! race ([`races`], [`abandoned`], by [`asleep`]), and most end after so many actions.
//! `XDRIVE_LONG` adds 30 actions to those, and to some budgets as their setup says. [`broken`] has
//! plans with one fault each; every one of them must be found out, and the true plan must pass the
//! same check.
//!
//! That every path can still end well is checked in each world, as P4 ([`recover`]): every client
//! is dead from there on, and one more undisturbed run follows: a stop, a connect that leaves at
//! once and, under leases, a stop that reaches no host. Each has to end saved with nothing billed
//! but snapshots or, if somebody destroyed something at the console, stuck with everything billed
//! listed. The result for a world, or for a moment of such a run, is computed once, by its digest,
//! which makes this possible for two clients too.
//!
//! Left out: guests, interrupts (a killed client does less), lists that disagree by more than their
//! ages, laptops' clocks that differ, which the margin behind a lease allows for, and another drive
//! that is renamed to this one's name: that run looks at its own drive's lists alone.

mod abandoned;
mod actions;
mod asleep;
mod broken;
mod calls;
mod check;
mod checkpoints;
mod client;
mod configurations;
mod copies;
mod destroy;
mod digest;
mod effects;
mod events;
mod forks;
mod lease;
mod leaving;
mod lists;
mod past;
mod races;
mod recover;
mod runs;
mod steps;
mod tended;
mod tender;
mod throwaways;
mod values;
mod world;
