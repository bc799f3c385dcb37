//! The local terminal, without a host.

use std::io::Read as _;
use std::os::unix::net::UnixStream;

use super::*;

/// A terminal whose output can be read, and that answers a question with its name.
fn local() -> (Local, UnixStream) {
    let null = std::fs::File::open("/dev/null").unwrap();
    let (output, shown) = UnixStream::pair().unwrap();
    shown.set_nonblocking(true).unwrap();
    let answers: Answers = Box::new(|question| format!("{question:?}"));
    let gate = Arc::default();
    let local = Local::on(null.into(), output.into(), &gate, answers).unwrap();
    (local, shown)
}

/// Obeys what is typed.
async fn types(local: &mut Local, typed: &[u8]) {
    for typed in local.escapes.read(typed) {
        assert!(local.obey(typed).await.is_none());
    }
}

/// All that was shown so far, and is not held back.
async fn text(local: &Local, mut shown: &UnixStream) -> String {
    last_output(&local.output).await;
    let mut text = vec![0; 4096];
    let length = shown.read(&mut text).unwrap();
    String::from_utf8_lossy(&text[..length]).into_owned()
}

#[tokio::test]
async fn a_line_to_the_session_cuts_no_sequence_in_two() {
    for (before, after) in [("a\x1b[3", "1m"), ("a\x1b]2;ti", "tle\x07"), ("a", "")] {
        let (mut local, shown) = local();
        local.show(Bytes::from(before));
        types(&mut local, b"~C-").await;
        local.show(Bytes::from(format!("{after}b")));
        types(&mut local, b"L\r").await;
        let line = "~C\r\nPrompt\r\nxdrive> -L\r\n Line(\"-L\")\r\n";
        assert_eq!(
            text(&local, &shown).await,
            format!("{before}{after}{line}b")
        );
    }
    // Given up before it could be shown, it leaves no trace; answered, it stands above that.
    let (mut local, shown) = local();
    local.show(Bytes::from("a\x1b["));
    types(&mut local, b"~C-\x03").await;
    local.show(Bytes::from("1mb\x1b["));
    types(&mut local, b"~C-\r").await;
    local.show(Bytes::from("1mc"));
    assert_eq!(
        text(&local, &shown).await,
        "a\x1b[1mb\x1b[~C\r\nPrompt\r\nxdrive> -\r\n Line(\"-\")\r\n1mc"
    );
}

#[tokio::test]
async fn a_line_that_was_begun_without_a_connection_holds_nothing_back_after_it() {
    let (mut local, shown) = local();
    types(&mut local, b"~C-L").await;
    local.end_of_notice();
    local.show(Bytes::from("again"));
    let shown = text(&local, &shown).await;
    assert!(shown.ends_with("xdrive> -Lagain"), "{shown}");
    assert_eq!(
        local.escapes.read(b"id\r"),
        [Typed::Send(Bytes::from("id\r"))]
    );
}
