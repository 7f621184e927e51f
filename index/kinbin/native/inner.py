"""Functions that only kernels call: kept as LLVM's bitcode, and optimised where they are called.

Numba optimises each function, makes machine code of it, and then hands its intermediate code to its callers, where all of this is done
again. Nobody runs the machine code of a function that Python does not call: without it, kernels take .6 to .7 of the time to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult

__all__ = ["InnerCompiler", "keep_from_python", "rebuilt"]

_LIBRARY: Any = JITCodeLibrary
_COMPILER: Any = Compiler
_RESULT: Any = CompileResult


class _NoEngine:
    """A code generator whose engine does not know the library: so nobody can tell the engine where its environment is."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_env(self, _name: str, _environment: Any) -> None:
        """Nothing: an environment serves errors that are raised and objects that are called, and kernels do neither."""


class _InnerLibrary(_LIBRARY):  # type: ignore[misc]
    """Intermediate code that is linked into the libraries of callers, and never run by itself."""

    @property
    def codegen(self) -> Any:
        """What generates its code."""
        return _NoEngine(self._codegen)

    def get_pointer_to_function(self, _name: str) -> int:
        """0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> Any:
        """How it is kept on disk."""
        return self.serialize_using_bitcode()

    def _optimize_final_module(self) -> None:
        """Left to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def read(self, bitcode: bytes) -> None:
        """Have the code that was kept."""
        self._final_module = llvm.parse_bitcode(bitcode)
        self._finalize_final_module()


class InnerCompiler(_COMPILER):  # type: ignore[misc]
    """Numba's compiler, with such a library."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """Compile a function."""
        self.state.library = _InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


def rebuilt(context: Any, kept: tuple[Any, ...]) -> Any:
    """What numba's `CompileResult._rebuild` does, for such a library."""
    (name, _kind, bitcode), description, environment, signature, objectmode, lifted, annotation, reload_init, environments = kept
    library = _InnerLibrary(context.codegen(), name)
    library.read(bitcode)
    return _RESULT(
        target_context=context,
        typing_context=context.typing_context,
        library=library,
        environment=environment,
        entry_point=context.get_executable(library, description, environment),
        fndesc=description,
        type_annotation=annotation,
        signature=signature,
        objectmode=objectmode,
        lifted=lifted,
        typing_error=None,
        call_helper=None,
        metadata=None,
        reload_init=reload_init,
        referenced_envs=environments,
    )


def keep_from_python(dispatcher: Any) -> None:
    """Refuse calls from Python, for which there is no code."""

    def add_overload(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*_args: Any, **_options: Any) -> Any:
        raise TypeError(f"{dispatcher.py_func.__qualname__} is called by kernels only")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse
