"""Memory snapshots become strings; what cannot is refused with its place. Needs neither PyTorch nor the extension."""

import contextlib
import gzip
import io
import json
import os
import pickle
import tempfile
import unittest

from openwddm import SnapshotError, from_snapshot
from openwddm.__main__ import main


def entry(action, addr, size, line=1):
    frames = [{"filename": "/lib/libtorch.so", "line": 0, "name": "c10"}, {"filename": "/src/model.py", "line": line, "name": "forward"}]
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1, "frames": frames}


TRACE = [
    {"action": "segment_alloc", "addr": 4096, "size": 1 << 20, "stream": 0, "frames": []},
    entry("alloc", 4096, 1000, 3),
    entry("alloc", 8192, 2000, 4),
    entry("free_requested", 4096, 1000),
    entry("free_completed", 4096, 1000),
    entry("alloc", 4096, 500, 3),
    entry("free_requested", 65536, 3000),
    entry("free_completed", 65536, 3000),
]
BLOCKS = [
    {"size": 4096, "requested_size": 500, "state": "active_allocated"},
    {"size": 4096, "requested_size": 2000, "state": "active_allocated"},
    {"size": 8192, "requested_size": 7000, "state": "active_allocated"},
    {"size": 512, "requested_size": 0, "state": "inactive"},
]
SNAPSHOT = {"segments": [{"device": 0, "address": 4096, "total_size": 1 << 20, "blocks": BLOCKS}], "device_traces": [TRACE, []]}


class Reading(unittest.TestCase):
    def test_allocations_are_written_and_frees_are_deaths(self):
        string = from_snapshot(SNAPSHOT)
        self.assertEqual(string.op_names, ["alloc model.py:3 forward", "alloc model.py:4 forward"])
        # The storage freed unseen was alive before, and so was the one that no entry tells of.
        self.assertEqual(string.storages, [(1000, 0), (2000, 0), (500, 0), (3000, 1), (7000, 1)])
        self.assertEqual(string.events, [[0, [], [0]], [1, [], [1]], [-1, [0]], [0, [], [2]], [-1, [3]]])
        self.assertEqual((string.ops, string.peak_bytes, string.persistent_bytes), (3, 13_000, 10_000))
        self.assertIn("without reads", string.source)

    def test_a_free_that_was_not_recorded_ends_at_the_next_allocation_there(self):
        string = from_snapshot({"device_traces": [[entry("alloc", 64, 10), entry("alloc", 64, 20)]]})
        self.assertEqual(string.events, [[0, [], [0]], [-1, [0]], [0, [], [1]]])
        self.assertEqual(string.left_out, {"frees that were not recorded": 1})

    def test_a_recording_that_has_overwritten_its_beginning_says_so(self):
        trace = [entry("alloc", 64, 10), entry("free", 128, 30)]

        def left_out(settings):
            return list(from_snapshot({"device_traces": [trace], "allocator_settings": settings}).left_out)

        for settings in [
            {"trace_alloc_overflowed": True, "trace_alloc_max_entries": 2},
            {"trace_alloc_overflowed": [True, False], "trace_alloc_max_entries": [2, 9]},
        ]:
            (what,) = left_out(settings)
            self.assertIn("a buffer of 2 events has overwritten", what)
        (what,) = left_out({"trace_alloc_overflowed": True})
        self.assertIn("the buffer of events has overwritten", what)
        for settings in [{}, None, {"trace_alloc_overflowed": False}, {"trace_alloc_overflowed": [False, True]}, {"trace_alloc_overflowed": []}]:
            self.assertEqual(left_out(settings), [])

    def test_pickle_and_json_are_the_same_string(self):
        with tempfile.TemporaryDirectory() as folder:
            one, two = os.path.join(folder, "s.pickle"), os.path.join(folder, "s.json")
            with open(one, "wb") as file:
                pickle.dump(SNAPSHOT, file)
            with open(two, "w") as file:
                json.dump(SNAPSHOT, file)
            self.assertEqual(from_snapshot(one), from_snapshot(two))
            self.assertEqual(from_snapshot(one).model, "s")


    def test_without_completions_a_free_counts_when_it_is_requested(self):
        trace = []
        for address in range(0, 100 * 4096, 4096):
            trace += [entry("alloc", address, 1000), entry("free_requested", address, 1000)]
        string = from_snapshot({"device_traces": [trace]})
        self.assertEqual(string.peak_bytes, 1000)
        ((what, count),) = string.left_out.items()
        self.assertIn("completions of frees", what)
        self.assertEqual(count, 100)
        # Another stream still uses one of them at the end, and what follows it at the same address.
        blocks = [{"size": 4096, "requested_size": 1000, "state": "active_awaiting_free"}]
        pending = {"segments": [{"address": 4096, "blocks": blocks}], "device_traces": [[*trace, *trace[2:4]]]}
        self.assertEqual(from_snapshot(pending).ops, 101)
        dead = [event[1][0] for event in from_snapshot(pending).events if event[0] == -1]
        self.assertEqual(dead, list(range(100)))

    def test_gzip_a_mark_of_byte_order_and_addresses_as_text_change_nothing(self):
        blocks = [block | {"address": hex(4096 + sum(b["size"] for b in BLOCKS[:at]))} for at, block in enumerate(BLOCKS)]
        as_text = {
            "segments": [{"device": 0, "address": "0x1000", "blocks": blocks}],
            "device_traces": [[e | {"addr": str(e["addr"])} for e in TRACE], []],
        }
        plain = json.dumps(SNAPSHOT).encode()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.json")
            for content in (
                b"\xef\xbb\xbf" + plain,
                b"\t" + plain,
                b"\r\n" + plain,
                gzip.compress(plain),
                gzip.compress(pickle.dumps(SNAPSHOT)),
                json.dumps(as_text).encode(),
            ):
                with open(path, "wb") as file:
                    file.write(content)
                self.assertEqual(from_snapshot(path).events, from_snapshot(SNAPSHOT).events)
                self.assertEqual(from_snapshot(path).storages, from_snapshot(SNAPSHOT).storages)


