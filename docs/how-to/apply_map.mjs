// Apply a map document with ECMAScript alone: node apply_map.mjs map.json < rows.json; see apply-elsewhere.md.
// Rows are a JSON array of numbers, or of arrays with a number per class, on the scale of the document. For a map of
// predictive distributions they are objects such as {"mean": 1.5, "variance": 0.25, "by": "north"}, for one of segments
// {"prediction": 0.3, "features": {"country": "DE", "age": null}}. A map to prediction sets by group takes
// {"predictions": [0.2, 0.8], "group": "north"}, and a randomised one a seed: apply_map.mjs map.json 7.

const CLIP = 2 ** -52, PL3 = 1e-16;
const sum = (row) => row.reduce((a, b) => a + b, 0);
const cut = (p, clip = CLIP) => Math.min(Math.max(p, clip), 1 - clip);
const logit = (p, clip = CLIP) => Math.log(cut(p, clip)) - Math.log1p(-cut(p, clip));
const logistic = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));
// The logit of a prediction: as it was given, or that of the probability.
const score = (p, z, clip = CLIP) => z ?? logit(p, clip);
const logLogistic = (x) => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x)));
const logSum = (z) => {
  const top = Math.max(...z);
  return top + Math.log(sum(z.map((x) => Math.exp(x - top))));
};
const logOdds = (z) => z.map((x, k) => x - logSum(z.filter((_, j) => j !== k)));
const softmax = (z) => {
  const top = Math.max(...z), e = z.map((x) => Math.exp(x - top)), total = sum(e);
  return e.map((x) => x / total);
};
const below = (x, knots) => { // the number of knots at or below x
  let low = 0, high = knots.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (knots[middle] <= x) low = middle + 1; else high = middle;
  }
  return low;
};
const share = (x, a, b) => (x - a) / (b - a);
// The share of the way from logit a to logit b, in the probability, which is not rounded to 0 or 1.
const logitShare = (x, a, b) => {
  const beside = (1 + Math.exp(-Math.abs(b))) / (1 + Math.exp(-Math.abs(x)));
  return (Math.exp(Math.min(x, 0) - Math.min(b, 0)) * beside * Math.expm1(a - x)) / Math.expm1(a - b);
};
const linear = (x, knots, h, part = share) => {
  const i = below(x, knots) - 1;
  if (i < 0 || i >= knots.length - 1) return i < 0 ? h[0] : h[h.length - 1];
  return h[i] + part(x, knots[i], knots[i + 1]) * (h[i + 1] - h[i]);
};
// A prediction and the numbers to compare it with: logits, if the prediction and the map have them.
const place = (p, z, d, name) => (z === undefined || !d.at_logits ? [p, d[name]] : [z, d.at_logits]);
const joined = (p, z, d, name, heights) => {
  const [x, knots] = place(p, z, d, name);
  return linear(x, knots, heights, knots === d[name] ? share : logitShare);
};
const step = (x, starts, heights) => heights[Math.max(below(x, starts) - 1, 0)];
const mean = (values) => sum(values) / values.length;
const scalingBinning = (p, z, d) => {
  const f = d.slope * score(p, z) + d.intercept;
  return step(...place(logistic(f), z === undefined ? z : f, d, "starts"), d.heights);
};
const beta = (p, z, d) => {
  const [above, under] = z === undefined ? [Math.log(cut(p)), Math.log1p(-cut(p))] : [logLogistic(z), logLogistic(-z)];
  return logistic(d.a * above - d.b * under + d.c);
};
const vennAbers = (p, z, d) => {
  const [x, scores] = place(p, z, d, "scores");
  const rounding = scores === d.scores ? 1e-12 * x : 1e-11 * (1 + Math.abs(x)), n = below(x + rounding, scores);
  const i = n > 0 && scores[n - 1] >= x - rounding ? 2 * n - 1 : 2 * n, a = d.p0[i], b = d.p1[i];
  if (d.merge === "p0" || d.merge === "p1") return d[d.merge][i]; // one of the bounds
  return d.merge === "log-loss" ? b / (1 - a + b) : b + (a * a - b * b) / 2;
};
const polynomial = (p, { breaks, coefficients }) => {
  const j = breaks.slice(1, -1).filter((b) => b < p).length;
  return sum(coefficients[j].map((c, power) => c * (p - breaks[j]) ** power));
};

