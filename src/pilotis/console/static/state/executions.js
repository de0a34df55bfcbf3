/** Executions of workflows as the console keeps them: how they look, and what an event of their stream changes. */

/** The looks of a status, of executions and of steps: a kind and an icon. @type {Record<string, [string, string]>} */
export const LOOKS = {
  pending: ["idle", "clock"],
  running: ["info", "run"],
  completed: ["ok", "done"],
  failed: ["bad", "fail"],
  cancelled: ["idle", "stop"],
  timeout: ["bad", "clock"],
  skipped: ["idle", "skip"],
  waiting: ["idle", "clock"],
};

/** @param {string} status */
export const isFinal = (status) => ["completed", "failed", "cancelled", "timeout"].includes(status);

const MAX_LINES = 1000;

/**
 * Change an execution by events of its stream, which brings no inputs: those of new steps are undefined.
 * @param {any} before @param {import("./stream.js").StreamEvent[]} events
 */
export function advance(before, events) {
  let run = before;
  /** Rows of steps by their key, made when the first event needs it. @type {Map<string, any> | null} */
  let steps = null;
  for (const { type, data } of events) {
    if (type === "snapshot") {
      run = { logs: run?.logs || {}, ...data };
      steps = null;
      continue;
    }
    if (!run || !data.type) continue;
    run = { ...run, status: data.status, attempt: data.attempt, progress: data.progress || run.progress };
    if (type === "execution.started" || type === "execution.recovered") run.started_at ||= data.timestamp;
    if (type === "execution.retrying") Object.assign(run, { status: "pending", run_at: data.run_at });
    if (isFinal(type.replace("execution.", "")))
      Object.assign(run, {
        output: data.output ?? null,
        error: data.error ?? null,
        finished_at: data.timestamp,
        duration: run.started_at ? Date.parse(data.timestamp) - Date.parse(run.started_at) : null,
      });
    if (type === "step.log" && data.lines) {
      const id = parentOf(data.step.step_id) ?? data.step.step_id;
      run.logs = { ...run.logs, [id]: [...(run.logs[id] || []), ...data.lines].slice(-MAX_LINES) };
    } else if (type.startsWith("step.")) {
      steps ||= new Map(run.steps.map((/** @type {any} */ step) => [keyOf(step, step.attempt), step]));
      const key = keyOf(data.step, data.attempt);
      const known = steps.get(key);
      const ended = data.step.status === "running" ? null : data.timestamp;
      steps.set(key, {
        name: "",
        parent_id: parentOf(data.step.step_id),
        attempt: data.attempt,
        function_id: null,
        queue_ms: null,
        started_at: data.timestamp,
        ...known,
        ...data.step,
        finished_at: ended,
        retry_at: data.run_at,
      });
    }
    if (steps) run.steps = steps;
  }
  return run && steps ? { ...run, steps: [...steps.values()] } : run;
}

/** @param {any} step @param {number} attempt */
const keyOf = (step, attempt) => `${step.step_id} ${attempt} ${step.try}`;

/** The step that an item such as `p[3]` belongs to. @param {string} id */
const parentOf = (id) => (id.endsWith("]") ? id.slice(0, id.lastIndexOf("[")) : null);

/**
 * What is shown of each step of a definition: its tries in order, its status, and of one that calls a function for each
 * item, how many are done.
 * @param {any[]} rows @returns {Map<string, {status: string, tries: any[], items: number, done: number}>}
 */
export function byStep(rows) {
  /** @type {Map<string, {status: string, tries: any[], items: number, done: number}>} */
  const found = new Map();
  const of = (/** @type {string} */ id) => {
    if (!found.has(id)) found.set(id, { status: "waiting", tries: [], items: 0, done: 0 });
    return /** @type {any} */ (found.get(id));
  };
  for (const row of rows) {
    const owner = parentOf(row.step_id);
    if (owner === null) of(row.step_id).tries.push(row);
    else {
      const parent = of(owner);
      parent.items++;
      if (row.status === "completed") parent.done++;
    }
  }
  for (const one of found.values()) {
    one.tries.sort((a, b) => a.attempt - b.attempt || a.try - b.try);
    one.status = one.tries.at(-1)?.status || "waiting";
  }
  return found;
}
