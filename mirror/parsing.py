"""Mail parsed in warm, spawned, killable children: the parent never looks inside a mail.

A child that crashes, hangs beyond the deadline or exceeds its memory is replaced; the payload it died on is answered
with a Crash, and the rest of the batch goes on in a fresh child. Children are recycled after many payloads.
"""

import contextlib
import fcntl
import io
import pickle
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any, cast

from mirror.errors import ParserBroken
from mirror.frames import HEADER, write_frame
from mirror.places import Places
from mirror.record import EnvelopeRecord, Record
from mirror.spool import Raw
from mirror.terms import Terms

DEADLINE = 10.0
MEMORY = 1 << 30
_START_WITHIN = 60.0
_RECYCLE_AFTER = 25_000
_SHARE_BYTES = 256 << 10
"""What a child is given at a time: so little that all end together, and that a reader's wish comes soon."""
_PIPE_BYTES = 1 << 20
_WHOLE_FRAME = 1 << 20
_LARGEST_ANSWER = 256 << 20
_CANARY = b"From: a@example.org\r\nSubject: canary\r\n\r\nHello\r\n"


@dataclass(frozen=True, slots=True)
class Crash:
    """A payload that cost its child: why, in plain words."""

    reason: str


class _Restricted(pickle.Unpickler):
    # A child that hostile mail has taken over must not be able to run code here: only our own value types are built.
    _ALLOWED = frozenset((kind.__module__, kind.__qualname__) for kind in (Record, EnvelopeRecord, Terms))

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"a parsing child answered with {module_name}.{global_name}")
        return super().find_class(module_name, global_name)


def _is_record(answer: object) -> bool:
    return type(answer) is Record and answer.is_sound()


_IS_SOUND: dict[str, Callable[[Any], bool]] = {
    "envelope": lambda answer: type(answer) is EnvelopeRecord and answer.is_sound(),
    "content": _is_record,
    "recleaned": _is_record,
    "degraded": _is_record,
    "html": lambda answer: answer is None or type(answer) is bytes,
}
"""Whether an answer to an operation is what the tables can take."""


class _Died(Exception):
    """The child is gone, or was killed because it took too long."""