// The place of each value of a list, which is kept beside it.
const numbered = (holder, name) => holder.places ??= new Map(holder[name].map((x, i) => [String(x), i]));
// The code of a value of a feature: the last one if it is missing, -1 if the fit did not see it.
const code = (f, x) => {
  const missing = x === null || x === undefined || x === "";
  if (f.categories) return missing ? f.categories.length : numbered(f, "categories").get(String(x)) ?? -1;
  return missing ? f.cuts.length + 1 : below(x, f.cuts);
};
const segments = (z, d) => {
  const codes = d.features.map((f) => code(f, d.row[f.name]));
  let found = z;
  for (const term of d.terms) {
    const i = numbered(term, "cells").get(String(term.features.map((k) => codes[k])));
    if (i === undefined) continue;
    let value = term.values[i];
    if (term.shape !== "level") {
      const f = term.along === null ? undefined : d.features[term.along];
      const [knots, given] = f ? [f.knots, d.row[f.name]] : [d.knots, z];
      if (given === null || given === undefined) continue;
      const x = Math.min(Math.max(given, knots[0]), knots[knots.length - 1]);
      const k = Math.min(below(x, knots) - 1, knots.length - 2), part = share(x, knots[k], knots[k + 1]);
      if (term.shape === "slope") value *= ((k + part) / (knots.length - 1) - 0.5) * Math.sqrt(12);
      else value = value[k] + part * (value[k + 1] - value[k]);
    }
    found += value;
  }
  return logistic(found);
};

const stretched = (p, z, d) => ("stretch" in d ? p + d.stretch * Math.asinh(score(p, z, PL3) / 36) : p);

const CURVES = { // family -> the function of a probability, the logit if it was given, and the parameters
  identity: (p) => p,
  constant: (p, z, d) => d.value,
  platt: (p, z, d) => logistic(d.slope * score(p, z) + d.intercept),
  "event-temperature": (p, z, d) => logistic(score(p, z) / d.temperature),
  beta,
  isotonic: (p, z, d) => joined(p, z, d, "thresholds", d.heights),
  steps: (p, z, d) => step(...place(p, z, d, "starts"), d.heights),
  roofs: (p, z, d) => p + step(...place(p, z, d, "starts"), d.shifts),
  "scaling-binning": scalingBinning,
  spline: (p, z, d) => joined(p, z, d, "scores", d.values),
  kde: (p, z, d) => linear(p, d.knots, d.shares),
  "venn-abers": vennAbers,
  "piecewise-polynomial": (p, z, d) => polynomial(p, d),
  sides: (p, z, d) => (p < 0.5 ? d.below : d.above),
  pl: (p, z, d) => mean(d.models.map((m) => linear(stretched(p, z, d), m.knots, m.heights))),
  pl3: (p, z, d) => mean(d.models.map((m) => logistic(linear(score(p, z, PL3), m.knots, m.heights)))),
  averaged: (p, z, d) => logistic(linear(score(p, z, PL3), d.knots, d.logits)),
  quadratic: (p, z, d) => logistic(d.intercept + (d.slope + d.square * score(p, z)) * score(p, z)),
  segments: (p, z, d) => segments(score(p, z, d.clip), d),
  smoothed: (p, z, d) => curve((1 - d.smoothing) * p + 0.5 * d.smoothing, d.curves[0]),
};
// The calibrated probability of p, or of the logit z, if it is given.
const curve = (p, { family, parameters }, z) => {
  const q = z === undefined ? p : logistic(z);
  return Math.min(Math.max(CURVES[family](q, z, parameters), 0), 1);
};

