"""lcm for the Hermes Agent: the client of the wire, and on top of it the engine (a `ContextEngine`).

Standard library only, and one file: hosts execute every `.py` beside it. This upper half is the client. It starts
`lcm-cli serve` when the first call is made, one child for each data directory in a process, and speaks `docs/wire.md`
with it. Any number of threads call at once; the client has no thread of its own: of the threads that wait for an answer
one reads for all, and hands over when its own has come. Every wait has an end.

What the host may do to it: load this file twice in one process (both copies use the classes and children of the first),
copy or pickle whatever holds a `Client` (it is a handle: the data directory's path and settings, nothing else), fork (the
forked process closes its copies of the pipes and starts a child of its own), end a thread in the middle of a call, kill
the child. None of this loses what was acknowledged, and a call is made again when that is safe.

The lower half is the engine, `LCMEngine`, with the command `/lcm` on top of it and what registers both: a shell whose state is in the store, so that it may be
copied, cleared and put back. It raises nothing but what ends threads, and where lcm cannot be asked it lets the host's own
compressor do its work. `docs/hosts.md` says what it does for people.

Errors are `LcmError` and its kinds, each with one sentence. Nothing here writes to the terminal: the child's talk goes to
`serve.log` in the data directory.
"""
from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import inspect
import itertools
import json
import logging
import math
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
import weakref
from collections import OrderedDict, deque
from typing import Any, Callable, Iterable, Mapping, NamedTuple, NoReturn, Sequence

VERSION = "0.1.0"

# ---- bounds, each with its reason ------------------------------------------------------------------------------------

PROTOCOL = 1                    # the newest that we speak
DEADLINE_S = 60.0               # a call that names none; hosts give compress 120 s before they go on without it
GRACE_S = 0.5                   # the child says itself that a deadline has passed; we wait a little longer for that
START_S = 15.0                  # from starting the child to its first answer: it opens nothing before it answers
LOOK_S = 0.05                   # how often a waiting thread asks `should_stop`
NAP_S = 0.5                     # no wait is longer without a look around, whatever happened to the thread that should wake us
CLOSE_S = 5.0                   # the child finishes what it began; then it is killed
ENDING_S = 0.5                  # between a child's last word and its exit code
CANCEL_S = 0.05                 # telling the child that nobody waits any more; it is no loss when that does not succeed
STARTS_MAX = 5                  # children started in STARTS_WINDOW_S ...
STARTS_WINDOW_S = 60.0          # ... before the directory is left alone until the oldest of these starts is so old
PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0)   # before the first start in that time, the second ...
SILENT_S = 10.0                 # a call's deadline has passed and the child gave no sign for so long: it is taken for hung
READ_BYTES = 256 << 10          # one read or write; a pipe holds 64 KiB
LINE_BYTES_MAX = 64 << 20       # a line of ours, until `initialize` says otherwise
ANSWER_BYTES_MAX = 256 << 20    # a line of the child's: what it keeps for one connection
SESSIONS_MAX = 32               # whose last lists are remembered; a session beyond that sends its whole list again
BASES_MAX = 4                   # lists of one session: what the host keeps, what it sends a model, and what came of both
LOG_BYTES_MAX = 1 << 20         # of `serve.log`; a longer one is put aside as `serve.log.1` at the next start
TOLD_CHARS_MAX = 300            # of the child's talk, or a host's exception, inside a sentence of ours
DEPTH_MAX = 200                 # of what is sent; with the envelope around it the child reads 256
INT_MAX = 10 ** 4300 - 1        # longer numbers Python does not turn into text

# ---- errors ----------------------------------------------------------------------------------------------------------


class LcmError(Exception):
    """What lcm answered instead of a result.

    `code` as in `docs/wire.md`; `message` is one sentence that says what is wrong and what to do; `data` is what the
    answer has besides, or None.
    """

    def __init__(self, code: int, message: str, data: Any = None):
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def __reduce__(self):
        return type(self), (self.code, self.message, self.data)


class LcmUnavailable(LcmError):
    """There is no child to ask: no program, it does not start, or it keeps ending."""


class LcmTimeout(LcmError):
    """The deadline has passed; the child said so, or nothing at all."""


class LcmCancelled(LcmError):
    """The caller's `should_stop` said so."""


class LcmUnsendable(LcmError):
    """A parameter that cannot be put into a line: it contains itself, is nested too deep, or is too large."""


BASE_UNKNOWN, LINE_TOO_LONG, DEADLINE, CANCELLED, NOT_KEPT = -32010, -32001, -32020, -32021, -32040
NO_MODEL, HOST_FAILED, UNAVAILABLE = -32050, -32051, -32060   # ours: the answers to `host/summarize`, and no child
KINDS = {DEADLINE: LcmTimeout, CANCELLED: LcmCancelled}


class _Lost(Exception):
    """The connection is over; what was not answered on it may be asked again on another."""


# ---- values ----------------------------------------------------------------------------------------------------------


class Session(NamedTuple):
    """Which conversation a call is about. Reads see what this agent and person said, and nothing else."""

    name: str
    agent: str = "default"
    person: str = "owner"

    def wire(self) -> dict:
        return {"agent": self.agent, "person": self.person, "name": self.name}


class Changed(NamedTuple):
    """What came of a call that may change a list.

    `messages`: the list to use, the very object that was given where nothing changes; otherwise a new list, of the
    host's own objects where they stay. `answer`: the rest of the answer.
    """

    messages: list
    answer: dict


Summarizer = Callable[[dict], "str | Mapping[str, str]"]


def _plain(value: Any) -> Any:
    """What is sent of a value that has no JSON: as much of it as a text can hold. Never fails, and says the same each
    time where the value does, so that a list that holds it is not new at every call."""
    try:
        if isinstance(value, Mapping):
            return _copied(dict(value))
        if isinstance(value, (set, frozenset)):
            return sorted((_copied(item) for item in value), key=repr)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return "base64:" + base64.b64encode(bytes(value)).decode("ascii")
        if hasattr(type(value), "__index__"):
            return _copied(int(value.__index__()))
        text = str(value)
        # What `object` says of itself is an address, another one in each process.
        return text if type(value).__str__ is not object.__str__ or " at 0x" not in text else f"<{type(value).__name__}>"
    except RecursionError:
        raise
    except Exception:
        return f"<{type(value).__name__}>"


def _key(key: Any) -> Any:
    """A key as JSON can have it. What `json` turns into text itself is left to it."""
    return key if isinstance(key, (str, int, float)) or key is None else str(_plain(key))


def _copied(value: Any, depth: int = 0) -> Any:
    """A copy that shares nothing with the host which the host can change: containers are new, the rest cannot change. What is
    nested deeper than the wire takes is its JSON as a text.

    # Errors
    RecursionError for what is nested deeper than Python follows, or contains itself.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool or kind is float:
        return value
    if depth >= DEPTH_MAX and isinstance(value, (dict, list, tuple)):
        try:
            return json.dumps(value, default=_plain)
        except ValueError:
            raise RecursionError("it contains itself") from None
    if kind is dict:
        return {key if type(key) is str else _key(key): _copied(item, depth + 1) for key, item in value.items()}
    if kind is list:
        return [_copied(item, depth + 1) for item in value]
    if isinstance(value, int):
        return value if -INT_MAX <= value <= INT_MAX else hex(value)
    if isinstance(value, (str, float)):
        return value
    if isinstance(value, dict):
        return {_key(key): _copied(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item, depth + 1) for item in value]
    return _plain(value)


def _same(old: Any, new: Any) -> bool:
    """Whether a message is as it was sent. Some objects cannot be compared; they are new each time."""
    try:
        return old is new or bool(old == new)
    except Exception:
        return False


def _begin_alike(old: list, new: list) -> bool:
    return bool(old and new) and _same(old[0], new[0])


def _differences(old: list, new: list) -> list[tuple[int, int, int, int]]:
    """Where two lists differ: `(start, end)` in the old one, `(start, end)` in the new one, from the front on.

    Compared with `==`, identity first, from both ends; what is left between is compared place by place where it is of
    one length, so that edits far apart do not send what lies between. (`==` takes 1, 1.0 and True for equal: a message
    in which nothing but that changed counts as the same.)
    """
    both = min(len(old), len(new))
    try:
        # Nearly every call: nothing changed, or something was added. One comparison, and no step of it in Python.
        if old == (new if len(new) == both else new[:both]):
            return [] if len(new) == both else [(both, both, both, len(new))]
    except Exception:
        pass    # an object that cannot be compared; the loops below find it
    start = 0
    while start < both and _same(old[start], new[start]):
        start += 1
    end = 0
    while end < both - start and _same(old[-1 - end], new[-1 - end]):
        end += 1
    if len(old) != len(new):
        return [(start, len(old) - end, start, len(new) - end)]
    found: list[tuple[int, int, int, int]] = []
    for at in range(start, len(new) - end):
        if _same(old[at], new[at]):
            continue
        if found and found[-1][1] == at:
            start = found.pop()[0]
            found.append((start, at + 1, start, at + 1))
        else:
            found.append((at, at + 1, at, at + 1))
    return found


def _spliced(messages: list, splices: Iterable, made: Callable[[Any], Any] = lambda message: message) -> list:
    """A list with the splices of an answer applied, one after another."""
    messages = list(messages)
    for start, delete, inserted in splices:
        if not (0 <= start <= len(messages) and 0 <= delete <= len(messages) - start):
            raise ValueError(f"splice {start}, {delete} does not fit a list of {len(messages)}")
        messages[start:start + delete] = [made(message) for message in inserted]
    return messages


def _line(message: dict) -> bytes:
    """A message of the wire. Escapes all that is not ASCII: half surrogates pass, as do line ends in texts."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":"), default=_plain).encode("ascii") + b"\n"


def _number(digits: str) -> Any:
    """Numbers longer than Python turns from text come as text."""
    return int(digits) if len(digits) <= 4300 else digits


def _told(text: Any) -> str:
    """A foreign text inside a sentence of ours: one line, bounded."""
    text = " ".join(str(text).split())
    return text if len(text) <= TOLD_CHARS_MAX else "…" + text[-TOLD_CHARS_MAX:]


# ---- one call --------------------------------------------------------------------------------------------------------


