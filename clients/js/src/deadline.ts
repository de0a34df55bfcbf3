/** The clock of all deadlines; the machine's may be set meanwhile. */
export const now = (): number => globalThis.performance?.now() ?? Date.now();

// One timer serves all calls: one for each costs as much as half of what the client does.
const running = new Set<Deadline>();
let timer: any;
let due = Infinity;

function look(): void {
  const time = now();
  for (const one of running) if (one.end <= time) one.finish(null, true);
  schedule(Math.min(...[...running].map(({ end }) => end)));
}

function schedule(end: number): void {
  clearTimeout(timer);
  due = end;
  // Longer waits than this end at once.
  if (end < Infinity) timer = setTimeout(look, Math.min(end - now(), 1e9));
}

/** The time that a call has, and what ends it before its answer. */
export class Deadline {
  end: number;
  isLate = false;
  isOver = false;
  reason: unknown;
  private controller: AbortController | undefined;
  private reject: ((reason: unknown) => void) | undefined;
  private abort: (() => void) | undefined;

  constructor(
    milliseconds: number,
    private readonly outer?: AbortSignal,
  ) {
    this.end = now() + milliseconds;
    running.add(this);
    if (this.end < due) schedule(this.end);
    else if (running.size === 1) timer.ref?.();
    if (!outer) return;
    this.abort = () => this.finish(outer.reason);
    if (outer.aborted) this.abort();
    else outer.addEventListener("abort", this.abort);
  }

  /** What is aborted with the call, such as a `fetch`. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.isOver) this.controller.abort(this.reason);
    return this.controller.signal;
  }

  left(): number {
    return this.end - now();
  }

  /** Settles as a promise does, or rejects once the call is over. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.reject = reject;
      if (this.isOver) reject(this.reason);
      work.then(resolve, reject);
    });
  }

  finish(reason: unknown, isLate = false): void {
    this.stop();
    this.isOver = true;
    this.isLate = isLate;
    this.reason = reason;
    this.controller?.abort(reason);
    this.reject?.(reason);
  }

  stop(): void {
    running.delete(this);
    // It must not keep a program from its end; it stays for the next call where that is possible.
    if (!running.size) timer?.unref ? timer.unref() : schedule(Infinity);
    if (this.abort) this.outer!.removeEventListener("abort", this.abort);
  }
}
