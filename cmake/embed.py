#!/usr/bin/env python3
"""Writes a C++ file that holds every file of a folder: embed.py FOLDER OUTPUT.

An absent folder gives an empty table. The output is touched only when its text changes, so an
unchanged page costs no compilation.
"""
import hashlib
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


def literal(data):
    """String literals of at most 4096 bytes each, below every compiler's limit."""
    parts = []
    for start in range(0, len(data), 4096):
        block = data[start : start + 4096]
        parts.append('"' + "".join(f"\\{byte:03o}" for byte in block) + '"')
    return "\n    ".join(parts) or '""'


def main():
    folder, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    files = sorted(p for p in folder.rglob("*") if p.is_file()) if folder.is_dir() else []
    rows = []
    for path in files:
        data = path.read_bytes()
        kind = TYPES.get(path.suffix, "application/octet-stream")
        digest = hashlib.sha256(data).hexdigest()[:32]
        name = path.relative_to(folder).as_posix()
        rows.append(
            f'    {{"{name}",\n     {{std::string_view(\n    {literal(data)}, {len(data)}),\n'
            f'      "{kind}", "{digest}"}}}},\n'
        )
    text = (
        "// Made by cmake/embed.py; do not edit.\n"
        '#include "orchestrator/api/page.h"\n\n'
        "namespace regatta::orchestrator::api {\nnamespace {\n\n"
        "struct Entry {\n  std::string_view path;\n  PageFile file;\n};\n\n"
        + (f"const Entry kFiles[] = {{\n{''.join(rows)}}};\n\n" if rows else "")
        + "}  // namespace\n\n"
        "std::optional<PageFile> page_file([[maybe_unused]] std::string_view path) {\n"
        + (
            "  for (const Entry& entry : kFiles) {\n"
            "    if (entry.path == path) return entry.file;\n  }\n"
            if rows
            else ""
        )
        + "  return std::nullopt;\n}\n\n}  // namespace regatta::orchestrator::api\n"
    )
    if not output.exists() or output.read_text() != text:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)


if __name__ == "__main__":
    main()
