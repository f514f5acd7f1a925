/** Screen: who may do what. Members of a project and links to join it; for operators all accounts. */

import { isOperator, may } from "../access.js";
import { getAccounts, getInvitations, getMembers, getProjects } from "../api.js";
import { peopleHref } from "../routes.js";
import { el } from "./dom.js";
import { accountsPart } from "./people_accounts.js";
import { invitationsPart } from "./people_invitations.js";
import { membersPart } from "./people_members.js";
import { projectPicker, shownProject } from "./project_picker.js";
import { mountSettingsPart } from "./settings_screen.js";

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountPeople(host, { route, shell, navigate }) {
  let wanted = route.project;
  const reload = () => screen.reload();
  const parts = buildParts({ reload, onProject: (project) => navigate(peopleHref({ project })) });
  const screen = mountSettingsPart(host, {
    shell,
    id: "people",
    title: "People",
    sub: "Who may see and change what",
    body: parts.root,
    load: () => loadPeople(wanted),
    update: parts.update,
    follow: (next) => {
      wanted = next.project;
    },
  });
  return screen;
}

async function loadPeople(wanted) {
  const projects = (await getProjects()).filter(({ name }) => may("member.edit", name));
  const project = shownProject(projects, wanted);
  const [members, invitations, accounts, toService] = await Promise.all([
    project === null ? [] : getMembers(project.id),
    project === null ? [] : getInvitations(project.id),
    isOperator() ? getAccounts() : [],
    isOperator() ? getInvitations(null) : [],
  ]);
  return { projects, project, members, invitations, accounts, toService };
}

function buildParts({ reload, onProject }) {
  const picker = projectPicker({ onChange: onProject });
  const title = el("h2", { class: "section-title" });
  const members = membersPart({ reload });
  const joining = invitationsPart({ reload, isOfProject: true });
  const accounts = accountsPart({ reload });
  const toService = invitationsPart({ reload, isOfProject: false });
  const none = el("p", {
    class: "card empty-card",
    data: { testid: "no-project" },
    text: "There is no project yet. One appears with its first run; people can be invited to the service before.",
  });
  const ofProject = el(
    "section",
    { "aria-label": "Members of a project", data: { testid: "project-people" } },
    el("div", { class: "section-head" }, title, picker.root),
    members.root,
    joining.root,
  );
  const ofService = el(
    "section",
    { "aria-label": "Accounts of the service", data: { testid: "service-people" } },
    accounts.root,
    toService.root,
  );
  return {
    root: el("div", {}, none, ofProject, ofService),
    update({ projects, project, accounts: all, toService: links, ...found }) {
      none.hidden = project !== null;
      ofProject.hidden = project === null;
      ofService.hidden = !isOperator();
      if (project !== null) {
        title.textContent = `Members of ${project.name}`;
        picker.update(
          projects.map(({ name }) => name),
          project.name,
        );
        members.update({ members: found.members, accounts: all, project });
        joining.update(found.invitations, project);
      }
      accounts.update(all);
      toService.update(links, null);
    },
  };
}
