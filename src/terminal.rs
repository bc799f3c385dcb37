//! The terminal: raw mode, size, and giving it back.