class _Call:
    """A call whose thread waits. What others hand over to it is guarded by the connection's lock."""

    def __init__(self, number: int, lock: Any, until: float, summarizer: Summarizer | None, should_stop: Callable[[], Any] | None):
        self.number, self.until = number, until
        self.summarizer, self.should_stop = summarizer, should_stop
        self.woken = threading.Condition(lock)
        self.waits = False
        self.answer: dict | None = None
        self.requests: deque = deque()

    def has_news(self) -> bool:
        return self.answer is not None or bool(self.requests)

    def pause_s(self) -> float:
        """How long this thread may wait for something to happen before it looks itself."""
        most = LOOK_S if self.should_stop else NAP_S
        return max(0.0, min(most, self.until - time.monotonic()))

    def check(self) -> None:
        """Whether it may go on waiting."""
        if self.should_stop is not None and self.should_stop():
            raise LcmCancelled(CANCELLED, "the caller stopped the call")
        if time.monotonic() >= self.until:
            raise LcmTimeout(DEADLINE, "lcm did not answer before the deadline; the host goes on without it")


# ---- one child -------------------------------------------------------------------------------------------------------


class _Connection:
    """A child and the pipes to it.

    Three rights, each held by one thread at a time: `_lock` (what is known: short, never held while anything is waited
    for but a condition), `_writing` (the pipe to the child), `_reader` (the pipe from it; a call, not a lock, so that it
    can be handed over). Pipes are closed only by who has the right to use them, or when nobody has: a number that was
    closed under a reading thread could be another file's by then.
    """

    def __init__(self, process: subprocess.Popen, log: "_Log"):
        self.process, self.log = process, log
        self.to_child, self.from_child = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(self.to_child, False)
        os.set_blocking(self.from_child, False)
        self.numbers = itertools.count(1)
        self.line_bytes_max = LINE_BYTES_MAX
        self.told: dict = {}
        self.unheard_since: float | None = None
        self.bases: OrderedDict[Session, list[tuple[str, list]]] = OrderedDict()
        self._came: list[bytes] = []
        # The line that is being written, and how much of it each write took.
        self._going: tuple[memoryview, list[int]] = (memoryview(b""), [])
        self._renew()

    def _renew(self) -> None:
        """Locks that nobody holds."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._reader: _Call | None = None
        self.lost: str | None = None

    # -- calling

    def call(self, verb: str, params: dict, until: float, summarizer: Summarizer | None = None,
             should_stop: Callable[[], Any] | None = None) -> Any:
        """Asks and waits for the answer, `until` a moment of `time.monotonic`.

        # Errors
        `_Lost` when the connection ends first; `LcmError` and its kinds. Whatever leaves here but an answer, the child
        has been told that nobody waits any more, exceptions that end threads included.
        """
        call, line = self._prepared(verb, params, until, summarizer, should_stop)
        try:
            self._enter(call)
            self._send(line, call)
            answer = self._wait(call)
        except BaseException as error:
            self._forget(call)
            if isinstance(error, _Lost):
                raise
            if isinstance(error, LcmTimeout):
                self._was_silent()
            if self.lost is None:
                # A thread that is being ended tells it too; the end itself goes on.
                with contextlib.suppress(Exception):
                    self._send(_line({"jsonrpc": "2.0", "method": "cancel", "params": {"id": call.number}}),
                               _Call(0, self._lock, time.monotonic() + CANCEL_S, None, None))
            raise
        self._forget(call)
        return _result(answer)

    def begin(self, verb: str, params: dict, until: float) -> _Call:
        """Asks, and leaves the waiting to `finish`."""
        call, line = self._prepared(verb, params, until, None, None)
        self._enter(call)
        self._send(line, call)
        return call

    def finish(self, call: _Call, until: float, should_stop: Callable[[], Any] | None) -> Any:
        """Waits for the answer to what was begun, until a moment of its own. Who gives up leaves it to the next."""
        call.until, call.should_stop = until, should_stop
        try:
            answer = self._wait(call)
        finally:
            with self._lock:
                if self._reader is call:
                    self._hand_over()
        self._forget(call)
        return _result(answer)

    def _prepared(self, verb: str, params: dict, until: float, summarizer: Summarizer | None,
                  should_stop: Callable[[], Any] | None) -> tuple[_Call, bytes]:
        left_ms = int((until - time.monotonic()) * 1000)
        if left_ms <= 0:
            raise LcmTimeout(DEADLINE, f"there was no time left for {verb}")
        number = next(self.numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": verb, "params": {**params, "deadline_ms": left_ms}}
        try:
            line = _line(request)
        except (RecursionError, ValueError, TypeError) as error:
            raise LcmUnsendable(NOT_KEPT, f"a parameter of {verb} cannot be written as JSON: {_told(error)}") from None
        if len(line) > self.line_bytes_max:
            raise LcmUnsendable(LINE_TOO_LONG, f"{verb} would be a line of {len(line)} bytes, and {self.line_bytes_max} are allowed")
        return _Call(number, self._lock, until + GRACE_S, summarizer, should_stop), line

    def _enter(self, call: _Call) -> None:
        with self._lock:
            self._raise_if_lost()
            self._calls[call.number] = call
            if self.unheard_since is None:
                self.unheard_since = time.monotonic()

    def _wait(self, call: _Call) -> dict:
        """Until the call is answered. Reads for all when nobody else does."""
        while True:
            with self._lock:
                if call.answer is not None:
                    return call.answer
                self._raise_if_lost()
                request = call.requests.popleft() if call.requests else None
            if request is not None:
                self._serve(call, request)
                continue
            with self._lock:
                if call.has_news() or self.lost is not None:
                    continue
                if not self._is_read():
                    self._reader = call
                else:
                    call.waits = True
                    call.woken.wait(call.pause_s())
                    call.waits = False
            if self._reader is call:
                self._read(call)
            # Looked at last: who comes back late from a host's model finds the answer that came meanwhile.
            if not call.has_news():
                call.check()

    def _forget(self, call: _Call) -> None:
        with self._lock:
            self._calls.pop(call.number, None)
            if self._reader is call:
                self._hand_over()
            elif not self._is_read():
                self._wake_one()

    def _is_read(self) -> bool:
        """Whether somebody reads. One that is not waited for any more was ended before it could hand over."""
        return self._reader is not None and self._calls.get(self._reader.number) is self._reader

    def _hand_over(self) -> None:
        """Gives the right to read up. The lock is held."""
        self._reader = None
        if self.lost is not None:
            self._close_reading()
        self._wake_one()

    def _wake_one(self) -> None:
        for other in self._calls.values():
            if other.waits:
                other.woken.notify()
                break

    # -- reading

    def _read(self, call: _Call) -> None:
        """Reads for all until there is something for this call, or it is time for it to look around."""
        try:
            # What a thread left that was ended while it read.
            if not self._deliver():
                return
            until = time.monotonic() + call.pause_s()
            poll = select.poll()
            poll.register(self.from_child, select.POLLIN)
            while self.lost is None and not call.has_news():
                left_ms = max(0.0, until - time.monotonic()) * 1000
                if not poll.poll(left_ms) or not self._fetch():
                    return
        finally:
            with self._lock:
                if self._reader is call:
                    self._hand_over()

    def _fetch(self) -> bool:
        """Takes what has come and hands it to those it is for; false when the connection is over."""
        try:
            # In one step of the interpreter: a signal that ends this thread comes before it or after it, and not between
            # the reading and the keeping.
            self._came.extend(map(os.read, (self.from_child,), (READ_BYTES,)))
        except BlockingIOError:
            return True
        except OSError as error:
            self.lose(f"what it says cannot be read: {_told(error)}")
            return False
        self.unheard_since = None
        newest = self._came[-1]
        if not newest:
            half = ", in the middle of a line" if len(self._came) > 1 else ""
            self.lose(f"it ended{half}{self._ending()}")
            return False
        if b"\n" in newest:
            return self._deliver()
        if len(self._came) * READ_BYTES > ANSWER_BYTES_MAX and sum(map(len, self._came)) > ANSWER_BYTES_MAX:
            self.lose(f"it wrote a line of more than {ANSWER_BYTES_MAX} bytes")
            return False
        return True

    def _deliver(self) -> bool:
        """Hands over all whole lines that have come; false when the connection is over."""
        if not any(b"\n" in part for part in self._came):
            return True
        lines = b"".join(self._came).split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line.strip() and not self._take(line):
                return False
        # Last: lines of a thread that is ended before this are handed over once more, and nobody waits for them then.
        self._came[:] = [rest] if rest else []
        return True

    def _take(self, line: bytes) -> bool:
        """Hands one message over; false when it is none, and with that the connection over."""
        try:
            message = json.loads(line, parse_int=_number)
        except (ValueError, RecursionError) as error:
            # Too deep for Python is no reason to end all: whose it is stands at the beginning.
            named = re.match(rb'\{"jsonrpc":"2\.0","id":(\d{1,15}),', line) if isinstance(error, RecursionError) else None
            if named is None:
                self.lose(f"it wrote a line that is no JSON: {_told(line[:80].decode('utf-8', 'replace'))}")
                return False
            message = {"id": int(named.group(1)), "error": {"code": NOT_KEPT, "message": "the answer is nested deeper than Python reads"}}
        if not isinstance(message, dict) or not ("method" in message or "result" in message or "error" in message):
            self.lose(f"it wrote a line that is no message: {_told(line[:80].decode('utf-8', 'replace'))}")
            return False
        if "method" in message:
            self._asked(message)
            return True
        number = message.get("id")
        with self._lock:
            # Answers to calls that nobody waits for any more come too, and answers to lines that had no id.
            call = self._calls.get(number) if isinstance(number, int) else None
            if call is not None:
                call.answer = message
                call.woken.notify()
        return True

    def _asked(self, message: dict) -> None:
        """A request of the child goes to the thread that waits in the call it is about."""
        if "id" not in message:
            return
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        with self._lock:
            call = self._calls.get(params.get("call")) if isinstance(params.get("call"), int) else None
            if call is not None:
                call.requests.append(message)
                call.woken.notify()
                return
        # We read for all and may not wait for the pipe: the child gets no answer when it does not take one at once.
        with contextlib.suppress(LcmError, _Lost):
            self._send(_line(_refusal(message, CANCELLED, "nobody waits for this call any more")),
                       _Call(0, self._lock, time.monotonic(), None, None))

    def _serve(self, call: _Call, message: dict) -> None:
        """Answers the child on the thread that waits. What a host raises goes to the child, what ends threads goes on."""
        if message.get("method") != "host/summarize":
            reply = _refusal(message, -32601, f"there is no verb {_told(message.get('method'))}")
        elif call.summarizer is None:
            reply = _refusal(message, NO_MODEL, "no model is given to this call")
        else:
            try:
                said = call.summarizer(dict(message["params"]))
                result = {"text": said} if isinstance(said, str) else {key: said[key] for key in ("text", "model") if said.get(key)}
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": _copied(result)}
            except Exception as error:
                reply = _refusal(message, HOST_FAILED, f"the host's model failed: {type(error).__name__}: {_told(error)}")
        try:
            line = _line(reply)
            if len(line) > self.line_bytes_max:
                line = _line(_refusal(message, HOST_FAILED, "the host's model said more than a line holds"))
        except (RecursionError, ValueError, TypeError) as error:
            line = _line(_refusal(message, HOST_FAILED, f"what the host's model said is no JSON: {_told(error)}"))
        self._send(line, call)

    # -- writing

    def _send(self, line: bytes, call: _Call) -> None:
        """Writes a whole line. One that was written in part, because the time was over, is finished by who writes next:
        the child never sees half a line with another one behind it."""
        while not self._writing.acquire(timeout=max(0.001, call.pause_s())):
            self._raise_if_lost()
            call.check()
        try:
            self._raise_if_lost()
            self._flush(call)
            self._going = (memoryview(line), [])
            self._flush(call)
        finally:
            self._writing.release()
            if self.lost is not None:
                self._close_writing()

    def _flush(self, call: _Call) -> None:
        line, sent = self._going
        poll = None
        while (done := sum(sent)) < len(line):
            try:
                # In one step, as in `_fetch`.
                sent.extend(map(os.write, (self.to_child,), (line[done:done + READ_BYTES],)))
                continue
            except BlockingIOError:
                pass
            except OSError as error:
                self.lose(f"it does not read any more: {_told(error)}{self._ending()}")
            self._raise_if_lost()
            call.check()
            if poll is None:
                poll = select.poll()
                poll.register(self.to_child, select.POLLOUT)
            poll.poll(call.pause_s() * 1000)
            self._raise_if_lost()
        self._going = (memoryview(b""), [])

    # -- the end

    def _raise_if_lost(self) -> None:
        if self.lost is not None:
            raise _Lost(self.lost)

    def is_over(self) -> bool:
        """Whether the child is gone; who ends between two calls is noticed here."""
        if self.lost is None and self.process.poll() is not None:
            self.lose(f"it ended{self._ending()}")
        return self.lost is not None

    def _was_silent(self) -> None:
        """A deadline passed and the child did not say so itself. When it has been silent for long it hangs, or is stopped."""
        since = self.unheard_since
        if since is None:
            self.unheard_since = time.monotonic()
        elif time.monotonic() - since >= SILENT_S:
            self.lose(f"it gave no sign for {time.monotonic() - since:.0f} s")

    def _ending(self) -> str:
        """How a child went whose pipe is closed, and what it said last."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(ENDING_S)
        code = self.process.returncode
        how = "" if code is None else f" by signal {-code}" if code < 0 else f" with exit code {code}"
        said = self.log.last_line()
        return how + (f" (it said: {said})" if said else "")

    def lose(self, why: str, patience_s: float = 0.0) -> None:
        """Ends the connection, for all who wait: the child is left `patience_s` to end itself, then killed."""
        with self._lock:
            if self.lost is not None:
                return
            self.lost = why
            for call in self._calls.values():
                call.woken.notify()
            if self._reader is None:
                self._close_reading()
        self._close_writing()
        if patience_s > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
        if self.process.poll() is None:
            self.process.kill()
        # What was killed ends at once, unless the system is in the middle of something with it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(CLOSE_S)

    def _close_reading(self) -> None:
        with contextlib.suppress(OSError):
            self.process.stdout.close()

    def _close_writing(self) -> None:
        """When nobody writes; else who writes does it."""
        if self._writing.acquire(blocking=False):
            try:
                with contextlib.suppress(OSError):
                    self.process.stdin.close()
            finally:
                self._writing.release()

    def abandon(self) -> None:
        """In a forked process: the child is the parent's. Only our copies of the pipes are closed."""
        self._renew()
        self.lost = "the process forked"
        # So that nothing waits for a child that is not ours.
        self.process.returncode = 0
        self._close_reading()
        self._close_writing()

    # -- lists that were sent

    def bases_of(self, session: Session) -> list[tuple[str, list]]:
        """What the child knows of the session's lists, the newest first."""
        with self._lock:
            return list(self.bases.get(session, ()))

    def keep(self, session: Session, base: Any, copy: list) -> None:
        with self._lock:
            others = [known for known in self.bases.pop(session, ()) if known[0] != base]
            if isinstance(base, str):
                others.insert(0, (base, copy))
            self.bases[session] = others[:BASES_MAX]
            while len(self.bases) > SESSIONS_MAX:
                self.bases.popitem(last=False)

    def drop(self, session: Session, base: str) -> None:
        with self._lock:
            self.bases[session] = [known for known in self.bases.get(session, ()) if known[0] != base]


