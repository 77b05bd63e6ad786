"""Generated mail that looks like a mailbox: the same bytes for the same seed, as much of it as is asked for.

Plain text, replies that quote, newsletters and notifications in HTML, attachments; several scripts, charsets and
transfer encodings; threads; dates that rise by some hours a message and are written in the ways that mail programs
write them. 20,000 messages are about 260 MB.
"""

# ruff: noqa: RUF001 - mail is written in Greek and Cyrillic, too

import base64
import binascii
import html
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from email.parser import BytesHeaderParser
from email.utils import format_datetime, parsedate_to_datetime

_BEGIN = datetime(2019, 1, 7, 8, tzinfo=UTC)
_OWNER = ("Alice Example", "alice@example.org")
_OPEN_THREADS = 60


@dataclass(frozen=True, slots=True)
class _Language:
    """How mail in one language is made: its words, what joins them, the charsets it travels in."""

    syllables: str
    length: tuple[int, int]
    gap: str
    stop: str
    charsets: Sequence[str]
    names: Sequence[str]


_LATIN = (
    "al an ar ba be ca ce co con da de di do en er es fa fi ga ge ha he in is ja ka la le li lo ma me mi mo na ne ni "
    "no on or pa pe po pro ra re ri ro sa se si so st ta te ti to tra un va ve vi vo wa we"
)
_GERMAN = _LATIN + " über größ schön straß führ äng höh ung heit keit"
_RUSSIAN = "ба ве го да же за ин ка ла ми на об по ра со ту ук фи хо че ша щи ый эт юр яв пре ста"
_GREEK = "αι βα γρ δε εν ζω ηλ θε ισ κα λο μα νε ξε οι πα ρω στ τη υπ φι χα ψυ ως ές ία"
_ARABIC = "ال با تم ثا جا حر خط دا ذل را زي سل شر صف ضم طا ظا عل غر فن قد كت لم من نو هو وق ين"
_CHINESE = " ".join(
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后"
)
_JAPANESE = (
    " ".join("のにはをたがでてとしれさあるいうえおかきくけこすせそ")
    + " 会議 資料 確認 予定 東京 メール お願い ます です"
)
_EMOJI = ("🎉", "👍", "📎", "✅", "🚀", "👩‍💻", "🇯🇵", "❤️")

_LANGUAGES = (
    (
        70,
        _Language(
            _LATIN, (1, 4), " ", ".", ("us-ascii", "utf-8"), ("Bob Miller", "Carol Diaz", "Dan O'Neil", "Erin Wu")
        ),
    ),
    (12, _Language(_GERMAN, (1, 4), " ", ".", ("utf-8", "iso-8859-1"), ("Jürgen Groß", "Bärbel Weiß"))),
    (5, _Language(_RUSSIAN, (1, 4), " ", ".", ("utf-8", "koi8-r", "windows-1251"), ("Иван Петров", "Ольга Смирнова"))),
    (3, _Language(_GREEK, (1, 4), " ", ".", ("utf-8", "iso-8859-7"), ("Ελένη Παππά",))),
    (3, _Language(_ARABIC, (1, 3), " ", ".", ("utf-8", "windows-1256"), ("ليلى حسن",))),
    (3, _Language(_CHINESE, (1, 3), "", "。", ("utf-8", "gb18030"), ("王小明", "李娜"))),
    (4, _Language(_JAPANESE, (1, 3), "", "。", ("utf-8", "iso-2022-jp"), ("田中太郎", "佐藤花子"))),
)
_TOPICS = (
    "Invoice {}",
    "Meeting notes {}",
    "Re-scheduling {}",
    "Your order {} has shipped",
    "Ticket #{} was updated",
    "Offer {}",
    "Weekly digest {}",
    "Quarterly report {}",
    "Question about {}",
    "Travel plans {}",
    "Contract {}",
    "Build {} failed",
)
_HOSTS = ("example.org", "example.com", "mail.example.net", "lists.example.org", "shop.example.com")


def generate(n: int, seed: int) -> Iterator[bytes]:
    """The first `n` messages of the endless mailbox of this seed, oldest first, each with CRLF line ends."""
    writer = _Writer(random.Random(seed))
    return (writer.message(number) for number in range(n))


def date_of(message: bytes) -> datetime:
    """The moment in the Date header of a generated message."""
    return parsedate_to_datetime(BytesHeaderParser().parsebytes(message)["Date"])


