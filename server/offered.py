"""Which tools a profile is offered, without a server that runs them."""

from config.identity import Profile
from server.gateway import Gateway
from server.gateway_tools import gateway_tools
from server.relay import Relay, relay_tools


def offered_tools(profile: Profile) -> list[str]:
    """The names that `tools/list` gives a token with this profile."""
    # Tools that nobody calls: only their names and grants are looked at.
    tools = relay_tools(Relay.__new__(Relay)) if profile.tools == "relay" else gateway_tools(Gateway.__new__(Gateway))
    return [tool.name for tool in tools if tool.is_offered(profile)]
