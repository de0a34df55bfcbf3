import { createClient } from "@pilotis/client";
import { fetch } from "expo/fetch";
import * as secure from "expo-secure-store";
import type { App } from "./pilotis-types";

/** A name in the secure store has letters, digits, `.`, `-` and `_`. */
const nameOf = (name: string) => name.replace(/[^\w.-]/g, "_");

export const pilotis = createClient<App>({
  url: process.env.EXPO_PUBLIC_PILOTIS_URL!,
  publicKey: process.env.EXPO_PUBLIC_PILOTIS_PUBLIC_KEY!,
  // The answer of `expo/fetch` can be read while it arrives, which live lists need.
  fetch: fetch as typeof globalThis.fetch,
  storage: {
    get: (name) => secure.getItemAsync(nameOf(name)),
    set: (name, value) => secure.setItemAsync(nameOf(name), value),
    remove: (name) => secure.deleteItemAsync(nameOf(name)),
  },
});
