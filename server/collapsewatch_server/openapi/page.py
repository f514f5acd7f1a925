"""The API page: the OpenAPI document as plain HTML. It loads nothing from elsewhere and runs no script."""

import json
from html import escape
from string import Template
from typing import Any

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title API</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
details { border: 1px solid color-mix(in srgb, currentColor 25%, transparent); border-radius: 6px;
  margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary b { display: inline-block; min-width: 4.5em; font-family: ui-monospace, monospace; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .6rem; border-radius: 6px;
  background: color-mix(in srgb, currentColor 8%, transparent); }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; }
.key { font-size: .85em; opacity: .8; }
</style>
</head>
<body>
<h1>$title API <small>$version</small></h1>
$description
<p>For programs: <a href="/openapi.json">/openapi.json</a>. The types named below are described there under
<code>components.schemas</code>.</p>
$sections
</body>
</html>
""")


def api_page(document: dict[str, Any]) -> str:
    """The document as HTML, one part per tag, every operation with its bodies, examples and errors."""
    sections = []
    for tag in document["tags"]:
        operations = [
            _operation(path, method, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if tag["name"] in operation.get("tags", [])
        ]
        sections.append(
            f"<h2>{escape(tag['name'])}</h2><p>{_text(tag['description'])}</p>{''.join(operations)}"
        )
    info = document["info"]
    return _PAGE.substitute(
        title=escape(info["title"]),
        version=escape(info["version"]),
        description=_paragraphs(info["description"]),
        sections="\n".join(sections),
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    schemes = ", ".join(name for scheme in operation.get("security", []) for name in scheme)
    key = f' <span class="key">needs {escape(schemes)}</span>' if schemes else ""
    parts = [_paragraphs(operation.get("description", "")), _parameters(operation.get("parameters", []))]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        parts.append(f"<h4>Body: {_type(body)}</h4>{_example(body)}{_curl(path, method, body, schemes)}")
    for status, response in operation.get("responses", {}).items():
        parts.append(_response(status, response))
    summary = f"<b>{method.upper()}</b> <code>{escape(path)}</code>{key}"
    return f"<details><summary>{summary}</summary>{''.join(parts)}</details>"


def _parameters(parameters: list[dict[str, Any]]) -> str:
    if not parameters:
        return ""
    rows = []
    for item in parameters:
        place = escape(item["in"]) + (", required" if item.get("required") else "")
        cells = (f"<code>{escape(item['name'])}</code>", place, _text(item.get("description", "")))
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<h4>Parameters</h4><table>{''.join(rows)}</table>"


def _response(status: str, response: dict[str, Any]) -> str:
    description = _text(response.get("description", ""))
    content = response.get("content", {}).get("application/json")
    if content is None:
        return f"<p><b>{escape(status)}</b> {description}</p>"
    # The shape of errors is shown once, above; only what they mean differs.
    example = _example(content) if int(status) < 400 else ""
    return f"<p><b>{escape(status)}</b> {_type(content)} {description}</p>{example}"


def _type(content: dict[str, Any]) -> str:
    return f"<code>{escape(content['schema'].get('$ref', '').rpartition('/')[2])}</code>"


def _example(content: dict[str, Any]) -> str:
    if "example" not in content:
        return ""
    return f"<pre>{escape(json.dumps(content['example'], indent=2, ensure_ascii=False))}</pre>"


def _curl(path: str, method: str, body: dict[str, Any], schemes: str) -> str:
    key = " -H 'Authorization: Bearer <key>'" if schemes else ""
    data = json.dumps(body.get("example", {}), ensure_ascii=True).replace("'", "'\\''")
    line = f"curl -X {method.upper()}{key} -H 'Content-Type: application/json' -d '{data}' http://127.0.0.1:7788{path}"
    return f"<details><summary>curl</summary><pre>{escape(line)}</pre></details>"


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_text(part)}</p>" for part in text.split("\n\n") if part.strip())


def _text(text: str) -> str:
    """Text with its `code` marked; nothing in it can become markup."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
