"""Every format on files as its writer writes them; tests/data/README.md says which writer wrote which."""

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from collapsewatch.importers.columns import mapping_of
from collapsewatch.importers.registry import FORMAT_NAMES, detect
from collapsewatch.importers.steps import ImportFailedError, Step
from collapsewatch.importers.trl import overlap
from tests.sdk.importing import DATA, RECORDED, steps_of, write_rows

VERL = {"input": "p <think>", "output": "a </think> b", "gts": None, "score": 1.0, "step": 1}


def group_sizes(step: Step) -> list[int]:
    return list(Counter(rollout.group_id for rollout in step.rollouts).values())


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("verl_v0", "verl"),
        ("verl_v1/1.jsonl", "verl"),
        ("trl", "trl"),
        ("trl/completions", "trl"),
        ("trl/completions/completions_00003.parquet", "trl"),
        ("ragen", "ragen"),
        ("ragen/val_rollouts_step_10.jsonl", "ragen"),
        ("skyrl", "skyrl"),
        ("skyrl/dumped_evals/global_step_5_evals", "skyrl"),
        ("skyrl/dumped_evals/global_step_5_evals/grid_easy.jsonl", "skyrl"),
        ("nemo_rl", "nemo-rl"),
        ("nemo_rl/train_data_step2.jsonl", "nemo-rl"),
        ("prime_rl", "prime-rl"),
        ("prime_rl/rollouts", "prime-rl"),
        ("prime_rl/rollouts/step_2", "prime-rl"),
        ("prime_rl/rollouts/step_2/train/effective/traces.jsonl", "prime-rl"),
        ("../collapsing_run.jsonl.gz", "recorded"),
    ],
)
def test_a_path_is_recognised(folder: str, name: str) -> None:
    assert detect(DATA / folder).name == name
    assert name in FORMAT_NAMES


@pytest.mark.parametrize("version", ["verl_v0", "verl_v1"])
def test_verl_steps_come_in_order_of_their_numbers_and_not_of_their_names(version: str) -> None:
    steps, look, _ = steps_of(DATA / version)
    assert [step.number for step in steps] == [1, 2, 10]
    assert [group_sizes(step) for step in steps] == [[4, 4, 4, 4]] * 3
    assert look.problems.num_skipped == 0
    first = json.loads((DATA / version / "1.jsonl").read_text().splitlines()[0])
    rollout = steps[0].rollouts[0]
    assert (rollout.turns[0].prompt, rollout.turns[0].response) == (first["input"], first["output"])
    assert rollout.reward == first["score"]


def test_verl_v1_groups_by_the_sample_in_its_uid(tmp_path: Path) -> None:
    rows = [{**VERL, "input": f"p{n}", "uid": f"a_b_{n // 2}_{n % 2}", "score": float(n)} for n in range(4)]
    [step], _, _ = steps_of(write_rows(tmp_path / "1.jsonl", [*rows, {**VERL, "uid": "c_0_0"}]))
    assert [rollout.group_id for rollout in step.rollouts] == ["a_b", "a_b", "c"]
    # Two outputs of one rollout are its turns, and its score stands with the last.
    assert [len(rollout.turns) for rollout in step.rollouts] == [2, 2, 1]
    assert [turn.prompt for turn in step.rollouts[1].turns] == ["p2", "p3"]
    assert [rollout.reward for rollout in step.rollouts] == [1.0, 3.0, 1.0]


def test_verl_v0_groups_by_the_very_same_input(tmp_path: Path) -> None:
    rows = [{**VERL, "input": text} for text in ("p", "q", "p", "p ")]
    [step], _, _ = steps_of(write_rows(tmp_path / "1.jsonl", rows))
    groups = [rollout.group_id for rollout in step.rollouts]
    assert groups[0] == groups[2]
    assert len(set(groups)) == 3