def _result(answer: dict) -> Any:
    """What an answer holds, or the error that it is."""
    if "error" not in answer:
        return answer.get("result")
    wrong = answer["error"] if isinstance(answer["error"], dict) else {}
    code = wrong.get("code") if isinstance(wrong.get("code"), int) else 0
    raise KINDS.get(code, LcmError)(code, str(wrong.get("message", "lcm refused without saying why")), wrong.get("data"))


def _refusal(message: dict, code: int, sentence: str) -> dict:
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": sentence}}


class _Log:
    """Where the child's talk goes: `serve.log` in the data directory, its owner's alone; nowhere when that cannot be
    written. A file never makes the child wait, as a pipe that nobody reads would."""

    def __init__(self, home: str):
        self.path: str | None = os.path.join(home, "serve.log")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            os.makedirs(home, mode=0o700, exist_ok=True)
            with contextlib.suppress(OSError):
                if os.lstat(self.path).st_size > LOG_BYTES_MAX:
                    os.replace(self.path, self.path + ".1")
            self.file = os.open(self.path, flags, 0o600)
            self.start = os.fstat(self.file).st_size
        except OSError:
            self.path, self.start = None, 0
            self.file = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def done(self) -> None:
        """The child has it; it is read by its path from here on."""
        os.close(self.file)

    def last_line(self) -> str:
        """The newest that this child said, bounded; nothing when it said nothing."""
        if self.path is None:
            return ""
        try:
            with open(self.path, "rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self.start, end - 4096))
                lines = [line for line in log.read(4096).decode("utf-8", "replace").splitlines() if line.strip()]
        except (OSError, ValueError):
            return ""
        return _told(lines[-1]) if lines else ""


# ---- one data directory in this process ------------------------------------------------------------------------------


class _Place:
    """Who serves a data directory for this process: one child at a time, started when needed, not too often."""

    def __init__(self, home: str):
        self.home = home
        self.starting = threading.Lock()
        self.connection: _Connection | None = None
        # A child that is being waited for, its first call, and until when it may take.
        self.coming: tuple[_Connection, _Call, float] | None = None
        self.starts: deque[float] = deque(maxlen=64)
        self.starts_max, self.pauses_s = STARTS_MAX, PAUSES_S
        self.why: str | None = None

    def connected(self, client: "Client", until: float, should_stop: Callable[[], Any] | None) -> _Connection:
        """The connection; made when there is none.

        # Errors
        `LcmUnavailable`; `LcmTimeout`, `LcmCancelled` while it waits.
        """
        connection = self.connection
        if connection is not None and not connection.is_over():
            return connection
        waiter = _Call(0, threading.Lock(), until, None, should_stop)
        while not self.starting.acquire(timeout=max(0.001, waiter.pause_s())):
            waiter.check()
        try:
            connection = self.connection
            if connection is None or connection.is_over():
                if connection is not None:
                    self.why, self.connection = f"lcm-cli serve is gone: {connection.lost}", None
                coming = self.coming
                if coming is None:
                    self._wait_for_turn(waiter)
                    coming = self.coming = self._start(client)
                connection = self.connection = self._arrived(coming, until, should_stop)
            return connection
        finally:
            self.starting.release()

    def _wait_for_turn(self, waiter: _Call) -> None:
        now = time.monotonic()
        recent = [start for start in self.starts if now - start < STARTS_WINDOW_S]
        if len(recent) >= self.starts_max:
            wait_s = STARTS_WINDOW_S - (now - recent[0])
            raise LcmUnavailable(UNAVAILABLE, f"{self.why or 'lcm-cli serve does not stay'}; it was started {len(recent)} times "
                                 f"within a minute and is tried again in {wait_s:.0f} s; see {self.home}/serve.log")
        pause_s = self.pauses_s[min(len(recent), len(self.pauses_s) - 1)]
        until = now + pause_s
        while (left := until - time.monotonic()) > 0:
            waiter.check()
            time.sleep(min(left, LOOK_S))

    def _start(self, client: "Client") -> tuple[_Connection, _Call, float]:
        program = client.found_program()
        if not hasattr(select, "poll"):
            raise LcmUnavailable(UNAVAILABLE, "lcm needs a system with poll(); this one has none")
        self.starts.append(time.monotonic())
        log = _Log(self.home)
        try:
            process = subprocess.Popen(
                [program, "--home", self.home, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.file,
                # In a session of its own: what a person types to end a turn is not meant for the child.
                bufsize=0, close_fds=True, start_new_session=True)
        except (OSError, ValueError) as error:
            self.why = f"{program} cannot be started: {_told(error)}"
            raise LcmUnavailable(UNAVAILABLE, self.why) from None
        finally:
            log.done()
        connection, until = _Connection(process, log), time.monotonic() + START_S
        try:
            call = connection.begin("initialize", {
                "protocol": PROTOCOL, "client": {"name": "lcm-hermes", "version": VERSION}, "pid": os.getpid(),
                "host": client.host, "settings": client.settings, "summarize": True,
            }, until)
        except BaseException as error:
            connection.lose("its first call was not made")
            if isinstance(error, (_Lost, LcmError)):
                self._does_not_start(error)
            raise
        return connection, call, until

    def _arrived(self, coming: tuple[_Connection, _Call, float], until: float,
                 should_stop: Callable[[], Any] | None) -> _Connection:
        """Waits for the child that was started. A caller with less time gives up and leaves it to the next; one start may
        take as long as many callers wait."""
        connection, call, latest = coming
        try:
            told = connection.finish(call, min(until, latest), should_stop)
            if not isinstance(told, dict) or told.get("protocol") != PROTOCOL:
                raise LcmUnavailable(UNAVAILABLE, f"it speaks another protocol than {PROTOCOL}; install the plugin and the program of one version")
        except (LcmTimeout, LcmCancelled) as error:
            if time.monotonic() < latest:
                raise
            connection.lose("it was not ready in time")
            self._does_not_start(error)
        except (_Lost, LcmError) as error:
            connection.lose("it refused to start")
            self._does_not_start(error)
        self.coming = None
        connection.told = told
        limits = told.get("limits") if isinstance(told.get("limits"), dict) else {}
        if isinstance(limits.get("line_bytes_max"), int):
            connection.line_bytes_max = limits["line_bytes_max"]
        return connection

    def _does_not_start(self, error: Exception) -> NoReturn:
        self.coming = None
        self.why = f"lcm-cli serve does not start: {_told(error)}"
        raise LcmUnavailable(UNAVAILABLE, self.why, getattr(error, "data", None)) from None

    def end(self) -> None:
        connections = [self.connection, self.coming[0] if self.coming else None]
        self.connection = self.coming = None
        # Who closes on purpose has not failed.
        self.starts.clear()
        for connection in connections:
            if connection is not None:
                connection.lose("it was closed", CLOSE_S)

    def abandon(self) -> None:
        """In a forked process: what is the parent's is left to it."""
        for connection in (self.connection, self.coming[0] if self.coming else None):
            if connection is not None:
                connection.abandon()


class _Registry:
    """The places of this process."""

    def __init__(self):
        self.pid, self.is_ending = os.getpid(), False
        self.lock = threading.Lock()
        self.places: dict[str, _Place] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)
        atexit.register(self.end)

    def forked(self) -> None:
        """In the forked process: forget what is the parent's, locks that other threads held included."""
        if self.pid == os.getpid():
            return
        self.pid, self.lock = os.getpid(), threading.Lock()
        places, self.places = self.places, {}
        for place in places.values():
            place.abandon()

    def place(self, home: str) -> _Place:
        # Also when the process was forked by what tells Python nothing.
        self.forked()
        if self.is_ending:
            raise LcmUnavailable(UNAVAILABLE, "the process is ending")
        with self.lock:
            return self.places.setdefault(home, _Place(home))

    def end(self) -> None:
        """At the end of the interpreter: no child stays, and none is started any more."""
        if self.pid != os.getpid():
            return
        self.is_ending = True
        for place in list(self.places.values()):
            place.end()


# ---- the client ------------------------------------------------------------------------------------------------------


class Client:
    """A handle to lcm in one data directory. Cheap to make: nothing is opened or started before the first call.

    All clients of a directory in a process share one child; the one whose call starts it gives it `host` and `settings`
    (by name, over the settings file; what is wrong among them the child names in `state()["notes"]`).

    Every call takes `deadline` (seconds, also bounds the start of the child), `should_stop` (asked about every 50 ms
    while the call waits; when it says true the call ends with `LcmCancelled`) and, where a model may be wanted, `summarizer`:
    called on the calling thread with `{"instructions", "material", "tokens_max", "time_max_ms", "call"}`, gives the text, or
    `{"text", "model"}`. What it raises makes lcm go on without it; exceptions that end threads pass.

    # Errors
    Of every call: `LcmUnavailable`, `LcmTimeout`, `LcmCancelled`, `LcmUnsendable`, and `LcmError` for what the child refuses.
    """

    def __init__(self, home: str | os.PathLike, program: str | os.PathLike | None = None, host: str = "hermes",
                 settings: Mapping[str, Any] | None = None):
        self.home = os.path.abspath(os.fspath(home))
        self.program = None if program is None else os.fspath(program)
        self.host, self.settings = host, dict(settings or {})

    # A handle is the same as its copy.
    def __copy__(self) -> "Client":
        return self

    def __deepcopy__(self, memo: dict) -> "Client":
        return self

    def __reduce__(self):
        return type(self), (self.home, self.program, self.host, self.settings)

    def found_program(self) -> str:
        """Where `lcm-cli` is: as named here or in `LCM_CLI` (then nowhere else), beside this file, in `bin` of the data
        directory, on the path.

        # Errors
        `LcmUnavailable`.
        """
        for said, program in (("the program named to the client", self.program), ("LCM_CLI", os.environ.get("LCM_CLI"))):
            if program:
                found = shutil.which(program)
                if found is None:
                    raise LcmUnavailable(UNAVAILABLE, f"{said} is {program}, and there is no such program; name another")
                return found
        beside = os.path.dirname(os.path.abspath(__file__))
        for folder in (beside, os.path.join(self.home, "bin")):
            found = os.path.join(folder, "lcm-cli")
            if os.path.isfile(found) and os.access(found, os.X_OK):
                return found
        found = shutil.which("lcm-cli")
        if found is None:
            raise LcmUnavailable(UNAVAILABLE, f"lcm-cli is not found; put it into {beside}, {self.home}/bin or onto the path, or name it in LCM_CLI")
        return found

    # -- any verb

    def call(self, verb: str, params: Mapping[str, Any] | None = None, *, deadline: float = DEADLINE_S,
             summarizer: Summarizer | None = None, should_stop: Callable[[], Any] | None = None) -> Any:
        """Calls a verb of `docs/wire.md` and gives its answer. Made again once when the child ends meanwhile: what a call
        did before that is found done."""
        until = time.monotonic() + deadline
        given = _sendable(f"the parameters of {verb}", dict(params or {}))
        return self._asked(verb, lambda connection: connection.call(verb, given, until, summarizer, should_stop), until, should_stop)

    def _asked(self, verb: str, ask: Callable[[_Connection], Any], until: float, should_stop: Callable[[], Any] | None) -> Any:
        for is_last in (False, True):
            place = _REGISTRY.place(self.home)
            connection = place.connected(self, until, should_stop)
            try:
                return ask(connection)
            except _Lost as lost:
                place.why = f"lcm-cli serve is gone: {_told(lost)}"
                if is_last:
                    raise LcmUnavailable(UNAVAILABLE, f"{place.why}; {verb} was made twice") from None
        raise AssertionError("both tries return or raise")

    def _listed(self, verb: str, session: Session | None, params: dict, messages: Sequence, *, deadline: float = DEADLINE_S,
                summarizer: Summarizer | None = None, should_stop: Callable[[], Any] | None = None) -> Changed:
        """A call with a list: what changed since the session's last is sent, and what it makes of the list comes back."""
        until = time.monotonic() + deadline
        shown = list(messages)    # the host's own objects, also when it changes its list meanwhile
        params = _sendable(f"the parameters of {verb}", {name: value for name, value in params.items() if value is not None})
        if session is not None:
            params["session"] = session.wire()

        def ask(connection: _Connection) -> Changed:
            bases = [] if session is None else connection.bases_of(session)
            while True:
                sent, copy = _delta(verb, bases, shown)
                try:
                    try:
                        answer = connection.call(verb, {**params, "list": sent}, until, summarizer, should_stop)
                    except LcmUnsendable as error:
                        if error.code != LINE_TOO_LONG or session is None:
                            raise
                        sent = _in_pieces(connection, session, copy, until, should_stop)
                        answer = connection.call(verb, {**params, "list": sent}, until, summarizer, should_stop)
                    break
                except LcmError as error:
                    if error.code != BASE_UNKNOWN or "base" not in sent:
                        raise
                    connection.drop(session, sent["base"])
                    bases = []
            answer = dict(answer) if isinstance(answer, dict) else {}
            splices, result = answer.pop("splices", None), messages
            if splices is not None:
                try:
                    result = _spliced(shown, splices)
                    # What is selected is for one request, and the base that of what was sent. Otherwise it is that of what
                    # came of it; the host may change what it is given, so what is kept is apart from it.
                    copy = copy if verb == "select" else _spliced(copy, splices, _copied)
                except (ValueError, TypeError) as error:
                    connection.lose(f"its answer to {verb} does not fit the list: {_told(error)}")
                    raise LcmError(-32603, f"the answer to {verb} does not fit the list that was sent: {_told(error)}") from None
            if session is not None:
                connection.keep(session, answer.get("base"), copy)
            return Changed(result, answer)

        return self._asked(verb, ask, until, should_stop)

    # -- the verbs

    def turn(self, session: Session, messages: Sequence, *, time_ms: int | None = None, settled: bool | None = None,
             options: Mapping | None = None, **how: Any) -> dict:
        """Shows the whole list: what is new in it is kept. `time_ms`: milliseconds since 1970 UTC."""
        return self._listed("turn", session, {"time_ms": time_ms, "settled": settled, "options": options}, messages, **how).answer

    def due(self, session: Session, prompt_tokens: int, *, options: Mapping | None = None, **how: Any) -> tuple[bool, str]:
        """Whether the list should be compressed, by what the provider says it costs, and why or why not."""
        answer = self.call("due", _given(session, prompt_tokens=prompt_tokens, options=options), **how)
        return bool(answer.get("due")), str(answer.get("reason", ""))

    def weigh(self, messages: Sequence, *, session: Session | None = None, **how: Any) -> int:
        """What a list costs: tokens."""
        return int(self._listed("weigh", session, {}, messages, **how).answer["tokens"])

    def compress(self, session: Session, messages: Sequence, *, options: Mapping | None = None, current_tokens: int | None = None,
                 force: bool | None = None, focus: str | None = None, memory_context: str | None = None,
                 summarizer: Summarizer | None = None, **how: Any) -> Changed:
        """Takes the list in and gives a shorter one in its place, when it is over its threshold or `force` is true."""
        params = {"options": options, "current_tokens": current_tokens, "force": force, "focus": focus,
                  "memory_context": memory_context, "summarize": summarizer is not None}
        return self._listed("compress", session, params, messages, summarizer=summarizer, **how)

    def select(self, session: Session, messages: Sequence, *, head: int | None = None, budget_tokens: int | None = None,
               query: str | None = None, options: Mapping | None = None, **how: Any) -> Changed:
        """What should go into this one request instead of the list."""
        params = {"head": head, "budget_tokens": budget_tokens, "query": query, "options": options}
        return self._listed("select", session, params, messages, **how)

    def behind(self, session: Session, messages: Sequence, **how: Any) -> list:
        """Every original that a list shows or stands for, in order."""
        return self._listed("behind", session, {}, messages, **how).answer["messages"]

    def usage(self, session: Session, model: str, prompt_tokens: int, **how: Any) -> None:
        """Tells what a model's provider says that the session's newest list cost."""
        self.call("usage", _given(session, model=model, prompt_tokens=prompt_tokens), **how)

    def tools(self, *, all: bool | None = None, **how: Any) -> list:
        """The schemas of the tools; `all`: also of those that are answered but not offered."""
        return self.call("tools", {} if all is None else {"all": all}, **how)["tools"]

    def tool(self, session: Session, name: str, arguments: Any, *, messages: Sequence | None = None, given: Sequence | None = None,
             confined: bool | None = None, tokens_max: int | None = None, chars_max: int | None = None,
             summarizer: Summarizer | None = None, **how: Any) -> tuple[str, bool]:
        """What an agent's tool answers: the text as the model gets it, and whether it says that something is wrong."""
        params = {"name": name, "arguments": arguments, "given": given, "confined": confined, "tokens_max": tokens_max,
                  "chars_max": chars_max, "summarize": summarizer is not None}
        if messages is None:
            answer = self.call("tool", _given(session, **params), summarizer=summarizer, **how)
        else:
            answer = self._listed("tool", session, params, messages, summarizer=summarizer, **how).answer
        return str(answer.get("text", "")), bool(answer.get("is_error"))

    def status(self, session: Session | None = None, *, options: Mapping | None = None, **how: Any) -> dict:
        """How the store is, and the session."""
        return self.call("status", _given(session, options=options), **how)

    # -- the child

    def state(self) -> dict:
        """How it stands with the child, without starting one: `running`, `pid`, `why` it is not or was not, `starts` so far,
        and what it said at its start."""
        place = _REGISTRY.places.get(self.home) if _REGISTRY.pid == os.getpid() else None
        connection = None if place is None else place.connection
        running = connection is not None and not connection.is_over()
        why = None if place is None else place.why
        if connection is not None and not running:
            why = f"lcm-cli serve is gone: {connection.lost}"
        told = connection.told if running else {}
        return {"running": running, "pid": connection.process.pid if running else None, "why": why,
                "starts": 0 if place is None else len(place.starts), "server": told.get("server"),
                "notes": list(told.get("notes") or []), "log": os.path.join(self.home, "serve.log")}

    def close(self) -> None:
        """Ends the directory's child, for all clients: it finishes what it began, for a few seconds. The next call starts
        another."""
        if _REGISTRY.pid == os.getpid():
            with _REGISTRY.lock:
                place = _REGISTRY.places.get(self.home)
            if place is not None:
                place.end()


def _given(session: Session | None, **params: Any) -> dict:
    params = {name: value for name, value in params.items() if value is not None}
    if session is not None:
        params["session"] = session.wire()
    return params


def _in_pieces(connection: _Connection, session: Session, messages: list, until: float, should_stop: Callable[[], Any] | None) -> dict:
    """Lets the child know a list that is too long for one line, by having more and more of it weighed; gives how it is sent then."""
    sent: dict = {}
    rest = deque(messages)
    while rest:
        piece = [rest.popleft()]
        size = len(_line(piece[0]))
        while rest and size + (more := len(_line(rest[0]))) <= connection.line_bytes_max // 2:
            size += more
            piece.append(rest.popleft())
        start = len(messages) - len(rest) - len(piece)
        listed = {**sent, "splices": [[start, 0, piece]]} if sent else {"all": piece}
        answer = connection.call("weigh", {"session": session.wire(), "list": listed}, until, None, should_stop)
        sent = {"base": answer["base"]}
    return {**sent, "splices": []}


def _delta(verb: str, bases: list[tuple[str, list]], shown: list) -> tuple[dict, list]:
    """How a list is sent, and the copy of it that is kept. Only what is new is copied.

    Of the lists that the child knows the one is taken from which the least is to be sent; of a list that merely grew the
    others are not looked at.
    """
    best: tuple[int, str, list, list] | None = None
    # What is sent to a model has the host's own messages in front and what is kept has not: those that begin alike first.
    for base, old in sorted(bases, key=lambda known: not _begin_alike(known[1], shown)):
        changes = _differences(old, shown)
        new = sum(end - start for _, _, start, end in changes)
        if best is None or new < best[0]:
            best = (new, base, old, changes)
        if not changes or changes[-1][1] == changes[-1][0] == len(old):
            break
    if best is None:
        copy = [_sendable(f"message {at} of {verb}", message) for at, message in enumerate(shown)]
        return {"all": copy}, copy
    _, base, old, changes = best
    if not changes:
        return {"base": base, "splices": []}, old
    copy, splices, at = [], [], 0
    for old_start, old_end, start, end in changes:
        copy += old[at:old_start]
        new = [_sendable(f"message {start + nth} of {verb}", message) for nth, message in enumerate(shown[start:end])]
        copy += new
        # Changes of one length, or one change alone: what stands behind it is where it was.
        splices.append([start, old_end - old_start, new])
        at = old_end
    return {"base": base, "splices": splices}, copy + old[at:]


def _sendable(name: str, value: Any) -> Any:
    try:
        return _copied(value)
    except RecursionError:
        raise LcmUnsendable(NOT_KEPT, f"{name} cannot be sent: it contains itself or is nested too deep") from None


# ---- one client for all copies of this file --------------------------------------------------------------------------

# Hosts load this file more than once in a process, and an update can put a newer one beside an older. Copies of one version
# use the classes and the children of the first, so that an error of one is caught by the other; others keep apart.
_SHARED = sys.modules.setdefault("lcm_hermes_client", types.ModuleType("lcm_hermes_client", "What copies of lcm's plugin share."))
_ALL = ("LcmError", "LcmUnavailable", "LcmTimeout", "LcmCancelled", "LcmUnsendable", "Session", "Changed", "Client")
_COPIES = _SHARED.__dict__.setdefault("copies", {})
_FIRST = _COPIES.setdefault(VERSION, globals())
if _FIRST is globals():
    _REGISTRY = _Registry()
else:
    _REGISTRY = _FIRST["_REGISTRY"]
    for _name in _ALL:
        globals()[_name] = _FIRST[_name]


# ---- the engine ------------------------------------------------------------------------------------------------------

try:
    from agent.context_engine import ContextEngine
except ImportError:
    # No host around: then this file is the client alone.
    ContextEngine = object

logger = logging.getLogger("lcm")
# Where a host has no log, nothing is written to its terminal.
logger.addHandler(logging.NullHandler())

TURN_S = 15.0                   # keeping what a turn said; a store that somebody holds for longer is asked at the next turn
SELECT_S = 5.0                  # before every request of the user's
COMPRESS_S = 110.0              # hosts give 120 s, or more, before they go on without it
TOOL_S = 20.0                   # what an agent looks up
ASK_S = 150.0                   # ... but for a question that a model answers
ASKS_A_MODEL = "lcm_expand_query"
OWNER, NOBODY = "owner", "nobody"       # whose a conversation is that no gateway has a key for
UNNAMED = "unnamed"             # the session of an agent that was not told one
RATIO_LEAST, RATIO_MOST = 0.35, 0.75    # of the window, where nobody says another threshold ...
ROOM_TOKENS = 48_000            # ... and so many at least: the host's own prompt and tools are 20,000 to 30,000 of them
ANSWER_TOKENS = 4_096           # left for the model's answer in a selected request
FORCED_SHARE = 0.6              # of a list that is folded though it is within its threshold, this much may stay
FUTILE_GROWTH = 1.05            # what could not be made smaller is tried again when it has grown by so much
NEARLY_FULL = 0.95              # of the window; from here on the host's own compressor is better than nothing
RESULT_CHARS = (8_000, 90_000)  # of a tool's answer; from a host's bounds on, it puts the answer into a file
RESULT_SHARE = 0.54             # characters a token of the window: nine tenths of what hosts allow, 15 % at 4 characters each
LINEAGE_MAX = 8                 # parents that are asked for whose conversation a sub-agent's is
PERSONS_MAX = 1024              # sessions of which it is remembered whose they are
COMMAND_S = 30.0                # one `/lcm` command
COMMAND_CHARS_MAX = 6_000       # what it shows
NAMES_OF_RATIO = ("LCM_COMPRESS_THRESHOLD_RATIO", "LCM_CONTEXT_THRESHOLD")
NAMES_OF_TOKENS = ("LCM_COMPRESS_THRESHOLD_TOKENS", "LCM_ABSOLUTE_THRESHOLD_TOKENS")
# Ours in the `lcm:` section; everything else there is a setting of the program.
OWN_KEYS = ("context_threshold", "host_summaries", "prepare")
# Options that would lead out of the conversation of whoever asks.
NOT_FOR_COMMANDS = ("--home", "--agent", "--person")
STORE_REFUSED = -32031

SAY_AGAIN_S = 600.0             # a refusal that stands in the host's log is not written there again for so long
SAID_MAX = 64                   # refusals of which that is remembered

_ENGINES = _SHARED.__dict__.setdefault("engines", weakref.WeakSet())
_SAID: dict[str, float] = _SHARED.__dict__.setdefault("said", {})
_PERSONS = _SHARED.__dict__.setdefault("persons", OrderedDict())


def _neutral(value: Any) -> Callable:
    """For what a host calls without a net: whatever goes wrong is logged, and `value` is the answer. What ends threads
    passes."""
    def of(method: Callable) -> Callable:
        @functools.wraps(method)
        def guarded(self, *args, **named):
            try:
                return method(self, *args, **named)
            except Exception as error:
                _log_failure(method.__name__, error)
                return value() if callable(value) else value
        return guarded
    return of


def _log_failure(what: str, error: Exception) -> None:
    """A refusal of lcm's is a sentence, and what is so for a while is said once in a while and not at each call, whatever was
    called; anything else is a fault of ours, and its trace is wanted."""
    if isinstance(error, LcmError):
        # How long it has been so, and such, are no news.
        now, kind = time.monotonic(), re.sub(r"[0-9]+", "", str(error))
        is_news = now - _SAID.get(kind, -SAY_AGAIN_S) >= SAY_AGAIN_S
        if is_news:
            if len(_SAID) >= SAID_MAX:
                _SAID.clear()
            _SAID[kind] = now
        logger.log(logging.WARNING if is_news else logging.DEBUG, "lcm: %s: %s", what, error)
    else:
        logger.warning("lcm: %s failed", what, exc_info=error)


class _Config(NamedTuple):
    """What the host's `lcm:` section says."""

    settings: dict
    ratio: float | None
    threshold_tokens: int
    host_summaries: bool
    prepare: bool

    @classmethod
    def read(cls) -> "_Config":
        try:
            from hermes_cli.config import load_config
            section = (load_config() or {}).get("lcm")
        except Exception as error:
            logger.debug("lcm: the host's settings cannot be read: %s", error)
            section = None
        section = section if isinstance(section, dict) else {}
        settings = {name: value for name, value in _flat(section) if name not in OWN_KEYS}
        ratio = _named_number(NAMES_OF_RATIO)
        for said in (section.get("context_threshold"), settings.get("compress.threshold_ratio")):
            ratio = _number_or_none(said) if ratio is None else ratio
        tokens = _named_number(NAMES_OF_TOKENS)
        tokens = _number_or_none(settings.get("compress.threshold_tokens")) if tokens is None else tokens
        return cls(settings, ratio if ratio and 0 < ratio < 1 else None, max(0, int(tokens or 0)),
                   section.get("host_summaries") is not False, section.get("prepare") is not False)

    def ratio_of(self, window_tokens: int) -> float:
        """Which share of a window a request may take before it is folded."""
        if self.ratio is not None:
            return self.ratio
        return max(RATIO_LEAST, min(RATIO_MOST, ROOM_TOKENS / window_tokens)) if window_tokens > 0 else RATIO_MOST


def _flat(section: Mapping, above: str = "") -> Iterable[tuple[str, Any]]:
    """`{"a": {"b": 1}, "c.d": 2}` as `a.b` and `c.d`, the names that the program knows."""
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _number_or_none(said: Any) -> float | None:
    try:
        number = None if said is None or isinstance(said, bool) else float(said)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and math.isfinite(number) else None


def _named_number(names: Iterable[str]) -> float | None:
    """What the first variable says that is set."""
    return next((_number_or_none(os.environ[name]) for name in names if os.environ.get(name)), None)


def _count(said: Any) -> int:
    """A number of tokens as hosts report it: anything, also nothing."""
    number = _number_or_none(said)
    return int(number) if number is not None and 0 <= number < 1e15 else 0


def _hermes_home() -> str:
    try:
        from hermes_constants import get_hermes_home
        return str(get_hermes_home())
    except Exception:
        return os.environ.get("HERMES_HOME") or os.path.join(os.path.expanduser("~"), ".hermes")


class _Attempt:
    """One call of compress: the session it was for, and the list that it gave, if any."""

    def __init__(self, session_id: str):
        self.session_id, self.shorter = session_id, None


class _Scratch:
    """A data directory for agents whose host keeps nothing of them: it goes with the process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.path, self.pid = None, 0

    def home(self) -> str:
        with self.lock:
            if self.path is None or self.pid != os.getpid():
                self.path, self.pid = tempfile.mkdtemp(prefix="lcm-unsaved-"), os.getpid()
                atexit.register(self.drop)
            return self.path

    def drop(self) -> None:
        if self.path is not None and self.pid == os.getpid():
            Client(self.path).close()
            shutil.rmtree(self.path, ignore_errors=True)
            self.path = None


_SCRATCH = _SHARED.__dict__.setdefault("scratch", _Scratch())


class _Fallback:
    """The host's own compressor, for as long as lcm cannot be asked. Without it a conversation would overflow."""

    def __init__(self):
        self.compressor: Any = None

    def compress(self, engine: "LCMEngine", messages: list, given: dict) -> list:
        from agent.context_compressor import ContextCompressor
        if self.compressor is None:
            known = inspect.signature(ContextCompressor.__init__).parameters
            wanted = {"model": engine.model, "base_url": engine.base_url, "api_key": engine.api_key, "provider": engine.provider,
                      "api_mode": engine.api_mode, "config_context_length": engine.context_length or None, "quiet_mode": True}
            self.compressor = ContextCompressor(**{name: value for name, value in wanted.items() if name in known})
        compressor = self.compressor
        compressor.threshold_tokens = engine.threshold_tokens
        bind = getattr(compressor, "bind_session_state", None)
        if callable(bind):
            bind(session_db=engine._session_db, session_id=engine._session_id)
        known = inspect.signature(compressor.compress).parameters
        shorter = compressor.compress(messages, **{name: value for name, value in given.items() if name in known})
        for name in ("_last_compress_aborted", "_last_summary_error", "_last_summary_fallback_used"):
            setattr(engine, name, getattr(compressor, name, None))
        return shorter


class LCMEngine(ContextEngine):
    """`context.engine: lcm`. A shell in the host's process: what it knows of a conversation is in the store, and what is in
    its `__dict__` may be copied, cleared and put back by the host at any time.

    Nothing here raises but what ends threads: a host has no net under most of these calls. Whatever fails, the host goes
    on with the list it has.
    """

    name = "lcm"

    def __init__(self, context_length: int = 0, **_unknown: Any):
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.last_real_prompt_tokens = self.last_compression_rough_tokens = 0
        self.awaiting_real_usage_after_compression = False
        self.compression_count = 0
        # With these at their defaults of 3 and 6 the host would not ask about short lists of large messages.
        self.protect_first_n = self.protect_last_n = 0
        self.summary_target_ratio = 0.2
        self.emit_automatic_compaction_status = True
        self.model = self.base_url = self.api_key = self.provider = self.api_mode = ""
        self._last_compress_aborted = self._last_summary_fallback_used = self._last_feasibility_skip = False
        self._last_compression_made_progress = False
        self._last_summary_error = self._last_aux_model_failure_model = self._last_aux_model_failure_error = None
        self._session_db: Any = None
        self._session_id = ""
        self._is_saved = True
        self._said_person: str | None = None
        self._home: str | None = None
        self._config: _Config | None = None
        self._fallback = _Fallback()
        # The call of compress that began last, until the host confirms what it gave.
        self._attempt: _Attempt | None = None
        # When the host did something with it, by `time.monotonic`.
        self._used = 0.0
        self._futile_tokens = 0
        self._beside_tokens = 0
        self._selected_tokens = 0
        self._fold_wanted = False
        self._last_fold = ""
        self._why_fallback: str | None = None
        self.context_length, self.threshold_percent, self.threshold_tokens = 0, RATIO_MOST, 0
        if context_length:
            self.update_model("", context_length)
        _ENGINES.add(self)

    # -- copies: another agent's engine has nothing of this one but the process's child

    def clone_for_agent(self, *_: Any, **__: Any) -> "LCMEngine":
        return type(self)()

    def __deepcopy__(self, memo: dict) -> "LCMEngine":
        return type(self)()

    __copy__ = clone_for_agent

    @staticmethod
    def is_available() -> bool:
        """For the host's list of engines: whether the program is there. Starts nothing."""
        try:
            return bool(Client(_data_home(_hermes_home())).found_program())
        except Exception:
            return False

    # -- whose conversation it is

    def on_session_start(self, session_id: str = "", **told: Any) -> None:
        try:
            self._started(session_id, told)
        except Exception as error:
            _log_failure("on_session_start", error)

    def _started(self, session_id: str, told: dict) -> None:
        if told.get("hermes_home"):
            self._home = str(told["hermes_home"])
        if told.get("session_db") is not None:
            self._session_db, self._is_saved = told["session_db"], True
        if told.get("conversation_id"):
            self._said_person = str(told["conversation_id"])
        if _count(told.get("context_length")) and not self.context_length:
            self.update_model(str(told.get("model") or self.model), told["context_length"])
        if session_id:
            self._enter(str(session_id))
        if told.get("boundary_reason") == "compression":
            if told.get("session_db") is not None:
                # The host goes on with what another process of it folded; what we gave it dropped.
                self._attempt = None
            self._publish(str(told.get("old_session_id") or session_id))

    @_neutral(None)
    def bind_session_state(self, session_db: Any = None, session_id: str = "", **_: Any) -> None:
        """The host's database and the session in it; without a database nothing of this agent is to be kept."""
        self._session_db, self._is_saved = session_db, session_db is not None
        self._enter(str(session_id or ""))

    def _enter(self, session_id: str) -> None:
        self._used = time.monotonic()
        if session_id != self._session_id:
            self._session_id = session_id
            self._futile_tokens = self._beside_tokens = self._selected_tokens = 0

    @_neutral(None)
    def on_session_reset(self, *_: Any, **__: Any) -> None:
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.last_real_prompt_tokens = self.last_compression_rough_tokens = 0
        self.compression_count = self._futile_tokens = self._beside_tokens = self._selected_tokens = 0
        self.awaiting_real_usage_after_compression = self._fold_wanted = False
        # What the host did not confirm before it left the session it will not confirm any more.
        self._attempt = None

    @_neutral(None)
    def carry_over_new_session_context(self, old_session_id: str = "", new_session_id: str = "", **_: Any) -> None:
        """A list that shows what another session said is recognised by what it shows; there is nothing to carry."""

    def _client(self, kept: bool = False) -> Client:
        config = self._settings()
        home = _data_home(self._home or _hermes_home()) if kept or self._is_saved else _SCRATCH.home()
        return Client(home, host="hermes", settings=config.settings)

    def _settings(self) -> _Config:
        if self._config is None:
            self._config = _Config.read()
        return self._config

    def _session(self, session_id: str | None = None) -> Session:
        name = session_id or self._session_id or UNNAMED
        return Session(name, agent=_profile(self._home or _hermes_home()), person=self._person(name))

    def _person(self, session_id: str) -> str:
        """Whose conversation a session is: the gateway's key of it. Helpers that the host makes without one work on sessions
        of which it was told before, or of which its database knows."""
        person = self._said_person or _PERSONS.get(session_id) or self._person_in_database(session_id)
        is_passing = session_id == UNNAMED or not self._is_saved
        if person is None:
            # Not remembered: the host may only not have told yet. Where it serves others than its owner, what an agent without a
            # conversation does may be for any of them.
            return NOBODY if is_passing and any(known != OWNER for known in list(_PERSONS.values())) else OWNER
        if is_passing:
            return person
        _PERSONS[session_id] = person
        while len(_PERSONS) > PERSONS_MAX:
            _PERSONS.popitem(last=False)
        return person

    def _person_in_database(self, session_id: str) -> str | None:
        get = getattr(self._session_db, "get_session", None)
        for _ in range(LINEAGE_MAX):
            row = get(session_id) if callable(get) and session_id else None
            if not isinstance(row, Mapping):
                return None
            if row.get("session_key"):
                return str(row["session_key"])
            session_id = row.get("parent_session_id")
            if session_id in _PERSONS:
                return _PERSONS[session_id]
        return None

    def _options(self) -> dict:
        options = {"window_tokens": self.context_length, "threshold_tokens": self.threshold_tokens, "model": self.model}
        return {name: value for name, value in options.items() if value}

    # -- the model and what it reports

    def update_model(self, model: str = "", context_length: Any = 0, base_url: str = "", api_key: Any = "", provider: str = "",
                     api_mode: str = "", **_: Any) -> None:
        try:
            window = _count(context_length)
            self.model, self.base_url, self.api_key = str(model or ""), base_url, api_key
            self.provider, self.api_mode = provider, api_mode
            config = self._settings()
            # The host's own way to a threshold begins with this one, and knows of thresholds by model.
            self.threshold_percent = self._config_threshold_percent = config.ratio_of(window)
            inherited = getattr(super(), "update_model", None)
            try:
                if inherited is not None:
                    inherited(model=self.model, context_length=window)
            except Exception as error:
                logger.debug("lcm: the host's update_model failed: %s", error)
            self.context_length = window
            self.threshold_tokens = int(window * self.threshold_percent)
            if config.threshold_tokens:
                self.threshold_tokens = min(self.threshold_tokens, config.threshold_tokens)
            self._futile_tokens = 0
        except Exception as error:
            _log_failure("update_model", error)

    @_neutral(None)
    def update_from_response(self, usage: Any = None, **_: Any) -> None:
        usage = usage if isinstance(usage, Mapping) else {}
        self._used = time.monotonic()
        self.awaiting_real_usage_after_compression = False
        prompt = _count(usage.get("prompt_tokens")) or _count(usage.get("input_tokens"))
        self.last_completion_tokens = _count(usage.get("completion_tokens")) or _count(usage.get("output_tokens"))
        self.last_total_tokens = _count(usage.get("total_tokens")) or prompt + self.last_completion_tokens
        if prompt:
            self.last_prompt_tokens = self.last_real_prompt_tokens = prompt
            if self._selected_tokens:
                # Schemas of the tools, and what our count is off by.
                self._beside_tokens = max(0, prompt - self._selected_tokens)

    # -- whether to fold

    @_neutral(False)
    def should_compress(self, prompt_tokens: Any = None, **_: Any) -> bool:
        return self._due(prompt_tokens)[0]

    @_neutral(lambda: (False, None))
    def should_compress_info(self, prompt_tokens: Any = None, **_: Any) -> tuple:
        return self._due(prompt_tokens)

    def _due(self, prompt_tokens: Any) -> tuple[bool, str | None]:
        tokens = _count(self.last_prompt_tokens if prompt_tokens is None else prompt_tokens)
        if self._fold_wanted:
            return True, None
        if not self.threshold_tokens or tokens < self.threshold_tokens:
            return False, None
        # What could not be made smaller is not tried at every request, unless the alternative is that it fails.
        if self._futile_tokens and tokens < self._futile_tokens * FUTILE_GROWTH and tokens < self.context_length * NEARLY_FULL:
            return False, f"lcm could not make {self._futile_tokens:,} tokens fewer; it tries again when there are more"
        return True, None

    @_neutral(False)
    def should_compress_preflight(self, messages: Any = None, **_: Any) -> bool:
        if not messages or not self.threshold_tokens:
            return False
        if self._fold_wanted:
            return True
        # Weighing keeps nothing.
        tokens = self._client(kept=True).weigh(messages, session=self._session(), deadline=SELECT_S)
        return self._due(tokens + self._beside_tokens)[0]

    @_neutral(False)
    def should_defer_preflight_to_real_usage(self, rough_tokens: Any = None, **_: Any) -> bool:
        return False

    @_neutral(True)
    def has_content_to_compress(self, messages: Any = None, **_: Any) -> bool:
        """Whether there is something in front of the newest request."""
        said = [message for message in messages or () if isinstance(message, Mapping)]
        newest = max((at for at, message in enumerate(said) if message.get("role") == "user"), default=0)
        return newest > 0 or len(said) > 4

    def get_automatic_compaction_status_message(self, *, phase: str = "", default_message: str = "", **told: Any) -> str | None:
        try:
            if self._why_fallback is not None:
                return f"lcm is not available ({self._why_fallback}); the host's own compressor is used. /lcm tells more."
            tokens = _count(told.get("approx_tokens"))
            size = f" of about {tokens:,} tokens" if tokens else ""
            return f"lcm folds the older part of this conversation{size}; nothing is lost: /lcm shows what was folded, /lcm undo takes it back."
        except Exception:
            return default_message

    # -- folding

    def compress(self, messages: list, current_tokens: Any = None, focus_topic: Any = None, force: Any = False,
                 memory_context: Any = "", **_: Any) -> list:
        """A shorter list, or the very object that was given. What was folded becomes what the session shows when the host
        confirms it ([`LCMEngine.on_session_start`]), or shows it."""
        cancelled = getattr(self, "_compression_cancelled_check", None)
        self._last_compress_aborted = self._last_compression_made_progress = False
        self._last_summary_error = None
        # What a person asked for is tried once. And the host asks anew only when it dropped what it had: an older call that
        # ends behind this one finishes an attempt that nobody looks at any more.
        self._fold_wanted = False
        attempt = self._attempt = _Attempt(self._session_id)
        given = {"current_tokens": current_tokens, "focus_topic": focus_topic, "force": bool(force), "memory_context": memory_context or ""}
        tokens = _count(current_tokens)
        try:
            if callable(cancelled) and cancelled():
                return messages
            return self._folded(messages, given, cancelled, attempt)
        except LcmCancelled:
            return messages
        except LcmUnavailable as error:
            return self._without_lcm(messages, given, str(error))
        except LcmError as error:
            _log_failure("compress", error)
            if error.code == STORE_REFUSED or tokens >= self.context_length * NEARLY_FULL > 0:
                return self._without_lcm(messages, given, str(error))
            self._last_compress_aborted, self._last_summary_error = True, f"lcm: {error}"
            return messages
        except Exception as error:
            _log_failure("compress", error)
            self._last_compress_aborted, self._last_summary_error = True, f"lcm failed: {type(error).__name__}: {_told(error)}"
            return messages

    def _folded(self, messages: list, given: dict, cancelled: Any, attempt: "_Attempt") -> list:
        if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
            return messages
        session, tokens, options = self._session(), _count(given["current_tokens"]), self._options()
        if 0 < tokens < self.threshold_tokens:
            # The host knows a reason of its own: a person asked, or the provider refused. It wants a list that is much shorter.
            options["threshold_tokens"] = max(1, int(tokens * FORCED_SHARE))
        # What goes into one request the host puts in turns itself; what it keeps must be so.
        options["alternates"] = True
        done = self._client().compress(
            session, messages, options=options, current_tokens=tokens or None, force=True,
            focus=str(given["focus_topic"]) if given["focus_topic"] else None, memory_context=str(given["memory_context"]) or None,
            summarizer=self._summarize if self._settings().host_summaries else None, deadline=COMPRESS_S,
            should_stop=cancelled if callable(cancelled) else None)
        answer = done.answer
        if done.messages is messages:
            self._futile_tokens = tokens
            logger.info("lcm: nothing was folded: %s", answer.get("reason"))
            if tokens >= self.context_length * NEARLY_FULL > 0:
                # The next request would not fit at all.
                return self._without_lcm(messages, given, f"it can make nothing smaller: {answer.get('reason')}")
            self._why_fallback = None
            return messages
        self._why_fallback = None
        if callable(cancelled) and cancelled():
            return messages
        self._futile_tokens = 0
        # Hosts mark what they have written; what is new to them in this list has no such mark.
        shorter = [{key: value for key, value in message.items() if key != "_db_persisted"} for message in done.messages]
        attempt.shorter = shorter
        self._last_compression_made_progress = True
        self.compression_count = 1
        folds = [fold for fold in answer.get("folds") or () if isinstance(fold, str)]
        self._last_fold = (f"folded {len(messages)} messages into {len(shorter)}, {_count(answer.get('tokens_before')):,} tokens into "
                           f"{_count(answer.get('tokens_after')):,} ({', '.join(folds[-4:]) or 'shown in part'})")
        logger.info("lcm: %s in session %s", self._last_fold, session.name)
        return shorter

    def _without_lcm(self, messages: list, given: dict, why: str) -> list:
        """The host's own compressor instead, and the user is told once why."""
        if self._why_fallback is None:
            logger.warning("lcm is not available, the host's own compressor is used: %s", why)
        is_news, self._why_fallback = self._why_fallback is None, why
        try:
            shorter = self._fallback.compress(self, messages, given)
        except Exception as error:
            _log_failure("the host's own compressor", error)
            self._last_compress_aborted, self._last_summary_error = True, f"lcm is not available ({why}) and the host's own compressor failed"
            return messages
        if is_news and not self._last_summary_error:
            self._last_summary_error = f"lcm is not available ({why}); the host's own compressor was used"
        return shorter if isinstance(shorter, list) else messages

    def _summarize(self, request: dict) -> dict:
        """The host's own auxiliary model, on the thread that waits in compress: so its progress, cancel and credentials hold."""
        from agent.auxiliary_client import call_llm
        runtime = {"model": self.model, "provider": self.provider, "base_url": self.base_url, "api_key": self.api_key, "api_mode": self.api_mode}
        response = call_llm(
            task="compression", main_runtime=runtime, timeout=max(1.0, _count(request.get("time_max_ms")) / 1000),
            messages=[{"role": "system", "content": request["instructions"]}, {"role": "user", "content": request["material"]}])
        message = response.choices[0].message
        text = message.get("content") if isinstance(message, Mapping) else getattr(message, "content", None)
        model = getattr(response, "model", None)
        return {"text": text if isinstance(text, str) else "", "model": model if isinstance(model, str) else ""}

    def _publish(self, old_session_id: str) -> None:
        """The host has taken what compress gave: showing that list makes it what the session shows."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None and attempt.session_id == old_session_id and attempt.shorter is not None:
            self._client().turn(self._session(), attempt.shorter, deadline=TURN_S)

    @_neutral(lambda: ([], 0))
    def prune_tool_results_only(self, messages: Any = None, current_tokens: Any = None, **_: Any) -> tuple:
        """Nothing is cut out of a list but by a fold, which can be undone."""
        return messages, 0

    # -- every request, every turn

    @_neutral(None)
    def select_context(self, request_messages: Any = None, *, conversation_messages: Any = None, incoming_message: Any = None,
                       budget_tokens: Any = 0, **_: Any) -> list | None:
        if not request_messages or not isinstance(request_messages, list):
            return None
        if not self._is_saved and not self._last_fold:
            # Nothing was folded, and for what was not kept there is nothing to recall.
            return None
        head = next((at for at, message in enumerate(request_messages) if message.get("role") != "system"), len(request_messages))
        window = _count(budget_tokens) or self.context_length
        budget = max(0, window - self._beside_tokens - ANSWER_TOKENS) if window else 0
        done = self._client().select(self._session(), request_messages, head=head, budget_tokens=budget,
                                     options=self._options(), deadline=SELECT_S)
        self._selected_tokens = _count(done.answer.get("tokens_after"))
        return None if done.messages is request_messages else done.messages

    @_neutral(None)
    def on_turn_complete(self, messages: Any = None, usage: Any = None, **_: Any) -> None:
        self._keep(self._session_id, messages, settled=self._settings().prepare)

    @_neutral(None)
    def on_session_end(self, session_id: str = "", messages: Any = None, **_: Any) -> None:
        """No end: hosts send it at every compaction, and for sessions that go on."""
        self._keep(str(session_id or self._session_id), messages, settled=False)

    def _keep(self, session_id: str, messages: Any, settled: bool) -> None:
        self._used = time.monotonic()
        if self._is_saved and isinstance(messages, list) and messages and session_id:
            self._client().turn(self._session(session_id), messages, settled=settled or None, options=self._options(), deadline=TURN_S)

    # -- tools

    @_neutral(list)
    def get_tool_schemas(self) -> list:
        return self._client(kept=True).tools(deadline=START_S)

    def handle_tool_call(self, name: str = "", args: Any = None, messages: Any = None, **_: Any) -> str:
        try:
            least, most = RESULT_CHARS
            chars_max = max(least, min(most, int(self.context_length * RESULT_SHARE))) if self.context_length else most
            # Reads go to the store of what is kept, also for an agent of which nothing is.
            shown = messages if self._is_saved and isinstance(messages, list) and messages else None
            text, _is_error = self._client(kept=True).tool(
                self._session(), str(name), args if args is not None else {}, messages=shown, chars_max=chars_max,
                summarizer=self._summarize if self._settings().host_summaries else None,
                deadline=ASK_S if name == ASKS_A_MODEL else TOOL_S)
            return text
        except Exception as error:
            _log_failure(f"tool {name}", error)
            return json.dumps({"error": str(error) if isinstance(error, LcmError) else f"lcm failed: {type(error).__name__}: {_told(error)}"})

    # -- how it stands

    def get_status(self) -> dict:
        try:
            prompt = max(0, _count(self.last_prompt_tokens))
            window = self.context_length
            status = {"engine": "lcm", "last_prompt_tokens": prompt, "threshold_tokens": self.threshold_tokens, "context_length": window,
                      "usage_percent": min(100, prompt / window * 100) if window else 0, "compression_count": self.compression_count,
                      "session": self._session_id, "last_fold": self._last_fold, "fallback": self._why_fallback}
            status["child"] = self._client().state()
            return status
        except Exception as error:
            _log_failure("get_status", error)
            return {"engine": "lcm"}


def _data_home(hermes_home: str) -> str:
    """Where the data are: not in the plugin's directory, which the host removes with the plugin."""
    return os.environ.get("LCM_HOME") or os.path.join(hermes_home, "lcm")


def _profile(hermes_home: str) -> str:
    """The agent's name: its profile, as the host lays profiles out."""
    above, name = os.path.split(os.path.abspath(hermes_home))
    return name if name and os.path.basename(above) == "profiles" else "default"


# ---- `/lcm` ----------------------------------------------------------------------------------------------------------

COMMANDS = ("status", "doctor", "where", "fold", "undo", "unfold", "pin", "unpin", "log", "grep", "expand")


def _command(args: str = "") -> str:
    """What a person asks for in the middle of a conversation."""
    try:
        words = shlex.split(str(args or "")) or ["status"]
        foreign = next((word for word in words if word.startswith(NOT_FOR_COMMANDS)), None)
        if foreign is not None:
            return f"{_told(foreign)} is not for /lcm, which is about this conversation alone; lcm-cli takes it"
        engine = _calling_engine()
        if words[0] not in COMMANDS:
            return f"/lcm {_told(words[0])} is nothing I know: use one of {', '.join(COMMANDS)}"
        if engine is None:
            return _not_begun()
        return _COMMANDS.get(words[0], _by_program)(engine, words)[:COMMAND_CHARS_MAX]
    except Exception as error:
        return f"lcm: {error}"


def _not_begun() -> str:
    """Hosts make an agent with its first message."""
    try:
        from hermes_cli.config import load_config
        engine = ((load_config() or {}).get("context") or {}).get("engine")
    except Exception:
        engine = None
    if engine != "lcm":
        return "no agent of this process uses lcm: set context.engine to lcm in the host's config.yaml"
    return f"lcm is the context engine and begins with your first message here; its data are in {_data_home(_hermes_home())}"


def _calling_engine() -> "LCMEngine | None":
    """Whose command it is: of the person that the host names, the engine that was used last. The host gives commands no more
    than that, and not everywhere.

    # Errors
    `LcmError` where it may be more than one person's.
    """
    engines = [engine for engine in list(_ENGINES) if getattr(engine, "_session_id", "") and getattr(engine, "_is_saved", False)]
    persons = {engine: engine._session().person for engine in engines}
    try:
        from gateway.session_context import get_session_env
        caller = get_session_env("HERMES_SESSION_KEY", "")
    except Exception:
        caller = ""
    if caller:
        engines = [engine for engine in engines if persons[engine] == caller]
    elif len(set(persons.values())) > 1:
        raise LcmError(NOT_KEPT, "this agent talks with several people and does not say which of them asks; use lcm-cli on its machine")
    return max(engines, key=lambda engine: engine._used, default=None)


def _status(engine: LCMEngine, _words: list) -> str:
    told = engine.get_status()
    child = told.get("child") or {}
    lines = [f"session {engine._session_id or 'not begun'}: {told['last_prompt_tokens']:,} of {engine.threshold_tokens:,} tokens before the next fold "
             f"(window {engine.context_length:,})"]
    if engine._last_fold:
        lines.append(f"last fold: {engine._last_fold}; /lcm undo takes it back")
    if engine._why_fallback:
        lines.append(f"lcm is not in use, the host's own compressor is: {engine._why_fallback}")
    try:
        lines.append(_run(engine, ["status"]).rstrip())
    except Exception as error:
        lines.append(f"lcm cannot be asked: {error}")
    lines += [f"note: {note}" for note in child.get("notes") or ()]
    return "\n".join(lines)


def _where(engine: LCMEngine, _words: list) -> str:
    client = engine._client()
    return f"data: {client.home}\nprogram: {client.found_program()}\nlog: {client.state()['log']}"


def _fold(engine: LCMEngine, _words: list) -> str:
    engine._fold_wanted = True
    return "the older part of this conversation is folded at the next request"


def _undo(engine: LCMEngine, words: list) -> str:
    return _run(engine, ["undo", engine._session_id, *words[1:], *_owner(engine)])


def _log(engine: LCMEngine, words: list) -> str:
    return _run(engine, ["log", engine._session_id, *words[1:], *_owner(engine)])


def _by_program(engine: LCMEngine, words: list) -> str:
    return _run(engine, words if words[0] == "doctor" else [*words, *_owner(engine)])


def _owner(engine: LCMEngine) -> list:
    session = engine._session()
    return ["--agent", session.agent, "--person", session.person]


_COMMANDS = {"status": _status, "where": _where, "fold": _fold, "undo": _undo, "log": _log}


def _run(engine: LCMEngine, words: list) -> str:
    """What `lcm-cli` says, as to a person at a terminal."""
    client = engine._client()
    done = subprocess.run([client.found_program(), "--home", client.home, *words], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=COMMAND_S, check=False, env={**os.environ, "NO_COLOR": "1"})
    return (done.stdout + done.stderr).strip() or ("done" if done.returncode == 0 else "nothing found")


def register(ctx: Any) -> None:
    """The host's door. Called for every agent by some hosts, once in a process by others."""
    ctx.register_context_engine(LCMEngine())
    with contextlib.suppress(Exception):
        # A second registration is refused with a warning at every agent.
        if not _SHARED.__dict__.get("has_command"):
            ctx.register_command("lcm", handler=_command, description="lossless context: status, doctor, fold, undo, pin, grep, where",
                                 args_hint="[" + "|".join(COMMANDS) + "]")
            _SHARED.__dict__["has_command"] = True
