/** Rows out of a file into a table: columns are mapped, and lines that do not fit are corrected and sent again. */
import { html, useEffect, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { ApiError, authorization, request } from "../state/api.js";
import { appId, store } from "../state/app.js";
import { count, plain, size } from "../ui/format.js";
import { Icon } from "../ui/icons.js";
import { Button, Dialog, said } from "../ui/widgets.js";
import { Progress } from "./bulk.js";
import { delimiterOf, linesOf, quoted, records, recordsOf } from "./csv.js";

/**
 * @typedef {{line: number, last_line?: number, message: string}} Rejection
 * @typedef {{line: number, message: string, cells: string[]}} Mended
 */

const HEAD_BYTES = 65536;
const PART = 1 << 20;
const SHOWN = 100;
const POLL = 1000;

/** What this browser remembers of an import that may be continued. @param {string} tableId @param {File} file */
const memoryOf = (tableId, file) => `pilotis.import.${tableId}.${file.name}.${file.size}.${file.lastModified}`;

/** @param {string} name @returns {{key: string, mapping: Record<string, string>, by?: string} | null} */
function remembered(name) {
  try {
    return JSON.parse(localStorage.getItem(name) || "null");
  } catch {
    return null;
  }
}

/** Send a body to the import route and tell how far the server is; raises `ApiError`. */
class Sending {
  /** @param {string} path @param {string} key @param {string} type */
  constructor(path, key, type) {
    this.path = path;
    this.key = key;
    this.type = type;
    this.sending = new XMLHttpRequest();
  }

  /** @param {Blob} body @param {string} query @param {(loaded: number) => void} progress @returns {Promise<any>} */
  async send(body, query, progress) {
    const headers = await authorization();
    return new Promise((resolve, reject) => {
      const one = this.sending;
      one.open("POST", `${this.path}/import?${query}&key=${this.key}`);
      for (const [name, value] of Object.entries(headers)) one.setRequestHeader(name, value);
      one.setRequestHeader("Content-Type", this.type);
      one.upload.onprogress = (event) => progress(event.loaded);
      one.onload = () => {
        try {
          const answer = JSON.parse(one.responseText);
          one.status < 400
            ? resolve(answer)
            : reject(new ApiError(one.status, answer, Number(one.getResponseHeader("Retry-After")) || 0));
        } catch {
          reject(new ApiError(one.status, { message: one.responseText.slice(0, 200) }));
        }
      };
      one.onerror = () => reject(new ApiError(0, {}));
      one.onabort = () => reject(new DOMException("", "AbortError"));
      one.send(body);
    });
  }
}

/**
 * @param {{table: import("../state/app.js").Table, onClose: () => void, given?: {file: File, mapping: Record<string,
 *   string>} | null}} props
 */
export function ImportDialog({ table, onClose, given }) {
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [header, setHeader] = useState(/** @type {{names: string[], end: number, delimiter: string} | null} */ (null));
  const [mapping, setMapping] = useState(/** @type {Record<string, string>} */ ({}));
  const [sent, setSent] = useState(
    /** @type {{at: number, of: number, created: number, rejected: number} | null} */ (null),
  );
  const [result, setResult] = useState(
    /** @type {{created: number, updated: number, rejected: number} | null} */ (null),
  );
  const [mended, setMended] = useState(/** @type {Mended[]} */ ([]));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [resumes, setResumes] = useState(0);
  const [by, setBy] = useState("");
  const [over, setOver] = useState(false);
  const running = useRef(/** @type {Sending | null} */ (null));
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  const path = `/v1/apps/${appId.peek()}/tables/${table.id}`;
  const columns = Object.keys(table.schema);
  const free = columns.length === 0;
  const keys = (table.unique || []).filter((key) => !key.state).map((key) => key.name);
  const isCsv = !!file && !/\.(jsonl|ndjson)$/i.test(file.name);
  useEffect(() => () => running.current?.sending.abort(), []);

  const take = async (
    /** @type {File | undefined} */ chosen,
    /** @type {Record<string, string> | undefined} */ wanted = undefined,
  ) => {
    setError(null);
    setHeader(null);
    setResumes(0);
    if (!chosen) return;
    setFile(chosen);
    const known = remembered(memoryOf(table.id, chosen));
    try {
      if (known) {
        const so = await request(`${path}/imports/${known.key}`).catch(() => null);
        if (so && !so.finished && so.line) (setResumes(so.line), setBy(known.by || ""));
        else localStorage.removeItem(memoryOf(table.id, chosen));
      }
      if (/\.(jsonl|ndjson)$/i.test(chosen.name)) return;
      const start = (await chosen.slice(0, HEAD_BYTES).text()).replace(/^\ufeff/, "");
      const delimiter = delimiterOf(start);
      const first = records(start, delimiter).next().value;
      if (!first) throw new Error(t.transfer.emptyFile);
      const names = first.cells;
      const mark = new Uint8Array(await chosen.slice(0, 3).arrayBuffer());
      setHeader({
        names,
        delimiter,
        end:
          new TextEncoder().encode(start.slice(0, first.end)).length +
          (mark[0] === 0xef && mark[1] === 0xbb && mark[2] === 0xbf ? 3 : 0),
      });
      setMapping(
        wanted ||
          known?.mapping ||
          Object.fromEntries(
            names.map((/** @type {string} */ name) => [
              name,
              columns.find((column) => column === name) ||
                columns.find((column) => column.toLowerCase() === name.trim().toLowerCase()) ||
                (free ? name : ""),
            ]),
          ),
      );
    } catch (failed) {
      setError(failed);
    }
  };
  /** The names in the order of the cells that are sent. */
  const names = () => (header ? header.names.map((name) => mapping[name]).filter(Boolean) : []);
  /** The file with the table's names in its header; columns that go nowhere are left out. */
  const content = async () => {
    if (!file || !header) return /** @type {Blob} */ (file);
    const { delimiter } = header;
    const wanted = header.names.map((name) => mapping[name]);
    const line = (/** @type {string[]} */ cells) => `${cells.map((cell) => quoted(cell, delimiter)).join(delimiter)}\n`;
    if (wanted.every(Boolean)) return new Blob([line(wanted), file.slice(header.end)]);
    const parts = /** @type {BlobPart[]} */ ([line(names())]);
    let text = "";
    for await (const cells of recordsOf(file.slice(header.end), delimiter)) {
      // An empty line stays, so that lines keep their numbers.
      text += cells.length === 1 && cells[0] === "" ? "\n" : line(cells.filter((_, index) => wanted[index]));
      if (text.length > PART) {
        parts.push(new Blob([text]));
        text = "";
      }
    }
    return new Blob([...parts, text]);
  };
  /**
   * Send a body, and take in what it left out. `original` tells a line of the file for each line of the body.
   * @param {Blob} body
   * @param {string} key
   * @param {(line: number) => number} original
   */
  const send = async (body, key, original) => {
    const before = result || { created: 0, updated: 0, rejected: 0 };
    const one = (running.current = new Sending(path, key, isCsv ? "text/csv" : "application/jsonl"));
    const shown = { at: 0, of: body.size, created: before.created, rejected: 0 };
    const poll = setInterval(async () => {
      const so = await request(`${path}/imports/${key}`).catch(() => null);
      if (so && running.current === one)
        setSent({
          ...Object.assign(shown, { created: before.created + so.created, rejected: so.rejected, at: so.position }),
        });
    }, POLL);
    setSent(shown);
    setError(null);
    try {
      const answer = await one.send(
        body,
        `format=${isCsv ? "csv" : "jsonl"}${header ? `&delimiter=${encodeURIComponent(header.delimiter)}` : ""}${by ? `&unique_key=${encodeURIComponent(by)}` : ""}`,
        () => {},
      );
      const lines = await linesOf(
        body,
        new Set(
          answer.rejections.flatMap((/** @type {Rejection} */ { line, last_line }) =>
            Array.from({ length: (last_line || line) - line + 1 }, (_, index) => line + index),
          ),
        ),
      );
      setMended(
        answer.rejections.map((/** @type {Rejection} */ { line, last_line, message }) => {
          const text = Array.from(
            { length: (last_line || line) - line + 1 },
            (_, index) => lines.get(line + index) || "",
          ).join("\n");
          return {
            line: original(line),
            message,
            cells: isCsv ? cellsOf(text, header?.delimiter || ",", names().length) : [text],
          };
        }),
      );
      setResult({
        created: before.created + answer.created,
        updated: before.updated + (answer.updated || 0),
        rejected: answer.rejected,
      });
      return true;
    } catch (failed) {
      if (/** @type {any} */ (failed).name !== "AbortError") setError(failed);
      return false;
    } finally {
      clearInterval(poll);
      running.current = null;
      setSent(null);
    }
  };
  const start = async () => {
    if (!file) return;
    const name = memoryOf(table.id, file);
    // A part that was imported before the connection broke is skipped by the key.
    const key = remembered(name)?.key || crypto.randomUUID();
    store(name, JSON.stringify({ key, mapping, by }));
    setSent({ at: 0, of: file.size, created: 0, rejected: 0 });
    const body = await content();
    if (await send(body, key, (line) => line)) localStorage.removeItem(name);
    else setResumes(1);
  };
  const again = () => {
    const delimiter = header?.delimiter || ",";
    const lines = mended.map(({ cells }) =>
      isCsv ? cells.map((cell) => quoted(cell, delimiter)).join(delimiter) : cells[0],
    );
    const places = /** @type {number[]} */ ([]);
    lines.forEach((text, index) => text.split("\n").forEach(() => places.push(mended[index].line)));
    const body = new Blob([
      ...(isCsv
        ? [
            `${names()
              .map((name) => quoted(name, delimiter))
              .join(delimiter)}\n`,
          ]
        : []),
      ...lines.map((text) => `${text}\n`),
    ]);
    return send(body, crypto.randomUUID(), (line) => places[line - (isCsv ? 2 : 1)]);
  };
  useEffect(() => {
    if (given) take(given.file, given.mapping);
  }, []);
  useEffect(() => {
    // What was chosen for a new table needs no further question.
    if (given && header && file === given.file) start();
  }, [header]);

  const used = Object.values(mapping).filter(Boolean);
  const twice = used.find((name, index) => used.indexOf(name) !== index);
  const why = !file
    ? t.transfer.fileFirst
    : sent
      ? t.transfer.sending
      : isCsv && !header
        ? t.transfer.notCsv
        : isCsv && !used.length
          ? t.transfer.mapFirst
          : twice
            ? t.transfer.twice(twice)
            : false;
  const footer = result
    ? html`
        ${mended.length > 0 && html`<${Button} busy=${!!sent} onClick=${again}>
          ${t.transfer.sendAgain(mended.length)}
        </${Button}>`}
        <span class="grow"></span>
        <${Button} kind="go" onClick=${onClose}>${t.done}</${Button}>
      `
    : html`
        <${Button} kind="flat" onClick=${onClose}>${t.cancel}</${Button}>
        <span class="grow"></span>
        <${Button} kind="go" why=${why} busy=${!!sent} onClick=${start}>
          ${resumes ? t.transfer.resume : t.transfer.start}
        </${Button}>
      `;
  return html`<${Dialog}
    class="broad" title=${t.transfer.importInto(plain(table.title, 60))} onClose=${onClose} footer=${footer}
  >
    ${result
      ? html`
          <p class="state ok" role="status">
            <${Icon} name="done" />
            ${t.transfer.created(result.created)} ${result.updated > 0 && t.transfer.updated(result.updated)}
          </p>
          ${result.rejected > 0 && html`<p class="notice warn">
            <${Icon} name="warn" />
            <span>
              ${t.transfer.rejected(result.rejected)}
              ${" "}${result.rejected > mended.length && t.transfer.firstOnly(mended.length)}
            </span>
          </p>`}
          ${mended.length > 0 && html`<${Rejected}
            lines=${mended} names=${isCsv ? names() : [t.transfer.text]} onChange=${setMended}
          />`}
        `
      : html`
          <div
            class=${`drop ${over ? "over" : ""}`}
            onDragOver=${(/** @type {Event} */ event) => (event.preventDefault(), setOver(true))}
            onDragLeave=${() => setOver(false)}
            onDrop=${(/** @type {DragEvent} */ event) => (
              event.preventDefault(),
              setOver(false),
              take(event.dataTransfer?.files[0])
            )}
          >
            ${file
              ? html`<b>${plain(file.name, 80)}</b><span class="soft num">${size(file.size)}</span>`
              : html`<span>${t.transfer.dropHere}</span>`}
            <${Button} kind="small" why=${sent && t.transfer.sending} onClick=${() => picker.current?.click()}>
              ${file ? t.transfer.other : t.transfer.choose}
            </${Button}>
            <input
              ref=${picker} type="file" hidden accept=".csv,.tsv,.txt,.jsonl,.ndjson,text/csv"
              onChange=${(/** @type {any} */ event) => take(event.target.files[0])}
            />
          </div>
          ${file && !sent && keys.length > 0 && html`<label class="field">
            <span class="label">${t.transfer.byKey}</span>
            <select
              class="in" value=${by} disabled=${resumes > 0}
              onChange=${(/** @type {Typed} */ event) => setBy(event.target.value)}
            >
              <option value="">${t.transfer.byNoKey}</option>
              ${keys.map(
                (name) => html`<option value=${name} selected=${name === by}>
                  ${t.transfer.byKeyNamed(plain(name, 40))}
                </option>`,
              )}
            </select>
          </label>`}
          ${header && !sent && html`<div class="field">
            <span class="label">${t.transfer.mapping}</span>
            <div class="mapping">
              ${header.names.map(
                (name) => html`<div key=${name}>
                  <code class="cut">${plain(name, 60)}</code>
                  <${Icon} name="right" />
                  <select
                    class="in" aria-label=${t.transfer.mapTo(name)} value=${mapping[name]} disabled=${resumes > 0}
                    onChange=${(/** @type {Typed} */ event) => setMapping({ ...mapping, [name]: event.target.value })}
                  >
                    <option value="">${t.transfer.leaveOut}</option>
                    ${(free ? header.names : columns).map(
                      (column) => html`<option value=${column} selected=${mapping[name] === column}>
                        ${plain(column, 60)}
                      </option>`,
                    )}
                  </select>
                </div>`,
              )}
            </div>
          </div>`}
          ${resumes > 1 && !sent && html`<p class="s12 soft">${t.transfer.resumes(resumes)}</p>`}
        `}
    ${sent && html`<${Progress}
      at=${Math.min(sent.at, sent.of)} of=${sent.of} text=${t.transfer.soFar(sent.created, sent.rejected)}
    />`}
    ${!result && html`<p class="s12 soft">${t.transfer.leavesOut}</p>`}
    ${error && html`<p class="notice bad" role="alert"><${Icon} name="fail" /><span>${said(error)}</span></p>`}
  </${Dialog}>`;
}

/**
 * The cells of a rejected line, as many as there are columns; what cannot be read is left to the first.
 * @param {string} text
 * @param {string} delimiter
 * @param {number} width
 */
function cellsOf(text, delimiter, width) {
  try {
    const [only, ...more] = records(text, delimiter);
    if (only && !more.length && only.cells.length <= width)
      return [...only.cells, ...Array(width - only.cells.length).fill("")];
  } catch {
    // A quote that is never closed: the line is shown as it is.
  }
  return [text, ...Array(Math.max(0, width - 1)).fill("")];
}

/**
 * Lines that were left out, to be corrected.
 * @param {{lines: Mended[], names: string[], onChange: (lines: Mended[]) => void}} props
 */
function Rejected({ lines, names, onChange }) {
  const set = (/** @type {number} */ index, /** @type {number} */ place, /** @type {string} */ text) =>
    onChange(
      lines.map((one, at) =>
        at === index ? { ...one, cells: one.cells.map((cell, column) => (column === place ? text : cell)) } : one,
      ),
    );
  return html`
    <div class="numbers mend" tabindex="0" role="region" aria-label=${t.transfer.rejectedLines}>
      <table class="list">
        <thead>
          <tr>
            <th class="r">${t.transfer.line}</th>
            <th>${t.transfer.reason}</th>
            ${names.map((name) => html`<th>${plain(name, 40)}</th>`)}
            <th></th>
          </tr>
        </thead>
        <tbody>
          ${lines
            .slice(0, SHOWN)
            .map(
              (one, index) => html`<tr key=${one.line}>
                <td class="r">${count(one.line)}</td>
                <td class="why">${plain(one.message)}</td>
                ${one.cells.map(
                  (cell, place) => html`<td>
                    <input
                      class="in" aria-label=${t.transfer.cell(names[place] || "", one.line)}
                      aria-invalid=${one.message.startsWith(`${names[place]}:`) ? "true" : undefined} value=${cell}
                      spellcheck="false"
                      onInput=${(/** @type {Typed} */ event) => set(index, place, event.target.value)}
                    />
                  </td>`,
                )}
                <td>
                  <${Button}
                    kind="flat small" icon="cross" label=${t.transfer.drop(one.line)}
                    onClick=${() => onChange(lines.filter((_, at) => at !== index))}
                  />
                </td>
              </tr>`,
            )}
        </tbody>
      </table>
    </div>
    ${lines.length > SHOWN && html`<p class="s12 soft">${t.transfer.shownOnly(SHOWN, lines.length)}</p>`}
  `;
}
