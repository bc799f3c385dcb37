//! Two injectors of faults: a connector below the SDK in this process, and a proxy for other
//! processes.

pub mod connector;
pub mod proxy;
