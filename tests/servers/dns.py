"""A name server on loopback that answers from a zone of its own."""

import socketserver
import threading
from collections.abc import Mapping
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.resolver
import dns.rrset

from tests.servers.ports import HOST


class NameServer:
    """zone: by (name, type), the data of its records. Other names do not exist."""

    def __init__(self, zone: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        self._zone = zone
        handler = type("_Asked", (socketserver.BaseRequestHandler,), {"handle": lambda request: self._answer(request)})
        self._server = socketserver.ThreadingUDPServer((HOST, 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def resolver(self) -> dns.resolver.Resolver:
        """A resolver that asks this server."""
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers = [HOST]
        resolver.port = self._server.server_address[1]
        return resolver

    def _answer(self, request: socketserver.BaseRequestHandler) -> None:
        data, connection = request.request
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        (asked,) = query.question
        kind = dns.rdatatype.to_text(asked.rdtype)
        records = self._zone.get((asked.name.to_text(True), kind), ())
        if records:
            answer.answer.append(dns.rrset.from_text(asked.name, 60, "IN", kind, *records))
        else:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        connection.sendto(answer.to_wire(), request.client_address)
