//! The local terminal, without a host.

use std::io::Read as _;
use std::num::NonZero;
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
async fn text(local: &Local, shown: &UnixStream) -> String {
    String::from_utf8_lossy(&bytes(local, shown).await).into_owned()
}

/// All that was shown so far, byte for byte.
async fn bytes(local: &Local, shown: &UnixStream) -> Vec<u8> {
    last_output(&local.output).await;
    written(shown)
}

/// All that was written so far.
fn written(mut shown: &UnixStream) -> Vec<u8> {
    let mut written = Vec::new();
    let mut piece = vec![0; 4096];
    while let Ok(length @ 1..) = shown.read(&mut piece) {
        written.extend_from_slice(&piece[..length]);
    }
    written
}

/// Output in the parts that a cut must not divide. None switches a mode that is a static of the
/// process.
const PARTS: [&str; 15] = [
    "a",
    "\x1b[38;2;10;200;30m",
    "g",
    "漢",
    "\x1b]2;a title, 字\x07",
    "é",
    "\x1b]2;another\x1b\\",
    "\x1b(B",
    "🙂",
    "\x1b[5;40H",
    "\x1bM",
    "\x1bP1$r0m\x1b\\",
    "\x1b[?7h",
    "か",
    "\r",
];

/// The look of a terminal after `output`: its rows, its cursor, and the attributes of what is
/// written next.
fn look(output: &[&[u8]]) -> (Vec<String>, (u16, u16), String) {
    let size = |count| NonZero::new(count).unwrap();
    let mut terminal = vt100::Parser::new(size(24), size(80), 0);
    for part in output {
        terminal.process(part);
    }
    let screen = terminal.screen();
    (
        screen.rows_formatted(0, 80).collect(),
        screen.cursor_position(),
        screen.attributes_formatted(),
    )
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

#[tokio::test]
async fn output_is_shown_byte_for_byte_however_it_is_split() {
    let whole = PARTS.concat();
    for size in 1..=whole.len() {
        let (mut local, shown) = local();
        for piece in whole.as_bytes().chunks(size) {
            local.show(Bytes::copy_from_slice(piece));
        }
        assert_eq!(text(&local, &shown).await, whole, "in pieces of {size}");
        assert_eq!(local.seen, whole.len() as u64);
    }
}

#[tokio::test]
async fn every_byte_is_shown_before_and_after_every_other() {
    let (mut local, shown) = local();
    for first in 0..=u8::MAX {
        let mut received = Vec::new();
        for second in 0..=u8::MAX {
            // A full reset would switch off the modes of another test.
            if !matches!([first, second], [0x1b, b'c'] | [b'c', 0x1b]) {
                received.extend([first, second]);
            }
        }
        for piece in received.chunks(7) {
            local.show(Bytes::copy_from_slice(piece));
            assert!(local.held.len() <= 3, "{piece:?}");
        }
        // The last, 0xff, is in no character.
        assert_eq!(bytes(&local, &shown).await, received, "{first:#x}");
    }
}

#[tokio::test]
async fn after_a_lost_connection_a_divided_part_is_shown_whole() {
    let whole = PARTS.concat().into_bytes();
    let notice = terminal::draw::alternate_screen(&["no connection".to_owned()])
        + &terminal::draw::main_screen();
    let mut begun = 0;
    for part in PARTS {
        for cut in begun..begun + part.len() {
            let (mut local, shown) = local();
            for byte in &whole[..cut] {
                local.show(Bytes::copy_from_slice(&[*byte]));
            }
            assert_eq!(local.seen, begun as u64, "cut at {cut}");
            local.cut_off();
            let before = bytes(&local, &shown).await;
            local.end_of_notice();
            assert_eq!(local.follow(begun as u64), 0);
            local.show(Bytes::copy_from_slice(&whole[begun..]));
            let after = bytes(&local, &shown).await;
            assert_eq!(after, whole[begun..], "cut at {cut}");
            assert_eq!(local.seen, whole.len() as u64);
            assert_eq!(
                look(&[&before, notice.as_bytes(), &after]),
                look(&[&whole]),
                "cut at {cut}"
            );
        }
        begun += part.len();
    }
}

#[tokio::test]
async fn only_a_character_is_held_back_until_it_is_whole_or_the_end_comes() {
    let (mut local, shown) = local();
    let steps: [(&'static [u8], &[u8]); 15] = [
        (b"a\x1b", b"a\x1b"),
        (b"[1", b"[1"),
        (b"m\xf0\x9f", b"m"),
        (b"\x99", b""),
        (b"\x82", "🙂".as_bytes()),
        (b"\xe6", b""),
        (b"b", b"\xe6b"),
        (b"\xe6", b""),
        (b"\x1b[3", b"\xe6\x1b[3"),
        (b"1m\xe9", b"1m"),
        (b"\xe9", b"\xe9"),
        (b"\xff", b"\xe9\xff"),
        (b"", b""),
        (b"c\xe6\xbc", b"c"),
        (b"", b""),
    ];
    for (received, due) in steps {
        local.show(Bytes::from_static(received));
        assert_eq!(bytes(&local, &shown).await, due, "after {received:?}");
    }
    local.end().await;
    assert_eq!(written(&shown), b"\xe6\xbc");
}

#[tokio::test]
async fn a_sequence_that_does_not_end_counts_as_seen_in_the_end() {
    let (mut local, _shown) = local();
    let mut received = 0;
    for piece in ["a", "\x1b]2;", &"x".repeat(1000)] {
        local.show(Bytes::copy_from_slice(piece.as_bytes()));
        received += piece.len() as u64;
        assert_eq!(local.seen, 1);
    }
    for _ in 0..100 {
        local.show(Bytes::from(vec![b'x'; 1000]));
        received += 1000;
    }
    assert_eq!(local.seen, received);
    local.show(Bytes::from("\x1b\\b\x1b["));
    assert_eq!(local.seen, received + 3, "another begins");
    local.show(Bytes::from("1m"));
    assert_eq!(local.seen, received + 7);
}