def test_verl_extras_become_means_and_acc_the_success(tmp_path: Path) -> None:
    rows = [{**VERL, "acc": n == 0, "length": n, "note": "text", "request_id": n} for n in range(4)]
    [step], _, _ = steps_of(write_rows(tmp_path / "1.jsonl", rows))
    assert step.values == {"acc": 0.25, "length": 1.5}
    assert [rollout.success for rollout in step.rollouts] == [True, False, False, False]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("{not json", "not JSON: Expecting property name"),
        ("[1]", "must be a JSON object (given list)"),
        ({**VERL, "output": None}, "output: must be text (given nothing)"),
        ({**VERL, "score": "good"}, "score: must be a number (given 'good')"),
        ({**VERL, "score": math.nan}, "reward: Input should be a finite number (given nan)"),
        ({**VERL, "step": 2}, "step: must be 1, as the file's name says (given 2)"),
    ],
)
def test_a_bad_row_is_skipped_counted_and_told_with_its_place(tmp_path: Path, row: Any, told: str) -> None:
    path = write_rows(tmp_path / "1.jsonl", [VERL, row, VERL])
    [step], look, lines = steps_of(path)
    assert len(step.rollouts) == 2
    assert look.problems.num_skipped == 1
    assert lines[0].startswith(f"{path}:2: skipped: ")
    assert told in lines[0]
    with pytest.raises(ImportFailedError, match=":2: "):
        steps_of(path, strict=True)


def test_trl_rows_that_a_later_file_repeats_are_left_out() -> None:
    # Written with num_iterations=2: files 1 and 2 hold one generation batch. The evaluation at step 4 pushed
    # four rows in behind the last four of step 3.
    steps, look, _ = steps_of(DATA / "trl")
    assert [(step.number, len(step.rollouts)) for step in steps] == [(1, 8), (3, 8), (4, 4)]
    assert look.problems.num_repeated == 12
    assert [group_sizes(step) for step in steps] == [[4, 4], [4, 4], [4]]


def test_the_trl_reward_is_the_sum_of_what_the_advantage_was_made_of() -> None:
    from pyarrow import parquet

    [step, *_], _, _ = steps_of(DATA / "trl")
    rows = parquet.read_table(DATA / "trl/completions/completions_00001.parquet").to_pylist()
    # The column `num_words` is no reward: a reward function logged it by `log_extra`.
    assert [rollout.reward for rollout in step.rollouts] == [row["length"] + row["close"] for row in rows]
    assert step.values["num_words"] == sum(row["num_words"] for row in rows) / len(rows)


def test_the_trl_reward_can_be_named() -> None:
    from pyarrow import parquet

    [step, *_], _, _ = steps_of(DATA / "trl", mapping={"reward": "close"})
    rows = parquet.read_table(DATA / "trl/completions/completions_00001.parquet").to_pylist()
    assert [rollout.reward for rollout in step.rollouts] == [row["close"] for row in rows]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [("", "abc", 0), ("abc", "", 0), ("abc", "abc", 3), ("abcd", "cdef", 2), ("aab", "abx", 2),
     ("abx", "bxb", 2), ("abc", "cba", 1), ("aaaa", "aab", 2), ("xyz", "yx", 0)],
)  # fmt: skip
def test_the_overlap_is_the_longest_end_that_is_a_beginning(before: str, now: str, expected: int) -> None:
    found = overlap([letter.encode() for letter in before], [letter.encode() for letter in now])
    slow = max(
        (n for n in range(min(len(before), len(now)) + 1) if before[len(before) - n :] == now[:n]), default=0
    )
    assert found == slow == expected


def test_ragen_turns_and_groups() -> None:
    steps, _, _ = steps_of(DATA / "ragen")
    assert [(step.number, group_sizes(step)) for step in steps] == [(0, [4] * 4), (10, [4] * 4)]
    rollout = steps[0].rollouts[0]
    assert rollout.rollout_id == "traj_0"
    assert len(rollout.turns) == 2
    assert rollout.turns[0].prompt == "<bos> sky clear me four zero goal two two hole down"
    assert rollout.turns[1].prompt is not None
    assert rollout.turns[1].prompt.startswith(rollout.turns[0].prompt)
    assert rollout.reward == pytest.approx(0.9)
    assert rollout.success is True
    assert steps[0].values["entropy"] == 0.5


