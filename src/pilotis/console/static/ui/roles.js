/** Roles of members as somebody types them. */
import { t } from "../strings/index.js";

const MAX_ROLES = 20;
const ROLE = /^[a-z0-9_-]{1,64}$/;

/** The roles in a text, and what is wrong with them. @param {string} text */
export function rolesOf(text) {
  const roles = [...new Set(text.split(/[\s,]+/).filter(Boolean))];
  const noRole = roles.find((role) => !ROLE.test(role));
  const many = roles.length > MAX_ROLES ? t.members.manyRoles(MAX_ROLES) : "";
  return { roles, wrong: noRole === undefined ? many : t.members.noSuchRole(noRole) };
}
