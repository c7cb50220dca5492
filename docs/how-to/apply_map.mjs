// Apply a map document with ECMAScript alone: node apply_map.mjs map.json < rows.json; see apply-elsewhere.md.
// Rows are a JSON array of numbers, or of arrays with a number per class, on the scale of the document.

const CLIP = 2 ** -52, PL3 = 1e-16;
const sum = (row) => row.reduce((a, b) => a + b, 0);
const cut = (p, clip = CLIP) => Math.min(Math.max(p, clip), 1 - clip);
const logit = (p, clip = CLIP) => Math.log(cut(p, clip)) - Math.log1p(-cut(p, clip));
const logistic = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));
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
const linear = (x, knots, h) => {
  const i = below(x, knots) - 1;
  if (i < 0 || i >= knots.length - 1) return i < 0 ? h[0] : h[h.length - 1];
  return h[i] + ((x - knots[i]) * (h[i + 1] - h[i])) / (knots[i + 1] - knots[i]);
};
const step = (x, starts, heights) => heights[Math.max(below(x, starts) - 1, 0)];
const mean = (values) => sum(values) / values.length;
const vennAbers = (p, d) => {
  const n = below(p, d.scores), i = n > 0 && d.scores[n - 1] === p ? 2 * n - 1 : 2 * n, a = d.p0[i], b = d.p1[i];
  return d.merge === "log-loss" ? b / (1 - a + b) : b + (a * a - b * b) / 2;
};
const polynomial = (p, { breaks, coefficients }) => {
  const j = breaks.slice(1, -1).filter((b) => b < p).length;
  return sum(coefficients[j].map((c, power) => c * (p - breaks[j]) ** power));
};

const CURVES = {
  identity: (p) => p,
  constant: (p, d) => d.value,
  platt: (p, d) => logistic(d.slope * logit(p) + d.intercept),
  "event-temperature": (p, d) => logistic(logit(p) / d.temperature),
  beta: (p, d) => logistic(d.a * Math.log(cut(p)) - d.b * Math.log1p(-cut(p)) + d.c),
  isotonic: (p, d) => linear(p, d.thresholds, d.heights),
  steps: (p, d) => step(p, d.starts, d.heights),
  roofs: (p, d) => p + step(p, d.starts, d.shifts),
  "scaling-binning": (p, d) => step(CURVES.platt(p, d), d.starts, d.heights),
  spline: (p, d) => linear(p, d.scores, d.values),
  kde: (p, d) => linear(p, d.knots, d.shares),
  "venn-abers": vennAbers,
  "piecewise-polynomial": polynomial,
  sides: (p, d) => (p < 0.5 ? d.below : d.above),
  pl: (p, d) => mean(d.models.map((m) => linear(p, m.knots, m.heights))),
  pl3: (p, d) => mean(d.models.map((m) => logistic(linear(logit(p, PL3), m.knots, m.heights)))),
  averaged: (p, d) => logistic(linear(logit(p, PL3), d.knots, d.logits)),
  quadratic: (p, d) => logistic(d.intercept + (d.slope + d.square * logit(p)) * logit(p)),
  smoothed: (p, d) => curve((1 - d.smoothing) * p + 0.5 * d.smoothing, d.curves[0]),
};
const curve = (p, { family, parameters }) => Math.min(Math.max(CURVES[family](p, parameters), 0), 1);

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
const logarithms = (p) => p.map((x) => Math.log(Math.max(x, CLIP)));
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
const ensemble = (z, d) => {
  const p = softmax(z), mixed = z.map(() => 0), pooled = z.map(() => 0);
  d.members.forEach(({ family, parameters }, m) => {
    const [takesLogits, transform] = TRANSFORMS[family], own = transform(takesLogits ? z : p, parameters);
    logarithms(own).forEach((x, k) => {
      mixed[k] += d.mixture[m] * own[k];
      pooled[k] += d.pool[m] * x;
    });
  });
  const pool = softmax(pooled), found = mixed.map((x, k) => x + d.pool_share * pool[k]);
  return d.keep_order ? inOrder(found, z) : found;
};
const smoothedVector = (p, d) => {
  const q = p.map((x) => (1 - d.smoothing) * x + d.smoothing / p.length), [{ family, parameters }] = d.members;
  const [takesLogits, transform] = TRANSFORMS[family];
  return transform(takesLogits ? logarithms(q) : q, parameters);
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
const oneVsRest = (p, d) => {
  let found = p.map((x, k) => curve(x, d.curves[k]));
  if (d.keep_order) found = inOrder(found, p);
  return d.renormalise ? normalised(found) : found;
};
const ranks = (p, d) => {
  const ranked = descending(p), found = [];
  let reached = 0;
  d.curves.forEach((c, r) => {
    const value = curve(d.within ? cut(sum(ranked.slice(0, r + 1)), 0) : ranked[r], c);
    found.push(d.within ? Math.max(value - reached, 0) : value);
    reached = Math.max(reached, value);
  });
  const left = Math.max(1 - sum(found), 0);
  const all = normalised([...found, ...normalised(ranked.slice(found.length)).map((x) => left * x)]);
  const row = placed(all, ranking(p));
  return d.keep_order ? inOrder(row, p) : row;
};

const TRANSFORMS = { // family -> [whether it takes logits, the function]
  temperature: [true, (z, d) => softmax(z.map((x) => x / d.temperature))],
  vector: [true, (z, d) => softmax(z.map((x, k) => d.weights[k] * x + d.intercepts[k]))],
  matrix: [true, matrix],
  dirichlet: [false, (p, d) => matrix(logarithms(p), d)],
  ets: [true, ets],
  "iop-diagonal": [true, (z, d) => softmax(z.map((x) => -bent(Math.max(...z) - x, d.knots, d.slopes)))],
  "iop-oi": [true, orderPreserving],
  "iop-op": [true, orderPreserving],
  "accuracy-constant": [false, (p, d) => p.map((_, k) => (
    k === ranking(p)[0] ? d.accuracy : (1 - d.accuracy) / (p.length - 1)))],
  "predicted-class": [false, (p, d) => d.frequencies[ranking(p)[0]]],
  "one-vs-rest": [false, oneVsRest],
  ranks: [false, ranks],
  "softmax-regression": [true, softmaxRegression],
  "hidden-softmax": [true, hiddenSoftmax],
  ensemble: [true, ensemble],
  "smoothed-vector": [false, smoothedVector],
  "vector-identity": [false, (p) => p],
};

// The calibrated probability of one row, or its probabilities by class.
export function apply(document, row) {
  let logits = document.scale === "logit";
  if (document.family in TRANSFORMS) {
    const [takesLogits, transform] = TRANSFORMS[document.family];
    if (takesLogits !== logits) row = logits ? softmax(row) : logarithms(row);
    return transform(row, document.parameters);
  }
  if (Array.isArray(row)) {
    const [name, number = 1] = document.reduction.split(":"), p = logits ? softmax(row) : row, r = descending(p);
    const tops = { "within-top": (k) => cut(sum(r.slice(0, k)), 0), top: (k) => r[k - 1] };
    row = name in tops ? tops[name](+number) : name === "confidence" ? r[0] : p[+number];
    logits = false;
  }
  return curve(logits ? logistic(row) : row, document);
}

if (globalThis.process?.argv[1]?.endsWith("apply_map.mjs")) { // run as a script, not imported
  const { readFileSync } = await import("node:fs");
  const rows = JSON.parse(readFileSync(0, "utf-8")), document = JSON.parse(readFileSync(process.argv[2], "utf-8"));
  process.stdout.write(JSON.stringify(rows.map((row) => apply(document, row))));
}
