import os
from collections.abc import Sequence

__version__: str

class InputError(ValueError):
    """A workload, a size or another argument that cannot be used: the message names the value, the place in it, and what to do."""

class KernelError(RuntimeError):
    """The run itself failed, or its result found no room."""

def sweep(
    workloads: Sequence[str | os.PathLike[str] | tuple[str, bytes]],
    *,
    sizes: Sequence[str],
    policies: Sequence[str] | None = None,
    processes: Sequence[int] | None = None,
    steps: int | None = None,
    adapter: str | None = None,
    link: str | None = None,
    jobs: int | None = None,
    time_limit: int | None = None,
    rows: str | os.PathLike[str] | None = None,
    page: str | os.PathLike[str] | None = None,
    target_millionths: int = ...,
) -> str:
    """The rows of all runs as JSON: ``{"rows": [...], "asked_bytes": [...], "left_out": [...], "lost": [...]}``; ``asked_bytes`` are the sizes for the
    first workload, in order. Policies: None is that of a single run, none is all."""