class Refusals(unittest.TestCase):
    def refused(self, snapshot, *words, **options):
        with self.assertRaises(SnapshotError) as caught:
            from_snapshot(snapshot, **options)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_a_snapshot_without_allocations_names_its_place(self):
        self.refused({"device_traces": [[{"action": "snapshot"}]]}, "device_traces[0] has 1 events", "_record_memory_history")
        self.refused({"device_traces": []}, "device_traces has 0 events")
        self.refused({"segments": []}, 'no list "device_traces"')
        self.refused(SNAPSHOT, "device_traces[1] has 0 events", device=1)

    def test_wrong_entries_name_their_place(self):
        for value in (-5, None, "7", 1.5, True, 1 << 64):
            self.refused({"device_traces": [[entry("alloc", 1, value)]]}, 'device_traces[0][0]: "size"', repr(value))
        self.refused({"device_traces": [[entry("alloc", 1, 2), 3]]}, "device_traces[0][1]")
        self.refused(SNAPSHOT, "counted from 0", device=7)
        both = {"device_traces": [[entry("alloc", 1, 2)], [entry("alloc", 1, 2)]]}
        self.refused(both, "devices 0, 1", "device=")
        self.assertEqual(from_snapshot(both, device=1).device, "cuda:1")

    def test_a_pickle_runs_nothing(self):
        class Hostile:
            def __reduce__(self):
                return os.mkdir, (marker,)

        with tempfile.TemporaryDirectory() as folder:
            marker, path = os.path.join(folder, "ran"), os.path.join(folder, "hostile.pickle")
            with open(path, "wb") as file:
                pickle.dump({"device_traces": [[Hostile()]]}, file)
            self.refused(path, "plain data alone", path)
            self.assertFalse(os.path.exists(marker))

    def test_damaged_files_are_refused(self):
        whole = pickle.dumps(SNAPSHOT)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.pickle")
            for text in (whole[: len(whole) // 2], b"", b"{", b"\x80", b"[" * 100_000, b"PK\3\4"):
                with open(path, "wb") as file:
                    file.write(text)
                self.refused(path, path)


class Command(unittest.TestCase):
    def test_exit_codes_and_the_file(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as said:
            snapshot, string = os.path.join(folder, "s.json"), os.path.join(folder, "s.rrs.json.gz")
            with open(snapshot, "w") as file:
                json.dump({"device_traces": [[]]}, file)
            self.assertEqual(main(["snapshot", snapshot, string]), 2)
            self.assertIn("none of them is an allocation", said.getvalue())
            self.assertFalse(os.path.exists(string))
            self.assertEqual(main(["snapshot", os.path.join(folder, "gone"), string]), 2)
            with open(snapshot, "w") as file:
                json.dump(SNAPSHOT, file)
            with contextlib.redirect_stdout(io.StringIO()) as told:
                self.assertEqual(main(["snapshot", snapshot, string]), 0)
            self.assertIn("3 allocations, peak 13,000 bytes", told.getvalue())
            self.assertEqual(os.listdir(folder), sorted(os.listdir(folder)))
            self.assertTrue(os.path.exists(string))


if __name__ == "__main__":
    unittest.main()
