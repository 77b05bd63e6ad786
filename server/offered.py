"""Which tools a profile is offered, without a server that runs them."""

from typing import Any, Literal

from config.profile import Profile
from server.gateway.changes import Changes
from server.gateway.files import Files
from server.gateway.mail import Mail
from server.gateway.reads import Reads
from server.gateway.tools import Gateway, gateway_tools
from server.relay import Relay, relay_tools
from server.tool import Tool


def offered_tools(profile: Profile) -> list[str]:
    """The names that `tools/list` gives a token with this profile."""
    return [tool.name for tool in tools_of(profile.tools) if tool.is_offered(profile)]


def tools_of(tool_set: Literal["relay", "gateway"]) -> list[Tool[Any]]:
    """Every tool of a set, not to be called: for their names, descriptions and grants."""
    if tool_set == "relay":
        return relay_tools(Relay.__new__(Relay))
    return gateway_tools(
        Gateway(Reads.__new__(Reads), Mail.__new__(Mail), Changes.__new__(Changes), Files.__new__(Files))
    )
