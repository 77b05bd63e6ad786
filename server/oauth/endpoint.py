"""What is asked of a provider's authorization server: the only import of oauthlib."""

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from oauthlib.oauth2 import DeviceClient, OAuth2Error, WebApplicationClient

from config.provider import OAuth
from config.secret import SecretUnavailable
from server.oauth.tokens import EndpointUnavailable, Fault, SignInRefused, Tokens

_SECONDS = 10.0
_SHORTEST = 5.0
_WITHOUT_EXPIRY = 3_600.0
# What Microsoft and Google say beside the codes of RFC 6749, from their lists of errors.
_ADMINISTRATOR = re.compile(r"AADSTS(?:90094|90095|900941|50105|53003)|admin_policy_enforced|org_internal")
_CONSENT = re.compile(r"AADSTS(?:65001|65004)|consent_required|interaction_required|access_denied")
_CLIENT = re.compile(
    r"AADSTS(?:700016|7000215|7000218|700038|50011)|invalid_client|unauthorized_client|invalid_scope"
    r"|unsupported_grant_type|redirect_uri_mismatch"
)
_CODE = re.compile(r"AADSTS\d+")


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What the user is told for a sign-in on another device, and how it is asked about."""

    code: str = field(repr=False)
    user_code: str
    url: str
    interval: float
    expires: float


class AuthorizationServer:
    """The authorization server of one OAuth client."""

    def __init__(self, oauth: OAuth) -> None:
        self._oauth = oauth
        self._client = WebApplicationClient(oauth.client_id)
        self._verifier = self._client.create_code_verifier(64)

    def authorization_url(self, redirect_uri: str, state: str, address: str) -> str:
        """Where the browser goes to sign in as the owner of an address."""
        return str(
            self._client.prepare_request_uri(
                self._oauth.authorization_url,
                redirect_uri=redirect_uri,
                scope=list(self._oauth.scopes),
                state=state,
                code_challenge=self._client.create_code_challenge(self._verifier, "S256"),
                code_challenge_method="S256",
                **{"login_hint": address, **self._oauth.parameters},
            )
        )

    def code_of(self, came_back: str, state: str) -> str:
        """The code in the address that the browser was sent back to. Raises SignInRefused."""
        # oauthlib wants https of every address; that of a program on this machine is http (RFC 8252 8.3).
        secure = "https://" + came_back.partition("://")[2]
        with _refusals():
            return str(self._client.parse_request_uri_response(secure, state=state)["code"])

    def redeem(self, code: str, redirect_uri: str) -> Tokens:
        """The tokens for a code. Raises SignInRefused and EndpointUnavailable."""
        words: dict[str, Any] = {"code_verifier": self._verifier, **self._secret()}
        return self._tokens(self._client.prepare_request_body(code=code, redirect_uri=redirect_uri, **words))

    def renew(self, refresh: str) -> Tokens:
        """Fresh tokens. Raises SignInRefused and EndpointUnavailable."""
        identity = {"client_id": self._oauth.client_id, **self._secret()}
        return self._tokens(self._client.prepare_refresh_body(refresh_token=refresh, **identity))

    def device_code(self) -> DeviceCode:
        """A code to be typed on another device (RFC 8628). Raises SignInRefused and EndpointUnavailable."""
        if self._oauth.device_url is None:
            raise SignInRefused("client", "this provider has no device_url")
        form = {"client_id": self._oauth.client_id, "scope": " ".join(self._oauth.scopes)}
        said = self._post(self._oauth.device_url, data=form)
        if "error" in said:
            raise _refused(str(said["error"]), str(said.get("error_description", "")))
        try:
            url = str(said.get("verification_uri") or said["verification_url"])
            interval = max(float(said.get("interval", 5)), 0.1)
            expires = time.time() + float(said["expires_in"])
            return DeviceCode(str(said["device_code"]), str(said["user_code"]), url, interval, expires)
        except (KeyError, ValueError, TypeError) as exc:
            raise EndpointUnavailable("its answer could not be understood") from exc

    def await_device(self, device: DeviceCode, wait: Callable[[float], object] = time.sleep) -> Tokens:
        """The tokens, once the user has agreed on the other device. Raises SignInRefused and EndpointUnavailable."""
        client = DeviceClient(self._oauth.client_id)
        body = client.prepare_request_body(device.code, include_client_id=True, **self._secret())
        interval = device.interval
        while time.time() < device.expires:
            wait(interval)
            try:
                return self._tokens(body)
            except SignInRefused as exc:
                if exc.reason == "slow_down":
                    interval += _SHORTEST
                elif exc.reason != "authorization_pending":
                    raise
        raise SignInRefused("signed_out", "expired_token")

    def _secret(self) -> dict[str, str]:
        if self._oauth.client_secret is None:
            return {}
        try:
            return {"client_secret": self._oauth.client_secret.read()}
        except SecretUnavailable as exc:
            raise SignInRefused("client", str(exc)) from exc

    def _tokens(self, body: str) -> Tokens:
        now = time.time()
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        said = self._post(self._oauth.token_url, content=body, headers=form)
        with _refusals():
            self._client.parse_request_body_response(json.dumps(said))
        try:
            ends = said.get("refresh_token_expires_in")
            return Tokens(
                str(said["access_token"]),
                now,
                now + float(said.get("expires_in") or _WITHOUT_EXPIRY),
                str(said.get("refresh_token") or ""),
                None if ends is None else now + float(ends),
            )
        except (ValueError, TypeError) as exc:
            raise EndpointUnavailable("its answer could not be understood") from exc

    @staticmethod
    def _post(url: str, **words: Any) -> dict[str, Any]:
        try:
            with httpx2.Client(verify=ssl.create_default_context(), timeout=_SECONDS) as http:
                answer = http.post(url, **words)
            if answer.status_code == 429 or answer.status_code >= 500:
                raise EndpointUnavailable(f"it answered with {answer.status_code}")
            said = answer.json()
        except (httpx2.HTTPError, OSError) as exc:
            raise EndpointUnavailable(str(exc) or type(exc).__name__) from exc
        except ValueError as exc:
            raise EndpointUnavailable("its answer could not be understood") from exc
        if not isinstance(said, dict):
            raise EndpointUnavailable("its answer could not be understood")
        return said


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except OAuth2Error as exc:
        raise _refused(str(exc.error or "invalid_response"), str(exc.description or "")) from exc


def _refused(error: str, description: str) -> Exception:
    if error in ("temporarily_unavailable", "server_error"):
        return EndpointUnavailable(error)
    code = _CODE.search(description)
    said = f"{error} {description}"
    fault: Fault = "signed_out"
    if _ADMINISTRATOR.search(said):
        fault = "administrator"
    elif _CLIENT.search(said):
        fault = "client"
    elif _CONSENT.search(said):
        fault = "consent"
    return SignInRefused(fault, f"{error}, {code[0]}" if code else error)
