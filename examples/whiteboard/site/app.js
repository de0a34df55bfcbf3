import config from "./config.js";

const { createClient } = await import(`${config.url}/sdk/v1/pilotis.js`);
const $ = (selector) => document.querySelector(selector);
const COLORS = ["#22262b", "#3a4fd0", "#1f8a4d", "#d9730d", "#c8264c"];
const WIDTH = 4;
/** Milliseconds between two messages about the same stroke or cursor. */
const BETWEEN = 60;

/** Runs what a button or form asks for, and tells what went wrong. */
const attempt = (run) => async (event) => {
  event?.preventDefault();
  $("#error").textContent = "";
  try {
    await run(event?.currentTarget ?? event?.target);
  } catch (error) {
    $("#error").textContent = error.message;
  }
};

/** The address of a board is its id and its secret: what is behind `#` is sent to nobody. */
const linkOf = (board) => `#${board.id}/${board.data.secret}`;

// ---- The boards that this browser has made

const mine = createClient(config);

async function home() {
  const boards = (await mine.members.session()) ? await mine.rows("boards").all().orderBy("created_at", "desc").limit(50) : { rows: [] };
  $("#boards").replaceChildren(...boards.rows.map((board) => {
    const link = Object.assign(document.createElement("a"), { href: linkOf(board), textContent: board.data.title });
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
}

$("#make").onsubmit = attempt(async (form) => {
  if (!(await mine.members.session())) await mine.members.guest();
  const board = await mine.rows("boards").create({ title: form.title.value });
  form.reset();
  location.hash = linkOf(board);
});

// ---- One board

const canvas = $("canvas");
const pen = canvas.getContext("2d");

class Board {
  /** What others are drawing at this moment, by who draws it. */
  drawn = new Map();
  lines = [];
  stroke = null;
  color = COLORS[0];
  /** One name for each visit, so that all know whose stroke a message goes on. */
  self = crypto.randomUUID().slice(0, 8);

  constructor(id, secret) {
    this.id = id;
    this.secret = secret;
    this.client = createClient({ ...config, capabilities: { link: secret } });
    this.rows = this.client.rows("boards");
  }

  async open() {
    await this.read();
    // Who does not know the secret does not know the name either.
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(this.secret));
    const key = [...new Uint8Array(digest).slice(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    this.channel = this.client.channel(`board:${key}`);
    const missed = { missed: attempt(() => this.read()) };
    this.stops = [
      this.channel.on("stroke", (stroke) => this.draw(stroke.by, stroke)),
      this.channel.on("line", ({ by, ...line }) => {
        this.lines.push(line);
        this.draw(by, null);
      }, missed),
      this.channel.on("clear", () => this.clear(), missed),
      this.channel.present((all, count) => {
        $("#present").textContent = count === 1 ? "Only you" : `${count} here`;
        $("#cursors").replaceChildren(...all.filter((one) => one.state.by !== this.self && one.state.at).map(cursor));
      }),
    ];
    await this.channel.enter({ by: this.self, color: this.color });
  }

  close() {
    for (const stop of this.stops ?? []) stop();
    this.channel?.leave().catch(() => {});
  }

  async read() {
    const { data } = await this.rows.get(this.id);
    $("nav strong").textContent = document.title = data.title;
    this.lines = data.lines;
    this.paint();
  }

  draw(by, stroke) {
    if (stroke) this.drawn.set(by, stroke);
    else this.drawn.delete(by);
    this.paint();
  }

  clear() {
    this.lines = [];
    this.drawn.clear();
    this.paint();
  }

  async erase() {
    await this.rows.update(this.id, { lines: [] });
    this.clear();
    await this.channel.send("clear", {});
  }

  /** Tells the others where this pen is; only the last of some milliseconds counts. */
  tell(at) {
    this.at = at;
    this.timer ??= setTimeout(() => {
      this.timer = null;
      const told = [this.channel.enter({ by: this.self, color: this.color, at: this.at })];
      if (this.stroke) told.push(this.channel.send("stroke", { by: this.self, ...this.stroke }));
      // The next message tells the same again.
      Promise.all(told).catch(() => {});
    }, BETWEEN);
  }

  paint() {
    const { width, height } = canvas.getBoundingClientRect();
    const scale = devicePixelRatio;
    Object.assign(canvas, { width: width * scale, height: height * scale });
    pen.scale(scale, scale);
    Object.assign(pen, { lineCap: "round", lineJoin: "round" });
    for (const { points, color, width } of [...this.lines, ...this.drawn.values(), ...(this.stroke ? [this.stroke] : [])]) {
      Object.assign(pen, { strokeStyle: shown(color), lineWidth: width });
      pen.beginPath();
      for (let at = 0; at < points.length; at += 2) pen.lineTo(points[at], points[at + 1]);
      pen.stroke();
    }
  }

  begin(x, y) {
    this.stroke = { points: [x, y, x, y].map(Math.round), color: this.color, width: WIDTH };
  }

  move(x, y) {
    this.stroke?.points.push(Math.round(x), Math.round(y));
    if (this.stroke) this.paint();
    this.tell([x, y]);
  }

  async end() {
    const { stroke } = this;
    if (!stroke) return;
    this.stroke = null;
    this.lines.push(stroke);
    // Two who finish a line at the same moment lose none.
    await this.rows.update(this.id, { lines: { $push: [stroke] } });
    await this.channel.send("line", { by: this.self, ...stroke });
  }
}

/** The first colour is that of the ink, whichever the page's theme is. */
const shown = (color) => (color === COLORS[0] ? getComputedStyle(document.body).color : color);

function cursor({ state }) {
  const dot = document.createElement("i");
  dot.style.transform = `translate(${Number(state.at[0])}px, ${Number(state.at[1])}px)`;
  dot.style.background = COLORS.includes(state.color) ? shown(state.color) : "gray";
  return dot;
}

let board = null;
canvas.onpointerdown = (event) => {
  canvas.setPointerCapture(event.pointerId);
  board.begin(event.offsetX, event.offsetY);
};
canvas.onpointermove = (event) => board.move(event.offsetX, event.offsetY);
canvas.onpointerup = canvas.onpointercancel = attempt(() => board.end());
addEventListener("resize", () => board?.paint());
matchMedia("(prefers-color-scheme: dark)").onchange = () => board?.paint();

$("#colors").append(...COLORS.map((color, number) => {
  const choice = Object.assign(document.createElement("button"), { type: "button" });
  choice.setAttribute("aria-label", ["Ink", "Blue", "Green", "Orange", "Red"][number]);
  choice.style.background = number ? color : "var(--ink)";
  choice.onclick = () => choose(color);
  return choice;
}));
function choose(color) {
  board.color = color;
  [...$("#colors").children].forEach((choice, number) => choice.setAttribute("aria-pressed", COLORS[number] === color));
}
$("#clear").onclick = attempt(() => board.erase());
$("#copy").onclick = attempt(() => navigator.clipboard.writeText(location.href));

const route = attempt(async () => {
  board?.close();
  board = null;
  document.title = "Whiteboard";
  const [id, secret] = location.hash.slice(1).split("/");
  $("#home").hidden = !!id;
  $("#board").hidden = !id;
  if (!id) return home();
  board = new Board(id, secret);
  choose(COLORS[0]);
  await board.open();
});
addEventListener("hashchange", route);
route();