const normalised = (row) => {
  const total = sum(row);
  return row.map((x) => (total > 0 ? x / total : 1 / row.length));
};
const descending = (row) => [...row].sort((a, b) => b - a);
const ranking = (row) => row.map((_, k) => k).sort((a, b) => row[b] - row[a] || a - b);
const placed = (values, order) => {
  const found = [];
  order.forEach((k, r) => { found[k] = values[r]; });
  return found;
};
const inOrder = (row, like) => placed(descending(row), ranking(like));
// Logarithms; a probability of 0 becomes 2^-52, or half of the smallest other one if that is smaller.
const logarithms = (p) => {
  const floor = Math.max(Math.min(CLIP, Math.min(...p.filter((x) => x > 0)) / 2), Number.MIN_VALUE);
  return p.map((x) => Math.log(x > 0 ? x : floor));
};
const matrix = (z, d) => softmax(d.weights.map((w, k) => sum(w.map((x, j) => x * z[j])) + d.intercepts[k]));
const times = (rows, x) => rows.map((row) => sum(row.map((a, j) => a * x[j])));
const softmaxRegression = (z, d) => {
  let u = z.map((x) => x / d.temperature), q = softmax(u);
  if (d.smoothing > 0) {
    q = q.map((x, k) => (1 - d.smoothing) * x + d.smoothing * d.prior[k]);
    u = q.map(Math.log);
  }
  const scores = Array.isArray(d.weights[0]) ? times(d.weights, u) : u.map((x, k) => d.weights[k] * x);
  const squares = d.squares && times(d.squares, u.map((x) => (x * x) / 4));
  const probabilities = d.probabilities && times(d.probabilities, q);
  return softmax(scores.map((s, k) => s + (squares?.[k] ?? 0) + (probabilities?.[k] ?? 0) + d.intercepts[k]));
};
const hiddenSoftmax = (z, d) => {
  const a = d.smoothing, u = a > 0 ? softmax(z).map((x, k) => Math.log((1 - a) * x + a * d.prior[k])) : z;
  const x = u.map((value, k) => (value - mean(u) - d.centre[k]) / d.spread[k]);
  const all = [...x, ...times(d.hidden, x).map((value, j) => Math.tanh(value + d.offsets[j]))];
  return softmax(times(d.weights, all).map((s, k) => s + d.intercepts[k]));
};
const networkSoftmax = (z, d) => {
  const a = d.smoothing, u = a > 0 ? softmax(z).map((x, k) => Math.log((1 - a) * x + a * d.prior[k])) : z;
  const positions = u.flatMap((x, k) => d.knots[k].slice(1).map((high, i) => {
    const low = d.knots[k][i];
    return high > low ? cut((x - low) / (high - low), 0) : 0;
  }));
  const v = [...u.map((x) => x - mean(u)), ...positions];
  const all = [...v, ...times(d.hidden, v).map((total, j) => Math.max(total + d.offsets[j], 0))];
  return softmax(times(d.weights, all).map((s, k) => s + d.intercepts[k]));
};
const ensemble = (z, d) => {
  const p = softmax(z), mixed = z.map(() => 0), pooled = z.map(() => 0);
  d.members.forEach(({ family, parameters }, m) => {
    const takesLogits = TRANSFORMS[family][0] === "logits";
    transformed(takesLogits ? z : p, { family, parameters }, takesLogits).forEach((x, k) => {
      mixed[k] += d.mixture[m] * x;
      pooled[k] += d.pool[m] * Math.log(Math.max(x, CLIP));
    });
  });
  const pool = softmax(pooled), found = mixed.map((x, k) => x + d.pool_share * pool[k]);
  return d.keep_order ? inOrder(found, z) : found;
};
const smoothedVector = (p, d) => {
  const q = p.map((x) => (1 - d.smoothing) * x + d.smoothing / p.length);
  return transformed(q, d.members[0], false);
};
const ets = (z, d) => {
  const [a, b, c] = d.weights, cooled = softmax(z.map((x) => x / d.temperature)), p = softmax(z);
  return p.map((x, k) => a * cooled[k] + b * x + c / z.length);
};
const bent = (gap, knots, slopes) => sum(slopes.map((s, j) => {
  const low = j > 0 ? knots[j - 1] : 0, high = j < knots.length ? Math.min(gap, knots[j]) : gap;
  return s * Math.max(high - low, 0);
}));
const orderPreserving = (z, { knots, rank_slopes: ranked, class_slopes: own }) => {
  const order = ranking(z), found = z.map(() => 0);
  let score = 0;
  order.slice(1).forEach((next, i) => {
    const k = order[i], slopes = ranked[Math.min(i, ranked.length - 1)].map((s, j) => s + (own ? own[k][j] : 0));
    score -= bent(z[k] - z[next], knots, slopes);
    found[next] = score;
  });
  return softmax(found);
};
const dirichlet = (row, d, logits) => {
  const total = logits ? logSum(row) : 0;
  return matrix(logits ? row.map((x) => x - total) : logarithms(row), d);
};
const oneVsRest = (row, d, logits) => {
  const odds = logits ? logOdds(row) : [];
  let found = row.map((x, k) => curve(x, d.curves[k], odds[k]));
  if (d.keep_order) found = inOrder(found, row);
  return d.renormalise ? normalised(found) : found;
};
// The probability of rank r, or of the first r ranks, and its logit, if logits are given.
const rankedScore = (row, r, within, logits) => {
  const sorted = descending(row);
  if (logits && within && r < row.length) return [undefined, logSum(sorted.slice(0, r)) - logSum(sorted.slice(r))];
  if (logits && !within) return [undefined, descending(logOdds(row))[r - 1]];
  const p = logits ? softmax(sorted) : sorted;
  return [within ? cut(sum(p.slice(0, r)), 0) : p[r - 1], undefined];
};
const ranks = (row, d, logits) => {
  const ranked = descending(logits ? softmax(row) : row), found = [];
  let reached = 0;
  d.curves.forEach((c, i) => {
    const [p, z] = rankedScore(row, i + 1, d.within, logits), value = curve(p, c, z);
    found.push(d.within ? Math.max(value - reached, 0) : value);
    reached = Math.max(reached, value);
  });
  const left = Math.max(1 - sum(found), 0);
  const all = normalised([...found, ...normalised(ranked.slice(found.length)).map((x) => left * x)]);
  const calibrated = placed(all, ranking(row));
  return d.keep_order ? inOrder(calibrated, row) : calibrated;
};

