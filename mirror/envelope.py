"""The envelope of a mail: what its header block alone says, decoded and cleaned."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from mirror.invisible import Findings, one_line
from mirror.mail.addresses import MAX_LENGTH, read_addresses
from mirror.mail.charset import codec_of
from mirror.mail.dates import read_date
from mirror.mail.header import Block, read_block, unfolded
from mirror.mail.parameters import read_parameters
from mirror.mail.words import decode_words
from mirror.message import Address, with_line_feeds

MAX_SUBJECT = 1_000
MAX_NAME = 200
MAX_ADDRESS = 320
MAX_ADDRESSES = 2_000
MAX_REFERENCES = 100
MAX_ID = 998
MAX_HEADERS = 65_536
MAX_VALUE = 8_192
MAX_SEAL = 256
_MAX_RAW = 16_384
_IDENTIFIER = re.compile(r"<([^<>]{1,998})>")
# Signatures, seals and vendor blobs: long, and of no use to a reader.
_SEAL = re.compile(
    r"(?i)(?:dkim-signature|domainkey-signature|arc-seal|arc-message-signature|autocrypt|face|x-face|x-pgp-sig|"
    r"x-google-dkim-signature|x-gm-message-state|x-google-smtp-source|x-received|x-sg-eid|x-ymail-osg|x-provags-id|"
    r"x-ui-out-filterresults|x-microsoft-antispam.*|x-ms-exchange-.*|x-forefront-antispam-report.*|x-exchange-.*|"
    r"x-sib-id|x-mailgun-.*|x-ses-outgoing|x-mimecast-.*|x-proofpoint-.*|x-yahoo-newman-.*)"
)
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\r\n"
_ADDRESS_IN_NAME = re.compile(r"[\w.+-]{1,64}@([\w-]{1,63}(?:\.[\w-]{1,63})+)")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "CHEROKEE", "ARMENIAN")
_BLOB = re.compile(r"\s*\[[^\[\]]*\]\s*")
_REPLY = re.compile(r"(?i)\s*(?:re|fwd?)\s*(?:\[[^\[\]]*\]\s*)?:\s*")
_TRAILER = re.compile(r"(?i)(?:\s|\(fwd\))+$")


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who wrote what to whom and when.

    date: aware, with the offset written in the header; None when missing or unreadable. message_id, in_reply_to,
    references: ids without angle brackets. headers: (name, value) as received, decoded and cleaned, 64 KB at most; the
    values of signatures and seals are cut to 256 characters.
    """

    subject: str
    from_: tuple[Address, ...]
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    reply_to: tuple[Address, ...]
    date: datetime | None
    message_id: str
    in_reply_to: str
    references: tuple[str, ...]
    headers: tuple[tuple[str, str], ...]
    findings: dict[str, int]


def read_envelope(block: bytes, hint: str = "", fields: Block | None = None) -> Envelope:
    """The envelope that a header block gives.

    hint: the charset that the mail's parts name, for raw 8-bit header values. fields: of the block, where they have
    been read. Never raises.
    """
    if fields is None:
        block = with_line_feeds(block)
        fields = read_block(block, 0, len(block))
    hint = hint or read_parameters(unfolded(fields.first("content-type")[:_MAX_RAW]))[1].get("charset", "")
    if codec_of(hint[:60]) is None:
        hint = ""
    findings = Findings()
    if fields.truncated:
        findings["truncated_headers"] += 1
    if fields.junk:
        findings["junk_header_lines"] += fields.junk
    reading = _Reading(fields, hint, findings)
    subject = reading.text("subject")
    if len(subject) > MAX_SUBJECT:
        findings["truncated_subject"] += 1
    senders = _senders(reading.addresses("from"), findings)
    date = fields.first("date")
    identifiers = reading.identifiers("in-reply-to")
    return Envelope(
        subject=subject[:MAX_SUBJECT],
        from_=senders,
        to=reading.addresses("to"),
        cc=reading.addresses("cc"),
        bcc=reading.addresses("bcc"),
        reply_to=reading.addresses("reply-to"),
        date=read_date(decode_words(unfolded(date[:_MAX_RAW]))) if date else None,
        message_id=next(iter(reading.identifiers("message-id")), ""),
        in_reply_to=identifiers[0] if identifiers else "",
        references=reading.identifiers("references"),
        headers=reading.headers(),
        findings=dict(findings),
    )


