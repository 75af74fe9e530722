"""Two models recorded anew, beside strings of the same models that another recorder wrote: equal but for what that one could not see."""

import collections
import gzip
import json
import os
import pathlib
import sys
import unittest

from alone import load

recorder = load()
import torch  # noqa: E402

FOLDER = pathlib.Path(os.environ.get("OPENWDDM_WORKLOADS", pathlib.Path(__file__).parents[3] / "shared" / "workloads"))
if not (FOLDER / "models.py").exists():
    raise unittest.SkipTest(f"there are no recorded models in {FOLDER}")
sys.path.append(str(FOLDER))
import models  # noqa: E402


def lines(string):
    """Operations by name and sizes, and deaths by size."""
    sizes = [size for size, _ in string["storages"]]
    told = []
    for event in string["events"]:
        sets = [[sizes[i] for i in part] for part in event[1:]]
        told.append(("death" if event[0] == -1 else string["op_names"][event[0]], *sets))
    return told


class Models(unittest.TestCase):
    def both(self, model, device, file):
        torch.manual_seed(0)
        torch.set_default_device(device)
        try:
            _, step = models.build(model)
            ours = recorder.record(step, device=device, name=model)
        finally:
            torch.set_default_device(None)
        with gzip.open(FOLDER / file) as text:
            theirs = json.load(text)
        storages = [tuple(storage) for storage in theirs["storages"]]
        other = recorder.Recording(model, device, theirs["op_names"], storages, theirs["events"])
        self.assertEqual((ours.peak_bytes, ours.persistent_bytes), (other.peak_bytes, other.persistent_bytes))
        return ours.document(), theirs

    def test_on_meta_they_are_equal(self):
        for model, file in (("gpt2m", "gpt2m.meta.rrs.json.gz"), ("gpt2xl-infer", "gpt2xl-infer.meta.rrs.json.gz")):
            with self.subTest(model):
                ours, theirs = self.both(model, "meta", file)
                for part in ("storages", "op_names", "events"):
                    self.assertEqual(ours[part], theirs[part], part)

    def test_on_the_cpu_a_transformer_also_reads_its_step_counters(self):
        ours, theirs = self.both("gpt", "cpu", "gpt.cpu.rrs.json.gz")
        read = ("aten._local_scalar_dense.default", [4], [])
        self.assertEqual(lines(ours).count(read), 77)
        self.assertEqual([line for line in lines(ours) if line != read], lines(theirs))

    def test_on_the_cpu_a_convolutional_net_also_writes_its_statistics(self):
        ours, theirs = self.both("res", "cpu", "res.cpu.rrs.json.gz")
        read, empty = ("aten._local_scalar_dense.default", [4], []), ("aten.empty.memory_format", [], [0])
        ours, theirs = [line for line in lines(ours) if line != read], [line for line in lines(theirs) if line != empty]
        # Storages without bytes, which the other recorder kept.
        theirs = [line for line in theirs if line != ("death", [0])]
        differing = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
        self.assertEqual(collections.Counter(one[0] for one, _ in differing), {"aten.native_batch_norm.default": 20})
        for one, other in differing:
            self.assertEqual((one[1], sorted(one[2])), (other[1], sorted(other[2] + [min(other[2])] * 2)))


if __name__ == "__main__":
    unittest.main()
