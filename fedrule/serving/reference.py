"""The reference page at /docs, written from the OpenAPI description; it loads nothing from elsewhere.

The usual pages for this fetch their scripts from other hosts, and are empty where there is no way out.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>fedrule: HTTP reference</title><link rel="stylesheet" href="docs.css"></head><body>
<header><h1>fedrule: HTTP reference</h1><p>{about}</p>
<p><a href="./">The page</a> · <a href="openapi.json">OpenAPI description</a></p>
<nav><ul>{links}</ul></nav></header><main>"""


def reference(description: dict[str, Any]) -> str:
    """HTML with every route, its body with an example, its answers and errors; then every object by name."""
    routes = [
        (method, path, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    links = "".join(f'<li><a href="#{_anchor(m, p)}"><b>{m.upper()}</b> {escape(p)}</a></li>' for m, p, _ in routes)
    parts = [HEAD.format(about=escape(description["info"]["description"]), links=links)]
    parts += [_route(method, path, operation) for method, path, operation in routes]
    parts.append('<section><h2 id="objects">Objects</h2>')
    parts += [_object(name, schema) for name, schema in sorted(description["components"]["schemas"].items())]
    return "\n".join([*parts, "</section></main></body></html>\n"])


def _anchor(method: str, path: str) -> str:
    return escape(f"{method}{path.replace('/', '-')}")


def _route(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f'<section><h2 id="{_anchor(method, path)}"><b>{method.upper()}</b> <code>{escape(path)}</code></h2>',
        f"<p>{escape(operation.get('description', ''))}</p>",
    ]
    if "security" in operation:
        parts.append("<p>Needs the header <code>Authorization: Bearer TOKEN</code>.</p>")
    parts += [
        f"<p>Query <code>{escape(parameter['name'])}</code>: {escape(parameter['description'])}</p>"
        for parameter in operation.get("parameters", [])
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(f"<h3>Body: {_kind(content['schema'])}</h3>")
        parts.append(f"<pre>{escape(json.dumps(content['example'], indent=2))}</pre>")
    rows = "".join(_answer(status, answer) for status, answer in operation["responses"].items())
    head = "<tr><th>Status</th><th>Content</th><th>When</th></tr>"
    return "\n".join([*parts, f"<h3>Answers</h3><table>{head}{rows}</table></section>"])


def _answer(status: str, answer: dict[str, Any]) -> str:
    kinds = "".join(
        f"{_kind(content['schema'])} <small>{escape(kind)}</small>"
        for kind, content in answer.get("content", {}).items()
    )
    return f"<tr><td>{status}</td><td>{kinds}</td><td>{escape(answer.get('description', ''))}</td></tr>"


def _object(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = []
    for part, kind in schema.get("properties", {}).items():
        about = escape(kind.get("description", ""))
        if part not in required:
            about = f"Optional; {escape(json.dumps(kind.get('default')))} unless given. {about}"
        rows.append(f"<tr><td><code>{escape(part)}</code></td><td>{_kind(kind)}</td><td>{about}</td></tr>")
    about = escape(schema.get("description", ""))
    head = "<tr><th>Name</th><th>Kind</th><th>About</th></tr>"
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{about}</p><table>{head}{"".join(rows)}</table>'


def _kind(schema: dict[str, Any]) -> str:
    """E.g. "list of Device, at most 500"; objects link to their table."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"<code>{escape(json.dumps(v))}</code>" for v in schema.get("enum", [schema.get("const")]))
    kind = escape(str(schema.get("type", "anything")))
    if kind == "array":
        kind = f"list of {_kind(schema['items'])}"
    for name, words in (("maxItems", "at most"), ("maxLength", "characters at most"), ("maximum", "at most")):
        if name in schema and schema[name] < 2**62:
            kind += f", {words} {schema[name]:,}"
    return kind