const TRANSFORMS = { // family -> [what it takes, the function]; with "either" an argument says whether it gets logits
  temperature: ["logits", (z, d) => softmax(z.map((x) => x / d.temperature))],
  vector: ["logits", (z, d) => softmax(z.map((x, k) => d.weights[k] * x + d.intercepts[k]))],
  matrix: ["logits", matrix],
  dirichlet: ["either", dirichlet],
  ets: ["logits", ets],
  "iop-diagonal": ["logits", (z, d) => softmax(z.map((x) => -bent(Math.max(...z) - x, d.knots, d.slopes)))],
  "iop-oi": ["logits", orderPreserving],
  "iop-op": ["logits", orderPreserving],
  "accuracy-constant": ["either", (row, d) => row.map((_, k) => (
    k === ranking(row)[0] ? d.accuracy : (1 - d.accuracy) / (row.length - 1)))],
  "predicted-class": ["either", (row, d) => d.frequencies[ranking(row)[0]]],
  "one-vs-rest": ["either", oneVsRest],
  ranks: ["either", ranks],
  "softmax-regression": ["logits", softmaxRegression],
  "hidden-softmax": ["logits", hiddenSoftmax],
  "network-softmax": ["logits", networkSoftmax],
  ensemble: ["logits", ensemble],
  "smoothed-vector": ["probabilities", smoothedVector],
  "vector-identity": ["probabilities", (p) => p],
};
const transformed = (row, { family, parameters }, logits) => {
  const [takes, transform] = TRANSFORMS[family];
  if (takes === "either") return transform(row, parameters, logits);
  if ((takes === "logits") === logits) return transform(row, parameters);
  return transform(logits ? softmax(row) : logarithms(row), parameters);
};

