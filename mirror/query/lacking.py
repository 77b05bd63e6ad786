"""Contents whose text lacks a word that nearly every text has: what matches when such a word is not wanted.

universal has the words that were in four of five texts of some large batch. lacking has, for each, the contents with
text whose text lacks it, from universal.lacking_from on: all of them once fill() has gone down from the newest, step by
step. Nobody asks for a word before. `pairs` says which letters stand side by side in the text, so that what is wanted
beside leaves most of the contents out before a text is read.

A content may be named here that has the word, or is no more: who searches tests the text anyway.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from mirror.fold import LONG_WORD, fold, fold_keeping_separators
from mirror.terms import Indexed

_WHOLE, _EMPTY = -(2**62), 2**62
_LEAST_TOLD, _SHARE, _ONE_IN = 100, 0.8, 8
"""Texts of a batch that tell of a word, how many of them have to have it, and one in how many batches is looked at."""
_FEW, _LIKELY_SHARE = 40, 0.6
"""Texts that tell which words to count in all of a batch, and how many of these have to have a word."""
_MOST_LACKING, _MOST_WORDS = 0.35, 12
"""Where more of the texts lack a word, it is put aside: a walk finds those soon enough."""
_AT_ONCE = 1_000
_PAIRS = 62
_ALL_PAIRS = (1 << _PAIRS) - 1


@dataclass(frozen=True, slots=True)
class Lacking:
    """The contents that lack a word, about so many of them, of which those are proposed that may have the pairs."""

    word: int
    share: float
    pairs: int


def add(connection: sqlite3.Connection, contents: Sequence[Indexed]) -> None:
    """Take in contents that have just got their text."""
    known = [(word, f" {term} ", begin) for word, term, begin in connection.execute(_KNOWN)]
    rows: list[tuple[int, int, int]] = []
    for content, terms in contents if known else ():
        body = f" {terms.body} "
        if lacked := [word for word, term, begin in known if term not in body and content >= begin]:
            pairs = _pairs_within(terms.body)
            rows += [(word, content, pairs) for word in lacked]
    connection.executemany(_ADD, rows)


def take(connection: sqlite3.Connection, content_ids: Collection[int]) -> None:
    """Take contents out, before their text changes or goes."""
    known = [row[0] for row in connection.execute(_KNOWN)]
    connection.executemany(
        "DELETE FROM lacking WHERE word = ? AND content = ?",
        [(word, content) for content in content_ids for word in known],
    )


def notice(connection: sqlite3.Connection, contents: Sequence[Indexed]) -> None:
    """Hold the words from now on that nearly all contents of a large batch have in their text. Looks at few batches."""
    if len(contents) >= _LEAST_TOLD and contents[0][0] * 2_654_435_761 % 2**32 < 2**32 // _ONE_IN:
        _notice(connection, [terms.body for _, terms in contents])


def _notice(connection: sqlite3.Connection, bodies: Sequence[str]) -> None:
    few = bodies[:: -(-len(bodies) // _FEW)] if bodies else ()
    counted = Counter(chain.from_iterable(set(body.split()) for body in few))
    for word in sorted(word for word, count in counted.items() if count >= _LIKELY_SHARE * len(few)):
        having = sum(f" {word} " in f" {body} " for body in bodies)
        if having >= _SHARE * len(bodies) and word != LONG_WORD:
            connection.execute(_NOTICE, (word, _EMPTY, len(bodies), len(bodies) - having, _MOST_WORDS))


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether nothing is left to fill in."""
    return connection.execute(_UNFINISHED, (_WHOLE,)).fetchone() is None


def fill(connection: sqlite3.Connection) -> bool:
    """Take in the next contents that a word is not told of, within the caller's transaction. Whether some are left."""
    unfinished = connection.execute(_UNFINISHED, (_WHOLE,)).fetchone()
    if unfinished is None:
        return False
    word, term, begin, seen, lacked = unfinished
    if not term:
        _look(connection)
        return not is_whole(connection)
    ids = [row[0] for row in connection.execute(_NEXT, (begin, _AT_ONCE))]
    if ids:
        having = connection.execute(_HAVING, (f'body : "{term}"', ids[-1], ids[0]))
        without = set(ids).difference(row[0] for row in having)
        texts = connection.execute(_TEXTS, (json.dumps(sorted(without)),)).fetchall()
        connection.executemany(_ADD, [(word, content, _pairs_within(fold(text))) for content, text in texts])
        seen, lacked = seen + len(ids), lacked + len(without)
    if lacked > _MOST_LACKING * seen:
        connection.execute("UPDATE universal SET lacking_from = NULL WHERE id = ?", (word,))
        connection.execute("DELETE FROM lacking WHERE word = ?", (word,))
    else:
        begin = ids[-1] if len(ids) == _AT_ONCE else _WHOLE
        connection.execute(_FILLED, (begin, seen, lacked, word))
    return not is_whole(connection)


