"""Apply a map document with the standard library: ``python apply_map.py map.json < rows.json``; see apply-elsewhere.md.

Rows are a JSON array of numbers, or of arrays with a number per class, on the scale of the document. For a map of
predictive distributions they are objects such as {"mean": 1.5, "variance": 0.25, "by": "north"}, for one of segments
{"prediction": 0.3, "features": {"country": "DE", "age": null}}. A map to prediction sets by group takes
{"predictions": [0.2, 0.8], "group": "north"}, a randomised one a seed, and an adjustable one another error level:
apply_map.py map.json 7 alpha=0.2.
"""

import json
import sys
from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from math import asinh, ceil, erfc, exp, expm1, inf, isfinite, isinf, log, log1p, sqrt, tanh
from random import random
from statistics import NormalDist

CLIP = 2.0**-52


def logistic(x):
    return 1.0 / (1.0 + exp(-x)) if x >= 0.0 else exp(x) / (1.0 + exp(x))


def cut(p, clip=CLIP):
    return min(max(p, clip), 1.0 - clip)


def logit(p, clip=CLIP):
    return log(cut(p, clip)) - log1p(-cut(p, clip))


def score(p, z, clip=CLIP):
    """Return the logit of a prediction: as it was given, or that of the probability."""
    return logit(p, clip) if z is None else z


def log_logistic(x):
    return min(x, 0.0) - log1p(exp(-abs(x)))


def log_sum(z):
    return max(z) + log(sum(exp(x - max(z)) for x in z))


def log_odds(z):
    return [x - log_sum(z[:k] + z[k + 1 :]) for k, x in enumerate(z)]


def log_odds_within(z, r):
    ranked = sorted(z, reverse=True)
    return log_sum(ranked[:r]) - log_sum(ranked[r:])


def softmax(z):
    e = [exp(x - max(z)) for x in z]
    return [x / sum(e) for x in e]


def share(x, a, b):
    return (x - a) / (b - a)


def logit_share(x, a, b):
    """Return the share of the way from logit a to logit b, in the probability, which is not rounded to 0 or 1."""
    beside = exp(min(x, 0.0) - min(b, 0.0)) * (1.0 + exp(-abs(b))) / (1.0 + exp(-abs(x)))
    return beside * expm1(a - x) / expm1(a - b)


def linear(x, knots, heights, part=share):
    i = bisect_right(knots, x) - 1
    if i < 0 or i >= len(knots) - 1:
        return heights[0] if i < 0 else heights[-1]
    return heights[i] + part(x, knots[i], knots[i + 1]) * (heights[i + 1] - heights[i])


def place(p, z, d, name):
    """Return a prediction and the numbers to compare it with: logits, if the prediction and the map have them."""
    return (p, d[name]) if z is None or "at_logits" not in d else (z, d["at_logits"])


def joined(p, z, d, name, heights):
    x, knots = place(p, z, d, name)
    return linear(x, knots, heights, share if knots is d[name] else logit_share)


def stretched(p, z, d):
    return p + d["stretch"] * asinh(score(p, z, PL3) / 36.0) if "stretch" in d else p


def step(x, starts, heights):
    return heights[max(bisect_right(starts, x) - 1, 0)]


def scaling_binning(p, z, d):
    f = d["slope"] * score(p, z) + d["intercept"]
    return step(*place(logistic(f), None if z is None else f, d, "starts"), d["heights"])


def beta(p, z, d):
    above, below = (log(cut(p)), log1p(-cut(p))) if z is None else (log_logistic(z), log_logistic(-z))
    return logistic(d["a"] * above - d["b"] * below + d["c"])


def venn_abers(p, z, d):
    x, scores = place(p, z, d, "scores")
    rounding = 1e-12 * x if scores is d["scores"] else 1e-11 * (1.0 + abs(x))
    i = bisect_right(scores, x + rounding)
    i = 2 * i - (i > 0 and scores[i - 1] >= x - rounding)
    a, b = d["p0"][i], d["p1"][i]
    if d["merge"] in ("p0", "p1"):  # one of the bounds
        return d[d["merge"]][i]
    return b / (1.0 - a + b) if d["merge"] == "log-loss" else b + (a * a - b * b) / 2.0