def test_ragen_files_without_a_step_in_their_names_count(tmp_path: Path) -> None:
    for name in ("val_rollouts_20260102.jsonl", "val_rollouts_20260101.jsonl"):
        shutil.copy(DATA / "ragen/val_rollouts_step_0.jsonl", tmp_path / name)
    steps, _, _ = steps_of(tmp_path)
    assert [(step.number, step.place.path.name) for step in steps] == [
        (0, "val_rollouts_20260101.jsonl"),
        (1, "val_rollouts_20260102.jsonl"),
    ]
    [alone], _, _ = steps_of(tmp_path / "val_rollouts_20260102.jsonl", step=7)
    assert alone.number == 7


def test_skyrl_takes_all_data_sources_of_a_step_and_sums_token_rewards() -> None:
    steps, look, _ = steps_of(DATA / "skyrl")
    assert [(step.number, group_sizes(step)) for step in steps] == [(n, [4] * 4) for n in (0, 5, 10)]
    rows = [
        json.loads(line)
        for line in (DATA / "skyrl/dumped_evals/global_step_0_evals/grid_easy.jsonl").read_text().splitlines()
    ]
    assert isinstance(rows[1]["score"], list)
    assert [rollout.reward for rollout in steps[0].rollouts[:8]] == [
        sum(row["score"]) if isinstance(row["score"], list) else row["score"] for row in rows
    ]
    assert look.problems.num_skipped == 0


def test_nemo_rl_cuts_the_turns_out_by_the_mask() -> None:
    steps, _, _ = steps_of(DATA / "nemo_rl")
    assert [(step.number, group_sizes(step)) for step in steps] == [(1, [4] * 4), (2, [4] * 4)]
    raws = [json.loads(line) for line in (DATA / "nemo_rl/train_data_step1.jsonl").read_text().splitlines()]
    for raw, rollout in zip(raws, steps[0].rollouts, strict=True):
        [turn] = rollout.turns
        written = [
            token for token, mask in zip(raw["token_ids"][0], raw["token_loss_mask"][0], strict=True) if mask
        ]
        assert turn.response_token_ids == written
        assert turn.prompt_token_ids == raw["token_ids"][0][: raw["token_loss_mask"][0].index(1)]
        # Some rows end with what the environment said, some with the reply.
        assert (turn.prompt, turn.response) == (raw["content"][0][0], raw["content"][0][1])
        assert turn.response_log_probs == [-0.5] * len(written)
        assert rollout.reward == raw["rewards"][0]


def test_nemo_rl_with_several_turns_and_without_texts(tmp_path: Path) -> None:
    row = {"rewards": [1.0], "token_ids": [[1, 2, 3, 4, 5, 6, 0]], "token_loss_mask": [[0, 1, 1, 0, 1, 0, 0]],
           "input_lengths": [6], "idx": 0}  # fmt: skip
    texts = {"content": [["p", "a", "e", "b", "f"]]}
    path = write_rows(
        tmp_path / "train_data_step3.jsonl",
        [row, {**row, **texts, "rewards": [9.0], "filtered_rewards": [0.5]}],
    )
    [step], _, _ = steps_of(path)
    # Dynamic sampling logs the rewards of what it dropped as well; the filtered ones belong to the rows.
    assert [rollout.reward for rollout in step.rollouts] == [1.0, 0.5]
    turns = step.rollouts[0].turns
    assert [(turn.prompt_token_ids, turn.response_token_ids) for turn in turns] == [
        ([1], [2, 3]),
        ([1, 2, 3, 4], [5]),
    ]
    assert [turn.prompt for turn in turns] == [None, None]
    assert [(turn.prompt, turn.response) for turn in step.rollouts[1].turns] == [("p", "a"), ("pae", "b")]


def test_prime_rl_takes_what_was_trained_on_with_its_policy() -> None:
    steps, look, _ = steps_of(DATA / "prime_rl")
    assert [(step.number, group_sizes(step)) for step in steps] == [(n, [4] * 3) for n in (1, 2, 10)]
    assert [step.policy_version for step in steps] == ["0", "0", "8"]
    assert look.problems.num_skipped == 0
    assert steps[0].values == {"num_turns": 1.5}


