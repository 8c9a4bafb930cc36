# SPDX-License-Identifier: Apache-2.0
"""Imports from the end of the executable itself: code is unmarshalled from the mapped file; nothing is unpacked anywhere.

This is the module `_tail` of the one file, started by core/main.c before anything else; only built-in modules are at hand.
"""

import marshal
import sys

import _tail_data
from _frozen_importlib import ModuleSpec

_VIEW = _tail_data.view
_MODULES, _FILES = marshal.loads(_VIEW[_tail_data.index : _tail_data.index + _tail_data.index_size])
_HOME = sys.executable + "/"


class Tail:
    """Finder and loader in one; a name is looked up in one dictionary."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        found = _MODULES.get(name)
        if found is None:
            return None
        spec = ModuleSpec(name, Tail, origin=_HOME + found[2], is_package=found[3])
        spec.has_location = True
        if found[3]:
            spec.submodule_search_locations = [_HOME + name.replace(".", "/")]
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        exec(Tail.get_code(module.__name__), module.__dict__)

    @staticmethod
    def get_code(name):
        begin, size, _, _ = _MODULES[name]
        return marshal.loads(_VIEW[begin : begin + size])

    @staticmethod
    def is_package(name):
        return _MODULES[name][3]

    @staticmethod
    def get_source(name):
        content = _read(_MODULES[name][2]) if name in _MODULES else None
        return None if content is None else content.decode()

    @staticmethod
    def get_filename(name):
        return _HOME + _MODULES[name][2]

    @staticmethod
    def get_data(path):
        content = _read(path.removeprefix(_HOME))
        if content is None:
            raise FileNotFoundError(2, "not in this executable", path)
        return content

    @staticmethod
    def get_resource_reader(name):
        return _Reader(name.replace(".", "/"))

    @staticmethod
    def invalidate_caches():
        pass


def _read(path):
    found = _FILES.get(path)
    if found is None:
        return None
    begin, size, packed = found
    if packed:
        import zlib

        return zlib.decompress(_VIEW[begin : begin + size])
    return bytes(_VIEW[begin : begin + size])


class _Reader:
    def __init__(self, path):
        self._path = path

    def files(self):
        return _Place(self._path)


class _Place:
    """What importlib.resources calls a traversable."""

    def __init__(self, path):
        self._path = path
        self.name = path.rpartition("/")[2]

    def joinpath(self, *names):
        return _Place("/".join((self._path, *names)))

    __truediv__ = joinpath

    def is_file(self):
        return self._path in _FILES

    def is_dir(self):
        return not self.is_file() and any(path.startswith(self._path + "/") for path in _FILES)

    def iterdir(self):
        inside = self._path + "/"
        return map(
            self.joinpath, sorted({path[len(inside) :].partition("/")[0] for path in _FILES if path.startswith(inside)})
        )

    def read_bytes(self):
        content = _read(self._path)
        if content is None:
            raise FileNotFoundError(2, "not in this executable", self._path)
        return content

    def read_text(self, encoding="utf-8", errors="strict"):
        return self.read_bytes().decode(encoding, errors)

    def open(self, mode="r", *arguments, **words):
        import io

        content = io.BytesIO(self.read_bytes())
        return content if "b" in mode else io.TextIOWrapper(content, *arguments, **words)


sys.meta_path.insert(0, Tail)