def polynomial(p, d):
    breaks = d["breaks"]
    j = bisect_left(breaks[1:-1], p)
    return sum(c * (p - breaks[j]) ** power for power, c in enumerate(d["coefficients"][j]))


def numbered(holder, name):
    """Return the place of each value of a list, which is kept beside it."""
    if "places" not in holder:
        keys = (tuple(x) if isinstance(x, list) else x for x in holder[name])
        holder["places"] = {key: i for i, key in enumerate(keys)}
    return holder["places"]


def as_text(x):
    if isinstance(x, bool):
        return "true" if x else "false"
    return str(int(x)) if isinstance(x, float) and x.is_integer() else str(x)


def code(f, x):
    """Return the code of a value of a feature: the last one if it is missing, -1 if the fit did not see it."""
    missing = x is None or x == ""
    if "categories" in f:
        return len(f["categories"]) if missing else numbered(f, "categories").get(as_text(x), -1)
    return len(f["cuts"]) + 1 if missing else bisect_right(f["cuts"], x)


def segments(z, d):
    row, found = d["row"], z
    codes = [code(f, row[f["name"]]) for f in d["features"]]
    for term in d["terms"]:
        i = numbered(term, "cells").get(tuple(codes[k] for k in term["features"]))
        if i is None:
            continue
        value = term["values"][i]
        if term["shape"] != "level":
            f = None if term["along"] is None else d["features"][term["along"]]
            knots, x = (d["knots"], z) if f is None else (f["knots"], row[f["name"]])
            if x is None:
                continue
            x = min(max(x, knots[0]), knots[-1])
            k = min(bisect_right(knots, x) - 1, len(knots) - 2)
            part = share(x, knots[k], knots[k + 1])
            if term["shape"] == "slope":
                value = value * (((k + part) / (len(knots) - 1) - 0.5) * sqrt(12.0))
            else:
                value = value[k] + part * (value[k + 1] - value[k])
        found += value
    return logistic(found)


def mean(values):
    return sum(values) / len(values)


PL3 = 1e-16
CURVES = {  # family -> the function of a probability, the logit if it was given, and the parameters
    "identity": lambda p, _z, _d: p,
    "constant": lambda _p, _z, d: d["value"],
    "platt": lambda p, z, d: logistic(d["slope"] * score(p, z) + d["intercept"]),
    "event-temperature": lambda p, z, d: logistic(score(p, z) / d["temperature"]),
    "beta": beta,
    "isotonic": lambda p, z, d: joined(p, z, d, "thresholds", d["heights"]),
    "steps": lambda p, z, d: step(*place(p, z, d, "starts"), d["heights"]),
    "roofs": lambda p, z, d: p + step(*place(p, z, d, "starts"), d["shifts"]),
    "scaling-binning": scaling_binning,
    "spline": lambda p, z, d: joined(p, z, d, "scores", d["values"]),
    "kde": lambda p, _, d: linear(p, d["knots"], d["shares"]),
    "venn-abers": venn_abers,
    "piecewise-polynomial": lambda p, _, d: polynomial(p, d),
    "sides": lambda p, _, d: d["below"] if p < 0.5 else d["above"],
    "pl": lambda p, z, d: mean([linear(stretched(p, z, d), m["knots"], m["heights"]) for m in d["models"]]),
    "pl3": lambda p, z, d: mean([logistic(linear(score(p, z, PL3), m["knots"], m["heights"])) for m in d["models"]]),
    "averaged": lambda p, z, d: logistic(linear(score(p, z, PL3), d["knots"], d["logits"])),
    "quadratic": lambda p, z, d: logistic(d["intercept"] + (d["slope"] + d["square"] * score(p, z)) * score(p, z)),
    "segments": lambda p, z, d: segments(score(p, z, d["clip"]), d),
    "smoothed": lambda p, _, d: curve((1.0 - d["smoothing"]) * p + 0.5 * d["smoothing"], d["curves"][0]),
}


