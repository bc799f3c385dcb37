"""Draws on its terminal in parts, each when it is asked for: drawing.py FOLDER SCREEN.

A file of a part's name in FOLDER asks for the part. The last that it draws is the text `NAME-drawn`,
and then there is a file `NAME-done`. Asked for `end`, it exits with status 7. SCREEN is one of:

    alternate   the alternate screen, drawn anew whenever the size changes, as full-screen programs do
    main        the main screen; a change of size is reported on it, since nothing should change one
    split       the same in other parts: each `NAME-begun` ends inside what `NAME-over` goes on with
"""

import os
import signal
import sys
import time

CLEAR = "\033[r\033[m\033[H\033[2J"
KANJI = "漢".encode()
SPLITS = {
    "colour": (b"\033[38;2;10", b";200;30mgreen"),
    "character": (KANJI[:2], KANJI[2:]),
    "title": (b"\033]2;a ti", b"tle\007titled"),
    "movement": (b"\033[5", b";40Hmoved"),
    "screen": (b"\033[?10", b"49h\033[Hfull"),
}


def at(row, column):
    return f"\033[{row};{column}H"


def status(rows, part):
    """The last row; the cursor stays where it was."""
    return f"\0337{at(rows, 1)}\033[0;7m{rows} rows, {part}\033[K\033[m\0338"


def one(rows):
    """Modes, colours, attributes, wide characters, scrolling in a region, edits in rows."""
    plain = "".join(f"\033[{n}m#" for n in [*range(30, 38), *range(90, 98)])
    indexed = "".join(f"\033[38;5;{n}m#" for n in range(16, 76))
    true = "".join(f"\033[48;2;{4 * n};{255 - 4 * n};{n}m " for n in range(60))
    attributes = "\033[1mbold\033[22;2mdim\033[22;3mitalic\033[23;4munder\033[24;7mreverse\033[m"
    lines = "".join(f"\r\nline {n}" for n in range(30))
    return "".join(
        [
            CLEAR,
            "\033[?1h\033=\033[?2004h\033[?1002;1006h\033[?25l\033[5 q",
            status(rows, "one"),
            at(1, 1) + plain + at(2, 1) + indexed + at(3, 1) + true,
            at(4, 1) + "\033[m" + attributes,
            at(5, 1) + "漢字 かな 🙂 e\u0301" + at(5, 79) + "広" + at(6, 80) + "広 wrapped",
            "\033[8;18r" + at(8, 1) + lines,
            at(8, 1) + "\033Mabove" + at(10, 1) + "\033[2Linserted" + at(13, 1) + "\033[M",
            at(12, 3) + "\033[4@" + at(14, 3) + "\033[2P" + at(15, 2) + "\033[3X",
            at(16, 4) + "\033[1K" + at(17, 4) + "\033[K",
            at(21, 70) + "goes on in the next row" + at(22, 40) + "one-drawn",
        ]
    )


def half(rows):
    """Ends amid a line, in colours that are on."""
    return status(rows, "half") + at(20, 30) + "\033[1;38;2;250;120;10;48;5;17m漢 half-drawn"


def whole(rows):
    """Goes on where `half` ended, in its colours; in the region, and with other modes."""
    return "".join(
        [
            " goes on" + status(rows, "whole") + "字\033[m",
            at(18, 1) + "\r\nscrolled" * 3,
            "\033[?1003h\033[?25h\033[3 q",
            at(19, 1) + "\033[4;36mwhole-drawn",
        ]
    )


def after(rows):
    """Erases, inserts lines, and sets other modes."""
    return "".join(
        [
            "\033[m" + at(16, 1) + "\033[J" + at(9, 1) + "\033[3L" + status(rows, "after"),
            "\033[?1l\033>\033[?1000h",
            at(11, 1) + "\033[9;38;5;200mafter-drawn",
        ]
    )


def left(is_alternate):
    """As programs leave a terminal. vt100 has one place for the colours that are saved with the
    cursor, where terminals have one for each screen: so none are on."""
    off = "\033[r\033[m\033[?1000;1006;2004l\033[?25h\033[0 q"
    return off + ("\033[?1049l\033[m" if is_alternate else at(23, 1)) + "left-drawn"


def write(data):
    while data:
        data = data[os.write(1, data) :]


def parts(screen):
    """The names of the parts in their order, and for each its bytes on a screen of so many rows."""
    if screen == "split":
        found = {}
        for name, (begun, over) in SPLITS.items():
            first = f"{CLEAR}{at(3, 1)}{name}-begun-drawn".encode() + begun
            found[f"{name}-begun"] = lambda _, first=first: first
            last = over + f" {name}-over-drawn".encode()
            found[f"{name}-over"] = lambda _, last=last: last
        return found
    drawn = {draw.__name__: draw for draw in (one, half, whole, after)}
    found = {name: lambda rows, draw=draw: draw(rows).encode() for name, draw in drawn.items()}
    found["left"] = lambda _: left(screen == "alternate").encode()
    return found


def main(folder, screen):
    resized = []
    signal.signal(signal.SIGWINCH, lambda *_: resized.append(True))

    def redraw(drawn):
        resized.clear()
        if screen != "alternate":
            write(b"\033[Hthe size has changed")
        elif "left" not in drawn:
            rows = os.get_terminal_size(1).lines
            write(b"".join(draw(rows) for draw in drawn.values()))

    def wait(part, drawn):
        while not os.path.exists(f"{folder}/{part}"):
            if resized:
                redraw(drawn)
            time.sleep(0.01)

    write(b"\033[m\033[H\033[2J")
    if screen == "alternate":
        write(b"the main screen\r\n\033[?1049h")
    drawn = {}
    for part, draw in parts(screen).items():
        wait(part, drawn)
        drawn[part] = draw
        write(draw(os.get_terminal_size(1).lines))
        with open(f"{folder}/{part}-done", "w"):
            pass
    wait("end", drawn)
    return 7


sys.exit(main(*sys.argv[1:]))
