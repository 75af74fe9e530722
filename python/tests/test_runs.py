"""The installed package: figures to the byte, refusals with their place, records that data frames take."""

import gzip
import json
import os
import pathlib
import signal
import tempfile
import threading
import unittest
import warnings

import openwddm

GPT = pathlib.Path(__file__).parents[2] / "examples" / "gpt.cpu.rrs.json.gz"
NO_BOUND = {"time_limit": 0}


def tiny(**changes):
    """Two storages of a page each, used in turn by three operations."""
    string = {
        "format": "residency-reference-string/2",
        "model": "tiny",
        "op_names": ["a"],
        "storages": [[1 << 16, 1], [1 << 16, 1], [1 << 16, 0]],
        "events": [[0, [0], [2]], [0, [1], [2]], [-1, [2]], [0, [0], []]],
        "op_ns": [1000, 1000, 1000],
    }
    return string | changes


class Figures(unittest.TestCase):
    def test_a_whatif_moves_what_the_oracle_says_beside_the_bound(self):
        (record,) = openwddm.whatif(GPT, vram=0.5, steps=2, policy="lru")
        self.assertEqual(record["peak_bytes"], 248_325_436)
        # docs/bound.md: the exact LRU, and the linear program in 670 bytes more, which are no whole page.
        self.assertEqual(record["asked_bytes"] - record["vram_bytes"], 670)
        self.assertEqual((record["paged_in_bytes"], record["paged_out_bytes"]), (288_960_512, 191_946_752))
        self.assertEqual((record["fewest_bytes"], record["fewest_paged_in_bytes"]), (441_674_036 + 4 * 670, 275_809_580 + 2 * 670))
        self.assertEqual((record["policy"], record["steps"], record["ops"]), ("lru", 2, 1996))

    def test_a_step_is_the_same_from_a_file_and_from_memory(self):
        with gzip.open(GPT) as file:
            document = json.load(file)
        recording = openwddm.Recording(
            document["model"], "cpu", document["op_names"], [tuple(s) for s in document["storages"]], document["events"]
        )
        steps = [str(GPT), GPT, GPT.read_bytes(), document, recording]
        found = [openwddm.whatif(step, vram="60%", steps=1, **NO_BOUND)[0] for step in steps]
        self.assertEqual(len({record["trace_hash"] for record in found}), 1)
        self.assertEqual({record["workload"] for record in found}, {"gpt"})

    def test_sizes_are_bytes_shares_and_words(self):
        records = openwddm.whatif(GPT, vram=[0.6, 200_000_000, "60%", "0.8..1.0/3"], steps=1, **NO_BOUND)
        asked = [record["asked_bytes"] for record in records]
        peak = 248_325_436
        shares = [peak * tenths // 10 for tenths in (8, 9, 10)]
        self.assertEqual(asked, [peak * 6 // 10, 200_000_000, peak * 6 // 10, *shares], "a record for each, in order")
        self.assertEqual(records[0], records[2])

    def test_policies_have_a_record_each_and_one_name_in_both_functions(self):
        records = openwddm.whatif(tiny(), vram=[1.0, 2.0], policy=["kept", "lru"], steps=1, **NO_BOUND)
        asked = [(record["asked_bytes"], record["policy"]) for record in records]
        self.assertEqual([bytes for bytes, _ in asked], [3 << 16, 3 << 16, 6 << 16, 6 << 16])
        self.assertEqual({policy for _, policy in asked[:2]}, {"kept", "lru"})
        swept = openwddm.sweep(tiny(), vram=[1.0], policy="kept", steps=1, **NO_BOUND)
        self.assertEqual([record["policy"] for record in swept], ["kept"])

    def test_errors_name_arguments_as_python_does(self):
        for asked, said in (({"adapter": "nothing"}, "^adapter=nothing: "), ({"processes": [0]}, "^processes=0: ")):
            with self.assertRaisesRegex(openwddm.InputError, said) as caught:
                openwddm.sweep(tiny(), vram=[1.0], steps=1, **asked, **NO_BOUND)
            self.assertNotIn("--", str(caught.exception))

    def test_recorded_times_are_those_of_the_run(self):
        (record,) = openwddm.whatif(tiny(), vram=1.0, steps=2, **NO_BOUND)
        self.assertEqual((record["ideal_ns"], record["peak_bytes"]), (6000, 3 << 16))


class Sweeps(unittest.TestCase):
    def test_rows_for_each_policy_and_a_page_and_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            page, rows = os.path.join(folder, "sweep.html"), os.path.join(folder, "rows")
            asked = {"vram": [0.7, 1.0], "steps": 1, "rows": rows, "page": page, "jobs": 1, **NO_BOUND}
            first = openwddm.sweep(GPT, **asked)
            policies = {record["policy"] for record in first}
            self.assertLessEqual({"lru", "kept"}, policies)
            self.assertEqual(len(first), 2 * len(policies))
            self.assertTrue(pathlib.Path(page).read_text().lower().startswith("<!doctype html>"))
            self.assertEqual(len([name for name in os.listdir(rows) if name.endswith(".parquet")]), len(first))
            self.assertEqual(openwddm.sweep(GPT, **asked), first)

    def test_a_page_or_rows_without_room_lose_no_record(self):
        asked = {"vram": [1 << 18, 1 << 20], "policy": "lru", "steps": 1, **NO_BOUND}
        records = openwddm.sweep(tiny(), **asked)
        # A device that is full, and a folder in which the operating system makes no files.
        for place, name in (({"page": "/dev/full"}, "page"), ({"rows": "/proc/self/fdinfo"}, "rows")):
            with self.assertRaisesRegex(openwddm.Lost, name) as caught:
                openwddm.sweep(tiny(), **asked, **place)
            self.assertEqual(caught.exception.records, records)

    def test_a_size_that_is_too_small_is_left_out_with_a_warning(self):
        with self.assertWarnsRegex(openwddm.LeftOut, "tiny left out at 65536 bytes"):
            records = openwddm.sweep(tiny(), vram=[1 << 16, 1 << 20], policy="lru", steps=1, **NO_BOUND)
        self.assertEqual([record["asked_bytes"] for record in records], [1 << 20])

    def test_records_are_data_frames_rows(self):
        records = openwddm.whatif(tiny(), vram=[1.0, 2.0], steps=1, **NO_BOUND)
        for name in ("pandas", "polars"):
            with self.subTest(name):
                try:
                    module = __import__(name)
                except ImportError:
                    self.skipTest(f"{name} is not installed")
                frame = module.DataFrame(records)
                self.assertEqual(frame.shape, (2, len(records[0])))
                self.assertEqual(int(frame["peak_bytes"].sum()), 2 * (3 << 16))

    def test_a_plot_has_a_line_for_each_policy_and_the_bound(self):
        records = openwddm.whatif(GPT, vram=[0.6, 1.0], steps=2, policy="lru")
        try:
            figure = openwddm.plot(records)
        except ImportError as error:
            self.skipTest(str(error))
        lines = figure.axes[0].get_lines()
        self.assertEqual([len(line.get_xdata()) for line in lines], [2, 2])
        with tempfile.TemporaryDirectory() as folder:
            openwddm.plot(records, os.path.join(folder, "p.png"))
            self.assertGreater(os.path.getsize(os.path.join(folder, "p.png")), 1000)
        for wrong, words in (([], "no records"), ([{"x": 1}], "record 0 has no 'workload'")):
            with self.assertRaisesRegex(ValueError, words):
                openwddm.plot(wrong)


class Refusals(unittest.TestCase):
    def refused(self, words, string=None, **options):
        with self.assertRaises(openwddm.InputError) as caught:
            openwddm.whatif(tiny() if string is None else string, **{"vram": 1.0, **NO_BOUND, **options})
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_arguments_are_named_with_their_value(self):
        for vram in (0.0, -0.5, float("nan"), float("inf"), 0, -1, "much", "5Gi", True, None, [], ["0.5..0.2"]):
            with self.subTest(vram):
                self.refused(["vram"], vram=vram)
        self.refused(["policy=fifo", "lru"], policy="fifo")
        self.refused(["link=fast", "GB/s"], link="fast")
        self.refused(["steps=0", "1000000"], steps=0)
        self.refused(["steps=-1"], steps=-1)
        self.refused(["processes=True"], processes=True)
        self.refused(["nothing-such"], adapter="nothing-such")

    def test_a_size_that_is_too_small_says_which_would_do(self):
        self.refused(["131072", "65536"], vram=1 << 16)

    def test_strings_are_refused_with_their_place(self):
        self.refused(["/nowhere/step.json", "check the path"], "/nowhere/step.json")
        self.refused(["cut off at line 1"], b'{"format": "residency-reference-string/1", ')
        self.refused(["event 1: storage 9"], tiny(events=[[0, [0], [2]], [0, [9], []]], op_ns=[1, 1]))
        self.refused(["operation 1", "-5", "whole"], tiny(op_ns=[1, -5, 1]))
        self.refused(["operation 2", "more than a day"], tiny(op_ns=[1, 1, 10**20]))
        self.refused(["string=3"], 3)

    def test_a_snapshot_is_sent_to_its_importer(self):
        self.refused(["python -m openwddm snapshot"], {"segments": [], "device_traces": []})
        self.refused(["python -m openwddm snapshot"], b"\x80\x04\x95")


class Patience(unittest.TestCase):
    def test_a_signal_ends_a_run_and_other_threads_go_on(self):
        class Stopped(Exception):
            pass

        def stop(*_):
            raise Stopped

        before = signal.signal(signal.SIGUSR1, stop)
        # The timer's thread only comes to its turn while the run lets others go on.
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        try:
            timer.start()
            with self.assertRaises(Stopped):
                openwddm.whatif(GPT, vram=0.5, steps=20_000, **NO_BOUND)
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)


class Recorded(unittest.TestCase):
    def test_a_step_is_recorded_and_replayed(self):
        try:
            import torch
        except ImportError:
            with self.assertRaisesRegex(ImportError, "needs PyTorch"):
                openwddm.record(lambda: None)
            self.skipTest("there is no PyTorch to record with")
        x = torch.ones(256, 256)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step = openwddm.record(lambda: (x @ x).relu().sum(), name="product", times=True)
        (record,) = openwddm.whatif(step, vram=1.0, steps=1)
        self.assertEqual((record["workload"], record["peak_bytes"], record["ops"]), ("product", step.peak_bytes, 3))
        self.assertEqual(record["ideal_ns"], sum(step.op_ns))


if __name__ == "__main__":
    unittest.main()
