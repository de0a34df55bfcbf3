/**
 * What any screen waits for, asked for while the modules of the screen are on their way: this module and what it
 * imports are run as soon as they are there.
 */
import { open, renew, request } from "./api.js";

/** How many apps are asked for at once. */
export const PAGE = 100;

/** What the server offers. */
export const config = open("/v1/console/config");
/** Whether somebody is signed in. */
export const session = renew();
/** The first page of the list of apps; null where no screen asks for it: nobody is signed in, or is about to. */
export const apps = session.then((known) =>
  known && !/^\/console\/(sign-in|setup|invitation)\b/.test(location.pathname) ? request("/v1/apps", { query: { limit: PAGE, offset: 0 } }) : null);
// Who needs them learns what failed.
for (const one of [config, session, apps]) one.catch(() => {});
