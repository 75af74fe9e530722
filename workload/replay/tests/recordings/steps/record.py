"""Records four training steps of a small network as PyTorch's execution trace, and the exact peak of one to four such steps.

    python record.py FOLDER adam sgd ...              one process: optimizers, compiled steps
    torchrun --nproc-per-node 2 record.py FOLDER ddp  two processes with gloo; the first one writes

Each recording becomes FOLDER/NAME.json.gz, and FOLDER/peaks.json has the peaks of all. A range ``step N`` opens each step, so that
a reader can cut a recording of fewer steps. A trace keeps the fields that the importer reads. Peaks come from
``openwddm.record``; compiled steps, which that function runs eagerly, are measured by the profiler's count of allocated bytes.
Needs PyTorch; the recordings here were made with version 2.15 on a CPU.
"""

import gzip
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function

sys.path.insert(0, str(Path(__file__).parents[5] / "python/openwddm"))
import recorder  # noqa: E402

STEPS, WARMUP = 4, 2
Step = Callable[[], object]


class Network(nn.Module):
    """Residual layers and a head."""

    def __init__(self, layers: int, bias: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256, bias) for _ in range(layers))
        self.head = nn.Linear(256, 64, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.gelu(layer(x)) + x
        return self.head(x)


class Lion(optim.Optimizer):
    """An optimizer written by hand: the sign of a moving average."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 1e-4})

    @torch.no_grad()
    def step(self) -> None:
        for p in self.param_groups[0]["params"]:
            average = self.state[p].setdefault("average", torch.zeros_like(p))
            p.add_((average * 0.9 + p.grad * 0.1).sign(), alpha=-1e-4)
            average.mul_(0.99).add_(p.grad, alpha=0.01)


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, 1e-2),
    "sgd_momentum": lambda p: optim.SGD(p, 1e-2, momentum=0.9),
    "sgd_clipped": lambda p: optim.SGD(p, 1e-2),
    "adam": optim.Adam,
    "adam_foreach": lambda p: optim.Adam(p, foreach=True),
    "adam_fused": lambda p: optim.Adam(p, fused=True),
    "adamw": optim.AdamW,
    "adagrad": optim.Adagrad,
    "adadelta": optim.Adadelta,
    "adamax": optim.Adamax,
    "nadam": optim.NAdam,
    "radam": optim.RAdam,
    "rmsprop": optim.RMSprop,
    "rprop": optim.Rprop,
    "asgd": optim.ASGD,
    "adafactor": optim.Adafactor,
    "muon": optim.Muon,
    "lbfgs": lambda p: optim.LBFGS(p, max_iter=3, history_size=3),
    "lion": Lion,
}
COMPILED = {"compiled_aot_eager": "aot_eager", "compiled_inductor": "inductor", "compiled_inductor_wide": "inductor"}


def data(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(batch, 256), torch.randint(64, (batch,))


def by_hand(clears_early: bool) -> Step:
    """An update without an optimizer, which clears gradients behind it or before the next pass."""
    network, (x, y) = Network(1, bias=False), data(64)

    def step() -> None:
        if not clears_early:
            network.zero_grad()
        F.cross_entropy(network(x), y).backward()
        with torch.no_grad():
            for p in network.parameters():
                p -= 1e-2 * p.grad
                if clears_early:
                    p.grad = None

    return step


def with_optimizer(name: str, network: nn.Module, batch: int = 64) -> Step:
    x, y = data(batch)
    parameters = list(network.parameters())
    optimizer = OPTIMIZERS[name](parameters)

    def backward() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), y)
        loss.backward()
        if name == "sgd_clipped":
            nn.utils.clip_grad_norm_(parameters, 0.1)
        return loss

    def step() -> None:
        backward()
        optimizer.step()

    return (lambda: optimizer.step(backward)) if name == "lbfgs" else step


def made(name: str) -> Step:
    """The step of a recording's name, with all its state but no step run."""
    torch.manual_seed(0)
    if name.startswith("hand"):
        return by_hand(clears_early=name == "hand")
    if name in COMPILED:
        torch._dynamo.reset()
        wide = name.endswith("wide")
        network = torch.compile(Network(2 if wide else 1, bias=False), backend=COMPILED[name])
        return with_optimizer("sgd" if wide else "adam", network, 1024 if wide else 64)
    if name.startswith("ddp"):
        view = name == "ddp_view"
        return with_optimizer("adamw", nn.parallel.DistributedDataParallel(Network(1, bias=True), gradient_as_bucket_view=view))
    if name.startswith("fsdp"):
        from torch.distributed.fsdp import fully_shard

        network = Network(2, bias=True)
        for layer in network.layers:
            fully_shard(layer, reshard_after_forward=name != "fsdp_kept")
        return with_optimizer("adamw", fully_shard(network))
    return with_optimizer(name, Network(1, bias=False))


def warm(name: str) -> Step:
    step = made(name)
    for _ in range(WARMUP):
        step()
    return step


def traced(step: Step) -> bytes:
    """The recorder's text of four steps, without what the importer does not read."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trace.json"
        observer = ExecutionTraceObserver()
        observer.register_callback(path)
        observer.start()
        for number in range(STEPS):
            with record_function(f"step {number}"):
                pass
            step()
        observer.stop()
        observer.unregister_callback()
        document = json.loads(Path(path).read_bytes())
    nodes = []
    for node in sorted(document["nodes"], key=lambda node: node["id"]):
        attributes = [a for a in node["attrs"] if a["name"] in ("op_schema", "kernel_backend") and a["value"]]
        nodes.append({key: node[key] for key in ("id", "name", "ctrl_deps", "inputs", "outputs")} | {"attrs": attributes})
    return json.dumps({"schema": document["schema"], "nodes": nodes}, separators=(",", ":")).encode()


def exact(step: Step, steps: int) -> int:
    """The peak by our own recorder, of a step that has run before."""
    recording = recorder.record(lambda: [step() for _ in range(steps)], warmup=0)
    # The recorder sees no other threads: what one of gloo's makes looks as if it had been there before the steps.
    dead = {event[1][0] for event in recording.events if event[0] == -1}
    recording.storages = [(size, int(before and at not in dead)) for at, (size, before) in enumerate(recording.storages)]
    return recording.peak_bytes


def measured(step: Step, steps: int, persistent: int) -> int:
    """The peak by the allocator's own count, above what was there before. Records of one moment come in no order, so runs vote."""

    def once() -> int:
        step()  # what a measured run frees first was not made in a measured run, so that the count leaves it out
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            for _ in range(steps):
                step()
        with tempfile.TemporaryDirectory() as folder:
            profiler.export_chrome_trace(f"{folder}/trace.json")
            events = json.loads(Path(f"{folder}/trace.json").read_bytes())["traceEvents"]
        memory = [event["args"] for event in sorted(events, key=lambda e: e.get("ts", 0)) if event.get("name") == "[memory]"]
        return max(m["Total Allocated"] for m in memory) - memory[0]["Total Allocated"] + memory[0]["Bytes"]

    return persistent + statistics.mode(once() for _ in range(5))


def persistent_bytes(name: str) -> int:
    """Parameters, two moments and a counter each under Adam, and the data of a compiled step."""
    wide = name.endswith("wide")
    sizes = [p.numel() * 4 for p in Network(2 if wide else 1, bias=False).parameters()]
    batch = 1024 if wide else 64
    state = 0 if wide else 2 * sum(sizes) + 4 * len(sizes)
    return sum(sizes) + state + batch * (256 * 4 + 8)


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    rank = int(os.environ.get("RANK", "0"))
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    for name in names:
        text = traced(warm(name))
        if name in COMPILED:
            step, persistent = warm(name), persistent_bytes(name)
            peaks = [measured(step, steps, persistent) for steps in range(1, STEPS + 1)]
        else:
            peaks = [exact(warm(name), steps) for steps in range(1, STEPS + 1)]
        if rank == 0:
            (folder / f"{name}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
            path = folder / "peaks.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            rows = sorted((known | {name: peaks}).items())
            path.write_text("{\n" + ",\n".join(f'  "{row}": {values}' for row, values in rows) + "\n}\n")
            print(name, peaks, flush=True)
    if "RANK" in os.environ:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
