"""The processes that keep terminals and commands, as their callers see them: `terminal.py` and
`command.py` have it in common."""

import signal

GONE = 255  # the exit status of a caller whose place another one took, as ssh's is


def announce_sizes(keeper):
    """From here on the keeper has word of each new size of this process's terminal."""

    def announce(*_):
        try:
            keeper.send(b"w")
        except OSError:
            pass  # it has ended; an error here would take the place of its last word

    signal.signal(signal.SIGWINCH, announce)


def status(keeper):
    """Waits until the keeper ends the connection; the exit status that it sent, else GONE."""
    while True:
        try:
            sent = keeper.recv(16)
            return int(sent) if sent else GONE
        except ConnectionError:
            # It ended with a message of ours unread, such as a new size. The kernel says so before it
            # delivers what the keeper sent (unix(7)), and once.
            continue