// Predictive distributions of a number.

const HUBS = [0.01, 0.025, ...Array.from({ length: 19 }, (_, i) => (i + 1) / 20), 0.975, 0.99];
const FIELDS = { // kind -> the fields of a forecast
  normal: ["mean", "variance"],
  quantiles: ["quantiles", "levels"],
  samples: ["samples"],
  interval: ["lower", "upper", "level"],
};
const LISTS = ["quantiles", "levels", "samples"];
const refuse = (message) => { throw new RangeError(message); };

const density = (z) => Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);
const normal = (z) => { // the normal distribution function: a continued fraction in the tails, otherwise a series
  if (z > 0) return 1 - normal(-z);
  let found = 0;
  if (z < -2) {
    for (let k = 200; k > 0; k--) found = k / (found - z);
    return density(z) / (found - z);
  }
  for (let k = 1, term = z; k < 100; k += 2) {
    found += term;
    term *= (z * z) / (k + 2);
  }
  return 0.5 + density(z) * found;
};
const normalScore = (t) => { // the inverse, by Newton's method, which descends from 0 until rounding stops it
  if (t > 0.5) return -normalScore(1 - t);
  for (let z = 0; ;) {
    const next = z - (normal(z) - t) / density(z);
    if (!(next < z)) return z;
    z = next;
  }
};

const forward = (x, scale) => {
  if (scale === "log1p" && x <= -1) refuse("numbers must be above -1 for the scale log1p");
  return scale === "log1p" ? Math.log1p(x) : x;
};
const backward = (g, scale) => (scale === "identity" || g === -Infinity ? g : Math.expm1(g));
const table = (f, levels = HUBS) => { // the quantiles of a forecast and their levels; of samples, at the given levels
  if ("lower" in f) return [[f.lower, f.upper], [(1 - f.level) / 2, (1 + f.level) / 2]];
  if (!("samples" in f)) return [f.quantiles, f.levels];
  const ascending = descending(f.samples).reverse(), places = ascending.map((_, i) => i);
  return [levels.map((t) => linear((ascending.length - 1) * t, places, ascending)), levels];
};
const withQuantiles = (f, q, levels) => ( // an interval stays an interval
  "lower" in f ? { lower: q[0], upper: q[1], level: f.level } : { quantiles: q, levels });
