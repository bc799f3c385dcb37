//! Whole sessions: the program as its user runs it, on the EC2 in a folder with all its parts.

mod account;
mod arch;
mod days;
mod doctor;
mod doors;
mod endings;
mod gc;
mod gpus;
mod killed;
mod launching;
mod left;
mod life;
mod lists;
mod lost;
mod network;
mod notice;
mod paper;
mod people;
mod refusals;
mod rehearsal;
mod site;
mod terminal;
mod tree;
mod two;
mod volume;
mod wrong;
