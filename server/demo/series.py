"""The regular senders of the sample mailbox: newsletters, invoices, builds, orders, lists, told by `series.toml`."""

import html
import random
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from email.headerregistry import Address
from pathlib import Path
from typing import Any

from server.demo.files import invitation, pdf, png
from server.demo.letter import File, Letter

_SOURCE = Path(__file__).with_suffix(".toml")
_ZONE = timezone(timedelta(hours=1))
_SEEN = ("\\Seen",)


def series(now: datetime, owner: Address, seed: int) -> Iterator[Letter]:
    """Every letter of every regular sender, the last ones from the days before `now`."""
    chance = random.Random(seed)  # noqa: S311 - the same mailbox each time
    writer = _Series(now, owner, chance, tomllib.loads(_SOURCE.read_text("utf-8")))
    tell: Sequence[Callable[[], Iterator[Letter]]] = (
        writer.brief,
        writer.shop,
        writer.invoices,
        writer.statements,
        writer.builds,
        writer.issues,
        writer.posts,
        writer.orders,
        writer.journeys,
        writer.meetings,
        writer.alerts,
        writer.codes,
    )
    for letters in tell:
        yield from letters()


class _Series:
    def __init__(self, now: datetime, owner: Address, chance: random.Random, source: Mapping[str, Any]) -> None:
        self._now = now.astimezone(_ZONE).replace(microsecond=0)
        self._to = (owner,)
        self._chance = chance
        self._source = source

    def _at(self, days: float, hour: int) -> datetime:
        day = self._now - timedelta(days=days)
        return min(
            day.replace(hour=hour, minute=self._chance.randrange(60), second=self._chance.randrange(60)), self._now
        )

    def _flags(self, days: float) -> Sequence[str]:
        return _SEEN if days > 3 and self._chance.random() < 0.85 else ()

    def brief(self) -> Iterator[Letter]:
        """A weekly city newsletter in HTML and plain text, with a tracking pixel."""
        sender = Address("The Harbour Brief", addr_spec="brief@harbourbrief.example")
        for week in range(40):
            days = 1 + 7 * week
            news = self._chance.sample(self._source["brief"]["news"], 5)
            page = _page(
                "The Harbour Brief",
                [
                    _story(title, text, f"https://harbourbrief.example/{400 - week}/{n}")
                    for n, (title, text) in enumerate(news)
                ],
                "harbourbrief.example",
                400 - week,
            )
            yield Letter(
                folder="Newsletters",
                sender=sender,
                to=self._to,
                subject=f"Harbour Brief #{400 - week}: {news[0][0]}",
                date=self._at(days, 6),
                message_id=f"brief{400 - week}@harbourbrief.example",
                text="\n\n".join(f"{title.upper()}\n{text}" for title, text in news) + "\n",
                html=page,
                flags=self._flags(days),
                headers={
                    "List-Id": "The Harbour Brief <brief.harbourbrief.example>",
                    "List-Unsubscribe": f"<https://harbourbrief.example/unsubscribe/{400 - week}>",
                },
            )

    def shop(self) -> Iterator[Letter]:
        """A shop that writes in HTML alone."""
        for number in range(20):
            days = 2 + 11 * number
            offers = self._chance.sample(self._source["shop"]["offers"], 3)
            yield Letter(
                folder="Newsletters",
                sender=Address("Stitch & Loop", addr_spec="hello@stitchandloop.example"),
                to=self._to,
                subject=f"🧶 {offers[0][0]}",
                date=self._at(days, 17),
                message_id=f"offer{number}@stitchandloop.example",
                html=_page(
                    "Stitch & Loop",
                    [
                        _story(title, f"{text} From {price} EUR.", "https://stitchandloop.example/")
                        for title, text, price in offers
                    ],
                    "stitchandloop.example",
                    number,
                ),
                flags=self._flags(days),
            )

    def invoices(self) -> Iterator[Letter]:
        """A hosting invoice a month, as PDF; the newest is still in the inbox."""
        for month in range(18):
            days = 4 + 30 * month
            date = self._at(days, 7)
            number, amount = f"CP-{2400 - month}", f"{self._chance.choice((24, 24, 24, 39))}.90"
            lines = [f"Date: {date:%d %B %Y}", "Web hosting, plan M", f"Total: EUR {amount}", "Paid by direct debit."]
            yield Letter(
                folder="Archive/Invoices" if month else "INBOX",
                sender=Address("Cloudpeak Billing", addr_spec="billing@cloudpeak.example"),
                to=self._to,
                subject=f"Your invoice {number} for {date:%B %Y}",
                date=date,
                message_id=f"{number.lower()}@cloudpeak.example",
                text=f"Hello Alice,\n\nyour invoice {number} over EUR {amount} is attached. There is nothing to do:\n"
                "the amount is debited within five days.\n\nCloudpeak Hosting\n",
                files=[File(f"{number}.pdf", "application/pdf", pdf(f"Invoice {number}", lines))],
                flags=_SEEN if month else (),
            )

    def statements(self) -> Iterator[Letter]:
        """A bank that says only that there is something to see."""
        for quarter in range(8):
            date = self._at(20 + 91 * quarter, 5)
            yield Letter(
                folder="Archive/Invoices",
                sender=Address("Harbour Savings Bank", addr_spec="notice@harboursavings.example"),
                to=self._to,
                subject="A new statement is in your mailbox at the bank",
                date=date,
                message_id=f"statement{quarter}@harboursavings.example",
                text=f"Dear Ms Example,\n\nstatement {date:%m/%Y} of the account ending in 4471 is ready. For your\n"
                "safety this message contains no link: sign in as usual.\n\nHarbour Savings Bank\n",
                flags=_SEEN,
            )

    def builds(self) -> Iterator[Letter]:
        """A build server that reports every build of the market hall's website."""
        builds = self._source["builds"]
        for number in range(30):
            days = 1.5 + 2.3 * number
            branch, commit = self._chance.choice(builds["branches"]), self._chance.choice(builds["commits"])
            failure = self._chance.choice(builds["failures"]) if self._chance.random() < 0.3 else ""
            state, colour = ("failed", "#bb0000") if failure else ("passed", "#008800")
            text = f"Build {880 - number} of market-website {state}.\n\nBranch: {branch}\nCommit: {commit}\n"
            yield Letter(
                folder="Projects/Builds",
                sender=Address("Build server", addr_spec="ci@fernhill.example"),
                to=self._to,
                subject=f"[market-website] build {880 - number} {state} ({branch})",
                date=self._at(days, self._chance.randrange(8, 20)),
                message_id=f"build{880 - number}@ci.fernhill.example",
                text=text + (f"\n{failure}\n" if failure else "Duration: 3 min 12 s\n"),
                html=f"<h3 style='color:{colour}'>{state}</h3><pre>{html.escape(text + failure)}</pre>",
                flags=self._flags(days),
                headers={"Auto-Submitted": "auto-generated"},
            )

    def issues(self) -> Iterator[Letter]:
        """A project board that mails every comment."""
        for number, issue in enumerate(self._source["issues"]):
            references: list[str] = []
            for place, (author, comment) in enumerate(issue["comments"]):
                days = 5 + 13 * number - 1.7 * place
                message_id = f"{issue['key'].lower()}.{place}@boards.fernhill.example"
                yield Letter(
                    folder="Projects/Board",
                    sender=Address(f"{author} (Board)", addr_spec="board@fernhill.example"),
                    to=self._to,
                    subject=f"{'Re: ' if place else ''}[{issue['key']}] {issue['title']}",
                    date=self._at(max(days, 0.5), 9 + place),
                    message_id=message_id,
                    text=f"{author} wrote:\n\n{comment}\n\n--\nReply to this message to comment on {issue['key']}.\n",
                    references=list(references),
                    flags=self._flags(days),
                    headers={"List-Id": "Fernhill boards <boards.fernhill.example>"},
                )
                references.append(message_id)

    def posts(self) -> Iterator[Letter]:
        """A mailing list of star gazers."""
        to = (Address("Night Sky Society", addr_spec="list@nightsky.example"),)
        members = ("Ines Falk", "Bertil Nyström", "Karim Haddad", "Sofia Brandt", "Olu Adeyemi")
        for number, post in enumerate(self._source["posts"]):
            references: list[str] = []
            for place, text in enumerate([post["text"], *post["replies"]]):
                author = self._chance.choice(members) if place else post["author"]
                days = 6 + 12 * number - 0.6 * place
                message_id = f"post{number}.{place}@nightsky.example"
                quote = f"{post['author']} wrote:\n> {post['text']}\n\n" if place == 1 else ""
                yield Letter(
                    folder="Lists/Night Sky",
                    sender=Address(author, addr_spec=f"member{members.index(author)}@nightsky.example"),
                    to=to,
                    subject=f"{'Re: ' if place else ''}[nightsky] {post['title']}",
                    date=self._at(days, 18 + place),
                    message_id=message_id,
                    text=f"{quote}{text}\n\n-- \n{author}\n",
                    references=list(references),
                    flags=self._flags(days),
                    charset="iso-8859-1" if author == "Bertil Nyström" else "utf-8",
                    headers={
                        "List-Id": "Night Sky Society <list.nightsky.example>",
                        "List-Post": "<mailto:list@nightsky.example>",
                    },
                )
                references.append(message_id)

    def orders(self) -> Iterator[Letter]:
        """Orders: confirmed, on their way, delivered."""
        steps = ("Order {} confirmed", "Your parcel is on its way ({})", "Delivered: order {}")
        said = (
            "thank you for your order. We pack it today.",
            "your parcel has left our house. Expected: in two days. Tracking number: HX{}DE.",
            "your parcel was handed over to a neighbour: Petersen, second floor.",
        )
        for number, order in enumerate(self._source["orders"]):
            reference = 70_000 + 917 * number
            sender = Address(order["shop"], addr_spec=order["address"])
            for place, (subject, text) in enumerate(zip(steps, said, strict=True)):
                days = 6 + 21 * number - 1.4 * place
                wording = text.format(reference)
                rows = f"<tr><td>{html.escape(order['item'])}</td><td align='right'>{order['price']} EUR</td></tr>"
                yield Letter(
                    folder="INBOX" if days < 30 else "Archive",
                    sender=sender,
                    to=self._to,
                    subject=subject.format(reference),
                    date=self._at(days, 11 + place),
                    message_id=f"order{reference}.{place}@{sender.domain}",
                    text=f"Hello Alice,\n\n{wording}\n\n  1 x {order['item']}   {order['price']} EUR\n\n"
                    f"{order['shop']}\n",
                    html=f"<p>Hello Alice,</p><p>{wording}</p><table width='480'>{rows}</table>",
                    flags=self._flags(days),
                )

    def journeys(self) -> Iterator[Letter]:
        """Tickets, with a code to scan inside the HTML."""
        for number, journey in enumerate(self._source["journeys"]):
            days = 12 + 33 * number
            code = File("code.png", "image/png", png((40, 40, 40), 48, 48), content_id=f"code{number}@rail.example")
            where = f"{journey['from']} to {journey['to']}"
            yield Letter(
                folder="Ausflüge",
                sender=Address("Coast Rail", addr_spec="tickets@coastrail.example"),
                to=self._to,
                subject=f"Your ticket: {where}, {journey['train']}",
                date=self._at(days, 20),
                message_id=f"ticket{number}@coastrail.example",
                text=f"{journey['train']}, {where}\n{journey['seat']}\n\nShow the code in the attachment on board.\n",
                html=f"<h2>{journey['train']}</h2><p>{where}<br>{journey['seat']}</p>"
                f'<img src="cid:{code.content_id}" width="96" height="96" alt="code"><p>Have a good journey!</p>',
                files=[code],
                flags=_SEEN,
            )

    def meetings(self) -> Iterator[Letter]:
        """Invitations that a calendar understands."""
        organizer = Address("Maya Lindqvist", addr_spec="maya@fernhill.example")
        for number, meeting in enumerate(self._source["meetings"]):
            days = 2 + 5 * number
            date = self._at(days, 10)
            begin = (date + timedelta(days=6)).replace(hour=14, minute=0, second=0)
            uid = f"meeting{number}@fernhill.example"
            yield Letter(
                folder="INBOX",
                sender=organizer,
                to=self._to,
                subject=f"Invitation: {meeting['title']} ({begin:%a %d %b, %H:%M})",
                date=date,
                message_id=uid,
                text=f"{meeting['title']}\n{begin:%A, %d %B, %H:%M}\n{meeting['place']}\n\n{meeting['text']}\n",
                invitation=invitation(uid, meeting["title"], meeting["place"], organizer.addr_spec, begin),
                flags=self._flags(days),
            )

    def alerts(self) -> Iterator[Letter]:
        """A watchdog: something is wrong, something is right again."""
        for number, alert in enumerate(self._source["alerts"]):
            for place, (state, text) in enumerate((("PROBLEM", alert["bad"]), ("RECOVERY", alert["good"]))):
                days = 4 + 9 * number - 0.4 * place
                yield Letter(
                    folder="INBOX" if days < 20 else "Archive",
                    sender=Address("", addr_spec="watchdog@fernhill.example"),
                    to=self._to,
                    subject=f"{state}: {alert['check']}",
                    date=self._at(days, 3 + place),
                    message_id=f"alert{number}.{place}@watchdog.fernhill.example",
                    text=f"{text}\n",
                    flags=self._flags(days),
                    headers={"X-Priority": "1", "Auto-Submitted": "auto-generated"},
                )

    def codes(self) -> Iterator[Letter]:
        """Sign-in codes: what an agent should never be asked to pass on."""
        for number in range(6):
            days = 1 + 19 * number
            yield Letter(
                folder="INBOX" if days < 30 else "Trash",
                sender=Address("Cloudpeak", addr_spec="no-reply@cloudpeak.example"),
                to=self._to,
                subject="Your sign-in code",
                date=self._at(days, 21),
                message_id=f"code{number}@cloudpeak.example",
                text=f"Your sign-in code is {self._chance.randrange(100_000, 1_000_000)}. It is valid for ten\n"
                "minutes. Nobody from Cloudpeak will ever ask you for it.\n",
                flags=self._flags(days),
            )