def _look(connection: sqlite3.Connection) -> None:
    """Notice the words of the newest texts, where an older version stored them."""
    connection.execute("DELETE FROM universal WHERE term = ''")
    bodies = [fold(text) for (text,) in connection.execute(_NEWEST, (_AT_ONCE,))]
    if len(bodies) >= _LEAST_TOLD:
        _notice(connection, bodies)


def empty(connection: sqlite3.Connection) -> None:
    """Forget everything."""
    connection.execute("DELETE FROM lacking")
    connection.execute("DELETE FROM universal")


def lacking(connection: sqlite3.Connection, away: Sequence[str], wanted: Sequence[str]) -> Lacking | None:
    """What there is of contents that lack one of these patterns and have others in their text; None for nothing.

    Whatever has a word, has each pattern that is a part of it.
    """
    parts = [folded for pattern in away if _is_word(folded := fold_keeping_separators(pattern))]
    if not parts:
        return None
    found = connection.execute(_LACKING, (_WHOLE, json.dumps(parts))).fetchone()
    if found is None:
        return None
    pairs = 0
    for pattern in wanted:
        pairs |= pairs_of(fold_keeping_separators(pattern))
    return Lacking(found[0], found[1], pairs)


def pairs_of(folded: str) -> int:
    """A number with a bit for each pair of ASCII letters or digits side by side in a folded text or pattern."""
    found = 0
    for word in set(folded.split()):
        if len(word) > 1:
            for pair in pairwise(word):
                found |= _BITS.get(pair, 0)
    return found


def _pairs_within(body: str) -> int:
    """The pairs that a text may have, by its column in the index."""
    return _ALL_PAIRS if LONG_WORD in body else pairs_of(body)


def _is_word(folded: str) -> bool:
    return bool(folded) and " " not in folded and fold(folded).strip() == folded and LONG_WORD not in folded


_ALNUM = "abcdefghijklmnopqrstuvwxyz0123456789"
_BITS = {
    (one, other): 1 << (first * len(_ALNUM) + second) * 7 % _PAIRS
    for first, one in enumerate(_ALNUM)
    for second, other in enumerate(_ALNUM)
}
_KNOWN = "SELECT id, term, lacking_from FROM universal WHERE lacking_from IS NOT NULL"
_ADD = "INSERT OR REPLACE INTO lacking (word, content, pairs) VALUES (?, ?, ?)"
_NOTICE = """
    INSERT OR IGNORE INTO universal (term, lacking_from, seen, lacked)
    SELECT ?, ?, ?, ? WHERE (SELECT count(*) FROM universal WHERE lacking_from IS NOT NULL) < ?
    """
_UNFINISHED = "SELECT id, term, lacking_from, seen, lacked FROM universal WHERE lacking_from > ? ORDER BY id LIMIT 1"
_NEXT = "SELECT id FROM content WHERE state >= 2 AND id < ? ORDER BY id DESC LIMIT ?"
_NEWEST = """
    SELECT coalesce(body.text, '') FROM content LEFT JOIN body ON body.content = content.id
    WHERE content.state >= 2 ORDER BY content.id DESC LIMIT ?
    """
_HAVING = "SELECT rowid FROM fts WHERE fts MATCH ? AND rowid BETWEEN ? AND ?"
_TEXTS = """
    SELECT asked.value, coalesce(body.text, '')
    FROM json_each(?) AS asked LEFT JOIN body ON body.content = asked.value
    """
_FILLED = "UPDATE universal SET lacking_from = ?, seen = ?, lacked = ? WHERE id = ?"
_LACKING = """
    SELECT id, 1.0 * lacked / seen FROM universal
    WHERE lacking_from = ? AND EXISTS (SELECT 1 FROM json_each(?) AS part WHERE instr(universal.term, part.value) > 0)
    ORDER BY 2 LIMIT 1
    """
