"""The recorder as a file by itself: the tests load it so, and show that it needs nothing of the package."""

import importlib.util
import pathlib
import sys
import unittest

FILE = pathlib.Path(__file__).parent.parent / "openwddm" / "recorder.py"


def load():
    """The module ``recorder``; the tests that ask for it are skipped where there is no PyTorch, and say so."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise unittest.SkipTest(f"the recorder needs PyTorch, which {sys.executable} does not have") from None
    return load_without_torch()


def load_without_torch():
    """The module ``recorder``, for what needs no PyTorch."""
    if "recorder" in sys.modules:
        return sys.modules["recorder"]
    spec = importlib.util.spec_from_file_location("recorder", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["recorder"] = module
    spec.loader.exec_module(module)
    return module
