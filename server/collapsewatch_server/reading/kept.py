"""What filter rules kept over the steps. Pure. Source: METRICS.md section 3, "Starvation"."""

from collections.abc import Iterable, Sequence

from collapsewatch_server.reading.step_views import GroupHistory, KeptHistory, RuleHistory
from collapsewatch_server.repositories.steps import KeptStep

_ALL_FAIL = "too_hard"


def kept_history(read: Sequence[KeptStep]) -> KeptHistory:
    """What became of the groups of the last step.

    Args:
        read: scored steps, the last first; one or more.
    """
    rules = [str(one["rule"]) for one in read[0].filters]
    kept = {rule: [_kept_by(one, rule) for one in read] for rule in rules}
    seen = [_group_ids(one) for one in read]
    group_ids = list(dict.fromkeys(str(group["group_id"]) for group in read[0].groups))
    return KeptHistory(
        step=read[0].step,
        from_step=read[-1].step,
        num_steps=len(read),
        rules=[_rule_history(rule, kept[rule], seen) for rule in rules],
        groups=[
            GroupHistory(
                group_id=group_id,
                num_seen=sum(group_id in ids for ids in seen),
                all_fail_since=_all_fail_since(read, group_id),
                last_kept={rule: _last_kept(read, kept[rule], group_id) for rule in rules},
            )
            for group_id in group_ids
        ],
    )


def _rule_history(rule: str, kept: Sequence[set[str]], seen: Sequence[set[str]]) -> RuleHistory:
    num_seen = sum(map(len, seen))
    ever_seen = set().union(*seen)
    ever_kept = set().union(*kept) & ever_seen
    return RuleHistory(
        rule=rule,
        kept_ratio=sum(map(len, kept)) / num_seen if num_seen else 0.0,
        coverage=len(ever_kept) / len(ever_seen) if ever_seen else 0.0,
    )


def _kept_by(step: KeptStep, rule: str) -> set[str]:
    """The groups that the rule kept; none at a step that did not try it."""
    found: Iterable[str] = next((one["kept_group_ids"] for one in step.filters if one["rule"] == rule), ())
    return set(found)


def _group_ids(step: KeptStep) -> set[str]:
    return {str(group["group_id"]) for group in step.groups}


def _last_kept(read: Sequence[KeptStep], kept: Sequence[set[str]], group_id: str) -> int | None:
    return next((one.step for one, ids in zip(read, kept, strict=True) if group_id in ids), None)


def _all_fail_since(read: Sequence[KeptStep], group_id: str) -> int | None:
    since = None
    for one in read:
        causes = [group.get("cause") for group in one.groups if group["group_id"] == group_id]
        if not causes:
            continue
        if any(cause != _ALL_FAIL for cause in causes):
            break
        since = one.step
    return since
