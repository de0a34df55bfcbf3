/** Milliseconds without a word from the tab that leads, after which another leads: it may be frozen. */
const SILENCE = 50_000;

/** What the tabs of a group tell each other. */
export type Told =
  // One begins to lead, has lost the connection, or has more lists than a stream may have.
  | { is: "leading" | "lost" | "full" }
  | { is: "event"; lines: string }
  // All lists of a tab, as JSON.
  | { is: "wants"; tab: string; lists: string }
  | { is: "ended"; list: string; error: [status: number, code: string, message: string, body: object] };

/**
 * The tabs that share a stream. One leads as long as it holds a lock of the group; its end, also that of its process,
 * hands the lock to the next. Each tab holds a lock of its own, by which the others learn that it is gone.
 */
export class Tabs {
  leads = false;
  private readonly channel: BroadcastChannel;
  private readonly left = new AbortController();
  private waiting = this.left;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** `changed` is called when this tab leads, or follows; `failed` where the page may have no locks. */
  constructor(
    private readonly group: string,
    tab: string,
    heard: (told: Told) => void,
    private readonly changed: () => void,
    failed: () => void,
  ) {
    this.channel = new BroadcastChannel(group);
    this.channel.onmessage = ({ data }) => {
      if (data.is !== "wants") this.listen();
      heard(data);
    };
    // Others must find the lock as soon as they hear of this tab.
    void this.hold(tab, {}, this.left, () => {
      void this.follow();
      this.listen();
    }).catch(() => this.left.signal.aborted || failed());
  }

  post(told: Told): void {
    this.channel.postMessage(told);
  }

  leave(): void {
    this.left.abort();
    this.waiting.abort();
    clearTimeout(this.timer);
    this.channel.close();
    this.leads = false;
  }

  /** Calls a function once a tab is gone. */
  watch(tab: string, gone: () => void): void {
    void navigator.locks.request(tab, gone);
  }

  /** Waits until it may lead, and leads until it leaves or another tab, which took it for frozen, does so. */
  private async follow(steal = false): Promise<void> {
    const waiting = (this.waiting = new AbortController());
    this.changed();
    const lead = () => {
      this.leads = true;
      clearTimeout(this.timer);
      this.changed();
    };
    await this.hold(this.group, steal ? { steal } : { signal: waiting.signal }, waiting, lead).catch(() => undefined);
    if (waiting.signal.aborted) return;
    this.leads = false;
    void this.follow();
    this.listen();
  }

  private hold(name: string, options: LockOptions, until: AbortController, held: () => void): Promise<unknown> {
    return navigator.locks.request(name, options, () => {
      if (until.signal.aborted) return;
      held();
      return new Promise<void>((release) => until.signal.addEventListener("abort", () => release()));
    });
  }

  private listen(): void {
    clearTimeout(this.timer);
    if (this.leads) return;
    this.timer = setTimeout(
      () => {
        this.waiting.abort();
        void this.follow(true);
      },
      SILENCE * (1 + Math.random() / 10),
    );
  }
}