const withVariance = (f, v) => ({ mean: f.mean, variance: Math.min(Math.max(v, 1e-300), 1e300) });
const varianceCurve = (f, d) => {
  const std = d.of === "std", height = linear(std ? Math.sqrt(f.variance) : f.variance, d.thresholds, d.heights);
  return withVariance(f, std ? height * height : height);
};
const locationScale = (f, d) => {
  if ("mean" in f) return { mean: f.mean + d.shift, variance: d.factor * d.factor * f.variance };
  const [q, levels] = table(f), g = q.map((x) => forward(x, d.scale)), m = linear(0.5, levels, g);
  return withQuantiles(f, g.map((x) => backward(m + d.shift + d.factor * (x - m), d.scale)), levels);
};
const atScore = (z, g, levels, tails) => {
  const t = normal(z), last = levels.length - 1;
  for (const [end, beyond] of [[0, t < levels[0]], [last, t > levels[last]]]) {
    const outer = tails === "normal" && beyond ? normalScore(levels[end]) : 0;
    if (outer !== 0) return g[end] + Math.max((g[end] - linear(0.5, levels, g)) / outer, 0) * (z - outer);
  }
  return linear(t, levels, g);
};
const levelMap = (f, d) => {
  const scores = d.levels.map((t) => linear(t, d.heights, d.knots));
  if ("mean" in f) return { quantiles: scores.map((z) => f.mean + Math.sqrt(f.variance) * z), levels: d.levels };
  const [q, levels] = table(f), g = q.map((x) => forward(x, d.scale));
  return { quantiles: scores.map((z) => backward(atScore(z, g, levels, d.tails), d.scale)), levels: d.levels };
};
const running = (values, best) => { // the least or the largest value so far
  let found = values[0];
  return values.map((x) => (found = best(found, x)));
};
const conformal = (f, d) => {
  const unit = "mean" in f ? Math.sqrt(f.variance) : 1;
  const [given, levels] = "mean" in f ? [d.levels.map(() => f.mean), d.levels] : table(f, d.levels);
  const g = given.map((x) => forward(x, d.scale)), last = g.length - 1, half = g.length >> 1;
  d.offsets.forEach((offset, i) => {
    const width = offset === null ? Infinity : offset * unit;
    g[i] -= width;
    g[last - i] += width;
  });
  const q = g.map((x) => backward(x, d.scale));
  d.keep.forEach((keep, i) => {
    if (d.ties !== "random" || Math.random() < keep) return;
    for (const [k, sign] of [[i, 1], [last - i, -1]]) {
      if (Number.isFinite(q[k])) q[k] += sign * 1e-9 * Math.max(1, Math.abs(q[k]));
    }
  });
  const even = q.length % 2 === 0;
  if (even && q[half - 1] > q[half]) q[half - 1] = q[half] = (q[half - 1] + q[half]) / 2;
  const low = running(q.slice(0, q.length - half).reverse(), Math.min).reverse(); // with the median, if there is one
  const high = running(q.slice(half), Math.max);
  return withQuantiles(f, [...low, ...high.slice(even ? 0 : 1)], levels);
};
const byGroup = (f, { members, other }, by) => {
  const named = typeof by === "string" || Number.isInteger(by);
  if (!named) refuse("by must be a string or an integer: the map has one function for each value");
  return distribution(Object.hasOwn(members, by) ? members[by] : other, f, by);
};
const average = (f, { members, shares }, by) => {
  const found = members.map((member) => distribution(member, f, by));
  const mixed = (values) => sum(values.map((x, m) => (shares[m] > 0 ? shares[m] * x : 0)));
  if ("mean" in found[0]) {
    return { mean: mixed(found.map((m) => m.mean)), variance: mixed(found.map((m) => Math.sqrt(m.variance))) ** 2 };
  }
  const tables = found.map((each) => table(each)[0]), [q, levels] = table(found[0]);
  return withQuantiles(found[0], q.map((_, k) => mixed(tables.map((values) => values[k]))), levels);
};

const DISTRIBUTIONS = {
  identity: (f) => ("samples" in f ? withQuantiles(f, ...table(f)) : f),
  "variance-line": (f, d) => withVariance(f, d.factor * f.variance + d.offset),
  "variance-curve": varianceCurve,
  "location-scale": locationScale,
  "level-map": levelMap,
  conformal,
  "by-group": byGroup,
  average,
  chain: (f, d, by) => d.members.reduce((g, member) => distribution(member, g, by), f),
};
const distribution = ({ family, parameters }, f, by) => {
  if (!Object.hasOwn(DISTRIBUTIONS, family)) refuse(`unknown family of distributions: ${family}`);
  return DISTRIBUTIONS[family](f, parameters, by);
};