def curve(p, document, z=None):
    """Return the calibrated probability of p, or of the logit z, if it is given."""
    p = p if z is None else logistic(z)
    return min(max(CURVES[document["family"]](p, z, document["parameters"]), 0.0), 1.0)


def normalised(row):
    return [x / sum(row) for x in row] if sum(row) > 0.0 else [1.0 / len(row)] * len(row)


def ranking(row):
    return sorted(range(len(row)), key=lambda k: (-row[k], k))


def in_order(row, like):
    return [x for _, x in sorted(zip(ranking(like), sorted(row, reverse=True)))]


def one_vs_rest(row, d, logits):
    odds = log_odds(row) if logits else [None] * len(row)
    found = [curve(p, c, z) for p, c, z in zip(row, d["curves"], odds)]
    found = in_order(found, row) if d["keep_order"] else found
    return normalised(found) if d["renormalise"] else found


def ranked_score(row, r, within, logits):
    """Return the probability of rank r, or of the first r ranks, and its logit, if logits are given."""
    if logits and not (within and r == len(row)):
        return None, log_odds_within(row, r) if within else sorted(log_odds(row), reverse=True)[r - 1]
    p = sorted(softmax(row) if logits else row, reverse=True)
    return (cut(sum(p[:r]), 0.0) if within else p[r - 1]), None


def ranks(row, d, logits):
    ranked, found, reached = sorted(softmax(row) if logits else row, reverse=True), [], 0.0
    for r, c in enumerate(d["curves"], 1):
        p, z = ranked_score(row, r, d["within"], logits)
        value = curve(p, c, z)
        found.append(max(value - reached, 0.0) if d["within"] else value)
        reached = max(reached, value)
    left = max(1.0 - sum(found), 0.0)
    found = normalised(found + [left * x for x in normalised(ranked[len(found) :] or [1.0])][: len(row) - len(found)])
    placed = [x for _, x in sorted(zip(ranking(row), found))]
    return in_order(placed, row) if d["keep_order"] else placed


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


def network_softmax(z, d):
    a = d["smoothing"]
    u = [log((1.0 - a) * x + a * prior) for x, prior in zip(softmax(z), d["prior"])] if a > 0.0 else z
    v = [x - mean(u) for x in u]
    for x, knots in zip(u, d["knots"]):
        v += [cut((x - low) / (high - low), 0.0) if high > low else 0.0 for low, high in pairwise(knots)]
    v += [max(total + c, 0.0) for total, c in zip(times(d["hidden"], v), d["offsets"])]
    return softmax([s + b for s, b in zip(times(d["weights"], v), d["intercepts"])])


def times(rows, x):
    return [sum(a * b for a, b in zip(row, x)) for row in rows]


def ensemble(z, d):
    p, mixed, pooled = softmax(z), [0.0] * len(z), [0.0] * len(z)
    for member, weight, exponent in zip(d["members"], d["mixture"], d["pool"]):
        takes_logits = TRANSFORMS[member["family"]][0] == "logits"
        own = transformed(z if takes_logits else p, member, takes_logits)
        mixed = [m + weight * x for m, x in zip(mixed, own)]
        pooled = [m + exponent * log(max(x, CLIP)) for m, x in zip(pooled, own)]
    found = [m + d["pool_share"] * x for m, x in zip(mixed, softmax(pooled))]
    return in_order(found, z) if d["keep_order"] else found


def smoothed_vector(p, d):
    q = [(1.0 - d["smoothing"]) * x + d["smoothing"] / len(p) for x in p]
    return transformed(q, d["members"][0], False)


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


def dirichlet(row, d, logits):
    return matrix([x - log_sum(row) for x in row] if logits else logarithms(row), d)


def accuracy_constant(row, d, _):
    others = (1.0 - d["accuracy"]) / (len(row) - 1)
    return [d["accuracy"] if k == ranking(row)[0] else others for k in range(len(row))]


