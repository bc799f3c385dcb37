//! The drive: names, tags, generations, what was observed, and what to do about it.
