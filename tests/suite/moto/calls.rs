//! Every call, asked of both.
