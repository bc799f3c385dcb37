//! What to launch: terms, offers and the container's image, and the failures of launches. Knows no
//! session.

pub(crate) mod failure;
pub(crate) mod image;
pub(crate) mod offers;
pub(crate) mod terms;
