"""MIGraphX's files: programs and arguments as values, and values as msgpack or JSON. Nothing is unpickled."""

from workbench.compiler.files.mxr.arguments import (
    Arguments,
    from_argument_value,
    read_argument,
    to_argument_value,
    write_argument,
)
from workbench.compiler.files.mxr.files import (
    load,
    load_buffer,
    load_compiled,
    read_compiled,
    save,
    save_buffer,
)
from workbench.compiler.files.mxr.json_form import read_json, write_json
from workbench.compiler.files.mxr.kernels import Compiled, SavedKernel
from workbench.compiler.files.mxr.msgpack_form import read_msgpack, write_msgpack
from workbench.compiler.files.mxr.reading import from_value
from workbench.compiler.files.mxr.writing import to_value

__all__ = [
    "Arguments", "Compiled", "SavedKernel", "from_argument_value", "from_value", "load", "load_buffer",
    "load_compiled", "read_argument", "read_compiled", "read_json", "read_msgpack", "save", "save_buffer",
    "to_argument_value", "to_value", "write_argument", "write_json", "write_msgpack",
]  # fmt: skip
