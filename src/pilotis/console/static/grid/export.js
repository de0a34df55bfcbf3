/** Rows out of a table into a file. */
import { html, useRef, useState } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { request } from "../state/api.js";
import { appId, ofApp } from "../state/app.js";
import { plain, size } from "../ui/format.js";
import { Button, Dialog, Segments, complain, toast } from "../ui/widgets.js";
import { Progress } from "./bulk.js";
import { quoted } from "./csv.js";
import { textOf, valueOf } from "./values.js";

const STEP = 1000;

/**
 * @param {{table: import("../state/app.js").Table, columns: import("./values.js").Column[], source:
 *   import("./source.js").Source, where: Record<string, unknown>, onClose: () => void}} props
 */
export function ExportDialog({ table, columns, source, where, onClose }) {
  const [format, setFormat] = useState("csv");
  const [what, setWhat] = useState(where ? "found" : "all");
  const [at, setAt] = useState(-1);
  const stop = useRef(false);
  const total = source.total.value || 0;

  /** The server sends the whole table straight to disk; a download carries no header, so it is named by a link. */
  const everything = async () => {
    const { url } = await request(`/v1/apps/${appId.value}/tables/${table.id}/export-link`, {
      method: "POST",
      body: { format },
    });
    download(new URL(url).pathname);
    toast(t.transfer.exporting);
    onClose();
  };
  const download = (/** @type {string} */ address) => {
    const link = document.createElement("a");
    link.href = address;
    link.download = `${table.title.replace(/[^\p{L}\p{N}._-]+/gu, "_")}.${format}`;
    link.click();
  };
  /**
   * What the filter finds, page by page in the order of ids, so that changes meanwhile neither skip nor repeat a row.
   */
  const found = async () => {
    const parts = format === "csv" ? [`${columns.map((column) => quoted(column.name)).join(",")}\n`] : [];
    let last = "";
    for (let done = 0; !stop.current;) {
      const condition = last ? { $and: [...(where ? [where] : []), { id: { $gt: last } }] } : where;
      const page = await ofApp(`/v1/public/tables/${table.id}/data/query`, {
        method: "POST",
        exact: true,
        body: { ...(condition ? { where: condition } : {}), order_by: "id", limit: STEP },
      });
      for (const row of page.data)
        parts.push(
          format === "csv"
            ? `${columns.map((column) => quoted(textOf(valueOf(row, column), column))).join(",")}\n`
            : `${JSON.stringify({ id: row.id, ...row.data })}\n`,
        );
      done += page.data.length;
      setAt(done);
      if (!page.data.length || page.data.length === page.total_count) break;
      last = page.data[page.data.length - 1].id;
    }
    return new Blob(parts);
  };
  const start = async () => {
    setAt(0);
    try {
      if (what === "all") return await everything();
      const blob = await found();
      if (stop.current) return;
      const address = URL.createObjectURL(blob);
      download(address);
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      toast(t.transfer.exported(size(blob.size)));
      onClose();
    } catch (error) {
      complain(error);
      setAt(-1);
    }
  };
  return html`<${Dialog}
    title=${t.transfer.exportOf(plain(table.title, 60))} onClose=${() => ((stop.current = true), onClose())}
    footer=${html`
      <span class="grow"></span>
      <${Button} kind="go" busy=${at >= 0} onClick=${start}>${t.transfer.export}</${Button}>
    `}
  >
    <div class="field">
      <span class="label">${t.transfer.format}</span>
      <${Segments}
        label=${t.transfer.format} value=${format} onChange=${setFormat}
        options=${[
          ["csv", "CSV"],
          ["jsonl", "JSON Lines"],
        ]}
      />
    </div>
    ${where && html`<div class="field">
      <span class="label">${t.transfer.what}</span>
      <${Segments}
        label=${t.transfer.what} value=${what} onChange=${setWhat}
        options=${[
          ["found", t.transfer.found(total)],
          ["all", t.transfer.all],
        ]}
      />
    </div>`}
    ${at > 0 && html`<${Progress} at=${at} of=${total} />`}
  </${Dialog}>`;
}
