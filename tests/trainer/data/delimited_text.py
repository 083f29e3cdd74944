#!/usr/bin/env python3
"""Random tables as Python's csv module writes them.

    delimited_text.py SEED COUNT

Prints a JSON list of {"separator": …, "text": …, "rows": [[…], …]}.
"""
import csv
import io
import json
import random
import sys

CHARACTERS = "ab,;\t\"\n\r é\U0001F600"


def table(chance):
    separator = chance.choice(",;\t")
    columns = chance.randint(1, 4)
    rows = [["".join(chance.choices(CHARACTERS, k=chance.randint(0, 6))) for _ in range(columns)]
            for _ in range(chance.randint(0, 6))]
    # With LF as line end, csv writes a CR without quotes: one at the end of a record would read as CRLF.
    ends, quoting = chance.choice([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)])
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, quoting=quoting, lineterminator=ends).writerows(rows)
    return {"separator": separator, "text": text.getvalue(), "rows": rows}


def main():
    chance = random.Random(int(sys.argv[1]))
    print(json.dumps([table(chance) for _ in range(int(sys.argv[2]))]))


if __name__ == "__main__":
    main()
