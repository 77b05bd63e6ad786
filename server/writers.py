"""Who has written to a mailbox, as far as a profile can see: the people it may answer under `reply_only`."""

from datetime import UTC, datetime

from config.profile import Profile
from mirror.errors import MirrorAbsent, QueryTooSlow
from mirror.mirrored import FolderState
from mirror.query.reader import Reader
from mirror.query.tree import Any, Contains, Query
from server.auth import Caller
from server.mirrors import Mirrors
from server.policy import Recipient, Sight, folder_access, view
from server.spelling import both_spellings, narrow_form

_NOT_RECEIVED = ("\\Drafts", "\\Sent", "\\Junk")
_PAGE = 50
_MOST_PAGES = 20


def has_written(mirrors: Mirrors, caller: Caller, person: Recipient) -> bool:
    """Whether a message that the caller can read is from this very address.

    From is what counts: Reply-To names whom a stranger likes. Mail in Drafts and Sent was not received, and mail in
    Junk is not to be answered.
    """
    try:
        with mirrors.reading(caller.user, caller.provider) as reader:
            return any(
                _wrote_into(reader, folder, caller.policy, person)
                for folder in reader.folders()
                if folder.selectable
                and folder.role not in _NOT_RECEIVED
                and folder_access(folder, caller.policy) != "hidden"
            )
    except MirrorAbsent:
        return False


def _wrote_into(reader: Reader, folder: FolderState, profile: Profile, person: Recipient) -> bool:
    policy, now = profile.content, datetime.now(UTC)
    sight, restricted = Sight(policy, now), view(policy, now)
    since = None if policy.max_age is None else now - policy.max_age
    query = Query(Any(tuple(Contains("from", spelling) for spelling in sorted(both_spellings(person.address)))))
    after = None
    for _ in range(_MOST_PAGES):
        try:
            page = reader.page(folder.id, query, after, _PAGE, restricted, since)
        except QueryTooSlow:
            return False
        shown = page.messages if restricted is not None else [each for each in map(sight, page.messages) if each]
        if any(narrow_form(sender.address) == person.key for message in shown for sender in message.from_):
            return True
        after = page.after
        if after is None:
            break
    return False
