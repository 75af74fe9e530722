"""A plot of records by matplotlib, where it is installed. The page of ``sweep(page=…)`` needs nothing but a browser."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any

from .recorder import write_whole

_Curve = tuple[str, int, str]


def plot(records: Iterable[dict[str, Any]], path: str | os.PathLike[str] | None = None) -> Any:
    """Time as a share of the ideal over memory: a line for each step, number of processes and policy, and what the bound allows.

    Returns the figure of matplotlib; with ``path`` it is written there, too, in the format of the name.

    Raises ``ImportError`` without matplotlib, ``ValueError`` for no records, or others than those of ``whatif`` and ``sweep``.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("openwddm.plot needs matplotlib: install openwddm[plot], or give sweep a page=") from error
    curves = _curves(records)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    limits = set()
    for (workload, processes, policy), rows in curves.items():
        rows.sort(key=lambda row: row["vram_bytes"])
        name = f"{workload}, {policy}" + (f", {processes} processes" if processes > 1 else "")
        memory = [row["vram_bytes"] / (1 << 30) for row in rows]
        axes.plot(memory, [row["share_millionths"] / 1e4 for row in rows], marker="o", markersize=3, label=name)
        known = [row for row in rows if row["share_at_best_millionths"] is not None]
        if known and (workload, processes) not in limits:
            limits.add((workload, processes))
            memory = [row["vram_bytes"] / (1 << 30) for row in known]
            best = [row["share_at_best_millionths"] / 1e4 for row in known]
            axes.plot(memory, best, linestyle="--", color="grey", label=f"{workload}: no memory manager is above")
    axes.set(xlabel="video memory, GiB", ylabel="share of the ideal speed, %", ylim=(0, 105))
    axes.grid(alpha=0.3)
    axes.legend()
    if path is not None:
        drawn = io.BytesIO()
        figure.savefig(drawn, format=os.path.splitext(path)[1][1:] or None)
        write_whole(path, drawn.getvalue())
    return figure


def _curves(records: Iterable[dict[str, Any]]) -> dict[_Curve, list[dict[str, Any]]]:
    """The records by line, or the first that is none of a replay."""
    curves: dict[_Curve, list[dict[str, Any]]] = {}
    for at, row in enumerate(records):
        missing = [
            name
            for name in ("workload", "processes", "policy", "vram_bytes", "share_millionths", "share_at_best_millionths")
            if name not in row
        ]
        if missing:
            raise ValueError(f"record {at} has no {missing[0]!r}: give the records of openwddm.whatif or openwddm.sweep")
        curves.setdefault((row["workload"], row["processes"], row["policy"]), []).append(row)
    if not curves:
        raise ValueError("there are no records: give those of openwddm.whatif or openwddm.sweep")
    return curves
