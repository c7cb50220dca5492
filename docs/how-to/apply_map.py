"""Apply a map document with the standard library: ``python apply_map.py map.json < rows.json``; see apply-elsewhere.md.

Rows are a JSON array of numbers, or of arrays with a number per class, on the scale of the document. For a map of
predictive distributions they are objects such as {"mean": 1.5, "variance": 0.25, "by": "north"}.
"""

import json
import sys
from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from math import erfc, exp, expm1, inf, isfinite, isinf, log, log1p, sqrt, tanh
from random import random
from statistics import NormalDist

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


# --- Predictive distributions of a number

HUBS = [0.01, 0.025, *[i / 20 for i in range(1, 20)], 0.975, 0.99]
FIELDS = {  # kind -> the fields of a forecast
    "normal": ("mean", "variance"),
    "quantiles": ("quantiles", "levels"),
    "samples": ("samples",),
    "interval": ("lower", "upper", "level"),
}
LISTS = ("quantiles", "levels", "samples")


def forward(x, scale):
    if scale == "log1p" and x <= -1.0:
        raise ValueError("numbers must be above -1 for the scale log1p")
    return log1p(x) if scale == "log1p" else x


def backward(g, scale):
    if scale == "identity" or isinf(g):
        return g
    return inf if g > log(sys.float_info.max) else expm1(g)


def table(f, levels=HUBS):
    """Return the quantiles of a forecast and their levels; those of samples at the given levels."""
    if "lower" in f:
        return [f["lower"], f["upper"]], [(1.0 - f["level"]) / 2.0, (1.0 + f["level"]) / 2.0]
    if "samples" in f:
        ascending = sorted(f["samples"])
        last = len(ascending) - 1
        return [linear(last * t, range(last + 1), ascending) for t in levels], levels
    return f["quantiles"], f["levels"]


def with_quantiles(f, q, levels):
    """Return a forecast with other quantiles; an interval stays an interval."""
    if "lower" in f:
        return {"lower": q[0], "upper": q[1], "level": f["level"]}
    return {"quantiles": q, "levels": levels}


def with_variance(f, v):
    return {"mean": f["mean"], "variance": min(max(v, 1e-300), 1e300)}


def variance_curve(f, d):
    std = d["of"] == "std"
    height = linear(sqrt(f["variance"]) if std else f["variance"], d["thresholds"], d["heights"])
    return with_variance(f, height**2 if std else height)


def location_scale(f, d):
    if "mean" in f:
        return {"mean": f["mean"] + d["shift"], "variance": d["factor"] ** 2 * f["variance"]}
    q, levels = table(f)
    g = [forward(x, d["scale"]) for x in q]
    m = linear(0.5, levels, g)
    return with_quantiles(f, [backward(m + d["shift"] + d["factor"] * (x - m), d["scale"]) for x in g], levels)


def level_map(f, d):
    scores = [linear(t, d["heights"], d["knots"]) for t in d["levels"]]
    if "mean" in f:
        return {"quantiles": [f["mean"] + sqrt(f["variance"]) * z for z in scores], "levels": d["levels"]}
    q, levels = table(f)
    g = [forward(x, d["scale"]) for x in q]
    found = [backward(at_score(z, g, levels, d["tails"]), d["scale"]) for z in scores]
    return {"quantiles": found, "levels": d["levels"]}


def at_score(z, g, levels, tails):
    t = 0.5 * erfc(-z / sqrt(2.0))
    for end, beyond in ((0, t < levels[0]), (-1, t > levels[-1])):
        outer = NormalDist().inv_cdf(levels[end]) if tails == "normal" and beyond else 0.0
        if outer != 0.0:
            return g[end] + max((g[end] - linear(0.5, levels, g)) / outer, 0.0) * (z - outer)
    return linear(t, levels, g)


def conformal(f, d):
    if "mean" in f:
        q, levels, unit = [f["mean"]] * len(d["levels"]), d["levels"], sqrt(f["variance"])
    else:
        (q, levels), unit = table(f, d["levels"]), 1.0
    g, half = [forward(x, d["scale"]) for x in q], len(q) // 2
    for i, offset in enumerate(d["offsets"]):
        width = inf if offset is None else offset * unit
        g[i], g[-1 - i] = g[i] - width, g[-1 - i] + width
    q = [backward(x, d["scale"]) for x in g]
    for i, keep in enumerate(d["keep"]):
        if d["ties"] == "random" and random() >= keep:
            for k, sign in ((i, 1.0), (-1 - i, -1.0)):
                q[k] += sign * 1e-9 * max(1.0, abs(q[k])) if isfinite(q[k]) else 0.0
    if len(q) % 2 == 0 and q[half - 1] > q[half]:
        q[half - 1] = q[half] = (q[half - 1] + q[half]) / 2.0
    low, high = q[: len(q) - half], q[half:]  # both with the median, if there is one
    low, high = list(accumulate(reversed(low), min))[::-1], list(accumulate(high, max))
    return with_quantiles(f, low + high[len(q) % 2 :], levels)


