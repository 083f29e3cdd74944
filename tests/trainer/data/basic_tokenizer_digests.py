#!/usr/bin/env python3
"""Prints the digests that basic_tokenizer_test.cc expects: words of the tokenizer's first half, by
Python's own str.lower() and unicodedata. Needs a Python with Unicode 14.0.0 (3.11).

Every text is split by the rules; its words are joined by U+001F, a line feed follows, and SHA-256
runs over the UTF-8 of all texts.
"""
import hashlib
import unicodedata

assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version

IDEOGRAPHS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
# Characters on which a rule turns: sigma and what is around it, marks of many combining classes,
# Hangul, spaces, controls, ideographs, letters with one or several accents.
POOL = [0x3A3, 0x3A3, 0x3A3, 0x3C3, 0x3C2, 0x41, 0x62, 0x20, 0x2E, 0x27, 0xB7, 0xAD, 0x5E, 0x24,
        0x301, 0x323, 0x345, 0x334, 0x315, 0x35C, 0x1D165, 0x1D16D, 0x302E, 0x1B44, 0x34F, 0x483,
        0x130, 0x131, 0x1E9E, 0xDF, 0x1F80, 0x1FB7, 0xC5, 0x212B, 0x1EA8, 0x1D5E, 0x385, 0x37E,
        0xAC00, 0xAC01, 0xD7A3, 0x1100, 0x1161, 0x11A8, 0x85, 0xA0, 0x2028, 0x2029, 0x3000, 0x1680,
        0x200B, 0x200D, 0xFEFF, 0xFFFD, 0x0B, 0x1C, 0x7F, 0x4E00, 0xF900, 0x2F800, 0x3042, 0x1F600,
        0x10400, 0x1E900, 0x2B0, 0x2C6, 0x378, 0xE000, 0x10FFFF, 0xBF, 0x2019, 0x3002]
# White_Space of PropList.txt; str.split() also takes U+001C to U+001F.
WHITE_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
               0x205F, 0x3000}


def words(text, lower, strip=None, clean=True, ideographs=True):
    strip = lower if strip is None else strip
    spaced = ""
    for c in text:
        code, category = ord(c), unicodedata.category(c)
        if clean and (code in (0, 0xFFFD) or category in ("Cc", "Cf") and c not in "\t\n\r"):
            continue
        if ideographs and any(first <= code <= last for first, last in IDEOGRAPHS):
            c = f" {c} "
        spaced += " " if code in WHITE_SPACE else c
    for token in spaced.split(" "):
        if lower:
            token = token.lower()
        if strip:
            decomposed = unicodedata.normalize("NFD", token)
            token = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        word = ""
        for c in token:
            special = c.isascii() and c.isprintable() and not c.isalnum()
            if special or unicodedata.category(c)[0] == "P":
                yield from filter(None, (word, c))
                word = ""
            else:
                word += c
        if word:
            yield word


def digest(texts, lower, **rules):
    sha = hashlib.sha256()
    for text in texts:
        sha.update(("\x1f".join(words(text, lower, **rules)) + "\n").encode())
    return sha.hexdigest()


def every_code_point():
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000:
            c = chr(code)
            yield f"A{c}\u03a3{c}B {c}"


def mixtures(count=50000):
    state = 1

    def draw(bound):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % bound

    for _ in range(count):
        yield "".join(chr(POOL[draw(len(POOL))]) for _ in range(1 + draw(16)))


for name, texts in (("every code point", every_code_point), ("mixtures", mixtures)):
    for lower in (True, False):
        print(name, "lower" if lower else "cased", digest(texts(), lower))
# Hugging Face's BertNormalizer has these four keys.
for bits in range(16):
    clean, ideographs, lower, strip = (bool(bits >> i & 1) for i in range(4))
    print(f"clean={clean} ideographs={ideographs} lower={lower} strip={strip}",
          digest(mixtures(10000), lower, strip=strip, clean=clean, ideographs=ideographs))
