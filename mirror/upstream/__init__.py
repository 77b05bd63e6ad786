"""The upstream IMAP server as typed answers: the only package that imports imapclient and uses its `_imap`.

imapclient 4.1 gives connection, TLS and the FETCH parser. Commands are sent through imaplib below it, because
imapclient's own calls validate ranges after they ran, merge FETCH data without a uid into the message whose *uid*
equals the sequence number, decode folder names so strictly that one odd name loses the whole LIST, and hide COPYUID,
VANISHED and LIST-STATUS. Every failure leaves as an error of mirror.errors; a connection that failed in mid-command
is closed.

Folder names are bytes exactly as received (RFC 3501 5.1.3 is undone for display only). uids are always UIDs.

    session     a connection: commands, capabilities and rungs, EXISTS and VANISHED after every answer
    login       how it is made: TLS, login, ENABLE
    idling      IDLE
    refusals    what a server means by a refusal
    folders     listed, asked for their status, opened
    mailbox     messages of the open folder, read
    writing     flags, moves, deletions and appends, each with its proof
    answers     the lines of answers, taken apart by regular expressions; fetched does what they cannot
    quirks      what known servers need, each with its source
"""

from mirror.upstream.mailbox import PIECE, Asked
from mirror.upstream.writing import Upstream

__all__ = ["PIECE", "Asked", "Upstream"]
