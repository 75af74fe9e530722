"""What stands where a recording is saved: it is replaced, written over, written into, or refused."""

import errno
import os
import stat
import tempfile
import threading
import unittest

from alone import load_without_torch

recorder = load_without_torch()


def content(path):
    with open(path, "rb") as file:
        return file.read()


class Names(unittest.TestCase):
    def test_a_recording_is_one_short_line(self):
        events = [[0, [0], [1]], [-1, [1]]] * 10_000
        string = recorder.Recording("big", "meta", ["aten.add"], [(16, 1), (8, 0)], events)
        self.assertEqual(repr(string), "Recording('big' on meta: 10,000 operations, 2 storages, peak 24 bytes)")


class Files(unittest.TestCase):
    def test_files_are_replaced_as_the_command_line_replaces_them(self):
        string = recorder.Recording("small", "cpu", ["aten.add"], [(16, True)], [[0, [0], [0]]])
        whole = string.to_bytes()
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name)  # noqa: E731
            for name in ("kept", "several"):
                with open(at(name), "wb") as file:
                    file.write(b"something that is longer" * 999)
                os.chmod(at(name), 0o640)
            os.link(at("several"), at("second name"))
            os.symlink("kept", at("link"))
            os.symlink("new", at("to nothing yet"))
            string.save(at("link"))
            self.assertTrue(os.path.islink(at("link")))
            self.assertEqual((content(at("kept")), os.stat(at("kept")).st_mode & 0o777), (whole, 0o640))
            string.save(at("several"))
            self.assertEqual((content(at("second name")), os.stat(at("several")).st_nlink), (whole, 2))
            string.save(at("to nothing yet"))
            self.assertEqual(content(at("new")), whole)
            os.mkfifo(at("pipe"))
            heard = []
            reader = threading.Thread(target=lambda: heard.append(content(at("pipe"))))
            reader.start()
            string.save(at("pipe"))
            reader.join()
            self.assertEqual((heard, stat.S_ISFIFO(os.stat(at("pipe")).st_mode)), ([whole], True))
            string.save("/dev/null")
            self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
            os.mkdir(at("folder"))
            with self.assertRaises(IsADirectoryError):
                string.save(at("folder"))
            with self.assertRaises(OSError) as full:
                string.save("/dev/full")
            self.assertEqual(full.exception.errno, errno.ENOSPC)
            self.assertEqual(sorted(os.listdir(folder)), sorted(
                ["kept", "several", "second name", "link", "to nothing yet", "new", "pipe", "folder"]
            ))


if __name__ == "__main__":
    unittest.main()
