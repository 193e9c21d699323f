"""JSON as strangers send it: what is no JSON, or JSON that readers disagree on, is refused with its place.

Python's reader takes NaN, keeps the last of two equal keys and half of a surrogate pair; none of these is meant by
anybody, and each would be an odd error further in.
"""

from __future__ import annotations

import json

from datasets.common.errors import DataError
from datasets.common.files import Json


class BadJson(DataError):
    """Text that is not read: a short code for programs, the place where it is known, and what is wrong."""

    def __init__(self, message: str, *, code: str = "bad_json", where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.code, self.where, self.message = code, where, message


def parsed(body: bytes) -> Json:
    """The content of a body or a file."""
    if not body:
        raise BadJson("there is nothing in it; give a JSON object")
    try:
        text = body.decode("utf-8-sig")  # some editors put a mark before the first letter
        content: Json = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:  # half of a pair is no character and cannot be written back
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJson(f"byte {error.start} is not UTF-8") from None
    except UnicodeEncodeError:
        raise BadJson("a \\u escape is half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise BadJson(f"no JSON: {error.msg}", where=f"line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise BadJson("lists and objects are nested too deeply") from None
    except BadJson:
        raise
    except ValueError as error:  # a number with thousands of digits
        raise BadJson(str(error).partition(";")[0]) from None
    return content


def _object(pairs: list[tuple[str, Json]]) -> Json:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise BadJson(f"an object has the key {name[:50]!r} twice", code="duplicate_key")
            seen.add(name)
    return made


def _no_number(name: str) -> Json:
    raise BadJson(f"{name} is no number in JSON")


def _number(digits: str) -> float:
    """5.0 is a whole number too, as JSON Schema has it."""
    number = float(digits)
    return int(number) if number.is_integer() else number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, parse_float=_number)
