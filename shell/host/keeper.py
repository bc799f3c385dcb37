"""The processes that keep terminals and commands, as their callers see them: `terminal.py` and
`command.py` have it in common."""

GONE = 255  # the exit status of a caller whose place another one took, as ssh's is


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
