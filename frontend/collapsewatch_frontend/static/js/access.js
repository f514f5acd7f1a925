/** What somebody may do. The server decides; here it is only known what need not be offered. Pure. */

const RANKS = { viewer: 1, editor: 2, admin: 3 };

/** The least role in a project for each thing that may be done there. */
const NEEDS = {
  "run.edit": "editor",
  "run.share": "editor",
  "job.retry": "editor",
  "alert.handle": "editor",
  "rule.edit": "editor",
  "run.delete": "admin",
  "channel.edit": "admin",
  "member.edit": "admin",
  "key.edit": "admin",
  "retention.edit": "admin",
  "audit.read": "admin",
};

/** Who holds nothing but a link. */
const NOBODY = { name: null, needsLogin: true, isOperator: false, roles: new Map() };

/**
 * Somebody as the server describes him: `session` answers who it is, `projects` (`[{id, name, role}]`) where
 * he has a role.
 */
export function accessOf(session, projects = []) {
  const roles = new Map();
  for (const { id, name, role } of projects) {
    const has = role ?? session.roles?.[id];
    if (has) roles.set(name, has);
  }
  return { name: session.name, needsLogin: session.needs_login, isOperator: session.is_operator, roles };
}

/**
 * Whether `access` suffices for an action in a project; in any at all when none is named, and in what belongs
 * to the whole service for null.
 * @param {any} access
 * @param {string} action
 * @param {string | null} [project]
 */
export function isAllowed(access, action, project) {
  if (!Object.hasOwn(NEEDS, action)) throw new Error(`there is no such action: ${action}`);
  if (!access.needsLogin || access.isOperator) return true;
  if (project === null) return false;
  const least = RANKS[NEEDS[action]];
  const found = project === undefined ? [...access.roles.values()] : [access.roles.get(project)];
  return found.some((role) => (RANKS[role] ?? 0) >= least);
}

let session = null;
let current = NOBODY;

/** Notes who uses the page, as the server answers it. */
export function noteSession(latest) {
  session = latest;
  current = accessOf(
    latest,
    [...current.roles].map(([name, role]) => ({ id: null, name, role })),
  );
}

/** Notes in which projects, whenever they were read; a page that only shows a link's content notes nothing. */
export function noteProjects(projects) {
  if (session !== null) current = accessOf(session, projects);
}

/**
 * Whether who uses the page may do this; see `isAllowed`.
 * @param {string} action
 * @param {string | null} [project]
 */
export const may = (action, project) => isAllowed(current, action, project);

/** Whether it may be done in each of these projects. */
export const mayInAll = (action, projects) => projects.every((project) => may(action, project));

/** Of the projects, by name, those in which it may be done. */
export const whereMay = (action, projects) => projects.filter((project) => may(action, project));

/** Whether accounts are looked after here, by whom uses the page. */
export const isOperator = () => !current.needsLogin || current.isOperator;

/** Whether people sign in here at all. */
export const needsLogin = () => current.needsLogin;

/** Whether who signed in can see no project at all. */
export const isInNoProject = () => current.needsLogin && !current.isOperator && current.roles.size === 0;

/** `{name, isOperator, roles}` of who signed in. */
export const whoAmI = () => current;
