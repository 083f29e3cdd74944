#!/usr/bin/env python3
"""Sweeps decided a second time, in Python, and compared with what the C++ decided.

    tests/orchestrator/sweeps/sweeps_test.py SWEEP_TRACES

The program plays sweeps and prints what it was asked and answered. Here everything is written anew from the papers that
orchestrator/sweeps/README.md names and from its table of counters: Philox4x32-10, random values, the grid, ASHA (algorithm 2
of Li et al. 2020, over sets of results as there), TPE (of all parameters together, Falkner et al. 2018, or of each alone, Bergstra
et al. 2011), with Python's own normal distribution. Numbers
agree to 1e-9 of their size. Where two of TPE's candidates are equally good to 1e-9, either may be taken.
"""
import itertools
import json
import math
import statistics
import subprocess
import sys

SITE = 0x53575031
NORMAL = statistics.NormalDist()
SEEN = {}  # what was compared, and how often


def philox(key, counter):
    """Salmon et al. 2011, table 2 and figure 4: ten rounds of two 32-bit products."""
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c = list(counter)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def check_philox():
    """The kat_vectors of Random123."""
    ones = 0xFFFFFFFF
    for key, counter, answer in (
            (0, [0] * 4, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
            (ones << 32 | ones, [ones] * 4, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
            (0x299F31D0A4093822, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
             [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1])):
        assert philox(key, counter) == answer, (hex(key), counter)


def units(seed, trial, parameter, block):
    words = philox(seed, (block, parameter, trial, SITE))
    return [((words[i] << 32 | words[i + 1]) >> 11) / 2**53 for i in (0, 2)]


def same(a, b):
    """Values of parameters: true is not 1."""
    return isinstance(a, bool) == isinstance(b, bool) and isinstance(a, str) == isinstance(b, str) and a == b


def close(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return same(a, b)


def active(parameter, values):
    return all(key in values and any(same(values[key], each) for each in allowed)
               for key, allowed in parameter["when"].items())


class Range:
    """Where a number lies on the scale on which its prior is even."""
    def __init__(self, parameter):
        self.parameter = parameter
        self.whole = parameter["kind"] == "integer"
        self.log = parameter["kind"] == "log_uniform" or parameter["log"]
        half = 0.5 if self.whole else 0
        self.a, self.b = self.to(parameter["low"] - half), self.to(parameter["high"] + half)

    def to(self, value):
        return math.log(value) if self.log else value

    def back(self, x):
        value = math.exp(x) if self.log else x
        if self.whole:
            value = math.floor(value + 0.5)
        return min(max(value, self.parameter["low"]), self.parameter["high"])


def prior(parameter, u):
    if parameter["kind"] == "choice":
        return parameter["values"][int(u * len(parameter["values"]))]
    r = Range(parameter)
    return r.back(r.a + u * (r.b - r.a))


def random_values(trace, number):
    values = {}
    for i, parameter in enumerate(trace["parameters"]):
        if active(parameter, values):
            values[parameter["key"]] = prior(parameter, units(trace["seed"], number, i, 0)[0])
    return values


def grid_points(parameters):
    """By brute force: the product of all, of which what is not active is struck out, each once."""
    axes = []
    for parameter in parameters:
        if parameter["kind"] == "choice":
            axes.append(parameter["values"])
        elif parameter["points"] == 0:
            axes.append(list(range(int(parameter["low"]), int(parameter["high"]) + 1)))
        else:
            r, n = Range(parameter), parameter["points"]
            low, high = r.to(parameter["low"]), r.to(parameter["high"])
            axes.append([r.back(low + (high - low) * i / (n - 1)) for i in range(n)])
    points = {}  # keeps the order in which they came first
    for combination in itertools.product(*axes):
        values = {}
        for parameter, value in zip(parameters, combination):
            if active(parameter, values):
                values[parameter["key"]] = value
        points.setdefault(json.dumps(values), values)
    return list(points.values())


def most_promising(parameters, good, bad, draws_of, told):
    """Of 24 draws from the density of the good the one with the greatest ratio to that of the others; `told` where it is as good."""
    l, g = Mixture(parameters, good), Mixture(parameters, bad)
    scored = []
    for c in range(24):
        values = l.sample(*draws_of(c))
        scored.append((math.log(l.at(values) / g.at(values)), values))
    best = max(score for score, _ in scored)
    equal = [values for score, values in scored if score >= best - 1e-9]
    return next((each for each in equal if each.keys() == told.keys() and all(close(each[key], told[key]) for key in each)), equal[0])


class Trial:
    def __init__(self, number, values, goal):
        self.number, self.values, self.goal = number, values, goal
        self.state, self.reports = "running", {}  # by budget; the first counts

    def objective(self, budget):
        """None where there is none; not a number where it is not finite."""
        if self.state == "failed" or self.goal < budget:
            return None
        reached = [each for each in self.reports if each >= budget]
        if reached:
            return self.reports[min(reached)]
        if self.state != "finished":
            return None
        return self.reports[max(self.reports)] if self.reports else math.nan

    def at_goal(self):
        return self.state == "running" and any(each >= self.goal for each in self.reports)


class Sweep:
    def __init__(self, trace):
        self.trace = trace
        self.trials = {}
        self.sign = -1 if trace["maximize"] else 1
        self.budgets = [trace["max"]]
        if trace["method"] == "asha":
            self.budgets = [trace["min"]]
            while self.budgets[-1] * trace["factor"] <= trace["max"]:
                self.budgets.append(self.budgets[-1] * trace["factor"])

    def worth(self, objective, number):
        finite = math.isfinite(objective)
        return (0, self.sign * objective, number) if finite else (1, 0, number)

    # ASHA

    def rung(self, k):
        """All (trial, loss) of rung k, best first."""
        results = [(t, t.objective(self.budgets[k])) for t in self.trials.values()]
        results = [(t, loss) for t, loss in results if loss is not None]
        return sorted(results, key=lambda each: self.worth(each[1], each[0].number))

    def top_k(self, k, count):
        """Those of the first `count` of rung k that were not promoted out of it, and could be."""
        return [t for t, loss in self.rung(k)[:count]
                if t.goal == self.budgets[k] and math.isfinite(loss)
                and (t.state == "paused" or t.at_goal())]

    def get_job(self):
        for k in range(len(self.budgets) - 2, -1, -1):
            promotable = self.top_k(k, len(self.rung(k)) // self.trace["factor"])
            if promotable:
                return promotable[0], self.budgets[k + 1]
        return None

    def hopeful(self):
        """Those that may be promoted yet: rung by rung, with all that may arrive there."""
        found, coming = set(), self.trace["trials"] - len(self.trials)
        for k in range(len(self.budgets) - 1):
            coming += sum(t.state == "running" and not t.at_goal() and t.goal == self.budgets[k]
                          for t in self.trials.values())
            may = self.top_k(k, (len(self.rung(k)) + coming) // self.trace["factor"])
            found |= {t.number for t in may}
            coming += len(may)
        return found

    # TPE

    def tpe(self, number, told):
        """told: what the C++ took, which is taken here where it is as good as the best to rounding."""
        known = [(t, t.objective(t.goal)) for t in self.trials.values()]
        known = sorted((self.worth(loss, t.number), t) for t, loss in known if loss is not None)
        if len(known) < 10:
            return random_values(self.trace, number)
        SEEN["tpe"] = SEEN.get("tpe", 0) + 1
        count = min(math.ceil(len(known) * 15 / 100), 25)
        good, bad = [t for _, t in known[:count]], [t for _, t in known[count:]]
        seed, parameters = self.trace["seed"], self.trace["parameters"]
        if number % 3:
            def together(c):
                draws = [units(seed, number, i, 1 + c)[0] for i in range(len(parameters) + 1)]
                return draws[-1], draws
            return most_promising(parameters, good, bad, together, told)
        SEEN["alone"] = SEEN.get("alone", 0) + 1
        values = {}
        for i, parameter in enumerate(parameters):
            if not active(parameter, values):
                continue
            key = parameter["key"]
            own = [[t for t in trials if key in t.values] for trials in (good, bad)]

            def alone(c):
                within, component = units(seed, number, i, 1 + c)
                return component, [within]
            values |= most_promising([{**parameter, "when": {}}], *own, alone, {key: told.get(key)})
        return values

    # What happens

    def next_action(self):
        """As README.md has it: free slots first, then stops, one decision at a time."""
        method, trials = self.trace["method"], self.trials.values()
        number = len(self.trials) + 1
        if sum(t.state == "running" and not t.at_goal() for t in trials) < self.trace["concurrency"]:
            job = self.get_job() if method == "asha" else None
            if job:
                return {"continue": job[0].number, "goal": job[1]}
            if number <= self.trace["trials"]:
                return {"start": number, "goal": self.budgets[0]}
        hopeful = self.hopeful() if method == "asha" else set()
        for t in sorted(trials, key=lambda each: each.number):
            if t.at_goal() or (t.state == "paused" and t.number not in hopeful):
                return {"pause" if t.number in hopeful else "finish": t.number}
        return None

    def carry_out(self, action):
        kind = next(iter(action))
        SEEN[kind] = SEEN.get(kind, 0) + 1
        number = action[kind]
        if kind == "start":
            self.trials[number] = Trial(number, action["values"], action["goal"])
        elif kind == "continue":
            self.trials[number].goal, self.trials[number].state = action["goal"], "running"
        else:
            self.trials[number].state = {"pause": "paused", "finish": "finished"}[kind]

    def happen(self, event):
        kind = next(iter(event))
        SEEN[kind] = SEEN.get(kind, 0) + 1
        trial = self.trials[event[kind]]
        if kind == "report":
            objective = event["objective"]
            trial.reports.setdefault(event["budget"], math.nan if objective is None else objective)
        else:
            trial.state = {"failed": "failed", "ended": "finished"}[kind]

    def check_values(self, number, values, points):
        method = self.trace["method"]
        if method == "grid":
            expected = points[number - 1]
        elif method == "tpe":
            expected = self.tpe(number, values)
        else:
            expected = random_values(self.trace, number)
        assert expected.keys() == values.keys(), (number, expected, values)
        for key, value in values.items():
            assert close(expected[key], value), (number, key, expected[key], value)
            SEEN["value"] = SEEN.get("value", 0) + 1

    def ranking(self):
        """Higher rungs first; what ended by itself is at the last one."""
        ranked = []
        for t in self.trials.values():
            for k in range(len(self.budgets) - 1, -1, -1):
                loss = t.objective(self.budgets[k])
                if loss is None:
                    continue
                level = k if max(t.reports, default=0) >= self.budgets[k] else len(self.budgets) - 1
                group, worth, number = self.worth(loss, t.number)
                ranked.append((group, -level if group == 0 else 0, worth, number))
                break
        return [each[-1] for each in sorted(ranked)]


class Mixture:
    """The even prior, and of each trial a product of kernels over what is asked for, an equal share of each."""
    def __init__(self, parameters, trials):
        self.parameters, self.trials = {each["key"]: each for each in parameters}, [t.values for t in trials]
        numbers = sum(each["kind"] != "choice" for each in parameters)
        self.ranges, self.widths = {}, {}
        for key, parameter in self.parameters.items():
            if parameter["kind"] != "choice":
                r = self.ranges[key] = Range(parameter)
                m = sum(key in values for values in self.trials)
                self.widths[key] = (r.b - r.a) * max(0.1 * max(m, 1) ** (-1 / (4 + numbers)), 0.03)
        self.w = 1 / (len(trials) + 1)

    def chance(self, key, value, centre=None):
        """Of one parameter, by the prior or by a kernel at centre."""
        parameter = self.parameters[key]
        if parameter["kind"] == "choice":
            even = 1 / len(parameter["values"])
            return even if centre is None else self.w * even + (1 - self.w) * same(centre, value)
        r = self.ranges[key]
        if centre is None:
            return (r.to(value + 0.5) - r.to(value - 0.5)) / (r.b - r.a) if r.whole else 1 / (r.b - r.a)
        normal = statistics.NormalDist(r.to(centre), self.widths[key])
        inside = normal.cdf(r.b) - normal.cdf(r.a)
        return (normal.cdf(r.to(value + 0.5)) - normal.cdf(r.to(value - 0.5)) if r.whole else normal.pdf(r.to(value))) / inside

    def at(self, values):
        parts = [math.prod(self.chance(key, value) for key, value in values.items())]
        parts += [math.prod(self.chance(key, value, trial.get(key)) for key, value in values.items()) for trial in self.trials]
        return sum(parts) / len(parts)

    def sample(self, u, draws):
        which = int(u * (len(self.trials) + 1))
        centre = self.trials[which - 1] if which > 0 else {}
        values = {}
        for (key, parameter), v in zip(self.parameters.items(), draws):
            if not active(parameter, values):
                continue
            if key not in centre:
                values[key] = prior(parameter, v)
            elif parameter["kind"] == "choice":
                values[key] = centre[key] if v < 1 - self.w else prior(parameter, (v - (1 - self.w)) / self.w)
            else:
                r = self.ranges[key]
                normal = statistics.NormalDist(r.to(centre[key]), self.widths[key])
                below = normal.cdf(r.a)
                values[key] = r.back(min(max(normal.inv_cdf(below + v * (normal.cdf(r.b) - below)), r.a), r.b))
        return values


def check(trace):
    sweep = Sweep(trace)
    points = grid_points(trace["parameters"]) if trace["method"] == "grid" else []
    if trace["method"] == "grid":
        assert len(points) == trace["trials"], (len(points), trace["trials"])
    for ask in trace["asked"]:
        for event in ask["happened"]:
            sweep.happen(event)
        for action in ask["actions"]:
            expected = sweep.next_action()
            told = {key: value for key, value in action.items() if key != "values"}
            assert told == expected, (told, expected)
            if "start" in action:
                sweep.check_values(action["start"], action["values"], points)
            sweep.carry_out(action)
        assert sweep.next_action() is None, sweep.next_action()
        over = all(t.state in ("finished", "failed") for t in sweep.trials.values())
        assert ask["done"] == over
    assert trace["asked"][-1]["done"]
    assert trace["ranking"] == sweep.ranking(), (trace["ranking"], sweep.ranking())


def main():
    check_philox()
    told = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout
    traces = [json.loads(line) for line in told.splitlines()]
    for i, trace in enumerate(traces):
        try:
            check(trace)
        except AssertionError as error:
            print(f"sweep {i + 1}, {trace['method']} with seed {trace['seed']}: C++ and Python differ: {error}")
            return 1
    for what in ("start", "continue", "pause", "finish", "report", "failed", "ended", "tpe", "alone", "value"):
        assert SEEN.get(what, 0) >= 10, f"only {SEEN.get(what, 0)} of {what}"
    print(f"{len(traces)} sweeps agree:", ", ".join(f"{count} of {what}" for what, count in sorted(SEEN.items())))
    return 0


sys.exit(main())