def test_prime_rl_turns_have_the_ids_and_log_probs_of_their_way_from_the_root() -> None:
    path = DATA / "prime_rl/rollouts/step_1/train/effective/traces.jsonl"
    [step], _, _ = steps_of(path)
    episodes = [json.loads(line) for line in path.read_text().splitlines()]
    nodes = episodes[1]["traces"][0]["nodes"]
    first, second = step.rollouts[1].turns
    assert second.prompt_token_ids is not None
    assert second.response_token_ids is not None
    # The way is a line here, so all ids before the last reply are the second turn's prompt.
    everything = [token for node in nodes for token in node["token_ids"]]
    assert second.prompt_token_ids + second.response_token_ids == everything
    assert second.response_log_probs == [-0.5] * len(second.response_token_ids)
    assert first.response is not None
    assert first.response.startswith("<think>" + nodes[2]["message"]["reasoning_content"] + "</think>")
    rewards = episodes[1]["traces"][0]["rewards"]
    assert step.rollouts[1].reward == rewards["solved"]["score"] + 0.1 * rewards["format"]["score"]


def test_prime_rl_falls_back_on_all_episodes_and_reads_evaluations_on_demand(tmp_path: Path) -> None:
    shutil.copytree(DATA / "prime_rl", tmp_path / "run")
    shutil.rmtree(tmp_path / "run/rollouts/step_1/train/effective")
    steps, look, _ = steps_of(tmp_path / "run")
    # The episode that failed before any trace was begun is no rollout and no fault.
    assert [len(step.rollouts) for step in steps] == [12, 12, 12]
    assert look.problems.num_skipped == 0
    [evaluation], _, _ = steps_of(DATA / "prime_rl", part="eval")
    assert (evaluation.number, len(evaluation.rollouts)) == (1, 4)


def test_a_trace_whose_parents_lead_in_a_circle_is_a_bad_row(tmp_path: Path) -> None:
    node = {"parent": 0, "message": {"role": "assistant", "content": "a"}, "sampled": True}
    good = {"nodes": [{"message": {"role": "user", "content": "q"}}, node]}
    path = write_rows(
        tmp_path / "traces.jsonl", [good, {"nodes": [node, node]}, {"nodes": [{**node, "parent": 9}]}]
    )
    [step], look, told = steps_of(path)
    assert len(step.rollouts) == 1
    assert look.problems.num_skipped == 2
    assert "nodes.parent" in told[0]


