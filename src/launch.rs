//! Launches: terms, offers, the container's image, shares, the ways between workers, and failures. Knows no session.

pub(crate) mod bill;
pub(crate) mod cost;
pub(crate) mod failure;
pub(crate) mod image;
pub(crate) mod ledger;
pub(crate) mod offers;
pub(crate) mod shares;
pub(crate) mod terms;
pub(crate) mod workers;
