"""A mailbox of real mail: the corpus, repeated with new Message-IDs until it is as large as is asked for."""

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from bench.installation import Mailbox
from tests.corpus import messages
from tests.servers.dovecot import Dovecot
from tests.servers.second_client import Incoming

_BEGIN = datetime(2019, 1, 7, 8, tzinfo=UTC)
_APPENDED_AT_ONCE = 50
_LARGEST = 5_000_000
_MESSAGE_ID = re.compile(rb"^message-id:[^\n]*\n(?:[ \t][^\n]*\n)*", re.IGNORECASE | re.MULTILINE)
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")


def fill_real(dovecot: Dovecot, login: str, wanted: int) -> Mailbox:
    """A mailbox of so many messages of the corpus, an hour apart, all in INBOX. Raises LookupError without a corpus."""
    octets = count = 0
    mails = itertools.islice(repeated(), wanted)
    with dovecot.client(login) as client:
        while raws := list(itertools.islice(mails, _APPENDED_AT_ONCE)):
            client.append(
                "INBOX",
                *(
                    Incoming(raw, ("\\Seen",), _BEGIN + timedelta(hours=number))
                    for number, raw in enumerate(raws, count)
                ),
            )
            count += len(raws)
            octets += sum(map(len, raws))
    if not count:
        raise LookupError("no mail corpus: set POSTMIRROR_CORPUS or put it at ../shared/corpus")
    return Mailbox(dovecot, login, count, octets, "messages of the corpus, repeated with new Message-IDs", 1)


def repeated() -> Iterator[bytes]:
    """Every message of the corpus, again and again, each time with a Message-ID of its own."""
    for turn in itertools.count():
        number = -1
        for number, path in enumerate(messages()):
            raw = path.read_bytes()
            if 0 < len(raw) <= _LARGEST and b"\0" not in raw:
                yield _renamed(_BARE_LINE_FEED.sub(b"\r\n", raw), f"{turn}.{number}@bench.example")
        if number < 0:
            return


def _renamed(raw: bytes, message_id: str) -> bytes:
    head, blank, body = raw.partition(b"\r\n\r\n")
    kept = _MESSAGE_ID.sub(b"", head + b"\r\n")
    return b"Message-ID: <%s>\r\n" % message_id.encode("ascii") + kept.removesuffix(b"\r\n") + blank + body
