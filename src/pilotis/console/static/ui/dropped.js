/**
 * Files and folders out of a drop, with their paths; rejects what cannot be read.
 * @param {DataTransfer} given
 * @returns {Promise<{file: File, folders: string[]}[]>}
 */
export async function dropped(given) {
  /** @type {{file: File, folders: string[]}[]} */
  const found = [];
  /** @param {any} entry @param {string[]} folders @returns {Promise<void>} */
  const walk = async (entry, folders) => {
    if (entry.isFile)
      found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), folders });
    else {
      const reader = entry.createReader();
      for (;;) {
        /** @type {any[]} */
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!some.length) break;
        for (const one of some) await walk(one, [...folders, entry.name]);
      }
    }
  };
  // All of them now: the drop is empty once its event is over. WebKit reads a file without a path only directly.
  const items = [...given.items].map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  for (const { entry, file } of items) {
    if (file && !entry?.isDirectory) found.push({ file, folders: [] });
    else if (entry) await walk(entry, []);
  }
  return found;
}
