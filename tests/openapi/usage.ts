/** What a caller in TypeScript writes with the generated types; `tsc --noEmit` checks it. */
import createClient from "openapi-fetch";
import type { components, paths } from "./calibrant.ts";

type Schemas = components["schemas"];

/** Where a call has other answers beside JSON, JSON is asked for. */
const client = createClient<paths, "application/json" | "application/problem+json">({
  baseUrl: "http://127.0.0.1:8000",
  headers: { Accept: "application/json", Authorization: "Bearer key" },
});

/** The sources of rows are a union: rows, one stored batch, or several. */
const rows: Schemas["EvaluateBody"] = {
  predictions: [0.1, 0.4, 0.6, 0.9],
  labels: [0, 0, 1, 1],
  measures: ["ece", { name: "ece", norm: 2, as: "l2" }],
};
const stored: Schemas["EvaluateBody"] = { batch: "batch_1", map: "spam@champion" };
// @ts-expect-error a body has rows, a batch or batches
const neither: Schemas["EvaluateBody"] = { measures: ["ece"] };
// @ts-expect-error the catalogue has no such measure
const unknown: Schemas["EvaluateBody"] = { batch: "batch_1", measures: ["no-such-measure"] };

export async function evaluate(): Promise<number | null | undefined> {
  const { data, error, response } = await client.POST("/evaluate", { body: rows });
  if (error !== undefined) {
    throw new Error(`${response.status}: ${error.title}`);
  }
  if ("status" in data) {
    return data.finished_at === undefined ? undefined : null;
  }
  return "batches" in data ? null : data.measures["ece"]?.value;
}

export async function fit(): Promise<string> {
  const { data } = await client.POST("/maps", {
    params: { header: { "Idempotency-Key": "once", Prefer: "respond-async" } },
    body: { method: "platt", name: "spam", batch: "batch_1" },
  });
  if (data === undefined) {
    throw new Error("refused");
  }
  return data.id;
}

export function mapOf(job: Schemas["JobAnswer"]): string | undefined {
  return job.result != null && "map" in job.result ? job.result.map : undefined;
}

export function intervalOf(job: Schemas["JobAnswer"]): [number, number] | null | undefined {
  if (job.result == null || "map" in job.result || !("clipped" in job.result.report)) {
    return undefined;
  }
  return job.result.report.measures["ece"]?.interval;
}

export async function ingest(): Promise<number | undefined> {
  const path = { name: "spam-live" };
  const { data } = await client.POST("/monitors/{name}/rows", {
    params: { path },
    body: { rows: [{ id: 7, prediction: [0.2, 0.8], label: 1, timestamp: 1_770_000_000 }] },
  });
  const labels = await client.POST("/monitors/{name}/labels", {
    params: { path },
    body: { rows: [{ id: "7", label: 1, timestamp: "2026-01-31T12:00:00Z" }] },
  });
  return (data?.accepted ?? 0) + (labels.data?.joined ?? 0);
}

export async function maps(): Promise<string[]> {
  const { data } = await client.GET("/maps", { params: { query: { tag: ["stage=live"], limit: 10 } } });
  return (data?.items ?? []).map((map) => `${map.name}:${map.version}`);
}

export const bodies = [rows, stored, neither, unknown];
