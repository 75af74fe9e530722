"""``python -m openwddm snapshot SNAPSHOT STRING``: a memory snapshot of PyTorch as a string that ``openwddm run`` reads."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .snapshot import SnapshotError, from_snapshot


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command; the exit code is 2 for bad input, as that of ``openwddm``."""
    parser = argparse.ArgumentParser(prog="python -m openwddm", description=__doc__)
    commands = parser.add_subparsers(required=True)
    snapshot = commands.add_parser("snapshot", help="read a memory snapshot, write its string")
    snapshot.add_argument("snapshot", help="a file of torch.cuda.memory._dump_snapshot, or the same as JSON")
    snapshot.add_argument("string", help="the file to write, gzipped if its name ends in .gz")
    snapshot.add_argument("--device", type=int, help="the number of the GPU, where several have allocations")
    asked = parser.parse_args(words)
    try:
        recording = from_snapshot(asked.snapshot, device=asked.device)
        recording.save(asked.string)
    except (SnapshotError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(
        f"{recording.model}: {recording.ops:,} allocations, peak {recording.peak_bytes:,} bytes, {recording.persistent_bytes:,} alive before; "
        f"reads are not in a snapshot: what leaves memory never comes back\n"
        + "".join(f"{count:,} {what}\n" for what, count in recording.left_out.items() if " " in what)
        + f"string: {asked.string}\n"
        f"try: openwddm run {asked.string} --virtual-time --steps 1 --vram 60%"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
