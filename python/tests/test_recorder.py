"""What each kind of operation leaves in the string: reads, writes, deaths, sizes. On the CPU and on meta."""

import gc
import gzip
import json
import os
import tempfile
import threading
import unittest

from alone import load

recorder = load()
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

record, RecordingError = recorder.record, recorder.RecordingError


def told(string):
    """The events with names and sizes: what a reader of the string would say."""
    sizes = [size for size, _ in string.storages]
    lines = []
    for event in string.events:
        if event[0] == -1:
            lines.append(("death", sizes[event[1][0]]))
        else:
            name = string.op_names[event[0]].removeprefix("aten.")
            lines.append((name, [sizes[i] for i in event[1]], [sizes[i] for i in event[2]]))
    return lines


def judge(string):
    """Every storage is used before its death and never after it, and those alive before are not born again."""
    dead, used = set(), set()
    for event in string.events:
        if event[0] == -1:
            (storage,) = event[1]
            assert storage in used and storage not in dead, event
            dead.add(storage)
        else:
            assert not dead & {*event[1], *event[2]}, event
            used |= {*event[1], *event[2]}
    assert used == set(range(len(string.storages)))
    return string


class Operations(unittest.TestCase):
    def test_a_functional_operation_reads_and_makes(self):
        x = torch.ones(4)
        string = judge(record(lambda: (x * 2).sum()))
        self.assertEqual(told(string), [("mul.Tensor", [16], [16]), ("sum.default", [16], [4]), ("death", 16), ("death", 4)])
        self.assertEqual((string.storages[0], string.persistent_bytes, string.peak_bytes), ((16, 1), 16, 36))

    def test_views_are_no_operations_and_keep_their_storage_alive(self):
        def step():
            y = torch.ones(8)
            view = y.view(2, 4)[1].t()
            del y
            return view + 1

        string = judge(record(step))
        self.assertEqual(told(string), [("ones.default", [], [32]), ("add.Tensor", [32], [16]), ("death", 32), ("death", 16)])
        self.assertEqual(string.left_out["views and questions"], 3)

    def test_work_in_place_reads_unless_it_overwrites_all(self):
        x, y = torch.zeros(8), torch.ones(8)

        def step():
            x.copy_(y)
            x[2:4].fill_(3)
            x.add_(y)
            x.zero_()
            torch.add(y, y, out=x)
            torch.add(y[:2], y[:2], out=x[:2])
            x.t_()

        string = judge(record(step))
        sets = [(string.op_names[e[0]], e[1], e[2]) for e in string.events]
        y, x = 0, 1
        if string.events[0][2] == [0]:
            x, y = 0, 1
        expected = [
            ("aten.copy_.default", [y], [x]),
            ("aten.fill_.Scalar", [x], [x]),
            ("aten.add_.Tensor", sorted([x, y]), [x]),
            ("aten.zero_.default", [], [x]),
            ("aten.add.out", [y], [x]),
            ("aten.add.out", sorted([x, y]), [x]),
        ]
        self.assertEqual(sets, expected)

    def test_an_allocation_is_no_operation_and_answers_read(self):
        def step():
            y = torch.empty(16)
            return y.fill_(1).sum().item()

        string = judge(record(step))
        names = [line[0] for line in told(string)]
        self.assertEqual(names, ["fill_.Scalar", "sum.default", "_local_scalar_dense.default", "death", "death"])
        self.assertEqual(string.left_out, {"allocations": 1})

    def test_statistics_of_a_batch_norm_in_training_are_written(self):
        norm, x = torch.nn.BatchNorm1d(4), torch.ones(8, 4)
        for training in (True, False):
            norm.train(training)
            string = record(lambda: functional.batch_norm(x, norm.running_mean, norm.running_var, training=training))
            event = next(e for e in string.events if "batch_norm" in string.op_names[e[0]])
            known = [i for i in event[2] if string.storages[i] == (16, 1)]
            self.assertEqual(len(known), 2 if training else 0)

    def test_sizes_that_change_are_other_storages(self):
        def step():
            y = torch.ones(16)
            y.untyped_storage().resize_(0)
            y.untyped_storage().resize_(64)
            y.fill_(1)
            y.untyped_storage().resize_(128)
            return y.add_(1)

        string = judge(record(step))
        expected = [
            ("ones.default", [], [64]),
            ("death", 64),
            ("fill_.Scalar", [], [64]),
            ("UntypedStorage.resize_", [64], [128]),
            ("death", 64),
            ("add_.Tensor", [128], [128]),
            ("death", 128),
        ]
        self.assertEqual(told(string), expected)
        self.assertEqual((string.peak_bytes, string.persistent_bytes), (192, 0))

    def test_an_operation_that_gives_another_size_moves_the_content(self):
        def step():
            y = torch.ones(4)
            y.resize_(32)
            y.add_(1)

        expected = [("ones.default", [], [16]), ("resize_.default", [16], [128]), ("death", 16), ("add_.Tensor", [128], [128])]
        string = judge(record(step))
        self.assertEqual(told(string), [*expected, ("death", 128)])
        self.assertEqual(string.peak_bytes, 144)

    def test_what_a_step_finds_was_alive_before_it_also_without_a_warmup(self):
        x = torch.ones(4)
        self.assertEqual(record(lambda: x + 1, warmup=0).storages, [(16, 1), (16, 0)])

    def test_a_storage_that_is_swapped_away_dies(self):
        x = torch.nn.Parameter(torch.ones(4))

        def step():
            x.data = x.data * 2

        string = judge(record(step))
        self.assertEqual(told(string), [("mul.Tensor", [16], [16]), ("death", 16)])
        self.assertEqual([before for _, before in string.storages], [1, 0])

    def test_a_sparse_tensor_has_several_storages(self):
        rows, x = torch.sparse_csr_tensor(torch.arange(5), torch.arange(4), torch.ones(4), size=(4, 4)), torch.ones(4, 4)
        string = judge(record(lambda: rows @ x))
        self.assertEqual(told(string), [("mm.default", [40, 32, 16, 64], [64]), ("death", 64)])

    def test_a_subclass_that_wraps_is_seen_through(self):
        from torch.testing._internal.two_tensor import TwoTensor

        pair = TwoTensor(torch.ones(4), torch.ones(4))
        self.assertEqual([line[0] for line in told(record(lambda: pair * 2))][:2], ["mul.Tensor", "mul.Tensor"])

    def test_inference_mode_is_divided_like_no_grad(self):
        x, linear = torch.ones(3, 4, 8), torch.nn.Linear(8, 8)

        def step(mode):
            with mode():
                functional.scaled_dot_product_attention(linear(x), x, x).reshape(-1).contiguous()

        one, other = record(lambda: step(torch.no_grad)), record(lambda: step(torch.inference_mode))
        self.assertEqual((one.events, one.op_names), (other.events, other.op_names))
        self.assertIn("aten.addmm.default", one.op_names)


