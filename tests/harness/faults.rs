//! Two injectors of faults: one below the SDK in this process, one on the wire before another.

pub mod connector;
pub mod proxy;
