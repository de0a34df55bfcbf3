import "./page.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError } from "../../../src/pilotis/console/static/state/api.js";
import { advance, byStep } from "../../../src/pilotis/console/static/state/executions.js";
import { follow, parse } from "../../../src/pilotis/console/static/state/stream.js";

test("events are read from parts of a stream", () => {
  const text = ': heartbeat\n\nevent: log\nid: 7\ndata: {"a":\ndata: 1}\n\ndata:{"b":2}\n\nevent: cut';
  for (let cut = 0; cut <= text.length; cut++) {
    const found = [];
    const rest = parse(text.slice(0, cut), (event) => found.push(event));
    assert.equal(
      parse(rest + text.slice(cut), (event) => found.push(event)),
      "event: cut",
    );
    assert.deepEqual(found, [
      { type: "log", id: "7", data: { a: 1 } },
      { type: "message", id: "", data: { b: 2 } },
    ]);
  }
});

test("a stream goes on after a silent connection, and after what may pass", async () => {
  const { fetch, setTimeout } = globalThis;
  const stream = (text) => new ReadableStream({ start: (to) => text && to.enqueue(new TextEncoder().encode(text)) });
  const answers = [
    () => Promise.reject(new TypeError("no connection")),
    () => new Response("{}", { status: 503 }),
    () => new Response(stream("")),
    () => new Response(stream('id: 9\ndata: "last"\n\n')),
  ];
  // Seconds last as long as hundredths of them.
  globalThis.setTimeout = (run, milliseconds) => setTimeout(run, milliseconds / 100);
  globalThis.requestAnimationFrame = (run) => setTimeout(run);
  globalThis.fetch = async () => answers.shift()();
  try {
    const [abort, states, tokens] = [new AbortController(), [], [new ApiError(503, {}), new ApiError(0, {})]];
    const headers = async () => {
      const error = tokens.shift();
      if (error) throw error;
      return {};
    };
    const told = await new Promise((take) =>
      follow("/events", abort.signal, take, (state) => states.push(state), "", { headers }),
    );
    abort.abort();
    assert.deepEqual(told, [{ type: "message", id: "9", data: "last" }]);
    assert.deepEqual(states, ["lost", "lost", "lost", "lost", "open", "lost", "open"]);
  } finally {
    Object.assign(globalThis, { fetch, setTimeout });
  }
});

const BEGIN = { status: "pending", attempt: 1, progress: { completed: 0, total: 2 }, steps: [], started_at: null };
const at = (second) => `2026-01-01T00:00:0${second}Z`;
const event = (type, second, data) => ({
  type,
  id: "",
  data: { type, status: "running", attempt: 1, timestamp: at(second), ...data },
});

test("an execution follows the events of its stream", () => {
  const run = advance(null, [
    { type: "snapshot", id: "", data: BEGIN },
    event("execution.started", 0),
    event("step.started", 1, { step: { step_id: "a", try: 1, status: "running" } }),
    event("step.log", 1, { step: { step_id: "a", try: 1 }, lines: [["t", "info", "hello"]] }),
    event("step.completed", 2, {
      step: { step_id: "a", try: 1, status: "completed" },
      progress: { completed: 1, total: 2 },
    }),
    event("execution.completed", 3, { status: "completed", output: 5 }),
  ]);
  assert.equal(run.status, "completed");
  assert.equal(run.output, 5);
  assert.equal(run.duration, 3000);
  assert.deepEqual(run.progress, { completed: 1, total: 2 });
  assert.deepEqual(run.logs, { a: [["t", "info", "hello"]] });
  assert.deepEqual(
    run.steps.map((one) => [one.step_id, one.status, one.started_at, one.finished_at]),
    [["a", "completed", at(1), at(2)]],
  );
});

test("what was shown before is not changed by events", () => {
  const before = { ...BEGIN, logs: {} };
  advance(before, [event("step.started", 1, { step: { step_id: "a", try: 1, status: "running" } })]);
  assert.deepEqual(before, { ...BEGIN, logs: {} });
  assert.equal(advance(null, [event("execution.started", 1)]), null);
});

test("a step has its tries in order, and counts the items that it calls a function for", () => {
  const row = (step_id, attempt, number, status) => ({ step_id, attempt, try: number, status });
  const found = byStep([
    row("a", 2, 1, "running"),
    row("a", 1, 2, "failed"),
    row("a", 1, 1, "failed"),
    row("each[0]", 1, 1, "completed"),
    row("each[1]", 1, 1, "running"),
  ]);
  assert.deepEqual(
    found.get("a")?.tries.map((one) => `${one.attempt}.${one.try}`),
    ["1.1", "1.2", "2.1"],
  );
  assert.equal(found.get("a")?.status, "running");
  assert.deepEqual([found.get("each")?.items, found.get("each")?.done], [2, 1]);
});
