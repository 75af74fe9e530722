"""Records the reference string of one step of a PyTorch program: what each operation reads and writes, and when storages die.

This file needs PyTorch and nothing else, so a copy of it works alone; it imports no other part of the package. It is no profiler:
it sees operations as PyTorch's dispatcher hands them out, storages by identity (not by address, so that the ``meta`` device works), and
deaths by weak references to storages. What it cannot see, and therefore leaves out: memory that a kernel takes and gives back
inside one operation, kernels that are started past the dispatcher (Triton by hand, extensions that take a ``data_ptr``), work of
threads that the step starts itself (threads of the autograd engine are seen), and replays of CUDA graphs. Compiled functions run
eagerly while they are recorded.

    from recorder import record
    record(lambda: train_step(batch), name="my model").save("step.rrs.json.gz")
"""

from __future__ import annotations

import contextlib
import errno
import gc
import gzip
import json
import os
import stat
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

FORMATS = ("residency-reference-string/1", "residency-reference-string/2")
"""Without times, and with them."""


class RecordingError(ValueError):
    """A step that cannot be recorded as asked; the message says what to do."""


@dataclass(repr=False)
class Recording:
    """One recorded step. ``events`` are ``[name, reads, writes]`` with indices, or ``[-1, [storage]]``: that storage died."""

    model: str
    device: str
    op_names: list[str]
    storages: list[tuple[int, int]]
    """Bytes, and 1 if it was alive before the step."""
    events: list[list[Any]]
    op_ns: list[int] | None = None
    """Nanoseconds of each operation, in order, where they were asked for."""
    torch: str | None = None
    source: str | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    """Calls that are no operation of the string, by their kind."""

    def __repr__(self) -> str:
        """One line, however long the step."""
        return (
            f"Recording({self.model!r} on {self.device}: {self.ops:,} operations, {len(self.storages):,} storages, "
            f"peak {self.peak_bytes:,} bytes)"
        )

    @property
    def ops(self) -> int:
        """How many operations the step has."""
        return sum(1 for event in self.events if event[0] != -1)

    @property
    def persistent_bytes(self) -> int:
        """Bytes that are alive before the step."""
        return sum(size for size, before in self.storages if before)

    @property
    def peak_bytes(self) -> int:
        """Most bytes alive at once; a storage lives from its first use, or from before the step, to its death."""
        live = peak = self.persistent_bytes
        alive = {index for index, (_, before) in enumerate(self.storages) if before}
        for event in self.events:
            if event[0] == -1:
                alive.discard(event[1][0])
                live -= self.storages[event[1][0]][0]
                continue
            for index in {*event[1], *event[2]} - alive:
                alive.add(index)
                live += self.storages[index][0]
            peak = max(peak, live)
        return peak

    def document(self) -> dict[str, Any]:
        """The string as the value that its JSON file holds."""
        head: dict[str, Any] = {"format": FORMATS[self.op_ns is not None], "model": self.model, "device": self.device}
        more: dict[str, Any] = {"torch": self.torch, "source": self.source, "left_out": self.left_out, "op_ns": self.op_ns}
        string: dict[str, Any] = {"op_names": self.op_names, "storages": [list(s) for s in self.storages], "events": self.events}
        return head | {name: value for name, value in more.items() if value} | string

    def to_bytes(self) -> bytes:
        """The JSON text."""
        return json.dumps(self.document(), separators=(",", ":")).encode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the string, gzipped if the name ends in ``.gz``, as ``write_whole`` writes a file."""
        path = os.fspath(path)
        text = self.to_bytes()
        write_whole(path, gzip.compress(text, 9, mtime=0) if path.endswith(".gz") else text)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file whole or not at all. An existing file is replaced by one of its mode and owner. Links are followed; a file of several
    names, or in a folder that takes no other file, is written over; a pipe, a terminal or a character device is written into.

    Raises ``OSError`` for a folder, a socket, a block device, a file that may not be written to, and a write that fails; then an existing file
    is what it was.
    """
    path = os.fspath(path)
    try:
        stands: os.stat_result | None = os.stat(path)
    except FileNotFoundError:
        stands = None
    if stands is not None and not stat.S_ISREG(stands.st_mode):
        if stat.S_ISBLK(stands.st_mode) or stat.S_ISSOCK(stands.st_mode):
            raise OSError(errno.EINVAL, "a block device or a socket takes no file: name another", path)
        with open(path, "wb", buffering=0) as into:
            rest = memoryview(content)
            while rest:
                rest = rest[into.write(rest) or 0 :]
        return
    path = os.path.realpath(path)
    if stands is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "the file may not be written to", path)
    if stands is not None and (stands.st_nlink > 1 or not _write_beside(path, content, stands)):
        with open(path, "r+b") as over:
            os.posix_fallocate(over.fileno(), 0, max(len(content), 1))
            over.write(content)
            over.truncate()
    elif stands is None:
        _write_beside(path, content, None)


