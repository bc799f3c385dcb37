#!/usr/bin/env python3
"""Records a real session of xdrive as a moving picture, an SVG on stdout.

usage: record.py PROGRAM > shell/session.svg        (as root, for --local; needs tmux)

It types what SCENES holds into a shell in tmux, waits for the text that each scene ends with, and
looks at the pane FRAMES times a second. The drive lives in a folder of its own, which is removed.
Pauses are shortened to PAUSE: what takes time says so in its own output.
"""

import html
import os
import re
import subprocess
import sys
import tempfile
import time

COLUMNS, ROWS = 80, 24
FRAMES = 12  # a second
PAUSE = 1.2  # seconds that a picture stands at most
END = 4.0  # seconds that the last picture stands
LIMIT = 180  # seconds for a scene

# What is typed, and the text that shows that it is done.
SCENES = [
    ("xdrive connect demo", r"/work# $"),
    ("echo 'a month of work' > notes.txt", r"/work# $"),
    ("exit", r"demo is saved: .*\n\$ $"),
    ("xdrive list demo", r"\n\$ $"),
    ("xdrive connect demo --type c5.4xlarge", r"/work# $"),
    ("cat notes.txt", r"a month of work\n.*/work# $"),
    ("exit", r"demo is saved: (?:.|\n)*demo is saved: .*\n\$ $"),
]

FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
COLOURS = ["#21262d", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#c9d1d9"]
BACKGROUND, TEXT = "#0d1117", "#c9d1d9"
WIDTH, HEIGHT, SIZE = 8.4, 18, 14  # of a character's cell, and the font's


class Pane:
    """A shell in a tmux server of its own."""

    def __init__(self, program, folder):
        self.socket = f"{folder}/tmux"
        command = f"{os.path.abspath(program)} --local --local-dir {folder}/ec2"
        rc = f"{folder}/rc"
        with open(rc, "w") as file:
            file.write(f"PS1='$ '\nunset PROMPT_COMMAND\nxdrive() {{ {command} \"$@\"; }}\n")
        shell = f"HOME={folder} XDRIVE_CACHE={cache()} bash --noprofile --rcfile {rc}"
        self.tmux("-f/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), shell)
        self.tmux("set-option", "-g", "status", "off")
        self.tmux("set-option", "-g", "history-limit", "5000")

    def tmux(self, *words):
        command = ["tmux", "-S", self.socket, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def screen(self):
        """The visible lines with their colours, and the cursor's column and row."""
        lines = self.tmux("capture-pane", "-p", "-e").split("\n")[:ROWS]
        column, row = self.tmux("display-message", "-p", "#{cursor_x} #{cursor_y}").split()
        return tuple(lines), (int(column), int(row))

    def text(self):
        """All that was printed, without colours; as far as it was written to."""
        return self.tmux("capture-pane", "-p", "-S", "-").rstrip("\n").rstrip(" ") + " "

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)


def cache():
    """Where the machine tree and the image are, which the shell's own HOME would hide."""
    home = os.environ.get("XDG_CACHE_HOME", f"{os.environ['HOME']}/.cache")
    return os.environ.get("XDRIVE_CACHE", f"{home}/xdrive")


class Film:
    """Pictures, each with the moment at which it appeared."""

    def __init__(self, pane):
        self.pane = pane
        self.pictures = []

    def look(self):
        picture = self.pane.screen()
        if not self.pictures or self.pictures[-1][1] != picture:
            self.pictures.append((time.monotonic(), picture))

    def act(self, typed, done):
        before = len(self.pane.text())
        for letter in typed:
            self.pane.type(letter)
            time.sleep(0.04)
            self.look()
        self.pane.tmux("send-keys", "Enter")
        end = time.monotonic() + LIMIT
        while True:
            time.sleep(1 / FRAMES)
            self.look()
            text = self.pane.text()
            if len(text) > before + len(typed) and re.search(done, text):
                return
            if time.monotonic() > end:
                sys.exit(f"record.py: {typed!r} did not end with {done!r}:\n{text}")

    def timed(self):
        """Each picture with the seconds that it stands."""
        moments = [moment for moment, _ in self.pictures]
        stands = [min(b - a, PAUSE) for a, b in zip(moments, moments[1:])] + [END]
        return [(picture, seconds) for (_, picture), seconds in zip(self.pictures, stands)]


def spans(line):
    """The text of a line of tmux's capture in runs: column, colour or None, bold, text."""
    column, colour, bold = 0, None, False
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        code = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not code:
            if part.strip():
                yield column, colour, bold, part
            column += len(part)
            continue
        for number in [int(n or 0) for n in code[1].split(";")]:
            if number == 0:
                colour, bold = None, False
            elif number == 1:
                bold = True
            elif number in (39, 22):
                colour, bold = (None, bold) if number == 39 else (colour, False)
            elif 30 <= number <= 37 or 90 <= number <= 97:
                colour = COLOURS[number % 10]


def drawn(line):
    """A line as SVG text at its own origin."""
    out = []
    for column, colour, bold, text in spans(line):
        indent = len(text) - len(text.lstrip())
        style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
        x = (column + indent) * WIDTH
        out.append(f'<text x="{x:.1f}"{style}>{html.escape(text.strip())}</text>')
    return "".join(out)


def svg(film):
    """The moving picture: all pictures side by side on a strip, which moves behind a window. Where
    a viewer does not move it, or its user wants no motion, it stands at its end."""
    timed = film.timed()
    total = sum(seconds for _, seconds in timed)
    width, height = COLUMNS * WIDTH + 24, ROWS * HEIGHT + 24
    lines, frames, keys, elapsed = {}, [], [], 0.0
    for number, ((rows, (column, row)), seconds) in enumerate(timed):
        uses = []
        for index, line in enumerate(rows):
            shape = drawn(line)
            if shape:
                name = lines.setdefault(shape, f"l{len(lines)}")
                uses.append(f'<use href="#{name}" y="{(index + 1) * HEIGHT - 4}"/>')
        uses.append(f'<use href="#c" x="{column * WIDTH:.1f}" y="{row * HEIGHT}"/>')
        frames.append(f'<g transform="translate({number * width:.0f})">{"".join(uses)}</g>')
        keys.append(f"{100 * elapsed / total:.3f}%{{transform:translateX(-{number * width:.0f}px)}}")
        elapsed += seconds
    end = (len(frames) - 1) * width
    symbols = "".join(f'<g id="{name}">{shape}</g>' for shape, name in lines.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width:.0f} {height}" \
width="{width:.0f}" height="{height}" role="img">
<title>A session of xdrive: a drive is made, saved, and comes back on another instance</title>
<style>
text{{font:{SIZE}px {FONT};fill:{TEXT};white-space:pre}}
.film{{animation:film {total:.2f}s step-end infinite}}
@media (prefers-reduced-motion:reduce){{.film{{animation:none}}}}
@keyframes film{{{"".join(keys)}}}
</style>
<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>
<defs><rect id="c" width="{WIDTH}" height="{HEIGHT}" fill="{TEXT}" fill-opacity="0.6"/>{symbols}</defs>
<svg x="12" y="12" width="{COLUMNS * WIDTH:.0f}" height="{ROWS * HEIGHT}"><g class="film" transform="translate(-{end:.0f})">
{chr(10).join(frames)}
</g></svg>
</svg>
"""


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="xdrive-record-") as folder:
        pane = Pane(sys.argv[1], folder)
        try:
            film = Film(pane)
            for typed, done in SCENES:
                film.act(typed, done)
            print(svg(film), end="")
        finally:
            pane.close()
            # What the EC2 in the folder still has mounted or running.
            program = os.path.abspath(sys.argv[1])
            clear = [program, "--local", "--local-dir", f"{folder}/ec2", "gc"]
            subprocess.run(clear, capture_output=True)
            subprocess.run(["umount", "-q", f"{folder}/ec2/disks"], capture_output=True)


if __name__ == "__main__":
    main()
