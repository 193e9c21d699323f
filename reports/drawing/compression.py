"""Figures in fewer bytes that look the same: SVG with short coordinates and names, PNG with a palette."""

from __future__ import annotations

import io
import re
from collections import Counter

from PIL import Image

PALETTE = 128  # colours of a PNG file


def shorten_svg(svg: bytes) -> bytes:
    """The same picture in fewer bytes: coordinates to a hundredth of a point, short names, no metadata or comments."""

    def rounded(match: re.Match[str]) -> str:
        return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{round(float(number[0]), 2) + 0.0:g}", match[0])

    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg.decode(), flags=re.DOTALL)
    text = re.sub(r' d="[^"]*"| (?:x|y)="[^"]*"|translate\([^)]*\)', rounded, text)
    # A letter is a <use> of its outline: moving it by x says the same as a transformation.
    text = re.sub(r'(<use [^>]*?) transform="translate\((\S+) 0\)"', r'\1 x="\2"', text)
    text = re.sub(r' style="[^"]*"', lambda match: re.sub(r"([:;]) ", r"\1", match[0][1:]).join((" ", "")), text)
    named = dict.fromkeys(re.findall(r'(?:href="|url\()#([^")]+)', text))
    short = {name: f"i{number}" for number, name in enumerate(named)}
    text = re.sub(r' id="([^"]*)"', lambda match: f' id="{short[match[1]]}"' if match[1] in short else "", text)
    text = re.sub(r'(href="|url\()#([^")]+)', lambda match: f"{match[1]}#{short[match[2]]}", text)
    text = re.sub(r"\s*\n\s*", "\n", _without_bare_groups(text))
    return _named_styles(_repeated_words(text)).encode()


def _repeated_words(text: str) -> str:
    """A word that stands in several places is written once and used in the others."""
    word = re.compile(r"(?:<use [^>]*/>\n){2,}(?=</g>)")
    counts, named = Counter(word.findall(text)), dict[str, str]()

    def used(match: re.Match[str]) -> str:
        letters = match[0]
        if counts[letters] == 1 or " y=" in letters:  # markers are no letters
            return letters
        if letters in named:
            return f'<use xlink:href="#{named[letters]}"/>\n'
        named[letters] = f"w{len(named)}"
        return f'<g id="{named[letters]}">\n{letters}</g>\n'

    return word.sub(used, text)


def _named_styles(text: str) -> str:
    """A style of several elements is a class."""
    counts = Counter(re.findall(r' style="([^"]*)"', text))
    named = {style: f"s{number}" for number, style in enumerate(style for style, many in counts.items() if many > 2)}
    rules = "".join(f".{name}{{{style}}}" for style, name in named.items())
    text = re.sub(
        r' style="([^"]*)"', lambda match: f' class="{named[match[1]]}"' if match[1] in named else match[0], text
    )
    return text.replace("</style>", f"{rules}</style>", 1)


def _without_bare_groups(text: str) -> str:
    """Without groups that have no attribute."""
    opened: list[bool] = []  # whether each group is kept, the innermost last

    def kept(match: re.Match[str]) -> str:
        if match[0] == "</g>":
            return match[0] if opened.pop() else ""
        opened.append(match[0] != "<g>")
        return match[0] if opened[-1] else ""

    return re.sub(r"</g>|<g>|<g [^>]*>", kept, text)


def reduce_colours(png: bytes) -> bytes:
    """The same picture with a palette: a figure has few colours, and text is as smooth with PALETTE of them."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()