def by_group(f, d, by):
    by = int(by) if isinstance(by, float) and by.is_integer() else by
    if type(by) not in (str, int):
        raise ValueError("by must be a string or an integer: the map has one function for each value")
    return distribution(d["members"].get(str(by), d["other"]), f, by)


def average(f, d, by):
    found = [distribution(member, f, by) for member in d["members"]]

    def mixed(values):
        return sum(share * x for share, x in zip(d["shares"], values) if share > 0.0)

    if "mean" in found[0]:
        sd = mixed(sqrt(each["variance"]) for each in found)
        return {"mean": mixed(each["mean"] for each in found), "variance": sd * sd}
    q = [mixed(column) for column in zip(*[table(each)[0] for each in found])]
    return with_quantiles(found[0], q, table(found[0])[1])


def chain(f, d, by):
    for member in d["members"]:
        f = distribution(member, f, by)
    return f


DISTRIBUTIONS = {
    "identity": lambda f, _d, _by: with_quantiles(f, *table(f)) if "samples" in f else f,
    "variance-line": lambda f, d, _: with_variance(f, d["factor"] * f["variance"] + d["offset"]),
    "variance-curve": lambda f, d, _: variance_curve(f, d),
    "location-scale": lambda f, d, _: location_scale(f, d),
    "level-map": lambda f, d, _: level_map(f, d),
    "conformal": lambda f, d, _: conformal(f, d),
    "by-group": by_group,
    "average": average,
    "chain": chain,
}


def distribution(function, f, by):
    if function["family"] not in DISTRIBUTIONS:
        raise ValueError(f"unknown family of distributions: {function['family']}")
    return DISTRIBUTIONS[function["family"]](f, function["parameters"], by)


def checked(document, row):
    """Return the forecast of a row, with quantiles in order; refuse one that the map does not take."""
    names = FIELDS[document["kind"]]
    if not isinstance(row, dict) or {*row} - {"by"} != {*names}:
        raise ValueError(f"a row must be an object with {', '.join(names)}")
    for name in names:
        numbers = row[name] if name in LISTS else [row[name]]
        if not isinstance(numbers, list) or not numbers or not all(type(x) in (int, float) for x in numbers):
            raise ValueError(f"{name} must be {'a list of numbers' if name in LISTS else 'a number'}")
        if not all(isfinite(x) for x in numbers):
            raise ValueError(f"{name} must be finite")
    f = {name: row[name] for name in names}
    if "mean" in f and f["variance"] <= 0.0:
        raise ValueError("variance must be above 0")
    if document["levels"] is None:
        return f
    q, levels = table(f)
    if len(levels) != len(document["levels"]) or any(abs(a - b) > 1e-12 for a, b in zip(levels, document["levels"])):
        raise ValueError(f"levels must be those of the map: {document['levels']}")
    if len(q) != len(levels) or any(a - b > 1e-6 * max(abs(a), abs(b)) for a, b in pairwise(q)):
        raise ValueError("quantiles must be as many as levels, and must not cross")
    return with_quantiles(f, list(accumulate(q, max)), levels)


def apply_distribution(document, row):
    f = checked(document, row)
    found = distribution(document, f, row.get("by"))
    if "mean" in found:
        return found
    (low, high), (q, levels) = document["support"], table(found)
    low, high = -inf if low is None else low, inf if high is None else high
    return with_quantiles(found, [min(max(x, low), high) for x in q], levels)


def without_infinity(value):
    """Return a result with null for infinite bounds, which JSON cannot write."""
    if isinstance(value, dict):
        return {name: without_infinity(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_infinity(each) for each in value]
    return None if isinf(value) else value


# --- Any map


def apply(document, row):
    """Return the calibrated probability of one row, its probabilities by class, or its calibrated distribution."""
    if document["format"] != 1:
        raise ValueError(f"unknown format: {document['format']}")
    if document.get("prediction_kind") == "regression":
        return apply_distribution(document, row)
    logits, family = document["scale"] == "logit", document["family"]
    if family not in TRANSFORMS and family not in CURVES:
        raise ValueError(f"unknown family: {family}")
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
    json.dump(without_infinity([apply(read, row) for row in json.load(sys.stdin)]), sys.stdout)
