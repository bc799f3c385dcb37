//! Whole sessions: the program as its user runs it, on the EC2 in a folder with all its parts.

mod life;
mod lost;
mod refusals;
mod site;
