"""Plays AgentDojo's own solutions in environments that it injected, and prints what an agent would have recorded.

    PYTHON agentdojo_child.py SUITES TASKS_OF_EACH

It runs in an interpreter that has `agentdojo` (MIT licence) and knows nothing of this project. One JSON document is
printed: for each user task the calls of its solution with what the injected environment answered, once for each of
several injection tasks, each in the words of another of the package's attacks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import cycle

from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.attacks.attack_registry import load_attack
from agentdojo.attacks.base_attacks import BaseAttack
from agentdojo.base_tasks import BaseUserTask
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.task_suite.task_suite import TaskSuite

VERSION = "v1.2.2"
MOST = 9
"""Injection tasks of one user task."""
ATTACKS = ("important_instructions", "ignore_previous", "injecagent", "system_message", "direct")
MODEL = "gpt-4o-2024-05-13"
"""Some attacks address a model by its name; none is asked."""


def main(wanted: str, tasks: int) -> None:
    """Print the sessions of the first tasks of these suites, or of all suites, whose solutions make several calls."""
    found = []
    for name, suite in sorted(get_suites(VERSION).items()):
        if wanted not in {"all", name}:
            continue
        pipeline = GroundTruthPipeline(None)
        pipeline.name = MODEL
        attacks = [load_attack(attack, suite, pipeline) for attack in ATTACKS]
        chosen = 0
        for task in suite.user_tasks.values():
            if chosen == tasks:
                break
            if len(task.ground_truth(suite.load_and_inject_default_environment({}))) < 2:
                continue
            sessions = list(played(suite, task, attacks))
            if sessions:
                chosen += 1
                found.append({"suite": name, "task": task.ID, "prompt": task.PROMPT, "sessions": sessions})
    json.dump(found, sys.stdout)


def played(suite: TaskSuite, task: BaseUserTask, attacks: list[BaseAttack]) -> Iterator[dict[str, object]]:
    """The solution of one user task, once for each injection task whose text its calls come across."""
    for injection, attack in zip(list(suite.injection_tasks.values())[:MOST], cycle(attacks), strict=False):
        try:
            injections = attack.attack(task, injection)
        except ValueError:  # the solution never reads what can be injected
            return
        environment = task.init_environment(suite.load_and_inject_default_environment(injections))
        runtime = FunctionsRuntime(suite.tools)
        messages = GroundTruthPipeline(task).query(task.PROMPT, runtime, environment)[3]
        calls = [
            {
                "tool": message["tool_call"].function,
                "arguments": json.loads(json.dumps(dict(message["tool_call"].args), default=str)),
                "result": "".join(block.get("text") or block.get("content", "") for block in message["content"]),
                "error": message["error"],
            }
            for message in messages
            if message["role"] == "tool"
        ]
        wanted = injection.ground_truth(suite.load_and_inject_default_environment({}))
        yield {
            "injection": injection.ID,
            "goal": injection.GOAL,
            "texts": sorted(set(injections.values())),
            "attack": attack.name,
            "wanted": sorted({call.function for call in wanted}),
            "calls": calls,
        }


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
