"""Apply a map document with the standard library: ``python apply_map.py map.json < rows.json``; see apply-elsewhere.md.

Rows are a JSON array of numbers, or of arrays with a number per class, on the scale of the document.
"""

import json
import sys
from bisect import bisect_left, bisect_right
from itertools import pairwise
from math import exp, log, log1p, tanh

CLIP = 2.0**-52


def logistic(x):
    return 1.0 / (1.0 + exp(-x)) if x >= 0.0 else exp(x) / (1.0 + exp(x))


def cut(p, clip=CLIP):
    return min(max(p, clip), 1.0 - clip)


def logit(p, clip=CLIP):
    return log(cut(p, clip)) - log1p(-cut(p, clip))


def softmax(z):
    e = [exp(x - max(z)) for x in z]
    return [x / sum(e) for x in e]


def linear(x, knots, heights):
    i = bisect_right(knots, x) - 1
    if i < 0 or i >= len(knots) - 1:
        return heights[0] if i < 0 else heights[-1]
    return heights[i] + (x - knots[i]) * (heights[i + 1] - heights[i]) / (knots[i + 1] - knots[i])


def step(x, starts, heights):
    return heights[max(bisect_right(starts, x) - 1, 0)]


def venn_abers(p, d):
    i = bisect_left(d["scores"], p)
    i = 2 * i + (i < len(d["scores"]) and d["scores"][i] == p)
    a, b = d["p0"][i], d["p1"][i]
    return b / (1.0 - a + b) if d["merge"] == "log-loss" else b + (a * a - b * b) / 2.0


def polynomial(p, d):
    breaks = d["breaks"]
    j = bisect_left(breaks[1:-1], p)
    return sum(c * (p - breaks[j]) ** power for power, c in enumerate(d["coefficients"][j]))


def mean(values):
    return sum(values) / len(values)


PL3 = 1e-16
CURVES = {
    "identity": lambda p, _: p,
    "constant": lambda _, d: d["value"],
    "platt": lambda p, d: logistic(d["slope"] * logit(p) + d["intercept"]),
    "event-temperature": lambda p, d: logistic(logit(p) / d["temperature"]),
    "beta": lambda p, d: logistic(d["a"] * log(cut(p)) - d["b"] * log1p(-cut(p)) + d["c"]),
    "isotonic": lambda p, d: linear(p, d["thresholds"], d["heights"]),
    "steps": lambda p, d: step(p, d["starts"], d["heights"]),
    "roofs": lambda p, d: p + step(p, d["starts"], d["shifts"]),
    "scaling-binning": lambda p, d: step(CURVES["platt"](p, d), d["starts"], d["heights"]),
    "spline": lambda p, d: linear(p, d["scores"], d["values"]),
    "kde": lambda p, d: linear(p, d["knots"], d["shares"]),
    "venn-abers": venn_abers,
    "piecewise-polynomial": polynomial,
    "sides": lambda p, d: d["below"] if p < 0.5 else d["above"],
    "pl": lambda p, d: mean([linear(p, m["knots"], m["heights"]) for m in d["models"]]),
    "pl3": lambda p, d: mean([logistic(linear(logit(p, PL3), m["knots"], m["heights"])) for m in d["models"]]),
    "averaged": lambda p, d: logistic(linear(logit(p, PL3), d["knots"], d["logits"])),
    "quadratic": lambda p, d: logistic(d["intercept"] + (d["slope"] + d["square"] * logit(p)) * logit(p)),
    "smoothed": lambda p, d: curve((1.0 - d["smoothing"]) * p + 0.5 * d["smoothing"], d["curves"][0]),
}


def curve(p, document):
    return min(max(CURVES[document["family"]](p, document["parameters"]), 0.0), 1.0)


def normalised(row):
    return [x / sum(row) for x in row] if sum(row) > 0.0 else [1.0 / len(row)] * len(row)


def ranking(row):
    return sorted(range(len(row)), key=lambda k: (-row[k], k))


def in_order(row, like):
    return [x for _, x in sorted(zip(ranking(like), sorted(row, reverse=True)))]


def one_vs_rest(p, d):
    found = [curve(x, c) for x, c in zip(p, d["curves"])]
    found = in_order(found, p) if d["keep_order"] else found
    return normalised(found) if d["renormalise"] else found


def ranks(p, d):
    ranked, found, reached = sorted(p, reverse=True), [], 0.0
    for r, c in enumerate(d["curves"]):
        value = curve(cut(sum(ranked[: r + 1]), 0.0) if d["within"] else ranked[r], c)
        found.append(max(value - reached, 0.0) if d["within"] else value)
        reached = max(reached, value)
    left = max(1.0 - sum(found), 0.0)
    found = normalised(found + [left * x for x in normalised(ranked[len(found) :] or [1.0])][: len(p) - len(found)])
    row = [x for _, x in sorted(zip(ranking(p), found))]
    return in_order(row, p) if d["keep_order"] else row


def matrix(z, d):
    rows = zip(d["weights"], d["intercepts"])
    return softmax([sum(w * x for w, x in zip(weights, z)) + b for weights, b in rows])


