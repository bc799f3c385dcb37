//! The reader against what made the file systems: mke2fs, debugfs and the kernel.

mod crafted;
mod image;
mod journals;
mod kernel;
mod mutated;
