"""Jupyter's settings in the container: its tokens, its address and its folder.

The tokens are files on a tmpfs, read again at every request: each session has a new one, also those
that joined another, while the server and its kernels go on. They are never on a command line, in
the environment, in a log or in an image; neither are the cookie secret and the runtime files, which
are on the same tmpfs.

Without token or cookie every page is 403, also those that Jupyter would answer with a redirect to
its login page: there is nothing to log in with but the token.
"""

import os
import shlex

from jupyter_server.auth.identity import IdentityProvider
from tornado import web
from traitlets import default

TOKENS = "/run/xdrive/tokens"
ENVIRONMENT = "/run/xdrive/environment"  # a file a session: export NAME='VALUE'


BROUGHT = {}  # variables of a session, and what they were before


def read_tokens():
    """The sessions, by their tokens."""
    tokens = {}
    for name in os.listdir(TOKENS):
        with open(os.path.join(TOKENS, name)) as file:
            tokens[file.read().strip()] = name
    # The file of a session that ended is empty, and no token.
    tokens.pop("", None)
    return tokens


def bring(session):
    """Kernels and terminals that begin from here on have what the session brought along, and nothing
    that another one did."""
    for name, value in BROUGHT.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    BROUGHT.clear()
    try:
        with open(os.path.join(ENVIRONMENT, session)) as file:
            words = shlex.split(file.read())
    except FileNotFoundError:
        return
    for word in words:
        name, is_variable, value = word.partition("=")
        if is_variable:
            BROUGHT.setdefault(name, os.environ.get(name))
            os.environ[name] = value


class TokenFile(IdentityProvider):
    # Jupyter logs a token that it generated.
    token_generated = False

    @default("token")
    def _token_default(self):
        return next(iter(read_tokens()))

    def get_user(self, handler):
        return self._known_user(handler)

    async def _known_user(self, handler):
        tokens = read_tokens()
        given = self.get_token(handler)
        # Jupyter knows one token: the one that is given, if it is good, else one that is not given.
        # Without any token it would accept everyone.
        if given in tokens:
            self.token = given
            bring(tokens[given])
        elif tokens:
            self.token = next(iter(tokens))
        user = await self._get_user(handler)
        if user is None:
            # As in JupyterHandler.prepare: the error page reads both.
            handler.current_user = handler._jupyter_current_user = None
            raise web.HTTPError(403)
        return user


c = get_config()  # noqa: F821 - given by traitlets
c.ServerApp.identity_provider_class = TokenFile
c.ServerApp.ip = "0.0.0.0"
c.ServerApp.port = 8888
# No forward leads to another port.
c.ServerApp.port_retries = 0
c.ServerApp.open_browser = False
c.ServerApp.use_redirect_file = False
c.ServerApp.allow_root = True
c.ServerApp.root_dir = "/work"