def _write_beside(path: str, content: bytes, stands: os.stat_result | None) -> bool:
    """Writes another file, which takes the place of the one at the path; false: the existing one cannot be replaced so."""
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "xb") as file:
            if stands is not None:
                if (os.fstat(file.fileno()).st_uid, os.fstat(file.fileno()).st_gid) != (stands.st_uid, stands.st_gid):
                    os.fchown(file.fileno(), stands.st_uid, stands.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(stands.st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if stands is not None and isinstance(error, PermissionError):
            return False
        raise
    return True


def record(
    step_fn: Callable[[], object],
    *,
    device: str | None = None,
    warmup: int = 1,
    times: bool = False,
    name: str | None = None,
) -> Recording:
    """Runs ``step_fn`` and returns the string of its last run.

    ``device`` is the memory whose storages count (``cpu``, ``cuda``, ``cuda:1``, ``meta``); without it, the one that is no CPU, if the step
    uses one. ``warmup`` runs come first, in which optimizers make their state. ``times`` adds the time of each operation: by
    events of the device, on the CPU by the wall clock. An exception of the step passes through, and nothing stays behind.

    Raises ``RecordingError`` for arguments and steps that make no string.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("openwddm.record needs PyTorch: install torch beside it") from error
    if not callable(step_fn):
        raise RecordingError(f"step_fn is {step_fn!r}, which cannot be called: give a function that runs one step")
    if not isinstance(warmup, int) or warmup < 0:
        raise RecordingError(f"warmup={warmup!r}: give a whole number of runs, 0 or more")
    with contextlib.suppress(RuntimeError, TypeError):
        device = None if device is None else str(torch.device(device))
    _judge_identity(torch)
    recorder = _Recorder(torch)
    with recorder.watching():
        for _ in range(warmup):
            step_fn()
        gc.collect()  # what the runs before left in cycles is none of this step's
        recorder.begin(device, times)
        step_fn()
        recorder.end()
    return recorder.recording(device, name or getattr(step_fn, "__name__", "step").strip("<>"))


def _judge_identity(torch: Any) -> None:
    """Refuses a PyTorch whose storages are not told apart by their Python objects, on which everything here rests."""
    tensor = torch.empty(1, device="meta")
    watched = weakref.ref(tensor.untyped_storage())
    same = watched() is not None and watched() is tensor.untyped_storage()
    del tensor
    if not same or watched() is not None:
        raise RecordingError(
            f"PyTorch {torch.__version__} does not keep one Python object for each storage: record with version 2.1 or newer"
        )


# Overwrite what they mutate without looking at it; so do arguments named out.
_OVERWRITE = frozenset(
    "copy_ zero_ fill_ normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ _foreach_zero_ _foreach_copy_".split()
)
# Write statistics into arguments that their schemas do not mark: their places, and that of the flag that says whether.
_STATISTICS = {
    "native_batch_norm": ((3, 4), 5),
    "cudnn_batch_norm": ((3, 4), 5),
    "miopen_batch_norm": ((3, 4), 5),
    "batch_norm_update_stats": ((1, 2), None),
    "batch_norm_gather_stats": ((3, 4), None),
    "batch_norm_gather_stats_with_counts": ((3, 4), None),
}
_ALLOCATE = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split())
_NESTED_COMPOSITE = "CompositeImplicitAutogradNestedTensor"
_TOUCH_NOTHING = frozenset(["record_stream"])
_READ_FOR_AN_ANSWER = frozenset(["_assert_async"])


class _Traits:
    """What the schema of an operation says, found out once."""

    def __init__(self, torch: Any, func: Any) -> None:
        schema = func._schema
        self.name = str(func)
        self.base = schema.name.split("::")[-1]
        written = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        self.written = {a.name for a in written}
        self.overwritten = self.written if self.base in _OVERWRITE else {a.name for a in written if a.is_out}
        self.names = [a.name for a in schema.arguments]
        # Collectives and operations of others mutate by name, where the schema does not say it.
        self.unmarked = not written and self.base.endswith("_") and not self.base.endswith("__")
        self.allocates = self.base in _ALLOCATE
        self.redescribes = torch.Tag.inplace_view in func.tags or self.base in _TOUCH_NOTHING
        own = func.namespace in ("aten", "prims")
        self.answers = not own or torch.Tag.data_dependent_output in func.tags or self.base in _READ_FOR_AN_ANSWER
        self.statistics = _STATISTICS.get(self.base)
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        composite = has(func.name(), "CompositeImplicitAutograd")
        self.composite = composite and not any(has(func.name(), key) for key in ("CPU", "CUDA", "Meta"))
        # What is a composite of others for plain tensors may be none, or another one, for nested tensors of the strided layout.
        self.nested = any(has(func.name(), key) for key in ("NestedTensorCPU", "NestedTensorCUDA", "NestedTensorMeta"))
        self.nested_composite = has(func.name(), _NESTED_COMPOSITE)


class _Seen(weakref.ref):  # type: ignore[type-arg]
    """A storage by weak reference, with its number and the size that it had when it was last seen."""

    __slots__ = ("key", "number", "size")
    key: int
    number: int
    size: int


class _Recorder:
    """The account. ``_lock`` guards it: on accelerators the autograd engine calls from several threads. Deaths come at any moment, also
    inside the lock, so they go into a queue that needs none, and are entered before and after each operation."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._lock = threading.RLock()
        self._live: dict[int, _Seen] = {}
        self._dead: deque[_Seen] = deque()
        self._traits: dict[Any, _Traits] = {}
        self._storages: list[tuple[int, bool, str]] = []  # size, alive before, device
        self._events: list[tuple[str | None, Any, Any, Any]] = []  # name, reads, writes, time; None, number: a death
        self._left_out: Counter[str] = Counter()
        self._clock: Callable[[], Any] | None = None
        self._timed_device: str | None = None
        self._on = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Sees every operation of this thread, and of the threads of the autograd engine that work for it, until it ends."""
        torch = self._torch
        resize, recorder = torch.UntypedStorage.resize_, self

        def watched_resize(storage: Any, *args: Any, **kwargs: Any) -> Any:
            # Not an operation: the dispatcher does not see it.
            with recorder._lock:
                before = recorder._number(storage, born=False)
                result = resize(storage, *args, **kwargs)
                recorder._moved(before, recorder._number(storage, born=False))
            return result

        eager = getattr(torch.compiler, "set_stance", None)
        with eager("force_eager") if eager else contextlib.nullcontext():
            torch.UntypedStorage.resize_ = watched_resize
            try:
                with _mode(torch, self):
                    yield
            finally:
                torch.UntypedStorage.resize_ = resize
                self._on = False
                self._live.clear()  # no reference calls back any more

    def begin(self, device: str | None, times: bool) -> None:
        """The step begins: what is alive now was alive before it."""
        with self._lock:
            self._bury()
            self._storages = [(size, True, where) for size, _, where in self._storages]
            if times:
                if device is None or self._storages:
                    device = self._device((where for _, _, where in self._storages), device)
                self._timed_device, self._clock = device, _clock(self._torch, device)
            self._left_out.clear()
            self._on = True

    def end(self) -> None:
        """The step has ended."""
        with self._lock:
            self._bury()
            self._on = False

    def dispatch(self, mode: Any, func: Any, types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of the dispatcher."""
        torch = self._torch
        if not isinstance(func, torch._ops.OpOverload):
            return func(*_entering(mode, args), **_entering(mode, kwargs))
        if func.namespace == "prim":
            return func(*args, **kwargs)  # a question about a tensor's description; C++ asks it and dies of exceptions
        if any(self._wraps(t) for t in types):
            return NotImplemented  # the subclass's own operations on what it wraps come here again
        with self._lock, torch._C.DisableTorchFunctionSubclass():
            traits = self._traits.get(func) or self._traits.setdefault(func, _Traits(torch, func))
            nested = traits.composite and self._has_nested((args, kwargs))
            composite = traits.composite and not (nested and traits.nested)
            if not composite:
                self._bury()
                inputs, overwritten = self._arguments(traits, args, kwargs)
                started = self._clock() if self._clock else None
        if composite:
            # Comes undivided in inference mode, and is divided here as autograd divides it elsewhere.
            with mode:
                if nested and traits.nested_composite:
                    return func._op_dk(getattr(torch._C.DispatchKey, _NESTED_COMPOSITE), *args, **kwargs)
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
            raise RecordingError(f"{traits.name} does not say of which operations it consists: record without inference_mode")
        result = func(*args, **kwargs)
        with self._lock, torch._C.DisableTorchFunctionSubclass():
            took = (started, self._clock()) if self._clock and started is not None else None
            self._enter(traits, args, (inputs, overwritten), result, took)
        return result

    def _wraps(self, kind: Any) -> bool:
        """Whether a class of tensors carries out operations itself, on other tensors. Those of ``FakeTensorMode`` have storages."""
        plain = kind.__torch_dispatch__ == self._torch._C._disabled_torch_dispatch_impl
        return not plain and kind.__module__ != "torch._subclasses.fake_tensor"

    def _arguments(self, traits: _Traits, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], set[int]]:
        """The storages that go in, as ``(storage, number, written, read)``, and the numbers of those that are overwritten whole."""
        inputs = []
        for name, value in [*zip(traits.names, args), *kwargs.items()]:
            written = name in traits.written
            for tensor in self._tensors(value):
                for storage in self._parts(tensor):
                    fresh = traits.base == "lift_fresh" and storage._cdata not in self._live
                    number = self._number(storage, born=fresh)
                    whole = name in traits.overwritten and tensor.numel() * tensor.element_size() == storage.nbytes()
                    inputs.append((storage, number, written, not (written and whole)))
        if traits.statistics is not None:
            places, flag = traits.statistics
            if flag is None or args[flag]:
                for tensor in self._tensors([args[at] for at in places if at < len(args)]):
                    inputs.extend((s, self._number(s, born=False), True, True) for s in self._parts(tensor))
        read = {number for _, number, _, reads in inputs if reads}
        return inputs, {number for _, number, _, _ in inputs} - read

    def _enter(self, traits: _Traits, args: Any, before: tuple[list[Any], set[int]], result: Any, took: Any) -> None:
        """Enters an operation that has run."""
        inputs, overwritten = before
        entered = {number for _, number, _, _ in inputs}
        written = {number for _, number, writes, _ in inputs if writes}
        gone = []
        for storage, number, _, _ in inputs:
            now = self._number(storage, born=True)
            if now != number and number not in gone:  # the operation gave it another size
                gone.append(number)
                written.discard(number)
                if self._storages[number][0] or not traits.redescribes:
                    written.add(now)
        outputs = {self._number(s, born=True) for t in self._tensors(result) for s in self._parts(t)}
        known = entered | {self._live[s._cdata].number for s, _, _, _ in inputs if s._cdata in self._live}
        if traits.unmarked:
            written |= (outputs & known) or (set() if outputs else entered)
        made = outputs - known
        name = traits.name
        if traits.allocates:
            self._left_out["allocations"] += self._on
        elif traits.redescribes and not gone or not (written or made) and (outputs or not traits.answers):
            self._left_out["views and questions"] += self._on
        elif self._on and (entered or made or written):
            self._events.append((name, entered - overwritten, made | written, took))
        for number in gone:
            self._die(number)
        self._bury()

    def _moved(self, before: int, now: int) -> None:
        """A storage was given another size outside of any operation: PyTorch moves the content, if there is any and it fits any."""
        if before != now:
            if self._on and self._storages[before][0] and self._storages[now][0]:
                self._events.append(("UntypedStorage.resize_", {before}, {now}, None))
            self._die(before)

    def _number(self, storage: Any, born: bool) -> int:
        """The storage's number; a new one if it was never seen, or has another size than before."""
        key, size = storage._cdata, storage.nbytes()
        seen = self._live.get(key)
        if seen is not None and seen() is storage:
            if seen.size == size:
                return seen.number
            born = True
        elif seen is not None:
            self._bury()
        number = len(self._storages)
        self._storages.append((size, not (born and self._on), str(storage.device)))
        if seen is not None and seen() is storage:
            seen.number, seen.size = number, size
        else:
            new = _Seen(storage, self._dead.append)
            new.key, new.number, new.size = key, number, size
            self._live[key] = new
        return number

    def _bury(self) -> None:
        """Enters the deaths in the queue."""
        while self._dead:
            seen = self._dead.popleft()
            if self._live.get(seen.key) is seen:
                del self._live[seen.key]
            self._die(seen.number)

    def _die(self, number: int) -> None:
        if self._on:
            self._events.append((None, number, None, None))

    def _has_nested(self, value: Any) -> bool:
        """Whether there are nested tensors of the strided layout; those of the jagged one are a class of their own."""
        return any(tensor.is_nested and tensor.layout is self._torch.strided for tensor in self._tensors(value))

    def _tensors(self, value: Any) -> Iterable[Any]:
        if isinstance(value, self._torch.Tensor):
            return (value,)
        if isinstance(value, (list, tuple, dict)):
            return [x for x in self._torch.utils._pytree.tree_leaves(value) if isinstance(x, self._torch.Tensor)]
        return ()

    def _parts(self, tensor: Any) -> list[Any]:
        """The storages of a tensor: of a sparse one those of its indices and values."""
        torch = self._torch
        if tensor.layout is torch.sparse_coo:
            parts = [tensor._indices(), tensor._values()]
        elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
        else:
            parts = [tensor]
        try:
            return [part.untyped_storage() for part in parts]
        except (NotImplementedError, RuntimeError):
            self._left_out["tensors without a storage"] += self._on
            return []

    def _device(self, used: Iterable[str], asked: str | None = None) -> str:
        """The device whose storages count."""
        used = sorted(set(used))
        if asked is not None:
            same = [where for where in used if where == asked or where.split(":")[0] == asked]
        else:
            same = [where for where in used if where != "cpu"] or used
        if len(same) == 1:
            return same[0]
        if not used:
            raise RecordingError("no operation of PyTorch ran in this thread: give a function that runs the step itself, or device= or a warmup")
        if not same:
            raise RecordingError(f"device={asked!r}: the step uses {', '.join(used)}: name one of them")
        raise RecordingError(f"the step uses several devices, {', '.join(same)}: name one with device=")

    def recording(self, device: str | None, name: str) -> Recording:
        """What was recorded, of the storages of one device."""
        torch = self._torch
        touched = {i for op, reads, writes, _ in self._events if op is not None for i in reads | writes}
        used = [self._storages[i][2] for i in touched if self._storages[i][0]]
        device = self._timed_device if self._timed_device and device is None else self._device(used, device)
        counts = [size > 0 and where == device for size, _, where in self._storages]
        numbers = {old: new for new, old in enumerate(sorted(i for i in touched if counts[i]))}
        names: dict[str, int] = {}
        events: list[list[Any]] = []
        took = []
        for op, reads, writes, time_ in self._events:
            if op is None:
                events.extend([[-1, [numbers[reads]]]] if reads in numbers else [])
                continue
            sets = [sorted(numbers[i] for i in part if i in numbers) for part in (reads, writes)]
            if any(sets):
                events.append([names.setdefault(op, len(names)), *sets])
                took.append(time_)
        if not took:
            raise RecordingError(f"device={device!r}: no operation of the step uses a storage there")
        storages = [(self._storages[i][0], int(self._storages[i][1])) for i in numbers]
        op_ns = None if self._clock is None else _nanoseconds(torch, device, took)
        source = None if op_ns is None else f"openwddm.record, PyTorch {torch.__version__}, {device}"
        left_out = {kind: count for kind, count in self._left_out.items() if count}
        return Recording(name, device, list(names), storages, events, op_ns, str(torch.__version__), source, left_out)


def _mode(torch: Any, recorder: _Recorder) -> Any:
    """The mode that hands every call of the dispatcher to the recorder; its class is made here, as its base comes with PyTorch."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return recorder.dispatch(self, func, types, args, kwargs or {})

    own = {"supports_higher_order_operators": True, "__torch_dispatch__": dispatch}
    return type("Watch", (TorchDispatchMode,), own)()


def _entering(mode: Any, value: Any) -> Any:
    """The arguments of an operator of higher order: functions among them are watched, too."""
    if isinstance(value, tuple):
        return tuple(_entering(mode, part) for part in value)
    if isinstance(value, list):
        return [_entering(mode, part) for part in value]
    if isinstance(value, dict):
        return {name: _entering(mode, part) for name, part in value.items()}
    if not callable(value) or isinstance(value, type):
        return value

    def watched(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return value(*args, **kwargs)

    return watched


def _clock(torch: Any, device: str) -> Callable[[], Any]:
    """Takes the time: a number on the CPU, elsewhere an event in the stream of the moment."""
    kind = device.split(":")[0]
    if kind == "cpu":
        return time.perf_counter_ns
    if kind == "meta":
        raise RecordingError("times=True on the meta device: nothing is computed there; record on cpu or cuda, or without times")
    module = torch.get_device_module(kind)

    def mark() -> Any:
        event = module.Event(enable_timing=True)
        event.record(module.current_stream())
        return event

    return mark


def _nanoseconds(torch: Any, device: str, took: list[Any]) -> list[int]:
    """The times of operations; a move of content between them has none."""
    if device == "cpu":
        return [0 if pair is None else pair[1] - pair[0] for pair in took]
    torch.get_device_module(device.split(":")[0]).synchronize(device)
    return [0 if pair is None else max(0, round(pair[0].elapsed_time(pair[1]) * 1e6)) for pair in took]