def logarithms(p):
    """Return logarithms; a probability of 0 becomes 2^-52, or half of the smallest other one if that is smaller."""
    least = min(x for x in p if x > 0.0)
    return [log(x if x > 0.0 else max(min(CLIP, least / 2.0), 5e-324)) for x in p]


TRANSFORMS = {  # family -> (what it takes, the function); with "either" an argument says whether it gets logits
    "temperature": ("logits", lambda z, d: softmax([x / d["temperature"] for x in z])),
    "vector": ("logits", lambda z, d: softmax([w * x + b for w, x, b in zip(d["weights"], z, d["intercepts"])])),
    "matrix": ("logits", matrix),
    "dirichlet": ("either", dirichlet),
    "ets": ("logits", ets),
    "iop-diagonal": ("logits", lambda z, d: softmax([-bent(max(z) - x, d["knots"], d["slopes"]) for x in z])),
    "iop-oi": ("logits", order_preserving),
    "iop-op": ("logits", order_preserving),
    "accuracy-constant": ("either", accuracy_constant),
    "predicted-class": ("either", lambda row, d, _: d["frequencies"][ranking(row)[0]]),
    "one-vs-rest": ("either", one_vs_rest),
    "ranks": ("either", ranks),
    "softmax-regression": ("logits", softmax_regression),
    "hidden-softmax": ("logits", hidden_softmax),
    "network-softmax": ("logits", network_softmax),
    "ensemble": ("logits", ensemble),
    "smoothed-vector": ("probabilities", smoothed_vector),
    "vector-identity": ("probabilities", lambda p, _: p),
}


def transformed(row, document, logits):
    takes, transform = TRANSFORMS[document["family"]]
    if takes == "either":
        return transform(row, document["parameters"], logits)
    if (takes == "logits") != logits:
        row = softmax(row) if logits else logarithms(row)
    return transform(row, document["parameters"])


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
    return None if isinstance(value, float) and isinf(value) else value


# --- Prediction sets


def uniform(seed, place):
    """Return the random number of a row, an output of SplitMix64."""
    x = ((seed << 32) + place + 1) * 0x9E3779B97F4A7C15 % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ x >> shift) * factor % 2**64
    return ((x ^ x >> 31) >> 11) / 2**53


def sums(p, d, u):
    """Return the score of each class: the sum of the probabilities down to its own, and a penalty."""
    found, total = [0.0] * len(p), 0.0
    for r, k in enumerate(ranking(p), 1):
        total += p[k]
        found[k] = total - u * p[k] + d.get("penalty", 0.0) * max(r - d.get("k_reg", 0), 0)
    return found


def limits_of(d, n, group):
    """Return the threshold of each class for a row of the group; None for a class that is always in the set."""
    if d["by"] != "group":
        return d["thresholds"] if d["by"] == "class" else d["thresholds"] * n
    if group not in d["groups"]:
        raise ValueError("group must be one of the map, which has a threshold for each")
    return [d["thresholds"][d["groups"].index(group)]] * n


def quantile(scores, alpha):
    """Return the score with rank ceil((n + 1) (1 - alpha)), or the next one that is stored; infinite above n."""
    if not 0.0 < alpha < 1.0:
        return inf if alpha <= 0.0 else -inf
    k = ceil((scores["n"] + 1) * (1.0 - alpha) - 1e-9)
    if not 0 < k <= scores["n"]:
        return inf if k > 0 else -inf
    return scores["values"][bisect_left(scores["ranks"], k)]


def at(document, alpha):
    """Return an adjustable map to sets at another error level."""
    d = document["parameters"]
    if "scores" not in d:
        raise ValueError("alpha cannot be changed: fit the map with adjustable=True")
    if not isfinite(alpha):
        raise ValueError("alpha must be a finite number")
    scores = d["scores"] if isinstance(d["scores"], list) else [d["scores"]]
    rounding, least = 2.0**-48 if document["scale"] == "logit" else 0.0, document["family"] == "lac"

    def threshold(q):
        if isinf(q):
            return None if q > 0.0 else 2.0 if least else -2.0
        return -q * (1.0 - rounding) if least else q + rounding

    return {**document, "parameters": {**d, "thresholds": [threshold(quantile(own, alpha)) for own in scores]}}


