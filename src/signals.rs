//! Signals as values.