class Programs(unittest.TestCase):
    def train(self, device="cpu", optimizer=lambda p: torch.optim.AdamW(p, foreach=False)):
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)).to(device)
        optimizer = optimizer(model.parameters())
        x = torch.ones(4, 8, device=device)

        def step():
            optimizer.zero_grad(set_to_none=True)
            model(x).sum().backward()
            optimizer.step()

        return judge(record(step, device=device))

    def test_saved_tensors_gradients_and_state_live_as_long_as_they_do(self):
        string = self.train()
        parameters = 4 * (8 * 32 + 32 + 32 * 8 + 8)
        # Parameters, two moments, four step counters, the input.
        self.assertEqual(string.persistent_bytes, 3 * parameters + 4 * 4 + 4 * 8 * 4)
        kept = [size for index, (size, before) in enumerate(string.storages) if not before and not self.dies(string, index)]
        self.assertEqual(sum(kept), parameters, "gradients are left over, and nothing else")

    @staticmethod
    def dies(string, index):
        return any(event[0] == -1 and event[1] == [index] for event in string.events)

    def test_meta_is_told_apart_and_equals_the_cpu(self):
        def with_momentum(parameters):
            return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False)

        one, other = self.train("cpu", with_momentum), self.train("meta", with_momentum)
        self.assertEqual((one.events, one.storages, one.op_names), (other.events, other.storages, other.op_names))
        self.assertGreater(one.ops, 10)

    def test_checkpoints_compute_again(self):
        from torch.utils.checkpoint import checkpoint

        block = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
        x = torch.ones(4, 8, requires_grad=True)
        plain = judge(record(lambda: block(x).sum().backward()))
        for reentrant in (True, False):
            again = judge(record(lambda: checkpoint(block, x, use_reentrant=reentrant).sum().backward()))
            self.assertGreater(again.ops, plain.ops)

    def test_compiled_functions_run_eagerly(self):
        x = torch.ones(4)

        def plain():
            return (x * 2).relu()

        self.assertEqual(told(record(torch.compile(plain), name="f")), told(record(plain, name="f")))

    def test_operators_of_higher_order_are_watched_inside(self):
        x = torch.ones(4)
        string = record(lambda: torch.cond(x.sum() > 0, lambda x: x * 2 + 1, lambda x: x - 1, (x,)))
        self.assertEqual([n for n in string.op_names], ["aten.sum.default", "aten.gt.Scalar", "aten.mul.Tensor", "aten.add.Tensor"])

    def test_operations_of_others_say_what_they_mutate(self):
        library = torch.library.Library("openwddm_test", "FRAGMENT")
        library.define("twice(Tensor(a!) x) -> ()")
        library.define("look(Tensor x) -> float")
        library.define("unmarked_(Tensor x) -> Tensor")

        def twice(x):
            x.mul_(2)

        library.impl("twice", twice, "CPU")
        library.impl("look", lambda x: 1.0, "CPU")
        library.impl("unmarked_", lambda x: x.mul_(2), "CPU")
        x, ops = torch.ones(4), torch.ops.openwddm_test
        string = record(lambda: (ops.twice(x), ops.look(x), ops.unmarked_(x)))
        self.assertEqual([e[1:] for e in string.events], [[[0], [0]], [[0], []], [[0], [0]]])

    def test_several_threads_enter_one_account(self):
        account = recorder._Recorder(torch)

        def work():
            with recorder._mode(torch, account):
                for _ in range(100):
                    x = torch.ones(16)
                    x * 2 + x

        with account.watching():
            account.begin("cpu", False)
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            account.end()
        string = judge(account.recording("cpu", "threads"))
        self.assertEqual((string.ops, len(string.storages)), (1200, 1200))
        self.assertEqual(sum(event[0] == -1 for event in string.events), 1200)