class _Reading:
    """One header block being decoded."""

    def __init__(self, block: Block, hint: str, findings: Findings) -> None:
        self.block = block
        self.hint = hint
        self.findings = findings

    def text(self, name: str) -> str:
        value = self.block.first(name)
        decoded = decode_words(unfolded(value[:_MAX_RAW], self.hint))
        return one_line(decoded, MAX_SUBJECT + 1, self.findings)

    def addresses(self, name: str) -> tuple[Address, ...]:
        read: list[Address] = []
        for value in self.block.every(name)[:50]:
            if len(value) > MAX_LENGTH:
                self.findings["truncated_addresses"] += 1
            for display_name, address in read_addresses(unfolded(value[:MAX_LENGTH], self.hint)):
                if len(read) >= MAX_ADDRESSES:
                    self.findings["truncated_addresses"] += 1
                    return tuple(read)
                read.append(
                    Address(
                        one_line(display_name, MAX_NAME, self.findings), one_line(address, MAX_ADDRESS, self.findings)
                    )
                )
        return tuple(read)

    def identifiers(self, name: str) -> tuple[str, ...]:
        text = " ".join(unfolded(value[: 4 * _MAX_RAW], self.hint) for value in self.block.every(name)[:5])
        found = _IDENTIFIER.findall(text) or text.split()[:1]
        if len(found) > MAX_REFERENCES:
            found = [found[0], *found[1 - MAX_REFERENCES :]]
        cleaned = (one_line(identifier, MAX_ID, self.findings).replace(" ", "") for identifier in found)
        return tuple(identifier for identifier in cleaned if identifier)

    def headers(self) -> tuple[tuple[str, str], ...]:
        headers: list[tuple[str, str]] = []
        size = 0
        uncounted = Findings()
        for name, raw in self.block.fields:
            limit = _limit_of(name)
            raw = raw[: limit * 4]
            if b"=?" in raw or raw.translate(None, _PLAIN):
                value = one_line(decode_words(unfolded(raw, self.hint)), limit, uncounted)
                size += len(value.encode())
            else:
                value = " ".join(raw.decode("ascii").split())[:limit].rstrip()
                size += len(value)
            size += len(name)
            if size > MAX_HEADERS:
                self.findings["truncated_headers"] += 1
                break
            headers.append((name[:200], value))
        return tuple(headers)


@lru_cache(maxsize=1024)
def _limit_of(name: str) -> int:
    """The characters kept of the value of a field of this name."""
    return MAX_SEAL if _SEAL.fullmatch(name) else MAX_VALUE


def _senders(senders: tuple[Address, ...], findings: Findings) -> tuple[Address, ...]:
    """The mailboxes of From, one with an address first; what looks wrong with them is counted."""
    real = tuple(sender for sender in senders if "@" in sender.address)
    if len(senders) > 1:
        findings["several_senders"] += 1
    for sender in senders:
        _judge(sender, findings)
    return real or senders


def _judge(sender: Address, findings: Findings) -> None:
    name = unicodedata.normalize("NFKC", sender.name)
    domain = sender.address.rpartition("@")[2].lower()
    other = _ADDRESS_IN_NAME.search(name)
    if other and domain and other[1].lower() != domain:
        findings["display_name_has_other_address"] += 1
    if not domain.isascii() or any(label.startswith("xn--") for label in domain.split(".")):
        findings["idn_sender"] += 1
    if any(_is_mixed(word) for word in re.findall(r"[^\W\d_]+", sender.name)):
        findings["mixed_script_name"] += 1


def _is_mixed(word: str) -> bool:
    if word.isascii():
        return False
    scripts = {unicodedata.name(character, "").partition(" ")[0] for character in word}
    return len(scripts.intersection(_SCRIPTS)) > 1


def base_subject(subject: str) -> str:
    """The base subject of RFC 5256 2.1: without reply and forward marks and list labels, for sorting and threading."""
    subject = " ".join(subject[:MAX_SUBJECT].split())
    while True:
        before = subject
        subject = _TRAILER.sub("", subject)
        while True:
            shorter = _without_leader(subject)
            if shorter == subject:
                break
            subject = shorter
        if subject.lower().startswith("[fwd:") and subject.endswith("]"):
            subject = subject[5:-1].strip()
        if subject == before:
            return subject


def _without_leader(subject: str) -> str:
    labels = 0
    while (match := _BLOB.match(subject, labels)) and match.end() > labels:
        labels = match.end()
    if match := _REPLY.match(subject, labels):
        return subject[match.end() :]
    if (match := _BLOB.match(subject)) and subject[match.end() :].strip():
        return subject[match.end() :]
    return subject.lstrip()