def test_recorded_rollouts_with_the_metrics_beside_them(tmp_path: Path) -> None:
    texts = {"prompt": "p <think>", "response": "a </think> b"}
    rows = [{**texts, "step": n // 2, "group": f"g{n % 2}", "reward": n} for n in range(6)]
    path = write_rows(tmp_path / "run.rollouts.jsonl", rows)
    write_rows(tmp_path / "run.metrics.jsonl", [{"step": 1, "eval": 0.5, "kl": 0.1, "other": 3}, "broken"])
    steps, _, told = steps_of(path)
    assert [(step.number, len(step.rollouts), dict(step.values)) for step in steps] == [
        (0, 2, {}),
        (1, 2, {"success": 0.5, "kl": 0.1}),
        (2, 2, {}),
    ]
    assert not told


def test_the_recorded_run_is_read_whole() -> None:
    steps, look, _ = steps_of(RECORDED)
    assert [step.number for step in steps] == list(range(50))
    assert {tuple(group_sizes(step)) for step in steps} == {(16,) * 8}
    assert look.problems.num_skipped == 0
    assert look.meter.num_done == look.meter.num_total == RECORDED.stat().st_size


def test_a_step_that_comes_back_is_told_and_does_not_replace_the_first(tmp_path: Path) -> None:
    row = {"group": "g", "prompt": "p", "response": "a"}
    path = write_rows(tmp_path / "run.jsonl", [{**row, "step": n} for n in (3, 4, 3, 4)])
    steps, look, told = steps_of(path)
    assert [(step.number, len(step.rollouts)) for step in steps] == [(3, 1), (4, 2)]
    assert look.problems.num_skipped == 1
    assert "step 3 comes back after step 4" in told[0]


def test_columns_by_their_usual_names(tmp_path: Path) -> None:
    rows = [
        {"question": "q", "answer": "a", "global_step": n // 2, "score": 1, "correct": 1} for n in range(4)
    ]
    steps, _, _ = steps_of(write_rows(tmp_path / "mine.jsonl", rows))
    assert [(step.number, group_sizes(step)) for step in steps] == [(0, [2]), (1, [2])]
    assert steps[0].rollouts[0].success is True


def test_columns_by_a_mapping_into_objects(tmp_path: Path) -> None:
    rows = [
        {"task": {"text": "q", "id": n}, "said": "a", "thought": "z", "t": 5, "meta": {"r": 0.5}}
        for n in range(2)
    ]
    names = mapping_of(["prompt=task.text", "group=task.id", "response=said", "reasoning=thought", "step=t",
                        "reward=meta.r"])  # fmt: skip
    [step], _, _ = steps_of(write_rows(tmp_path / "mine.jsonl", rows), mapping=names)
    assert step.number == 5
    assert [rollout.group_id for rollout in step.rollouts] == ["0", "1"]
    turn = step.rollouts[0].turns[0]
    assert (turn.prompt, turn.response, turn.reasoning) == ("q", "a", "z")
    assert step.rollouts[0].reward == 0.5


def test_columns_of_a_parquet_file_with_token_ids(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [{"step": 0, "prompt_ids": [1, 2], "completion_ids": [3 + n], "logprobs": [-0.5], "reward": 1.0}
            for n in range(300)]  # fmt: skip
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "mine.parquet")
    [step], look, _ = steps_of(tmp_path / "mine.parquet")
    assert len(step.rollouts) == 300
    assert group_sizes(step) == [300]
    assert step.rollouts[7].turns[0].response_token_ids == [10]
    assert look.meter.num_done == look.meter.num_total


def test_a_file_without_steps_says_how_to_give_one(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.jsonl", [{"prompt": "q", "response": "a"}])
    _, look, told = steps_of(path)
    assert look.problems.num_skipped == 1
    assert "--step N" in told[0]
    [step], _, _ = steps_of(path, step=4)
    assert step.number == 4
    [named], _, _ = steps_of(write_rows(tmp_path / "eval_step12.jsonl", [{"prompt": "q", "response": "a"}]))
    assert named.number == 12


def test_a_misspelt_column_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.jsonl", [{"q": "q", "a": "a"}])
    with pytest.raises(ImportFailedError, match=r"--map prompt=question: .* it has q, a"):
        steps_of(path, mapping={"prompt": "question", "response": "a"})


@pytest.mark.parametrize("pair", ["prompt", "prompt=", "promt=question"])
def test_a_mapping_must_name_a_field_and_a_column(pair: str) -> None:
    with pytest.raises(ImportFailedError, match="FIELD=COLUMN"):
        mapping_of([pair])


def test_pickled_files_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "global_step_3_training_input.pkl"
    path.write_bytes(b"cos\nsystem\n(S'touch /tmp/never'\ntR.")
    for given in (path, tmp_path):
        with pytest.raises(ImportFailedError, match="loading one runs whatever code it holds"):
            steps_of(given)
    with pytest.raises(ImportFailedError, match="pickled"):
        steps_of(path, "columns")


def test_what_is_no_format_is_told_with_what_is_looked_for(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.jsonl", [{"x": 1}])
    for given in (path, tmp_path):
        with pytest.raises(ImportFailedError) as raised:
            steps_of(given)
        assert all(f"  {name}: " in str(raised.value) for name in FORMAT_NAMES)
    with pytest.raises(ImportFailedError, match="there is no such file"):
        steps_of(tmp_path / "nothing")
    with pytest.raises(ImportFailedError, match="--format vrel: must be auto or one of"):
        steps_of(path, "vrel")
    with pytest.raises(ImportFailedError, match="no rollouts of verl here"):
        steps_of(tmp_path, "verl")