class Boundary(unittest.TestCase):
    def test_an_exception_passes_and_leaves_nothing_behind(self):
        resize, runs = torch.UntypedStorage.resize_, []

        def step():
            runs.append(torch.ones(4) + 1)
            if len(runs) == 2:
                raise KeyError("the step's own")

        with self.assertRaisesRegex(KeyError, "the step's own"):
            record(step)
        self.assertIs(torch.UntypedStorage.resize_, resize)
        self.assertEqual(torch._C._len_torch_dispatch_stack(), 0)
        runs.clear()
        gc.collect()
        self.assertEqual(judge(record(lambda: torch.ones(4) + 1)).ops, 2)

    def test_refusals_say_what_to_do(self):
        x, y = torch.ones(3), torch.ones(3, device="meta")
        for words, step, options in [
            ("cannot be called", 3, {}),
            ("no operation of PyTorch ran", lambda: None, {}),
            ("nothing is computed there", lambda: y + 1, {"times": True}),
            ("the step uses cpu", lambda: x + 1, {"device": "cuda"}),
            ("warmup=-1", lambda: x + 1, {"warmup": -1}),
            ("or device= or a warmup", lambda: x + 1, {"warmup": 0, "times": True}),
        ]:
            with self.subTest(words), self.assertRaisesRegex(RecordingError, words):
                record(step, **options)

    def test_one_device_counts(self):
        x, y = torch.ones(3), torch.ones(5, device="meta")

        def step():
            return x + 1, y + 1

        self.assertEqual((record(step).device, record(step).peak_bytes), ("meta", 40))
        self.assertEqual((record(step, device="cpu").device, record(step, device="cpu").peak_bytes), ("cpu", 24))

    def test_nested_tensors_of_the_strided_layout_are_recorded(self):
        linear = torch.nn.Linear(32, 32)
        rows = [torch.ones(5, 32), torch.ones(7, 32)]
        nested = torch.nested.nested_tensor(rows)
        weights = torch.nested.nested_tensor([torch.ones(32, 4), torch.ones(32, 4)])
        for name, step in [
            ("linear", lambda: linear(torch.nested.nested_tensor(rows))),
            ("linear", lambda: linear(nested).sum(-1, keepdim=True)),
            ("matmul", lambda: torch.matmul(nested, weights)),
            ("chunk", lambda: [part * 2 for part in nested.chunk(2, dim=-1)]),
            ("backward", lambda: linear(torch.nested.nested_tensor(rows)).to_padded_tensor(0.0).sum().backward()),
        ]:
            step()
            string = record(step)
            self.assertGreater(string.ops, 0, name)
            # The result of a linear layer has the bytes of its rows.
            if name == "linear":
                self.assertIn(12 * 32 * 4, [size for size, _ in string.storages])

    def test_times_are_one_for_each_operation_and_make_the_second_format(self):
        x = torch.ones(64, 64)
        string = record(lambda: (x @ x).sum(), times=True, name="timed")
        self.assertEqual((len(string.op_ns), string.ops), (2, 2))
        self.assertTrue(all(isinstance(ns, int) and ns > 0 for ns in string.op_ns))
        self.assertEqual(string.document()["format"], "residency-reference-string/2")
        self.assertEqual(record(lambda: x @ x).document()["format"], "residency-reference-string/1")

    def test_files_are_whole_and_the_same_bytes_each_time(self):
        string = record(lambda: torch.ones(4) + 1, name="small")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.rrs.json.gz")
            string.save(path)
            with open(path, "rb") as file:
                first = file.read()
            string.save(path)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), first)
            self.assertEqual(json.loads(gzip.decompress(first)), json.loads(string.to_bytes()))
            self.assertEqual(os.listdir(folder), ["s.rrs.json.gz"])
            with self.assertRaises(OSError):
                string.save(os.path.join(folder, "gone", "s.json"))


if __name__ == "__main__":
    unittest.main()
