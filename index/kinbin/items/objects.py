"""Objects of the user's own, for a distance of their own: rows of what an encoder makes of them, bytes or arrays of numbers.

A row begins with 1 for bytes (each follows plus 1), or with 1 plus the number of dimensions of an array, whose shape and numbers follow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput
from kinbin.items.functions import CALLABLE, Functions
from kinbin.items.kind import Form, Kind, alone, batch_of, dense_numbers, each, no_dimension, sequence_rows
from kinbin.limits import limit
from kinbin.rows.matrices import Fault
from kinbin.rows.rows import Rows

__all__ = ["OBJECTS"]

_MOST_DIMENSIONS = 4


def _functions(form: Form) -> Functions:
    assert form.functions is not None, "who makes a form of objects gives it functions"
    return form.functions


def _judged(given: Any, functions: Functions) -> NDArray[np.float32]:
    """The row's numbers of one object."""
    assert functions.encoder is not None, "asked for only with an encoder"
    try:
        encoded = functions.encoder(given)
    except Exception as error:  # noqa: BLE001  # whatever foreign code raises
        raise Fault("bad_object", f"the encoder raised {type(error).__name__}: {error}"[:200]) from None
    wanted = f"bytes or an array of 1 to {_MOST_DIMENSIONS} dimensions, not empty"
    if isinstance(encoded, str):
        raise Fault("bad_object", f"an encoder returns {wanted}; this one returned a str: encode that, as by text.encode()")
    if isinstance(encoded, bytes | bytearray | memoryview):
        data = np.frombuffer(encoded, np.uint8)
        values = np.concatenate([np.ones(1, np.float32), data.astype(np.float32) + np.float32(1)])
    else:
        array = dense_numbers(encoded, "encoded object")
        if not 1 <= array.ndim <= _MOST_DIMENSIONS or not array.size:
            raise Fault("bad_object", f"an encoder returns {wanted}; this one returned shape {array.shape}")
        values = np.concatenate([np.array([1 + array.ndim, *array.shape], np.float32), array.reshape(-1)])
    if len(values) > limit("object_numbers"):
        text = f"an encoded object has at most {limit('object_numbers')} bytes or numbers, this one has {len(values)} with its head"
        raise Fault("over_limit", text, "object_numbers")
    return values


def _rows(objects: Any, form: Form) -> Rows:
    """(n objects) → their rows. Cost: the encoder's, and 5 µs an object."""
    functions = _functions(form)
    if functions.encoder is None:
        raise functions.missing()
    judged = each(batch_of("objects", "object", objects), "object", lambda given: _judged(given, functions))
    sizes = np.fromiter(map(len, judged), np.int64, len(judged))
    return sequence_rows(np.concatenate(judged) if judged else np.empty(0, np.float32), sizes)


def _row(given: Any, form: Form) -> Rows:
    """(one object) → its row."""
    return alone(OBJECTS, given, form)


def _item(rows: Rows, i: int, form: Form) -> Any:
    """What was encoded; or the object, if there is a decoder."""
    values, decoder = rows.row(i)[1], _functions(form).decoder
    dims = int(values[0]) - 1
    shape = tuple(int(one) for one in values[1 : 1 + dims])
    if dims and (dims > _MOST_DIMENSIONS or math.prod(shape) != len(values) - 1 - dims):
        raise InvalidInput.of("bad_object", "a stored object is not what an encoder made", field="object")
    stored = values[1 + dims :].copy().reshape(shape) if dims else (values[1:] - np.float32(1)).astype(np.uint8).tobytes()
    return stored if decoder is None else decoder(stored)


OBJECTS = Kind("objects", "object", (CALLABLE,), no_dimension, _rows, _row, _item)
"""Not in `KINDS`: only the library can be handed functions."""
