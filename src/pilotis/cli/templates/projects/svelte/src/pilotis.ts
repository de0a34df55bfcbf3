import { createClient } from "@pilotis/client";
import type { App } from "./pilotis-types";

// `pilotis dev` sets both; for a build they are in the environment, or in `.env.production`.
export const pilotis = createClient<App>({
  url: import.meta.env.VITE_PILOTIS_URL,
  publicKey: import.meta.env.VITE_PILOTIS_PUBLIC_KEY,
});
