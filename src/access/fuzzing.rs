//! The lines of clients on a host, as a fuzzer makes them up.

use jiff::Timestamp;

use super::client_line::{is_by_ssh, line, parse_other, session_of, translated};
use crate::drive::Client;
use crate::host::facts::ScriptError;
use crate::ids::SessionId;

/// Reads a text as a client's line, and as the owner in one that is written here.
pub(crate) fn client(text: &str) {
    let session = session_of(text);
    assert!(!session.contains(' '), "{session:?}");
    let _ = is_by_ssh(text);
    let Client::Other { owner, since } = parse_other(text) else {
        panic!("a line is another client's");
    };
    assert!(text.contains(&owner), "{owner:?}");
    let _ = since;
    let busy = ScriptError::Busy {
        owner: Some(text.to_owned()),
        words: String::new(),
    };
    let _ = translated(busy).to_string();
    let (id, at) = (SessionId("s".to_owned()), Timestamp::UNIX_EPOCH);
    let written = line(&id, at, text);
    assert_eq!(session_of(&written), "s");
    let expected = Client::Other {
        owner: text.to_owned(),
        since: at.to_string(),
    };
    assert_eq!(parse_other(&written), expected);
}
