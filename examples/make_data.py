#!/usr/bin/env python3
"""Writes the data of the examples: texts about made-up boats, the same ones on every machine.

    make_data.py KIND       into the current directory; KIND is one of

    register     register.txt: 400 documents, each about one boat
    log          log.txt: 200 documents, each a boat's week at sea
    questions    train.json, dev.json: SQuAD 1.1, 60 and 15 paragraphs with six questions each
    remarks      train.tsv, dev.tsv: 240 and 60 sentences with the label good or bad
"""
import json
import random
import sys

BOATS = """Albatross Arrow Aurora Bluebell Bonito Breeze Cormorant Curlew Dolphin Dunlin Eider Elsa Falcon Fulmar Gannet
Garland Heron Hilda Iris Juno Kestrel Kittiwake Lapwing Linnet Marlin Merlin Osprey Pelican Petrel Plover Puffin Raven
Redstart Sandpiper Shearwater Skua Swallow Tern Thistle Wagtail""".split()
YARDS = "Holm Berg Lund Dahl Strand Vik Nord Falk".split()
TOWNS = "Norvik Karlsund Ostholm Sandby Grimso Havn Tornes Elvik".split()
COLOURS = "red blue green white black yellow brown grey".split()
CARGOES = "salt timber herring wool coal grain copper slate".split()
FIRST = "Clara Ida Otto Emil Greta Hugo Signe Axel".split()
LAST = "Voss Lindgren Moller Hansen Brandt Ekman Thorsen Weber".split()
GOOD = "splendid lovely comfortable cheerful excellent delightful friendly clean".split()
BAD = "dreadful filthy cramped gloomy awful miserable rude noisy".split()
THINGS = "cabin captain voyage supper crew deck berth harbour".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

# What is known of a boat: how sentences say it, and what is asked for it.
FACTS = {
    "yard": (["The {boat} was built by the {yard} yard.", "The {yard} yard built the {boat}."],
             ["Which yard built the {boat}?", "By which yard was the {boat} built?"]),
    "year": (["She was launched in {year}.", "Her launch was in {year}."],
             ["In which year was the {boat} launched?", "When was the {boat} launched?"]),
    "town": (["Her home harbour is {town}.", "Between voyages she lies at {town}."],
             ["Which town is the home of the {boat}?", "Where is the {boat} at home?"]),
    "colour": (["Her hull is painted {colour}.", "She has a {colour} hull."],
               ["What colour is the hull of the {boat}?", "How is the {boat} painted?"]),
    "cargo": (["In most years she carries {cargo}.", "Her holds are filled with {cargo}."],
              ["What does the {boat} carry?", "What is the cargo of the {boat}?"]),
    "captain": (["Her captain is {captain}.", "She sails under captain {captain}."],
                ["Who is the captain of the {boat}?", "Who commands the {boat}?"]),
}


class Chance:
    """Draws by random() alone, whose results Python promises for a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def of(self, choices):
        return choices[int(self.random() * len(choices))]

    def shuffled(self, values):
        rest, order = list(values), []
        while rest:
            order.append(rest.pop(int(self.random() * len(rest))))
        return order


def boat(chance):
    return {"boat": chance.of(BOATS), "yard": chance.of(YARDS), "year": str(1880 + int(chance.random() * 60)), "town": chance.of(TOWNS),
            "colour": chance.of(COLOURS), "cargo": chance.of(CARGOES), "captain": f"{chance.of(FIRST)} {chance.of(LAST)}"}


def described(chance, facts):
    """Sentences with all facts, the one with the boat's name first."""
    order = ["yard", *chance.shuffled([name for name in FACTS if name != "yard"])]
    return [chance.of(FACTS[name][0]).format(**facts) for name in order]


def write(name, text):
    with open(name, "w", encoding="utf-8", newline="\n") as out:
        out.write(text)


def remark(chance, words):
    pattern = chance.of(["The {thing} of the {boat} was {word}.", "We found the {thing} {word}.", "What a {word} {thing} she has!",
                         "Her {thing} is {word}, we all said."])
    return pattern.format(thing=chance.of(THINGS), boat=chance.of(BOATS), word=chance.of(words))


def register(chance):
    documents = []
    for _ in range(400):
        lines = described(chance, boat(chance)) + [remark(chance, GOOD + BAD)]
        documents.append("\n".join(lines) + "\n")
    write("register.txt", "\n".join(documents))


def log(chance):
    documents = []
    for _ in range(200):
        name, first = chance.of(BOATS), int(chance.random() * 7)
        lines = []
        for day in range(5):
            values = {"day": DAYS[(first + day) % 7], "boat": name, "town": chance.of(TOWNS), "cargo": chance.of(CARGOES),
                      "side": chance.of(["north", "south", "east", "west"])}
            lines.append(chance.of(["On {day} the {boat} sailed from {town} with {cargo}.",
                                    "On {day} the wind came from the {side}.",
                                    "The crew loaded {cargo} at {town} on {day}."]).format(**values))
        documents.append("\n".join(lines) + "\n")
    write("log.txt", "\n".join(documents))


def question_file(chance, paragraphs, first):
    made = []
    for number in range(first, first + paragraphs):
        facts = boat(chance)
        context = " ".join(described(chance, facts))
        questions = []
        for name, (_, asked) in FACTS.items():
            # The place where its sentence has it: a yard may be called as the captain is.
            said = next(text for text in FACTS[name][0] if text.format(**facts) in context)
            begin = context.index(said.format(**facts)) + len(said[:said.index("{" + name + "}")].format(**facts))
            questions.append({"id": f"{number}-{name}", "question": chance.of(asked).format(**facts),
                              "answers": [{"text": facts[name], "answer_start": begin}]})
        made.append({"context": context, "qas": questions})
    return json.dumps({"version": "1.1", "data": [{"title": "Boats", "paragraphs": made}]}, indent=1) + "\n"


def questions(chance):
    write("train.json", question_file(chance, 60, 0))
    write("dev.json", question_file(chance, 15, 60))


def remarks(chance):
    """No sentence twice, so that none is in both files."""
    found = {}
    while len(found) < 300:
        label = "good" if len(found) % 2 == 0 else "bad"
        found.setdefault(remark(chance, GOOD if label == "good" else BAD), label)
    rows = [f"{sentence}\t{label}\n" for sentence, label in found.items()]
    write("train.tsv", "sentence\tlabel\n" + "".join(rows[:240]))
    write("dev.tsv", "sentence\tlabel\n" + "".join(rows[240:]))


KINDS = {"register": register, "log": log, "questions": questions, "remarks": remarks}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        sys.exit(__doc__.strip())
    KINDS[sys.argv[1]](Chance(sys.argv[1]))
