/**
 * Changes of cells: shown at once, sent with what they were made upon, reverted if rejected, and undone on request.
 */
import { signal } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { loadTables, ofApp } from "../state/app.js";
import { plain } from "../ui/format.js";
import { complain, copyText, said, toast } from "../ui/widgets.js";
import { textOf, valueOf } from "./values.js";

/** @typedef {import("./source.js").Row} Row @typedef {import("./values.js").Column} Column */
/**
 * `rejected` is true once the server has rejected it.
 * @typedef {{id: string, column: Column, before: unknown, after: unknown, rejected?: boolean}} Edit
 */

export class Edits {
  /** @param {import("./source.js").Source} source */
  constructor(source) {
    this.source = source;
    /** How many changes are on their way. */
    this.pending = signal(0);
    /**
     * Those that can be undone: also while they are on their way.
     * @type {import("../vendor/view.js").Signal<Edit[]>}
     */
    this.done = signal([]);
    /** A change in conflict with that of another client. */
    this.conflict = signal(/** @type {{row: Row, theirs: Row, column: Column, value: unknown} | null} */ (null));
    /** @type {Map<string, Promise<void>>} */
    this.queues = new Map();
  }

  /**
   * Change a cell. Changes of one row are sent one after the other.
   * @param {Row} row
   * @param {Column} column
   * @param {unknown} value
   * @param {{undo?: Edit, force?: boolean}} [options]
   */
  commit(row, column, value, options = {}) {
    const before = valueOf(row, column);
    /** @type {Edit} */
    const edit = { id: row.id, column, before, after: value };
    if (!options.undo) this.done.value = [...this.done.value.slice(-99), edit];
    this.source.put({
      ...(this.source.find(row.id)?.row || row),
      data: { ...(this.source.find(row.id)?.row || row).data, [column.name]: value },
    });
    const release = this.source.hold();
    const queued = (this.queues.get(row.id) || Promise.resolve()).then(() => this.send(edit, options)).finally(release);
    this.queues.set(row.id, queued);
    return queued;
  }

  /** @param {Edit} edit @param {{undo?: Edit, force?: boolean}} options */
  async send(edit, { undo, force }) {
    // What was not taken needs no undoing.
    if (undo?.rejected) return;
    const { id, column, before, after: value } = edit;
    this.pending.value++;
    const found = this.source.find(id);
    try {
      const expected = found?.row.updated_at;
      const row = await ofApp(`/v1/public/tables/${this.source.tableId}/data/${id}`, {
        method: "PATCH",
        exact: true,
        body: { data: { [column.name]: value }, ...(expected && !force ? { expected_updated_at: expected } : {}) },
      });
      this.source.put(row);
    } catch (error) {
      edit.rejected = true;
      this.done.value = this.done.value.filter((one) => one !== edit);
      const shown = this.source.find(id)?.row;
      const original = shown && { ...shown, data: withField(shown.data, column.name, before) };
      if (original) this.source.put(original);
      if (/** @type {any} */ (error).code === "PRECONDITION_FAILED" && original)
        await this.compare(original, column, value, error);
      else this.rejected(id, column, value, error);
    } finally {
      this.pending.value--;
    }
  }

  /**
   * Say what was not saved and keep it at hand.
   * @param {string} id
   * @param {Column} column
   * @param {unknown} value
   * @param {any} error
   */
  async rejected(id, column, value, error) {
    const text = textOf(value, column);
    const shown = column.encrypted ? "••••••••" : value === null ? "null" : plain(text, 60);
    /** @type {[string, () => void]} */
    const copy = [t.copy, () => void copyText(text)];
    /** @type {[string, () => void]} */
    const again = [
      t.again,
      () => void this.commit(this.source.find(id)?.row || /** @type {any} */ ({ id, data: {} }), column, value),
    ];
    if (["UNKNOWN_COLUMN", "TABLE_NOT_FOUND"].includes(error.code)) {
      const what = plain(column.name, 40);
      const isWhole = error.code === "TABLE_NOT_FOUND";
      toast(
        isWhole
          ? t.grid.notSaved(what, shown, `${t.tables.gone}. ${t.tables.goneText}`)
          : t.grid.columnGone(what, shown),
        { kind: "bad", actions: [copy] },
      );
      await loadTables().catch(() => {});
      this.source.reload();
    } else toast(t.grid.notSaved(plain(column.name, 40), shown, said(error)), { kind: "bad", actions: [again, copy] });
  }

  /** @param {Row} row @param {Column} column @param {unknown} value @param {unknown} error */
  async compare(row, column, value, error) {
    try {
      const theirs = await ofApp(`/v1/public/tables/${this.source.tableId}/data/${row.id}`, { exact: true });
      this.source.put(theirs);
      this.conflict.value = { row, theirs, column, value };
    } catch {
      complain(error);
    }
  }

  /** Take the last change back, by the same rules. */
  async undo() {
    const edit = this.done.value.at(-1);
    if (!edit) return;
    this.done.value = this.done.value.slice(0, -1);
    try {
      const row =
        this.source.find(edit.id)?.row ||
        (await ofApp(`/v1/public/tables/${this.source.tableId}/data/${edit.id}`, { exact: true }));
      // A field cannot be made absent again: null is the nearest.
      await this.commit(row, edit.column, edit.before === undefined ? null : edit.before, { undo: edit });
    } catch (error) {
      complain(error);
    }
  }
}

/** @param {Record<string, any>} data @param {string} name @param {unknown} value */
function withField(data, name, value) {
  const { [name]: _, ...rest } = data;
  return value === undefined ? rest : { ...data, [name]: value };
}