const checked = (document, row) => { // the forecast of a row, with quantiles in order, if the map takes it
  const names = FIELDS[document.kind], given = Object.keys(row ?? {}).filter((name) => name !== "by");
  const same = given.length === names.length && names.every((name) => given.includes(name));
  if (!same) refuse(`a row must be an object with ${names.join(", ")}`);
  for (const name of names) {
    const list = LISTS.includes(name), numbers = list ? row[name] : [row[name]];
    const good = Array.isArray(numbers) && numbers.length > 0 && numbers.every(Number.isFinite);
    if (!good) refuse(`${name} must be ${list ? "a list of finite numbers" : "a finite number"}`);
  }
  const f = Object.fromEntries(names.map((name) => [name, row[name]]));
  if ("mean" in f && f.variance <= 0) refuse("variance must be above 0");
  if (document.levels === null) return f;
  const [q, levels] = table(f), expected = document.levels;
  const equal = levels.length === expected.length && levels.every((t, i) => Math.abs(t - expected[i]) <= 1e-12);
  if (!equal) refuse(`levels must be those of the map: ${expected.join(", ")}`);
  const crossed = q.some((x, i) => i > 0 && q[i - 1] - x > 1e-6 * Math.max(Math.abs(x), Math.abs(q[i - 1])));
  if (q.length !== levels.length || crossed) refuse("quantiles must be as many as levels, and must not cross");
  return withQuantiles(f, running(q, Math.max), levels);
};
const applyDistribution = (document, row) => {
  const f = checked(document, row), found = distribution(document, f, row.by);
  if ("mean" in found) return found;
  const [low, high] = document.support, [q, levels] = table(found);
  return withQuantiles(found, q.map((x) => Math.min(Math.max(x, low ?? -Infinity), high ?? Infinity)), levels);
};

// Prediction sets.

const uniform = (seed, place) => { // the random number of a row, an output of SplitMix64
  const factors = [[30n, 0xbf58476d1ce4e5b9n], [27n, 0x94d049bb133111ebn]];
  let x = BigInt.asUintN(64, ((BigInt(seed) << 32n) + BigInt(place) + 1n) * 0x9e3779b97f4a7c15n);
  for (const [shift, factor] of factors) x = BigInt.asUintN(64, (x ^ (x >> shift)) * factor);
  return Number((x ^ (x >> 31n)) >> 11n) / 2 ** 53;
};
// The score of each class: the sum of the probabilities down to its own, and a penalty.
const sums = (p, { penalty = 0, k_reg: free = 0 }, u) => {
  const found = p.map(() => 0);
  let total = 0;
  ranking(p).forEach((k, r) => {
    total += p[k];
    found[k] = total - u * p[k] + penalty * Math.max(r + 1 - free, 0);
  });
  return found;
};
// The threshold of each class for a row of the group; null for a class that is always in the set.
const limitsOf = ({ by, thresholds, groups }, p, group) => {
  if (by !== "group") return by === "class" ? thresholds : p.map(() => thresholds[0]);
  const i = groups.indexOf(group);
  if (i < 0) refuse("group must be one of the map, which has a threshold for each");
  return p.map(() => thresholds[i]);
};
// The score with rank ceil((n + 1) (1 - alpha)), or the next one that is stored; infinite above n.
const quantile = ({ n, ranks, values }, alpha) => {
  if (!(alpha > 0 && alpha < 1)) return alpha <= 0 ? Infinity : -Infinity;
  const k = Math.ceil((n + 1) * (1 - alpha) - 1e-9);
  if (k <= 0 || k > n) return k > 0 ? Infinity : -Infinity;
  return values[ranks.findIndex((rank) => rank >= k)];
};
// An adjustable map to sets at another error level.
export function at(document, alpha) {
  const { scale, family, parameters: d } = document, least = family === "lac", rounding = scale === "logit" ? 2 ** -48 : 0;
  if (!d.scores) refuse("alpha cannot be changed: fit the map with adjustable=True");
  if (!Number.isFinite(alpha)) refuse("alpha must be a finite number");
  const thresholds = [d.scores].flat().map((scores) => {
    const q = quantile(scores, alpha);
    if (!Number.isFinite(q)) return q > 0 ? null : least ? 2 : -2;
    return least ? -q * (1 - rounding) : q + rounding;
  });
  return { ...document, parameters: { ...d, thresholds } };
}

