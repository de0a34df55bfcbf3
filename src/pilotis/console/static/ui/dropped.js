/** Files and folders out of a drop, with their paths. @param {DataTransfer} given @returns {Promise<{file: File, folders: string[]}[]>} */
export async function dropped(given) {
  /** @type {{file: File, folders: string[]}[]} */
  const found = [];
  /** @param {any} entry @param {string[]} folders @returns {Promise<void>} */
  const walk = async (entry, folders) => {
    if (entry.isFile) found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), folders });
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
  const entries = [...given.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
  for (const entry of entries) await walk(entry, []);
  return found;
}
