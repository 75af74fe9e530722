"""How slow is it in this much memory, and what is the least possible?

    step = openwddm.record(lambda: train_step(batch))     # any PyTorch step, on cpu or meta; cuda is not tried yet
    openwddm.whatif(step, vram=0.6)                        # one record for each size: time, bytes, the bound
    rows = openwddm.sweep(step, vram="0.3..1.0")           # pandas.DataFrame(rows), polars.DataFrame(rows)
    openwddm.plot(rows, "sweep.png")

Records are plain dictionaries with the columns that docs/sweep.md explains. Nothing here needs PyTorch but ``record``.
"""

from ._native import InputError, KernelError, __version__
from .picture import plot
from .recorder import Recording, RecordingError, record
from .runs import LeftOut, Lost, sweep, whatif
from .snapshot import SnapshotError, from_snapshot

__all__ = [
    "InputError",
    "KernelError",
    "LeftOut",
    "Lost",
    "Recording",
    "RecordingError",
    "SnapshotError",
    "__version__",
    "from_snapshot",
    "plot",
    "record",
    "sweep",
    "whatif",
]
