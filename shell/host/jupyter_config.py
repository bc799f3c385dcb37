"""Jupyter's settings in the container: who may come in, and where it begins.

The token is a file on a tmpfs, read again at every request: each session has a new one, while the
server and its kernels go on. It is never on a command line, in the environment, in a log or in an
image; neither are the cookie secret and the runtime files, which are on the same tmpfs.

Without token or cookie every page is 403, also those that Jupyter would answer with a redirect to
its login page: there is nothing to log in with but the token.
"""

from jupyter_server.auth.identity import IdentityProvider
from tornado import web
from traitlets import default

TOKEN = "/run/xdrive/token"


def read_token():
    with open(TOKEN) as file:
        return file.read().strip()


class TokenFile(IdentityProvider):
    # Not made up by Jupyter: so that it is never shown in its log.
    token_generated = False

    @default("token")
    def _token_default(self):
        return read_token()

    def get_user(self, handler):
        return self._known_user(handler)

    async def _known_user(self, handler):
        self.token = read_token()
        user = await self._get_user(handler)
        if user is None:
            # As in JupyterHandler.prepare: the error page asks for both.
            handler.current_user = handler._jupyter_current_user = None
            raise web.HTTPError(403)
        return user


c = get_config()  # noqa: F821 - given by traitlets
c.ServerApp.identity_provider_class = TokenFile
c.ServerApp.ip = "0.0.0.0"
c.ServerApp.port = 8888
# Another port would be one that nothing forwards to.
c.ServerApp.port_retries = 0
c.ServerApp.open_browser = False
c.ServerApp.use_redirect_file = False
c.ServerApp.allow_root = True
c.ServerApp.root_dir = "/work"
