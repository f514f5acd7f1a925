"""The fault suite in its short form: `make faults` runs it longer. One test per fault and deployment."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.faults.scene import Fault
from tests.faults.stack import Stack
from tests.faults.suite import DEPLOYMENTS, Suite, faults_of, new_folder, workload_of
from tests.servers import MissingProgram

pytestmark = pytest.mark.integration

_SEED = 1
_CASES = [(deployment, fault) for deployment in DEPLOYMENTS for fault in faults_of(deployment)]


@pytest.fixture(scope="module")
def embedded() -> Iterator[Suite]:
    yield from _started("embedded")


@pytest.fixture(scope="module")
def scaled_out() -> Iterator[Suite]:
    yield from _started("scaled_out")


@pytest.mark.parametrize(
    ("deployment", "fault"), _CASES, ids=[f"{deployment}-{fault.name}" for deployment, fault in _CASES]
)
def test_a_fault_costs_no_batch_and_changes_no_number(
    request: pytest.FixtureRequest, deployment: str, fault: Fault
) -> None:
    suite: Suite = request.getfixturevalue(deployment)
    outcome = suite.run(fault)
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert outcome.is_good, f"{outcome}\n" + "\n".join(outcome.account.problems)


def _started(deployment: str) -> Iterator[Suite]:
    """A deployment with a run that nothing disturbed, to compare with."""
    folder = new_folder()
    stack = Stack(folder, deployment == "scaled_out")
    try:
        try:
            stack.start()
        except MissingProgram as missing:
            if os.environ.get("COLLAPSEWATCH_TEST_SERVERS") == "required":
                pytest.fail(str(missing))
            pytest.skip(str(missing))
        suite = Suite(stack, workload_of(_SEED, is_short=True), is_short=True)
        undisturbed = suite.run_undisturbed()
        assert undisturbed.account.is_clean, undisturbed.account.problems
        yield suite
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)
