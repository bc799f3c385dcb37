//! The command: parse, run, exit code.

fn main() {}
