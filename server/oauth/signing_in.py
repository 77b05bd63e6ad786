"""The three ways to sign in: the browser of this machine, another device, a pasted address."""

import hmac
import secrets
from collections.abc import Callable
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from config.provider import OAuth
from server.oauth.browser import WayBack
from server.oauth.endpoint import AuthorizationServer
from server.oauth.tokens import SignInRefused, Tokens

Way = Literal["browser", "device", "paste"]
_NOBODY_LISTENS = 1_455
"""A port for an address that is only read by the user."""


def sign_in(
    oauth: OAuth,
    address: str,
    way: Way,
    *,
    show: Callable[[str], None],
    ask: Callable[[str], str],
    go: Callable[[str], object] = lambda _: None,
    port: int = 0,
) -> Tokens:
    """The tokens of somebody who signs in as the owner of an address.

    show: tells the user a line; ask: has one answered; go: opens a browser. Raises SignInRefused, EndpointUnavailable
    and CameNotBack.
    """
    endpoint = AuthorizationServer(oauth)
    if way == "device":
        device = endpoint.device_code()
        show(f"Open {device.url} on any device, enter {device.user_code} and sign in as {address}.")
        return endpoint.await_device(device)
    state = secrets.token_urlsafe(24)
    if way == "paste":
        uri = f"http://{oauth.redirect_host}:{port or _NOBODY_LISTENS}"
        show(f"Open this in a browser and sign in as {address}:\n{endpoint.authorization_url(uri, state, address)}")
        show("It ends at a page that cannot be opened: copy the address of that page.")
        return endpoint.redeem(_code(endpoint, ask("The address of the last page").strip(), state), uri)
    with WayBack(oauth.redirect_host, port) as way_back:
        url = endpoint.authorization_url(way_back.uri, state, address)
        show(f"Open this in a browser of this machine and sign in as {address}:\n{url}")
        go(url)
        came_back = way_back.wait(lambda came: _is_of(came, state))
        return endpoint.redeem(_code(endpoint, came_back, state), way_back.uri)


def _code(endpoint: AuthorizationServer, came_back: str, state: str) -> str:
    if not _is_of(came_back, state):
        raise SignInRefused("client", "this address is not of the sign-in that was begun here")
    return endpoint.code_of(came_back, state)


def _is_of(came_back: str, state: str) -> bool:
    said = parse_qs(urlsplit(came_back).query).get("state", [""])[0]
    return hmac.compare_digest(said.encode(), state.encode())
