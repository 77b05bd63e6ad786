"""An OAuth 2 authorization server on loopback whose owner always agrees: codes with PKCE, devices, renewals.

Over HTTPS for clients; over HTTP on `asked_port` for mail servers that ask whether a token counts.
"""

import base64
import hashlib
import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from config.provider import OAuth
from tests.servers.certificates import Certificates
from tests.servers.ports import HOST

Step = Literal["asked", "rotated", "answered"]
CLIENT = "postmirror-tests"


class AuthorizationServer:
    """Everybody who comes is `owner`.

    life: seconds of an access token. rotates: a renewal gives another refresh token. forgives: an old one still works
    until the new one was used; else its use ends the sign-in. answer: status and JSON of the next answers of the token
    endpoint, in the place of tokens. at: called at the steps of a renewal. renewals: how many were made.
    """

    def __init__(self, certificates: Certificates, owner: str) -> None:
        self.owner = owner
        self.life = 3_600
        self.rotates = True
        self.forgives = True
        self.answer: tuple[int, dict[str, str]] | None = None
        self.at: Callable[[Step], object] = lambda _: None
        self.renewals = 0
        self.agreed_devices: set[str] = set()
        self.asked: list[dict[str, str]] = []
        self._lock = threading.Lock()
        self._codes: dict[str, dict[str, str]] = {}
        self._devices: dict[str, str] = {}
        self._access: dict[str, float] = {}
        self._refresh: dict[str, str | None] = {}
        self._ended = False
        handler = type("_Asked", (_Asked,), {"place": self})
        self._secure = ThreadingHTTPServer((HOST, 0), handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates.cert_file, certificates.key_file)
        self._secure.socket = context.wrap_socket(self._secure.socket, server_side=True)
        self._plain = ThreadingHTTPServer((HOST, 0), handler)
        self.asked_port = self._plain.server_port
        self.url = f"https://{HOST}:{self._secure.server_port}"
        self._threads = [threading.Thread(target=each.serve_forever) for each in (self._secure, self._plain)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for server in (self._secure, self._plain):
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join()

    @property
    def oauth(self) -> OAuth:
        """A client's configuration."""
        return OAuth(
            client_id=CLIENT,
            authorization_url=f"{self.url}/authorize",
            token_url=f"{self.url}/token",
            device_url=f"{self.url}/device",
            scopes=("imap", "smtp"),
        )

    @property
    def toml(self) -> str:
        """The same as a table."""
        return (
            f'{{ client_id = "{CLIENT}", authorization_url = "{self.url}/authorize", token_url = "{self.url}/token", '
            f'device_url = "{self.url}/device", scopes = ["imap", "smtp"] }}'
        )

    def dovecot(self, folder: str) -> str:
        """Lines for a Dovecot that asks here. folder: of its own, for the settings of its passdb."""
        return (
            "auth_mechanisms = xoauth2 oauthbearer\n"
            "passdb {\n  driver = oauth2\n  mechanisms = xoauth2 oauthbearer\n"
            f"  args = {folder}/oauth2.conf\n}}\n"
        )

    def dovecot_passdb(self) -> str:
        """The settings of that passdb."""
        return (
            f"introspection_url = http://{HOST}:{self.asked_port}/introspect\nintrospection_mode = auth\n"
            "username_attribute = username\nactive_attribute = active\nactive_value = true\n"
        )

    def is_good(self, access: str) -> bool:
        """Whether an access token counts now."""
        return not self._ended and self._access.get(access, 0.0) > time.time()

    def expire(self) -> None:
        """All access tokens end now."""
        self._access.clear()

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent, the owner having agreed."""
        self.asked.append(query)
        assert query["client_id"] == CLIENT
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        return f"{query['redirect_uri']}/?{urlencode({'code': code, 'state': query['state']})}"

    def device(self, form: dict[str, str]) -> dict[str, Any]:
        """A code for another device."""
        code, user_code = secrets.token_urlsafe(16), secrets.token_hex(3).upper()
        self._devices[code] = user_code
        place = {"verification_uri": f"{self.url}/enter", "expires_in": 60, "interval": 0.1}
        return {"device_code": code, "user_code": user_code, **place}

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """The answer of the token endpoint."""
        self.asked.append(form)
        if self.answer is not None:
            return self.answer
        if form.get("client_id") != CLIENT:
            return 401, {"error": "invalid_client"}
        match form["grant_type"]:
            case "authorization_code":
                began = self._codes.pop(form["code"], None)
                digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                if began is None or began["code_challenge"] != challenge:
                    return 400, {"error": "invalid_grant"}
                if began["redirect_uri"] != form["redirect_uri"]:
                    return 400, {"error": "invalid_grant"}
                return 200, self._issue(secrets.token_urlsafe(16))
            case "refresh_token":
                with self._lock:
                    return self._renew(form["refresh_token"])
            case _:
                if self._devices.get(form["device_code"]) not in self.agreed_devices:
                    return 400, {"error": "authorization_pending"}
                return 200, self._issue(secrets.token_urlsafe(16))

    def _renew(self, refresh: str) -> tuple[int, dict[str, Any]]:
        if refresh not in self._refresh or self._ended:
            return 400, {"error": "invalid_grant"}
        following = self._refresh[refresh]
        if following is not None and (not self.forgives or self._refresh.get(following)):
            # Twice: somebody has stolen it.
            self._ended = True
            return 400, {"error": "invalid_grant"}
        self.renewals += 1
        if not self.rotates:
            return 200, {**self._issue(refresh), "refresh_token": ""}
        fresh = secrets.token_urlsafe(16)
        self._refresh[refresh] = fresh
        return 200, self._issue(fresh)

    def _issue(self, refresh: str) -> dict[str, Any]:
        access = secrets.token_urlsafe(16)
        self._access[access] = time.time() + self.life
        self._refresh[refresh] = None
        return {"access_token": access, "token_type": "Bearer", "expires_in": self.life, "refresh_token": refresh}


class _Asked(BaseHTTPRequestHandler):
    place: AuthorizationServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/introspect":
            word = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self._say(200, {"active": self.place.is_good(word), "username": self.place.owner})
            return
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.send_response(302)
        self.send_header("Location", self.place.authorize(query))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {key: values[0] for key, values in parse_qs(body).items()}
        if self.path == "/device":
            self._say(200, self.place.device(form))
            return
        renews = form.get("grant_type") == "refresh_token"
        if renews:
            self.place.at("asked")
        status, said = self.place.token(form)
        if renews:
            self.place.at("rotated")
        try:
            self._say(status, said)
        except OSError:
            return
        if renews:
            self.place.at("answered")

    def _say(self, status: int, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - by name
        pass