@dataclass(frozen=True, slots=True)
class _Thread:
    language: int
    subject: str
    references: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class _Draft:
    """One message before it is put into MIME."""

    language: int
    subject: str
    paragraphs: Sequence[str]


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._date = _BEGIN
        self._threads: list[_Thread] = []
        self._weights = list(itertools.accumulate(weight for weight, _ in _LANGUAGES))
        self._words = [self._vocabulary(language) for _, language in _LANGUAGES]
        # Words are as unequal as in real text: the n-th most frequent one has a weight of 1/n.
        self._zipf = list(itertools.accumulate(1 / rank for rank in range(1, len(self._words[0]) + 1)))

    def message(self, number: int) -> bytes:
        """The next message; they must be asked for in order."""
        chance = self._chance
        self._date += timedelta(seconds=chance.randrange(60, 6 * 3_600))
        thread = chance.choice(self._threads) if self._threads and chance.random() < 0.35 else None
        language = thread.language if thread else chance.choices(range(len(_LANGUAGES)), cum_weights=self._weights)[0]
        draft = _Draft(
            language,
            f"Re: {thread.subject}" if thread else self._subject(language),
            [self._paragraph(language) for _ in range(chance.randint(1, 8))],
        )
        make: Callable[[_Draft], tuple[str, bytes]]
        if thread:
            make = self._reply(thread)
        else:
            make = chance.choices(
                (self._plain, self._newsletter, self._notification, self._with_attachment), (40, 30, 15, 15)
            )[0]
        content_type, body = make(draft)
        message_id = f"{number}.{chance.getrandbits(64):016x}@{chance.choice(_HOSTS)}"
        references = (*thread.references, message_id) if thread else (message_id,)
        self._remember(_Thread(language, draft.subject.removeprefix("Re: "), references[-20:], draft.paragraphs[0]))
        return self._headers(draft, message_id, references[:-1]) + content_type.encode("ascii") + b"\r\n" + body

    def _remember(self, thread: _Thread) -> None:
        if len(self._threads) < _OPEN_THREADS:
            self._threads.append(thread)
        else:
            self._threads[self._chance.randrange(_OPEN_THREADS)] = thread

    def _vocabulary(self, language: _Language) -> list[str]:
        syllables = language.syllables.split()
        return [
            "".join(self._chance.choices(syllables, k=self._chance.randint(*language.length))) for _ in range(20_000)
        ]

    def _sentence(self, language: int, words: int) -> str:
        made = _LANGUAGES[language][1]
        chosen = self._chance.choices(self._words[language], cum_weights=self._zipf, k=words)
        return made.gap.join(chosen).capitalize() + made.stop

    def _paragraph(self, language: int) -> str:
        sentences = [self._sentence(language, self._chance.randint(4, 18)) for _ in range(self._chance.randint(1, 6))]
        if self._chance.random() < 0.03:
            sentences.append(self._chance.choice(_EMOJI))
        return " ".join(sentences)

    def _subject(self, language: int) -> str:
        if self._chance.random() < 0.4:
            return self._chance.choice(_TOPICS).format(self._chance.randrange(10_000, 99_999))
        return self._sentence(language, self._chance.randint(2, 7)).rstrip(".。")

    def _headers(self, draft: _Draft, message_id: str, references: Sequence[str]) -> bytes:
        name = self._chance.choice(_LANGUAGES[draft.language][1].names)
        sender = f"user{self._chance.randrange(400)}@{self._chance.choice(_HOSTS)}"
        hop = f"{self._chance.getrandbits(48):012x}"
        lines = [
            f"Return-Path: <{sender}>",
            f"Received: from {sender.partition('@')[2]} by mx.example.org (Postfix) with ESMTPS id {hop}",
            f"\tfor <{_OWNER[1]}>; {format_datetime(self._date)}",
            f"DKIM-Signature: v=1; a=rsa-sha256; d={sender.partition('@')[2]}; s=s1; h=from:to:subject:date;",
            f"\tbh={_base64(self._chance.randbytes(32))};",
            f"\tb={_base64(self._chance.randbytes(192))}",
            f"From: {_encoded(name)} <{sender}>",
            f"To: {_OWNER[0]} <{_OWNER[1]}>",
            *([f"Cc: user{self._chance.randrange(400)}@example.com"] if self._chance.random() < 0.2 else ()),
            f"Subject: {_encoded(draft.subject)}",
            f"Date: {self._written_date()}",
            f"Message-ID: <{message_id}>",
        ]
        if references:
            lines += [
                f"In-Reply-To: <{references[-1]}>",
                "References: " + "\r\n ".join(f"<{reference}>" for reference in references),
            ]
        return "\r\n".join([*lines, "MIME-Version: 1.0", ""]).encode("ascii")

    def _written_date(self) -> str:
        zone = timezone(timedelta(minutes=self._chance.choice((0, 0, 60, 120, -300, -480, 330, 540, -210))))
        written = format_datetime(self._date.astimezone(zone))
        style = self._chance.randrange(10)
        if style == 0:
            return written.partition(", ")[2]
        if style == 1:
            return f"{written} (local)"
        if style == 2:
            return format_datetime(self._date, usegmt=True)
        return written

    def _plain(self, draft: _Draft) -> tuple[str, bytes]:
        return self._text(
            "plain", "\r\n\r\n".join(draft.paragraphs) + "\r\n\r\n-- \r\nSent with care\r\n", draft.language
        )

    def _reply(self, thread: _Thread) -> Callable[[_Draft], tuple[str, bytes]]:
        def make(draft: _Draft) -> tuple[str, bytes]:
            depth = min(len(thread.references), 5)
            quoted = "\r\n".join(
                f"{'>' * level} {thread.text}"
                for level in range(1, depth + 1)
                for _ in range(self._chance.randint(1, 3))
            )
            text = "\r\n\r\n".join([*draft.paragraphs[:3], f"Alice Example wrote:\r\n{quoted}", ""])
            return self._text("plain", text, draft.language)

        return make

    def _newsletter(self, draft: _Draft) -> tuple[str, bytes]:
        plain = "\r\n\r\n".join([draft.subject, *draft.paragraphs, "Unsubscribe: https://news.example.com/u/1", ""])
        rows = [self._row(self._paragraph(draft.language)) for _ in range(self._chance.randint(15, 75))]
        page = self._page(draft, rows)
        return self._multipart(
            "alternative", [self._text("plain", plain, draft.language), self._text("html", page, draft.language)]
        )

    def _notification(self, draft: _Draft) -> tuple[str, bytes]:
        return self._text("html", self._page(draft, [self._row(text) for text in draft.paragraphs]), draft.language)

    def _with_attachment(self, draft: _Draft) -> tuple[str, bytes]:
        kind, name = self._chance.choice(
            (
                ("application/pdf", "report.pdf"),
                ("image/png", "photo.png"),
                ("text/csv", "numbers.csv"),
                ("text/calendar", "invite.ics"),
            )
        )
        number = self._chance.randrange(10_000)
        if kind == "text/csv":
            data = "".join(f"{row};{number * row};{self._chance.random():.4f}\r\n" for row in range(200)).encode()
        elif kind == "text/calendar":
            data = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:%d\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n" % number
        else:
            magic = b"%PDF-1.4\n" if kind == "application/pdf" else b"\x89PNG\r\n\x1a\n"
            data = magic + self._chance.randbytes(self._chance.choice((8_000, 20_000, 40_000, 120_000)))
        attachment = (
            f'Content-Type: {kind}; name="{name}"\r\nContent-Disposition: attachment; filename="{number}-{name}"\r\n'
            "Content-Transfer-Encoding: base64\r\n",
            base64.encodebytes(data).replace(b"\n", b"\r\n"),
        )
        text = (self._newsletter if self._chance.random() < 0.2 else self._plain)(draft)
        return self._multipart("mixed", [text, attachment])

    def _row(self, text: str) -> str:
        number = self._chance.randrange(1_000_000)
        return (
            f'<tr><td style="padding:12px 24px;font-family:Arial,Helvetica,sans-serif;font-size:14px;color:#333333">'
            f'<a href="https://click.example.com/c/{number}?utm_source=mail&amp;id={number:x}" style="color:#0066cc">'
            f'<img src="https://img.example.com/{number}.png" width="120" height="80" alt=""></a>'
            f'<p style="margin:0 0 12px">{html.escape(text)}</p></td></tr>'
        )

    def _page(self, draft: _Draft, rows: Sequence[str]) -> str:
        number = self._chance.getrandbits(64)
        return "\r\n".join(
            [
                f"<html><head><title>{html.escape(draft.subject)}</title><style>td {{ vertical-align: top }}",
                "@media (max-width: 600px) { .wide { width: 100% !important } }</style></head><body>",
                f'<div style="display:none;max-height:0">{html.escape(draft.paragraphs[0][:80])}</div>',
                '<table class="wide" width="600" cellpadding="0" cellspacing="0" border="0" align="center">',
                *rows,
                f'</table><img src="https://track.example.com/o/{number:x}.gif" width="1" height="1"></body></html>',
            ]
        )

    def _text(self, subtype: str, text: str, language: int) -> tuple[str, bytes]:
        charset = self._chance.choice(_LANGUAGES[language][1].charsets)
        try:
            raw = text.encode(charset)
        except UnicodeEncodeError:
            charset, raw = "utf-8", text.encode()
        long = max(map(len, raw.split(b"\r\n"))) > 990
        if raw.isascii() and not long:
            encoding, body = "7bit", raw
        elif self._chance.random() < 0.2 and not long:
            encoding, body = "8bit", raw
        elif self._chance.random() < 0.7 and language < 2:
            encoding, body = "quoted-printable", binascii.b2a_qp(raw, istext=True)
        else:
            encoding, body = "base64", base64.encodebytes(raw).replace(b"\n", b"\r\n")
        return f"Content-Type: text/{subtype}; charset={charset}\r\nContent-Transfer-Encoding: {encoding}\r\n", body

    def _multipart(self, subtype: str, parts: Sequence[tuple[str, bytes]]) -> tuple[str, bytes]:
        boundary = f"=_{self._chance.getrandbits(96):024x}"
        body = b"".join(
            b"--%s\r\n%s\r\n%s\r\n" % (boundary.encode("ascii"), head.encode("ascii"), content)
            for head, content in parts
        )
        head = f'Content-Type: multipart/{subtype}; boundary="{boundary}"\r\n'
        return head, body + b"--%s--\r\n" % boundary.encode("ascii")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _encoded(text: str) -> str:
    """The text as header words (RFC 2047), folded."""
    if text.isascii():
        return text
    pieces = [text[start : start + 12] for start in range(0, len(text), 12)]
    return "\r\n ".join(f"=?utf-8?B?{_base64(piece.encode())}?=" for piece in pieces)
