"""The MCP server, asked by the protocol's own client: in the process, and as the command."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from collapsewatch.asking.mcp_server import build_server
from collapsewatch.asking.reader import ServerReader
from collapsewatch.settings import Settings
from tests.server.live import Json, LiveServer, result_body

Ask = Callable[..., tuple[bool, Any]]


@pytest.fixture
def live(start_sqlite_server: Any) -> LiveServer:
    """One run with a scored step."""
    server: LiveServer = start_sqlite_server()
    run_id = server.start_run(run_id="one", name="first", config={"lr": 0.1})
    server.send_batch(run_id, 0)
    assert server.done(server.claim()["job_id"], result_body())
    return server


def asked(server: Any, work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        async with Client(server) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(run(), 60))


@pytest.fixture
def ask(live: LiveServer) -> Ask:
    """`ask(tool, …)`: whether it failed, and its answer."""

    def call(tool: str, **arguments: Any) -> tuple[bool, Any]:
        with ServerReader(Settings(live.url)) as reader:
            result = asked(build_server(reader), lambda client: client.call_tool(tool, arguments))
        text = result.content[0].text
        return bool(result.is_error), text if result.is_error else json.loads(text)

    return call


def test_every_tool_says_that_it_only_reads(live: LiveServer) -> None:
    with ServerReader(Settings(live.url)) as reader:
        tools = asked(build_server(reader), lambda client: client.list_tools()).tools
    assert len(tools) == 9
    for tool in tools:
        assert tool.annotations.read_only_hint
        assert not tool.annotations.destructive_hint
        assert tool.description


def test_answers(ask: Ask) -> None:
    failed, found = ask("list_runs")
    assert (failed, [run["name"] for run in found["runs"]]) == (False, ["first"])
    assert ask("get_run", run="first")[1]["config"] == {"lr": 0.1}
    assert ask("check_run", run="first")[1]["verdict"] in ("unknown", "no_collapse")
    series: Json = ask("get_metrics", run="one", scope="batch")[1]["series"]
    assert series["reward"]["steps"] == [0]
    assert ask("list_alerts", run="one", status="every")[1]["items"] == []


def test_what_cannot_be_answered_is_said(ask: Ask) -> None:
    failed, words = ask("get_run", run="second")
    assert failed
    assert words.endswith("there is no run 'second'")
    assert ask("get_metrics", run="one", max_points=10**9)[0]
    assert ask("list_alerts", status="never")[0]


def test_the_command_speaks_the_protocol_and_nothing_else(live: LiveServer) -> None:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "collapsewatch", "mcp", "--url", live.url]
    )
    result = asked(command, lambda client: client.call_tool("check_run", {"run": "first"}))
    assert json.loads(result.content[0].text)["name"] == "first"