def softmax_regression(z, d):
    u, a, K = [x / d["temperature"] for x in z], d["smoothing"], len(z)
    q = softmax(u)
    if a > 0.0:
        q = [(1.0 - a) * x + a * prior for x, prior in zip(q, d["prior"])]
        u = [log(x) for x in q]
    diagonal = not isinstance(d["weights"][0], list)
    scores = [w * x for w, x in zip(d["weights"], u)] if diagonal else times(d["weights"], u)
    for name, features in (("squares", [x * x / 4.0 for x in u]), ("probabilities", q)):
        scores = [s + x for s, x in zip(scores, times(d[name], features) if name in d else [0.0] * K)]
    return softmax([s + b for s, b in zip(scores, d["intercepts"])])


def hidden_softmax(z, d):
    a = d["smoothing"]
    u = [log((1.0 - a) * x + a * prior) for x, prior in zip(softmax(z), d["prior"])] if a > 0.0 else z
    x = [(value - mean(u) - c) / s for value, c, s in zip(u, d["centre"], d["spread"])]
    x += [tanh(value + b) for value, b in zip(times(d["hidden"], x), d["offsets"])]
    return softmax([s + b for s, b in zip(times(d["weights"], x), d["intercepts"])])


def times(rows, x):
    return [sum(a * b for a, b in zip(row, x)) for row in rows]


def ensemble(z, d):
    p, mixed, pooled = softmax(z), [0.0] * len(z), [0.0] * len(z)
    for member, weight, exponent in zip(d["members"], d["mixture"], d["pool"]):
        takes_logits, transform = TRANSFORMS[member["family"]]
        own = transform(z if takes_logits else p, member["parameters"])
        mixed = [m + weight * x for m, x in zip(mixed, own)]
        pooled = [m + exponent * x for m, x in zip(pooled, logarithms(own))]
    found = [m + d["pool_share"] * x for m, x in zip(mixed, softmax(pooled))]
    return in_order(found, z) if d["keep_order"] else found


def smoothed_vector(p, d):
    q = [(1.0 - d["smoothing"]) * x + d["smoothing"] / len(p) for x in p]
    takes_logits, transform = TRANSFORMS[d["members"][0]["family"]]
    return transform(logarithms(q) if takes_logits else q, d["members"][0]["parameters"])


def ets(z, d):
    w, rows = d["weights"], zip(softmax([x / d["temperature"] for x in z]), softmax(z))
    return [w[0] * t + w[1] * p + w[2] / len(z) for t, p in rows]


def bent(gap, knots, slopes):
    ends = list(zip([0.0, *knots], [*knots, gap]))
    return sum(s * max(min(gap, high) - low, 0.0) for s, (low, high) in zip(slopes, ends))


def order_preserving(z, d):
    order, score, found = ranking(z), 0.0, [0.0] * len(z)
    for i, (k, following) in enumerate(pairwise(order)):
        slopes = d["rank_slopes"][min(i, len(d["rank_slopes"]) - 1)]
        if "class_slopes" in d:
            slopes = [a + b for a, b in zip(slopes, d["class_slopes"][k])]
        score -= bent(z[k] - z[following], d["knots"], slopes)
        found[following] = score
    return softmax(found)


def accuracy_constant(p, d):
    others = (1.0 - d["accuracy"]) / (len(p) - 1)
    return [d["accuracy"] if k == ranking(p)[0] else others for k in range(len(p))]


def logarithms(p):
    return [log(max(x, CLIP)) for x in p]


TRANSFORMS = {  # family -> (whether it takes logits, the function)
    "temperature": (True, lambda z, d: softmax([x / d["temperature"] for x in z])),
    "vector": (True, lambda z, d: softmax([w * x + b for w, x, b in zip(d["weights"], z, d["intercepts"])])),
    "matrix": (True, matrix),
    "dirichlet": (False, lambda p, d: matrix(logarithms(p), d)),
    "ets": (True, ets),
    "iop-diagonal": (True, lambda z, d: softmax([-bent(max(z) - x, d["knots"], d["slopes"]) for x in z])),
    "iop-oi": (True, order_preserving),
    "iop-op": (True, order_preserving),
    "accuracy-constant": (False, accuracy_constant),
    "predicted-class": (False, lambda p, d: d["frequencies"][ranking(p)[0]]),
    "one-vs-rest": (False, one_vs_rest),
    "ranks": (False, ranks),
    "softmax-regression": (True, softmax_regression),
    "hidden-softmax": (True, hidden_softmax),
    "ensemble": (True, ensemble),
    "smoothed-vector": (False, smoothed_vector),
    "vector-identity": (False, lambda p, _: p),
}


def apply(document, row):
    """Return the calibrated probability of one row, or its probabilities by class."""
    logits, family = document["scale"] == "logit", document["family"]
    if family in TRANSFORMS:
        takes_logits, transform = TRANSFORMS[family]
        if takes_logits != logits:
            row = softmax(row) if logits else logarithms(row)
        return transform(row, document["parameters"])
    if isinstance(row, list):
        name, _, number = document["reduction"].partition(":")
        row, ranked, logits = softmax(row) if logits else row, None, False
        ranked = sorted(row, reverse=True)
        tops = {"within-top": lambda r: cut(sum(ranked[:r]), 0.0), "top": lambda r: ranked[r - 1]}
        tops |= {"confidence": tops["top"], "class": lambda k: row[k], "binary": lambda k: row[k]}
        row = tops[name](int(number or 1))
    return curve(logistic(row) if logits else row, document)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        read = json.load(file)
    json.dump([apply(read, row) for row in json.load(sys.stdin)], sys.stdout)
