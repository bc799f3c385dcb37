"""Who may come in: by a list of names, by one password, or by GitHub. Never without any of these."""

import base64
import hmac
import re

import settings
from jupyterhub.auth import Authenticator
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from oauthenticator.github import GitHubOAuthenticator

# Students of a rehearsal, who are real to all but the list.
REHEARSAL = re.compile(r"rehearsal-[0-9]{1,3}")


def password_of(name):
    """The password of a name: 50 bits, by a secret that is on the drive, for root alone."""
    secret = settings.secret("passwords").encode()
    word = base64.b32encode(hmac.digest(secret, name.encode(), "sha256")).decode().lower()
    return f"{word[:5]}-{word[5:10]}"


def opens(name, data):
    return hmac.compare_digest(data.get("password", "").strip().lower().encode(), password_of(name).encode())


class ByList(Authenticator):
    """Each of the list by a password of their own, which `/hub/passwords` prints."""

    async def authenticate(self, handler, data):
        name = self.normalize_username(data.get("username", "").strip())
        return name if re.fullmatch(settings.USER, name) and opens(name, data) else None

    def check_allowed(self, username, authentication=None):
        return bool(REHEARSAL.fullmatch(username)) or super().check_allowed(username, authentication)


class ByPassword(SharedPasswordAuthenticator):
    """One password for all; a rehearsal's students come in by their own."""

    async def authenticate(self, handler, data):
        name = data.get("username", "")
        if REHEARSAL.fullmatch(name):
            return name if opens(name, data) else None
        return await super().authenticate(handler, data)

    def check_allowed(self, username, authentication=None):
        return bool(REHEARSAL.fullmatch(username)) or super().check_allowed(username, authentication)


def configure(c, found):
    c.Authenticator.username_pattern = f"^{settings.USER}$"
    c.Authenticator.admin_users = settings.names(found, "TEACHERS")
    c.Authenticator.allowed_users = settings.names(found, "USERS")
    if found["SIGN_IN"] == "list":
        c.JupyterHub.authenticator_class = ByList
    elif found["SIGN_IN"] == "password":
        c.JupyterHub.authenticator_class = ByPassword
        c.SharedPasswordAuthenticator.user_password = found["PASSWORD"]
        c.SharedPasswordAuthenticator.admin_password = found.get("TEACHER_PASSWORD")
        c.Authenticator.allow_all = not found["USERS"]
    else:
        c.JupyterHub.authenticator_class = GitHubOAuthenticator
        c.GitHubOAuthenticator.client_id = found["GITHUB_ID"]
        c.GitHubOAuthenticator.client_secret = found["GITHUB_SECRET"]
        c.GitHubOAuthenticator.oauth_callback_url = f"https://{found['NAME']}/hub/oauth_callback"
