"""How the web process listens."""

import socket

from server.serve import listen


def test_accepted_connections_send_answers_without_waiting_for_an_ack() -> None:
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