const SETS = ["lac", "aps", "raps", "crc"];
const predictionSet = (document, row, seed, place) => {
  const { family, scale, parameters: d, class_names: names } = document;
  if (!SETS.includes(family)) refuse(`unknown family: ${family}`);
  const named = typeof row === "object" && !Array.isArray(row), x = named ? row.predictions : row;
  if (family === "crc" && Array.isArray(x)) { // labels that need not exclude each other
    if (x.length !== (d.n_labels ?? x.length)) refuse("a row must have as many labels as those of the fit");
    const event = { ...document, class_names: null }, group = named ? row.group : undefined;
    return [...x.keys()].filter((k) => predictionSet(event, { predictions: x[k], group }, seed, place)[0] === 1);
  }
  const both = scale === "logit" ? [logistic(-x), logistic(x)] : [1 - x, x];
  const p = !Array.isArray(x) ? both : scale === "logit" ? softmax(x) : x;
  const limits = limitsOf(d, p, named ? row.group : undefined);
  if (d.randomised && seed === undefined) refuse("the map draws a random number for each row, and needs a seed");
  let inside;
  if (family === "lac" || family === "crc") {
    inside = p.map((value, k) => limits[k] === null || value >= limits[k]);
    if (family === "crc") inside = [!inside[1], inside[1]];
  } else {
    const scores = sums(p, d, d.randomised ? uniform(seed, place) : 0);
    inside = scores.map((value, k) => limits[k] === null || value <= limits[k]);
  }
  if (!inside.includes(true) && !d.allow_empty) inside[ranking(p)[0]] = true;
  return p.map((_, k) => names?.[k] ?? k).filter((_, k) => inside[k]);
};

// The calibrated probability of one row, its probabilities by class, its calibrated distribution, or its set.
// A randomised map to sets needs a seed, and the place of the row, from 0.
export function apply(document, row, seed, place = 0) {
  if (document.format !== 1) refuse(`unknown format: ${document.format}`);
  if (document.prediction_kind === "regression") return applyDistribution(document, row);
  if (document.reduction === "sets") return predictionSet(document, row, seed, place);
  if (![TRANSFORMS, CURVES].some((all) => Object.hasOwn(all, document.family))) {
    refuse(`unknown family: ${document.family}`);
  }
  const logits = document.scale === "logit";
  if (document.family in TRANSFORMS) return transformed(row, document, logits);
  if (document.family === "segments" && !document.parameters.row) {
    const { prediction, features } = row;
    return apply({ ...document, parameters: { ...document.parameters, row: features } }, prediction);
  }
  if (!Array.isArray(row)) return logits ? curve(undefined, document, row) : curve(row, document);
  const [name, number = 1] = document.reduction.split(":");
  if (name !== "binary" && name !== "class") {
    const [p, z] = rankedScore(row, +number, name === "within-top", logits);
    return curve(p, document, z);
  }
  return logits ? curve(undefined, document, logOdds(row)[+number]) : curve(row[+number], document);
}

// The two probabilities, p0 and p1, that a Venn-Abers map merges for one row.
export function bounds(document, row) {
  if (document.family !== "venn-abers") refuse("only venn-abers maps have bounds");
  const of = (merge) => apply({ ...document, parameters: { ...document.parameters, merge } }, row);
  return [of("p0"), of("p1")];
}

if (globalThis.process?.argv[1]?.endsWith("apply_map.mjs")) { // run as a script, not imported
  const { readFileSync } = await import("node:fs");
  const rows = JSON.parse(readFileSync(0, "utf-8")), stored = JSON.parse(readFileSync(process.argv[2], "utf-8"));
  const level = process.argv.slice(3).find((text) => text.startsWith("alpha="))?.slice(6);
  const seed = process.argv.slice(3).find((text) => !text.startsWith("alpha=")), pairs = seed === "bounds";
  const document = level === undefined ? stored : at(stored, level === "" ? NaN : Number(level));
  const found = rows.map((row, i) => pairs ? bounds(document, row) : apply(document, row, seed, i));
  process.stdout.write(JSON.stringify(found)); // infinite bounds become null
}