def _story(title: str, text: str, url: str) -> str:
    link = html.escape(f"{url}?utm_source=newsletter&utm_medium=email")
    heading = f'<a href="{link}" style="color:#114488">{html.escape(title)}</a>'
    return (
        '<tr><td style="padding:16px 24px;border-bottom:1px solid #dddddd;font-family:Georgia,serif">'
        f'<h2 style="margin:0 0 8px;font-size:20px">{heading}</h2>'
        f'<p style="margin:0;font-size:15px;line-height:1.5;color:#333333">{html.escape(text)}</p></td></tr>'
    )


def _page(name: str, stories: Sequence[str], host: str, number: int) -> str:
    return "\n".join(
        (
            f"<html><head><title>{html.escape(name)}</title>",
            "<style>a { text-decoration: none } @media (max-width: 480px) { table { width: 100% } }</style></head>",
            '<body style="margin:0;background:#f4f4f0"><table width="600" align="center" cellpadding="0">',
            f'<tr><td style="padding:24px;background:#114488;color:#ffffff"><h1>{html.escape(name)}</h1></td></tr>',
            *stories,
            '<tr><td style="padding:24px;color:#888888">You get this because you asked for it. '
            f'<a href="https://{host}/unsubscribe/{number}">Unsubscribe</a></td></tr></table>',
            f'<img src="https://{host}/open/{number}.gif" width="1" height="1" alt=""></body></html>',
        )
    )