class _Child:
    def __init__(self, module: str, deadline: float, memory: int) -> None:
        self._deadline = deadline
        self._is_ready = False
        self.served = 0
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this program's own module
                [sys.executable, "-m", module, str(int(deadline) + 5), str(memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        except OSError as exc:
            raise ParserBroken(f"no parsing process can be started: {exc.strerror or exc}") from exc
        _widen(self._process.stdin)
        _widen(self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, operation: str, payloads: Sequence[Any]) -> None:
        if not self._is_ready:
            # Its start is not held against the first payload: a busy machine takes seconds for it.
            start_within = time.monotonic() + _START_WITHIN
            self._read(self._read_size(start_within), start_within)
            self._is_ready = True
        try:
            write_frame(cast(Any, _Whole(self._process.stdin)), pickle.dumps((operation, list(payloads)), protocol=5))
        except OSError as exc:
            raise _Died from exc

    def receive(self, operation: str) -> Any:
        """The answer to the next payload."""
        end = time.monotonic() + self._deadline
        size = self._read_size(end)
        # A large answer is never here twice, as frame and as value.
        frame = (
            io.BytesIO(self._read(size, end))
            if size <= _WHOLE_FRAME
            else _Frame(size, lambda into: self._fill(into, end))
        )
        answer = _Restricted(cast("io.BytesIO", frame)).load()
        self.served += 1
        if not _IS_SOUND[operation](answer):
            raise ValueError("a parsing child answered with what cannot be stored")
        return answer

    def _read_size(self, end: float) -> int:
        size = int(HEADER.unpack(self._read(HEADER.size, end))[0])
        if size > _LARGEST_ANSWER:
            raise _Died
        return size

    def _read(self, size: int, end: float) -> bytes:
        data = bytearray(size)
        self._fill(memoryview(data), end)
        return bytes(data)

    def _fill(self, into: memoryview, end: float) -> None:
        pipe = cast(io.FileIO, self._process.stdout)
        while into:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            count = pipe.readinto(into) if ready else 0
            if not count:
                raise _Died
            into = into[count:]

    def why_it_died(self) -> str:
        try:
            code = self._process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            return f"parsing took longer than {self._deadline:.0f} s"
        return f"the parser ended with {'signal' if code < 0 else 'exit code'} {abs(code)}"

    def close(self, *, kill: bool = False) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if kill:
            self._process.kill()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Frame:
    """A frame that is still in the pipe, for an unpickler."""

    def __init__(self, size: int, fill: Callable[[memoryview], None]) -> None:
        self._left = size
        self._fill = fill

    def readinto(self, into: bytearray) -> int:
        view = memoryview(into)[: self._left]
        self._fill(view)
        self._left -= len(view)
        return len(view)

    def read(self, size: int) -> bytes:
        data = bytearray(min(size, self._left))
        self.readinto(data)
        return bytes(data)

    def readline(self) -> bytes:
        raise pickle.UnpicklingError("a parsing child answered in text")


def _widen(pipe: IO[bytes] | None) -> None:
    """Let a pipe take a share without waiting for the other side, where the system allows it."""
    if pipe is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


class _Whole:
    # A raw pipe takes as much as fits; this writes all of it.
    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._raw.write(view) or 0 :]

    def flush(self) -> None:
        pass


class Parsers:
    """Up to so many parsing children; one is kept warm, the others run under a backlog. Safe for several threads.

    deadline: seconds for one payload. memory: bytes of address space a child may use, 0 for no limit. module: the
    child's program. are_in_the_way: whether somebody else needs the machine now; then one child works at a time.
    """

    def __init__(
        self,
        size: int = 2,
        *,
        deadline: float = DEADLINE,
        memory: int = MEMORY,
        module: str = "mirror.parse_child",
        are_in_the_way: Callable[[], bool] = lambda: False,
    ) -> None:
        self._size = size
        self._module = module
        self._deadline = deadline
        self._memory = memory
        self._idle: list[_Child] = []
        self._places = Places(lambda: 1 if are_in_the_way() else size)
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="parsers")
        self._closed = False
        self._busy = 0

    def __enter__(self) -> "Parsers":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End every child."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            self._closed = True
            children, self._idle = self._idle, []
        for child in children:
            child.close()

    def get_ready(self) -> None:
        """A backlog comes: start the children now, so that none has to be waited for.

        One that cannot be started is left to whoever has mail for it, and can say so.
        """
        with self._lock, contextlib.suppress(ParserBroken):
            while not self._closed and len(self._idle) < self._size:
                self._idle.append(self._child())

    def rest(self) -> None:
        """A backlog is done: keep one warm child and end the others, unless another one is under way."""
        with self._lock:
            extra, self._idle = ([], self._idle) if self._busy else (self._idle[1:], self._idle[:1])
        for child in extra:
            child.close()

    def are_healthy(self) -> bool:
        """Whether a plain mail can be read: when not, what crashed lately was not the mails' fault."""
        return not any(isinstance(answer, Crash) for answer in (*self.envelopes([_CANARY]), *self.contents([_CANARY])))

    def envelopes(self, blocks: Sequence[bytes]) -> list[EnvelopeRecord | Crash]:
        """Each header block read, in order."""
        return self._spread("envelope", blocks)

    def envelopes_later(self, blocks: Sequence[bytes]) -> Callable[[], list[EnvelopeRecord | Crash]]:
        """As `envelopes`, but begun only: what is returned waits for it."""
        return self._begin("envelope", blocks)

    def contents(self, raws: Sequence[Raw], largest: int = 0) -> list[Record | Crash]:
        """Each raw message read, in order, with its attachments of at most so many octets."""
        return self._spread("content", [(raw, largest) for raw in raws])

    def contents_later(self, raws: Sequence[Raw], largest: int = 0) -> Callable[[], list[Record | Crash]]:
        """As `contents`, but begun only: what is returned waits for it."""
        return self._begin("content", [(raw, largest) for raw in raws])

    def degraded(self, raw: Raw) -> Record | Crash:
        """What can be read of a message the parser crashed on: headers and tag-stripped text."""
        return cast("list[Record | Crash]", self._batch("degraded", [raw]))[0]

    def recleaned(self, sources: Sequence[bytes]) -> list[Record | Crash]:
        """Each stored source (`Content.source`) cleaned by the rules of today, in order."""
        return self._spread("recleaned", sources)

    def html_later(self, normalised: Sequence[bytes]) -> Callable[[], list[bytes | Crash | None]]:
        """Each normalised HTML (`Record.normalised`) sanitized, in order, compressed; None for none. Begun only."""
        return self._begin("html", normalised)

    def _spread(self, operation: str, payloads: Sequence[Any]) -> list[Any]:
        if len(payloads) <= 1:
            return self._batch(operation, payloads)
        return self._begin(operation, payloads)()

    def _begin(self, operation: str, payloads: Sequence[Any]) -> Callable[[], list[Any]]:
        shares = [self._threads.submit(self._batch, operation, share) for share in _shares(payloads, self._size)]
        return lambda: [answer for share in shares for answer in share.result()]

    def _batch(self, operation: str, payloads: Sequence[Any]) -> list[Any]:
        answers: list[Any] = []
        with self._places:
            child = self._take()
            try:
                while len(answers) < len(payloads):
                    rest = payloads[len(answers) :]
                    try:
                        child.send(operation, rest)
                        for _ in rest:
                            answers.append(child.receive(operation))
                    except (_Died, pickle.UnpicklingError, AttributeError, EOFError, TypeError, ValueError) as exc:
                        reason = child.why_it_died() if isinstance(exc, _Died) else "the parser's answer was not usable"
                        child.close(kill=True)
                        answers.append(Crash(reason))
                        child = self._child()
            except BaseException:
                child.close(kill=True)
                child.served = _RECYCLE_AFTER
                raise
            finally:
                self._give_back(child)
        return answers

    def _take(self) -> _Child:
        with self._lock:
            child = self._idle.pop() if self._idle else self._child()
            self._busy += 1
        return child

    def _child(self) -> _Child:
        return _Child(self._module, self._deadline, self._memory)

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            self._busy -= 1
            if not self._closed and child.served < _RECYCLE_AFTER and len(self._idle) < self._size:
                self._idle.append(child)
                return
        child.close()


def _shares(payloads: Sequence[Any], size: int) -> "list[Sequence[Any]]":
    """Payloads cut into runs of about equal bytes, at least one for each child, none much over the limit of a share."""
    weights = [len(payload[0] if isinstance(payload, tuple) else payload) for payload in payloads]
    target = min(max(sum(weights) // max(size, 1) + 1, 1), _SHARE_BYTES)
    shares: list[Sequence[Any]] = []
    start, weight = 0, 0
    for position, own in enumerate(weights):
        weight += own
        if weight >= target:
            shares.append(payloads[start : position + 1])
            start, weight = position + 1, 0
    if start < len(payloads):
        shares.append(payloads[start:])
    return shares
