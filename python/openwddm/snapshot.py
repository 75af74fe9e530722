"""Reads memory snapshots of PyTorch, as ``torch.cuda.memory._dump_snapshot`` writes them, as reference strings.

A snapshot has allocations and frees, with sizes and in order. It has no operations, so it does not say what was read, or
written again: in the string each allocation is an operation that writes the new storage, each free is a death, and no operation
reads. The peak is exact; bytes that leave memory are those that have to, and none come back. For traffic, record a step (``recorder``).

A pickle is a program, and this one may come from a stranger: names of classes and functions in it are refused unread.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO

from .recorder import Recording

HOW = (
    "call torch.cuda.memory._record_memory_history() before the step and torch.cuda.memory._dump_snapshot(FILE) behind it, "
    "or record the step with openwddm.record"
)
"""How to get a snapshot that can be read."""

_ALIVE_STATES = ("active_allocated", "active_awaiting_free", "active_pending_free")


class SnapshotError(ValueError):
    """A snapshot that makes no string: the message has the place in it, and what to do."""


def from_snapshot(
    snapshot: str | os.PathLike[str] | Mapping[str, Any], *, device: int | None = None, name: str | None = None
) -> Recording:
    """The string of a snapshot: a file (pickle or JSON), or what ``torch.cuda.memory._snapshot()`` returned.

    ``device`` is the number of the GPU, needed where several have allocations. What is alive when the recording begins is alive before the
    step; what is alive at its end dies when the string is repeated, so replay it with ``steps=1``.

    Raises ``SnapshotError`` for a snapshot without allocations, or one that is damaged; ``OSError`` for a file that cannot be opened.
    """
    if isinstance(snapshot, Mapping):
        where, value = "snapshot", snapshot
    else:
        where = os.fspath(snapshot)
        with open(where, "rb") as file:
            value = _load(where, file)
    traces = value.get("device_traces") if isinstance(value, Mapping) else None
    if not isinstance(traces, (list, tuple)):
        raise SnapshotError(f'{where}: this is no memory snapshot of PyTorch, for it has no list "device_traces"; {HOW}')
    number = _device(where, traces, device)
    segments = _Blocks(f"{where}: segments", value.get("segments") or (), number)
    reader = _Reader(f"{where}: device_traces[{number}]", traces[number], segments)
    for at, entry in enumerate(traces[number]):
        reader.enter(at, entry)
    reader.add_older(segments)
    reader.note_overwritten(value.get("allocator_settings"), number)
    default = os.path.basename(where).removesuffix(".pickle").removesuffix(".pkl").removesuffix(".json")
    return reader.recording(name or default, number)


class _Plain(pickle.Unpickler):
    """An unpickler of plain data."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, and a snapshot consists of plain data alone")


def _load(where: str, file: BinaryIO) -> Any:
    """The value of a file, which is not trusted."""
    start = file.read(3)
    file.seek(0)
    if not start:
        raise SnapshotError(f"{where}: the file is empty; {HOW}")
    try:
        if start[:2] == b"\x1f\x8b":
            with gzip.open(file) as plain:
                return _load(where, io.BytesIO(plain.read()))
        is_text = start == b"\xef\xbb\xbf" or start[:1] in b"{[ \t\r\n"
        return json.loads(file.read().decode("utf-8-sig")) if is_text else _Plain(file).load()
    except SnapshotError:
        raise
    except RecursionError:
        problem = "it nests too deeply"
    except Exception as error:  # a damaged pickle raises whatever its bytes happen to ask for
        problem = f"{type(error).__name__}: {error}"
    raise SnapshotError(f"{where}: neither a pickle nor JSON of a memory snapshot: {problem}; write it again: {HOW}")


def _device(where: str, traces: Any, asked: int | None) -> int:
    """The GPU whose trace counts: the one that was asked for, or else the one that has allocations."""
    if asked is not None and not (isinstance(asked, int) and 0 <= asked < len(traces)):
        raise SnapshotError(f"{where}: device={asked!r}, but device_traces has {len(traces)} devices, counted from 0: name one of them")
    for number, trace in enumerate(traces):
        if not isinstance(trace, (list, tuple)):
            raise SnapshotError(f"{where}: device_traces[{number}] is no list; write the snapshot again")
    counts = [sum(isinstance(e, Mapping) and e.get("action") == "alloc" for e in trace) for trace in traces]
    having = [number for number, count in enumerate(counts) if count and asked in (None, number)]
    if len(having) > 1:
        raise SnapshotError(f"{where}: device_traces has allocations of the devices {', '.join(map(str, having))}: name one with device=")
    if not having:
        longest = max(range(len(traces)), key=lambda at: len(traces[at]), default=0)
        number = longest if asked is None else asked
        place, events = (f"device_traces[{number}]", len(traces[number])) if traces else ("device_traces", 0)
        raise SnapshotError(f"{where}: {place} has {events} events, and none of them is an allocation; {HOW}")
    return having[0]


