/** What to do when no run has been pushed yet. */

import { needsLogin } from "../access.js";
import { codeSample } from "./components.js";
import { el } from "./dom.js";

const keyWords = () =>
  needsLogin()
    ? "made under Settings, Keys, to send"
    : "shown once by `collapsewatch serve`; not needed on the same machine";

/** The guide names this page's own address, so that the sample runs as it stands. */
export function firstRunGuide(project) {
  const address = window.location.origin;
  const sample = `import collapsewatch

run = collapsewatch.init(
    project=${JSON.stringify(project || "my-agent")},
    name="grpo-1",
    url="${address}",
    api_key="…",  # ${keyWords()}
)
for step in range(num_steps):
    ...  # sample, score, update
    run.log_rollouts(
        step,
        prompts=prompts,      # ends with <think>
        responses=responses,  # reasoning </think> action
        rewards=rewards,
        group_ids=group_ids,  # same id = same prompt
    )
run.finish()`;
  return el(
    "section",
    { class: "card first-run", data: { testid: "empty-state" } },
    el("h2", { text: project ? `No run in ${project} yet` : "No run yet" }),
    el("p", {
      text: "Push the rollouts of each training step. A run appears here with its first batch, and its regime once ten evaluations have fixed a baseline.",
    }),
    codeSample(sample, "In your trainer"),
    codeSample("collapsewatch demo", "Or watch a small agent collapse on this machine"),
  );
}
