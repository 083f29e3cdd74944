#!/usr/bin/env python3
"""Writes the demo's text: the prose of Perl's manual, one file per page, without code or mark-up.

The pages come with Debian's package perl-doc (Artistic licence or GPL, as Perl itself).

    deploy/corpus.py OUTPUT_DIRECTORY
"""
import pathlib
import re
import sys

PAGES = pathlib.Path("/usr/share/perl")
SMALLEST = 2000  # characters; shorter pages are stubs that point elsewhere
ENTITIES = {"lt": "<", "gt": ">", "verbar": "|", "sol": "/"}


def link_text(match):
    """What a link shows: its text, an address as it is, else the section or page it names."""
    if match[1]:
        return match[1]
    return match[2] if "://" in match[2] else match[2].split("/")[-1].strip('"')


def plain(text):
    """The text of a POD paragraph: formatting codes replaced by what they show."""
    previous = None
    while previous != text:  # innermost codes first
        previous = text
        text = re.sub(r"[XZ]<[^<>]*>", "", text)
        text = re.sub(r"E<([^<>]*)>", lambda m: ENTITIES.get(m[1], " "), text)
        text = re.sub(r"L<(?:([^<>|]*)\|)?([^<>]*)>", link_text, text)
        text = re.sub(r"[BICFS]<{2,}\s+(.*?)\s+>{2,}", r"\1", text, flags=re.S)
        text = re.sub(r"[BICFS]<([^<>]*)>", r"\1", text)
    return " ".join(text.split())


def prose(page):
    """The sentences of one page's paragraphs."""
    skip = False
    for paragraph in re.split(r"\n\s*\n", page):
        if re.match(r"=(begin|for)\b", paragraph):
            skip = paragraph.startswith("=begin")
        elif paragraph.startswith("=end"):
            skip = False
        elif paragraph.startswith("=cut") or skip:
            continue
        elif re.match(r"\s", paragraph) or paragraph.startswith("="):  # code, headings, items
            continue
        else:
            text = plain(paragraph)
            if len(text.split()) >= 5:
                # One sentence a line, as pre-training wants it.
                yield from re.split(r"(?<=[.!?])\s+(?=[A-Z\"'(])", text)


def main():
    if len(sys.argv) != 2:
        sys.exit("deploy/corpus.py: name one output directory")
    output = pathlib.Path(sys.argv[1])
    pages = sorted(p for p in PAGES.rglob("*.pod") if p.parent.name == "pod")
    if not pages:
        sys.exit(f"deploy/corpus.py: no pages under {PAGES}; install perl-doc or pass --corpus")
    output.mkdir(parents=True, exist_ok=True)
    total = 0
    for page in pages:
        text = "\n".join(prose(page.read_text(encoding="utf-8", errors="replace")))
        if len(text) < SMALLEST:
            continue
        total += len(text)
        (output / (page.stem + ".txt")).write_text(text + "\n", encoding="utf-8")
    print(f"{len(list(output.glob('*.txt')))} documents, {total / 1e6:.1f} MB of prose in {output}")


main()
