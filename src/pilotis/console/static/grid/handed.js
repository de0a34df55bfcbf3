/** A file on its way from the form of a new table to the screen of that table, which imports it. */
let handed = /** @type {{tableId: string, file: File, mapping: Record<string, string>} | null} */ (null);

/** @param {string} tableId @param {File} file @param {Record<string, string>} mapping */
export const handOver = (tableId, file, mapping) => (handed = { tableId, file, mapping });

/** The file that was handed over to a table; once. @param {string} tableId */
export function handedOver(tableId) {
  const given = handed?.tableId === tableId ? handed : null;
  handed = null;
  return given;
}
