//! What to launch: terms, offers and the container's image, and what helps where nothing is to be
//! had. It knows no session.

pub(crate) mod failure;
pub(crate) mod image;
pub(crate) mod offers;
pub(crate) mod terms;
