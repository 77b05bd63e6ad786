"""The mailbox of real mail has as many messages as asked for, no two with one Message-ID."""

from itertools import islice

from bench import real
from tests.corpus import needs_corpus


@needs_corpus
def test_repeated_mail_has_message_ids_of_its_own() -> None:
    mails = list(islice(real.repeated(), 40))
    ids = [raw.partition(b"\r\n")[0] for raw in mails]

    assert len(set(ids)) == 40
    assert all(each.startswith(b"Message-ID: <") for each in ids)