class _Blocks:
    """The state of memory at the end: the address and the bytes of each block that is in use then."""

    def __init__(self, where: str, segments: Any, number: int) -> None:
        self.alive: dict[int, int] = {}
        for at, segment in enumerate(segments):
            if not isinstance(segment, Mapping) or not isinstance(segment.get("blocks"), (list, tuple)):
                raise SnapshotError(f'{where}[{at}]: a segment has a list "blocks"; write the snapshot again')
            if segment.get("device", number) != number:
                continue
            address = _whole(f"{where}[{at}]", {"address": 0} | dict(segment), "address")
            for index, block in enumerate(segment["blocks"]):
                place = f"{where}[{at}].blocks[{index}]"
                if not isinstance(block, Mapping):
                    raise SnapshotError(f"{place}: a block is an object; write the snapshot again")
                address = _whole(place, {"address": address} | dict(block), "address")
                if block.get("state") in _ALIVE_STATES:
                    size = _whole(place, block, "requested_size" if "requested_size" in block else "size")
                    self.alive.setdefault(address, size)
                address += _whole(place, block, "size")


class _Reader:
    """Follows addresses through a trace."""

    def __init__(self, where: str, trace: Any, at_end: _Blocks) -> None:
        self._where = where
        actions = {entry.get("action") for entry in trace if isinstance(entry, Mapping)}
        # Recorded without the completions of frees: a free is over when it is requested, but for the last one of what is in use at the end.
        self._requests_end = "free_requested" in actions and not actions & {"free_completed", "free"}
        self._pending: dict[int, int] = {}
        for at, entry in enumerate(trace if self._requests_end else ()):
            if isinstance(entry, Mapping) and entry.get("action") in ("alloc", "free_requested"):
                address = _whole(f"{where}[{at}]", entry, "addr")
                self._pending[address] = at if entry["action"] == "free_requested" and address in at_end.alive else -1
        self._alive: dict[int, int] = {}  # address, storage
        self._storages: list[tuple[int, int]] = []
        self._events: list[list[Any]] = []
        self._names: dict[str, int] = {}
        self._left_out: Counter[str] = Counter()

    def enter(self, at: int, entry: Any) -> None:
        """The next entry of the trace."""
        place = f"{self._where}[{at}]"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("action"), str):
            raise SnapshotError(f'{place}: an entry has a text "action"; write the snapshot again')
        action = entry["action"]
        if action == "alloc":
            address, size = _whole(place, entry, "addr"), _whole(place, entry, "size")
            if address in self._alive:
                # Its free is missing: the recording was stopped for a while.
                self._left_out["frees that were not recorded"] += 1
                self._die(address)
            storage = self._new(address, size, 0)
            name = self._names.setdefault(_name(entry), len(self._names))
            self._events.append([name, [], [storage]])
        elif action in ("free_requested", "free_completed", "free"):
            address = _whole(place, entry, "addr")
            if address not in self._alive:
                self._new(address, _whole(place, entry, "size"), 1)
            if self._requests_end and self._pending[address] != at:
                self._left_out["completions of frees, which were not recorded: a free counts when it is requested"] += 1
                self._die(address)
            elif action != "free_requested":  # another stream may still use it
                self._die(address)
        else:
            self._left_out[action] += 1

    def add_older(self, at_end: _Blocks) -> None:
        """What was alive all the time stands in no trace, but in the state at its end."""
        for address, size in at_end.alive.items():
            if address not in self._alive:
                self._new(address, size, 1)

    def note_overwritten(self, settings: Any, number: int) -> None:
        """PyTorch keeps the last ``max_entries`` events of a device, and says whether older ones were overwritten: for all, or for each device."""

        def setting(name: str) -> Any:
            value = settings.get(name) if isinstance(settings, Mapping) else None
            return (value[number] if number < len(value) else None) if isinstance(value, (list, tuple)) else value

        if setting("trace_alloc_overflowed"):
            entries = setting("trace_alloc_max_entries")
            buffer = f"a buffer of {entries} events" if isinstance(entries, int) else "the buffer of events"
            self._left_out[f"older part of the trace, which {buffer} has overwritten: the peak is that of the rest"] += 1

    def recording(self, name: str, number: int) -> Recording:
        """The string."""
        source = "a memory snapshot of PyTorch: allocations and frees alone, without reads"
        left_out = dict(sorted(self._left_out.items()))
        return Recording(
            name, f"cuda:{number}", list(self._names), self._storages, self._events, source=source, left_out=left_out
        )

    def _new(self, address: int, size: int, before: int) -> int:
        self._storages.append((size, before))
        self._alive[address] = len(self._storages) - 1
        return len(self._storages) - 1

    def _die(self, address: int) -> None:
        self._events.append([-1, [self._alive.pop(address)]])


def _whole(place: str, entry: Mapping[str, Any], field: str) -> int:
    """A whole number from 0 on that fits 64 bits. Some converters to JSON write addresses as text."""
    value = entry.get(field)
    if isinstance(value, str) and field in ("addr", "address"):
        with contextlib.suppress(ValueError):
            value = int(value, 0)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value
    raise SnapshotError(f'{place}: "{field}" is {value!r}, and has to be a whole number of 0 or more; write the snapshot again')


def _name(entry: Mapping[str, Any]) -> str:
    """The innermost line of Python that allocated, if frames were recorded."""
    frames = entry.get("frames")
    for frame in frames if isinstance(frames, (list, tuple)) else ():
        if isinstance(frame, Mapping) and str(frame.get("filename", "")).endswith(".py"):
            return f"alloc {os.path.basename(frame['filename'])}:{frame.get('line')} {frame.get('name')}"
    return "alloc"
