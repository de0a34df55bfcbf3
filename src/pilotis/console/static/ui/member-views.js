/** The tabs of the section of members: the members, their teams, and who was invited. */
import { html } from "../vendor/view.js";
import { t } from "../strings/index.js";
import { appId } from "../state/app.js";
import { href } from "../state/router.js";
import { Tabs } from "./widgets.js";

/** @param {{on: "members" | "teams" | "invitations"}} props */
export const MemberViews = ({ on }) => html`<${Tabs}
  label=${t.sectionNames.members}
  items=${/** @type {const} */ (["members", "teams", "invitations"]).map((name) => ({
    href: href(`/apps/${appId.value}/${name}`),
    text: t.teams.sections[name],
    on: name === on,
  }))}
/>`;