def prediction_set(document, row, seed, place):
    d, group = document["parameters"], None
    if isinstance(row, dict):
        row, group = row["predictions"], row["group"]
    if document["family"] == "crc" and isinstance(row, list):  # labels that need not exclude each other
        if len(row) != d.get("n_labels", len(row)):
            raise ValueError("a row must have as many labels as those of the fit")
        event, rows = {**document, "class_names": None}, [{"predictions": x, "group": group} for x in row]
        return [k for k, x in enumerate(rows) if prediction_set(event, x, seed, place) == [1]]
    if document["scale"] == "logit":
        p = softmax(row) if isinstance(row, list) else [logistic(-row), logistic(row)]
    else:
        p = row if isinstance(row, list) else [1.0 - row, row]
    limits = limits_of(d, len(p), group)
    if d.get("randomised") and seed is None:
        raise ValueError("the map draws a random number for each row, and needs a seed")
    if document["family"] in ("lac", "crc"):
        inside = [t is None or x >= t for x, t in zip(p, limits)]
        inside = [not inside[1], inside[1]] if document["family"] == "crc" else inside
    else:
        u = uniform(seed, place) if d["randomised"] else 0.0
        inside = [t is None or x <= t for x, t in zip(sums(p, d, u), limits)]
    if not any(inside) and not d["allow_empty"]:
        inside[ranking(p)[0]] = True
    return [k for k, is_in in zip(document.get("class_names") or range(len(p)), inside) if is_in]


# --- Any map


def apply(document, row, seed=None, place=0):
    """Return the calibrated probability of one row, its probabilities by class, its distribution, or its set.

    A randomised map to sets needs a seed, and the place of the row, from 0.
    """
    if document["format"] != 1:
        raise ValueError(f"unknown format: {document['format']}")
    if document.get("prediction_kind") == "regression":
        return apply_distribution(document, row)
    if document.get("reduction") == "sets":
        if document["family"] not in ("lac", "aps", "raps", "crc"):
            raise ValueError(f"unknown family: {document['family']}")
        return prediction_set(document, row, seed, place)
    logits, family = document["scale"] == "logit", document["family"]
    if family not in TRANSFORMS and family not in CURVES:
        raise ValueError(f"unknown family: {family}")
    if family in TRANSFORMS:
        return transformed(row, document, logits)
    if family == "segments":
        document = {**document, "parameters": {**document["parameters"], "row": row["features"]}}
        row = row["prediction"]
    if not isinstance(row, list):
        return curve(None, document, row) if logits else curve(row, document)
    name, _, number = document["reduction"].partition(":")
    if name in ("binary", "class"):
        k = int(number or 1)
        return curve(None, document, log_odds(row)[k]) if logits else curve(row[k], document)
    p, z = ranked_score(row, int(number or 1), name == "within-top", logits)
    return curve(p, document, z)


def bounds(document, row):
    """Return the two probabilities, p0 and p1, that a Venn-Abers map merges for one row."""
    if document["family"] != "venn-abers":
        raise ValueError("only venn-abers maps have bounds")
    d = document["parameters"]
    return [apply({**document, "parameters": {**d, "merge": name}}, row) for name in ("p0", "p1")]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        read = json.load(file)
    if sys.argv[2:] == ["bounds"]:
        json.dump([bounds(read, row) for row in json.load(sys.stdin)], sys.stdout)
        sys.exit()
    levels = [text.removeprefix("alpha=") for text in sys.argv[2:] if text.startswith("alpha=")]
    seeds = [text for text in sys.argv[2:] if not text.startswith("alpha=")]
    read, chosen = at(read, float(levels[0])) if levels else read, int(seeds[0]) if seeds else None
    json.dump(without_infinity([apply(read, row, chosen, i) for i, row in enumerate(json.load(sys.stdin))]), sys.stdout)
