"""JSON as strangers send it: what is no JSON, or JSON that readers disagree on, is refused with its place.

Python's reader takes NaN, keeps the last of two equal keys and half of a surrogate pair; none of these is meant by
anybody, and each would be an odd error further in.
"""

from __future__ import annotations

import json

from datasets.whole_files import Json
from fedrule.serving.refusals import Refused


def parsed(body: bytes) -> Json:
    """The content of a body."""
    if not body:
        raise Refused(400, "bad_json", "the body is empty; send a JSON object")
    try:
        text = body.decode("utf-8")
        content: Json = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:  # half of a pair is no character and cannot be written back
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(400, "bad_json", f"byte {error.start} is not UTF-8") from None
    except UnicodeEncodeError:
        raise Refused(400, "bad_json", "a \\u escape is half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise Refused(400, "bad_json", f"no JSON: {error.msg}", where=place) from None
    except RecursionError:
        raise Refused(400, "bad_json", "lists and objects are nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits
        raise Refused(400, "bad_json", str(error).partition(";")[0]) from None
    return content


def _object(pairs: list[tuple[str, Json]]) -> Json:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Refused(400, "duplicate_key", f"an object has the key {name[:50]!r} twice")
            seen.add(name)
    return made


def _no_number(name: str) -> Json:
    raise Refused(400, "bad_json", f"{name} is no number in JSON")


def _number(digits: str) -> float:
    """5.0 is a whole number too, as JSON Schema has it."""
    number = float(digits)
    return int(number) if number.is_integer() else number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, parse_float=_number)
