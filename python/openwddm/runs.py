"""Replays of a recorded step at any memory size, in virtual time: what ``openwddm run --virtual-time``, ``bound`` and ``sweep`` compute."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from . import _native
from .recorder import Recording

Step: TypeAlias = "str | os.PathLike[str] | Recording | Mapping[str, Any] | bytes"
"""A recorded step: the path of a file, what ``record`` returned, or the JSON document as a value or text."""
Size: TypeAlias = "int | float | str"
"""Memory: a whole number of bytes, a share of the step's peak as a float, or words of the command line: ``60%``, ``6GiB``, ``0.3..1.0``."""
Record: TypeAlias = "dict[str, Any]"


class Lost(_native.KernelError):
    """An output of a sweep could not be written: the message names each. All else is there; the records are in ``records``."""

    def __init__(self, message: str, records: list[Record]) -> None:
        super().__init__(message)
        self.records = records


class LeftOut(UserWarning):
    """A memory size that is too small for a step: the sweep has no record of it."""


def whatif(
    string: Step,
    vram: Size | Iterable[Size] = 0.6,
    *,
    policy: str | Iterable[str] | None = None,
    processes: int = 1,
    steps: int | None = None,
    adapter: str | None = None,
    link: str | None = None,
    time_limit: int | None = None,
) -> list[Record]:
    """One record for each memory size, in their order: how long the steps take, what moves, and the least that any memory manager moves.
    Sizes that are given twice, or mean the same bytes, have a record each. ``policy`` is the command line's if it is left out; several
    policies give a record each for the first size, then for the next.

    ``link`` is the bus to system memory, each way and both at once (``"15.754GB/s"``); ``time_limit`` seconds for each bound, 0 for none.

    Raises ``InputError`` for what cannot be run, a size that is too small included; ``KernelError`` when a run fails.
    """
    names = None if policy is None else _names(policy)
    found = _run([string], vram, names, processes, steps, adapter, link, None, time_limit, None, None, 0.95)
    for size in found["left_out"]:
        raise _native.InputError(f"vram={size['asked_bytes']}: {size['problem']}")
    records: dict[int, list[Record]] = {}
    for row in found["rows"]:
        records.setdefault(row["asked_bytes"], []).append(row)
    return [dict(row) for size in found["asked_bytes"] for row in records[size]]


def sweep(
    strings: Step | list[Step] | tuple[Step, ...],
    vram: Size | Iterable[Size] = "0.3..1.0",
    *,
    policy: str | Iterable[str] | None = None,
    processes: int | Iterable[int] = 1,
    steps: int | None = None,
    adapter: str | None = None,
    link: str | None = None,
    jobs: int | None = None,
    time_limit: int | None = None,
    rows: str | os.PathLike[str] | None = None,
    page: str | os.PathLike[str] | None = None,
    target: float = 0.95,
) -> list[Record]:
    """One record for each step, number of processes, policy and memory size, over all cores; without ``policy`` under each policy.

    ``rows`` is a folder that keeps a Parquet file for each run, from which the same sweep goes on; ``page`` a file for the picture, with the
    memory that a share ``target`` of the ideal speed needs. Sizes that are too small for a step are left out with a warning.

    Raises ``InputError`` for what cannot be run, ``KernelError`` when a run fails; rows that were finished stay in the folder. Where ``rows`` or
    ``page`` finds no room, the sweep goes on to its end and raises ``Lost``, which has the records.
    """
    several = list(strings) if isinstance(strings, (list, tuple)) else [strings]
    found = _run(several, vram, _names(policy), processes, steps, adapter, link, jobs, time_limit, rows, page, target)
    for size in found["left_out"]:
        warnings.warn(f"{size['workload']} left out at {size['asked_bytes']} bytes: {size['problem']}", LeftOut, stacklevel=2)
    if found["lost"]:
        raise Lost("; ".join(found["lost"]), found["rows"])
    return found["rows"]


def _names(policy: str | Iterable[str] | None) -> list[str]:
    return [policy] if isinstance(policy, str) else list(policy or ())


def _run(
    steps_of: list[Step],
    vram: Size | Iterable[Size],
    policies: list[str] | None,
    processes: int | Iterable[int],
    steps: int | None,
    adapter: str | None,
    link: str | None,
    jobs: int | None,
    time_limit: int | None,
    rows: str | os.PathLike[str] | None,
    page: str | os.PathLike[str] | None,
    target: float,
) -> dict[str, Any]:
    several = isinstance(vram, Iterable) and not isinstance(vram, (str, bytes))
    sizes = [_size(size) for size in (vram if several else [vram])]  # type: ignore[union-attr, arg-type]
    if not sizes:
        raise _native.InputError("vram: no memory size; give one, such as 0.6 of the peak or 6GiB")
    if not 0 < target <= 1:
        raise _native.InputError(f"target={target!r}: give a share of the ideal speed above 0 and up to 1")
    counts = [processes] if isinstance(processes, int) else list(processes)
    text = _native.sweep(
        [_workload(step) for step in steps_of],
        sizes=sizes,
        policies=policies,
        processes=[_whole("processes", count) for count in counts],
        steps=None if steps is None else _whole("steps", steps),
        adapter=adapter,
        link=link,
        jobs=None if jobs is None else _whole("jobs", jobs),
        time_limit=None if time_limit is None else _whole("time_limit", time_limit),
        rows=rows,
        page=page,
        target_millionths=round(target * 1_000_000),
    )
    found: dict[str, Any] = json.loads(text)
    return found


def _workload(step: Step) -> str | os.PathLike[str] | tuple[str, bytes]:
    if isinstance(step, Recording):
        return step.model, step.to_bytes()
    if isinstance(step, Mapping):
        return "string", json.dumps(step).encode()
    if isinstance(step, (bytes, bytearray)):
        return "string", bytes(step)
    if isinstance(step, (str, os.PathLike)):
        return step
    raise _native.InputError(
        f"string={step!r}: give the path of a recorded step, or what openwddm.record or openwddm.from_snapshot returned"
    )


def _size(size: Size) -> str:
    """A size in the words of the command line, which judges it."""
    if isinstance(size, bool) or not isinstance(size, (int, float, str)):
        raise _native.InputError(f"vram={size!r}: give bytes as a whole number, a share of the peak such as 0.6, or words such as 6GiB")
    if isinstance(size, float):
        return f"{size * 100:.4f}%"
    return size if isinstance(size, str) else f"{size}B"


def _whole(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32:
        return value
    raise _native.InputError(f"{name}={value!r}: give a whole number from 0 to {(1 << 32) - 1}")
