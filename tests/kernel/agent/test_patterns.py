"""Each pattern with scripted models over real kernels: what it asks of whom, and that every reply was needed."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.abc
import pytest

from cellwright import Engine, Event
from cellwright.agent.branches import Branch
from cellwright.agent.patterns import Choice, Code, Draft, Ideas, Pick, Scores, Step, Verdict, by_shape
from tests.support.agent.scripting import Call, Script, change, run, told
from tests.waiting import fail_after

pytestmark = pytest.mark.anyio

SQUARES = "print(sum(i * i for i in range(1, 101)))"


async def test_react_answers_a_task_of_one_cell_with_one_request(ask: Any) -> None:
    script = Script({"main/act": [Call("answer", {"code": SQUARES, "sentence": "The sum is {1}."})]})
    outcome = await ask("Calculate the sum of squares from 1 to 100", script)
    assert (outcome.ok, outcome.answer, outcome.steps) == (True, "The sum is 338350.", 1)
    assert script.used_up


async def test_an_answer_of_one_request_that_names_a_lost_notebook_is_sent_back(ask: Any) -> None:
    sentences = ["It is {1}, as digits_20200101_000000.ipynb shows.", "It is {1}."]
    calls = [Call("answer", {"code": "print(77)", "sentence": one}) for one in sentences]
    script = Script({"main/act": calls})
    outcome = await ask("How many?", script)
    assert outcome.answer == "It is 77."
    assert "There is no notebook 'digits_20200101_000000.ipynb'" in told(script.prompts[1])


async def test_react_goes_on_until_there_is_an_answer(ask: Any) -> None:
    script = Script({"main/act": [run("x = 20"), run("print(x + 1)"), "It is 21."]})
    outcome = await ask("Add one to twenty", script, pattern="react")
    assert outcome.answer == "It is 21."
    assert script.used_up


async def test_a_plan_is_the_engines_and_asks_for_code_when_a_steps_turn_comes(
    ask: Any, engine: Engine
) -> None:
    draft = Draft(
        steps=[
            Step(description="Make a number", code="x = 6", check="x == 6"),
            Step(description="Multiply it by seven and print it"),
        ]
    )
    script = Script(
        {
            "main/plan": [draft],
            "main/code": [Code(code="print(x * 7)")],
            "main/act": ["The product is 42."],
        }
    )
    outcome = await ask("Six times seven, in steps", script, pattern="plan")
    assert outcome.ok, outcome.report
    assert script.used_up
    plan = engine.session(outcome.session_id).document.metadata["cellwright"]["plan"]
    assert [todo["status"] for todo in plan["todos"]] == ["done", "done"]


async def test_a_plans_step_that_no_fixer_can_mend_gets_other_code(ask: Any) -> None:
    draft = Draft(steps=[Step(description="Divide", code="print(1 / 0)")])
    script = Script(
        {"main/plan": [draft], "main/code": [Code(code="print(1 / 4)")], "main/act": ["It is 0.25."]}
    )
    outcome = await ask("Divide something", script, pattern="plan")
    assert outcome.ok, outcome.report
    assert script.used_up


async def test_a_second_plan_in_one_notebook_is_carried_out_step_by_step(ask: Any) -> None:
    def draft(code: str) -> Draft:
        return Draft(steps=[Step(description="Print", code=code)])

    first = Script({"main/plan": [draft("print(5)")], "main/act": ["It is 5."]})
    one = await ask("First, in steps", first, pattern="plan")
    second = Script(
        {"main/plan": [draft("print(6)")], "main/act": [run("print(6)"), "Printed 6.", "It is 6."]}
    )
    other = await ask("Then, in steps", second, pattern="plan", conversation_id=one.conversation_id)
    assert (other.answer, other.session_id) == ("It is 6.", one.session_id)
    assert second.used_up


async def test_a_plan_that_cannot_be_mended_stops_with_the_plans_report(ask: Any) -> None:
    bad = Code(code="raise ValueError('never')")
    script = Script(
        {"main/plan": [Draft(steps=[Step(description="Fail", code=bad.code)])], "main/code": [bad, bad, bad]}
    )
    outcome = await ask("Do what cannot be done", script, pattern="plan")
    assert not outcome.ok
    assert "ValueError" in (outcome.report or "")
    assert script.used_up


UNLABELLED = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9])\nplt.show()"
LABELLED = (
    "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9])\nplt.title('Squares')\nplt.xlabel('number')\n"
    "plt.ylabel('square')\nplt.show()"
)


async def test_reflections_critic_sees_the_chart_and_what_it_finds_is_mended(ask: Any) -> None:
    script = Script(
        {
            "main/act": [run(UNLABELLED), "Here it is.", change(LABELLED), "Now with labels."],
            "main/critic": [Verdict(ok=True), Verdict(ok=True)],
        }
    )
    outcome = await ask("Plot the squares", script, pattern="reflect")
    assert outcome.answer == "Now with labels."
    assert script.used_up
    critic = script.prompts[script.asked.index("main/critic")]
    assert any(getattr(item, "media_type", "") == "image/png" for item in _contents(critic))
    assert "title" in told(script.prompts[3])


NONSENSE = ["No idea.", "{", '{"verdict": 7}']


async def test_a_critic_or_judge_of_nonsense_costs_its_advice_and_not_the_answer(ask: Any) -> None:
    drawn = {"main/act": [run(UNLABELLED), "Here it is.", change(LABELLED), "Now with labels."]}
    criticised = Script({**drawn, "main/critic": NONSENSE})
    outcome = await ask("Plot the squares", criticised, pattern="reflect")
    # What rules find in the chart is fixed all the same, and the critic is not asked about that again.
    assert (outcome.ok, outcome.answer, criticised.used_up) == (True, "Now with labels.", True)
    judged = Script({"main/act": [run("print(3)"), "3 prices."], "main/judge": NONSENSE})
    outcome = await ask("Get the prices", judged, pattern="refine")
    assert (outcome.ok, outcome.answer, outcome.report) == (True, "3 prices.", None)


async def test_branches_that_nobody_can_score_or_compare_give_the_first_ones_answer(ask: Any) -> None:
    acts = {
        "main/propose": [Ideas(ideas=["a", "b"])],
        "main.1/act": [run("print(11)"), "It is 11."],
        "main.2/act": [run("print(22)"), "It is 22."],
    }
    for pattern, advice in (
        ("tree", {"main/score": [*NONSENSE, *NONSENSE]}),
        ("ensemble", {"main/aggregate": NONSENSE}),
    ):
        script = Script({**acts, **advice})
        outcome = await ask("Which number?", script, pattern=pattern)
        assert (outcome.ok, outcome.answer, script.used_up) == (True, "It is 11.", True), outcome.report


async def test_refinement_goes_on_until_nothing_is_missing(ask: Any) -> None:
    script = Script(
        {
            "main/act": [run("print(3)"), "3 of 5 prices.", run("print(5)"), "5 of 5 prices."],
            "main/judge": [Verdict(ok=False, issues=["two prices are missing"]), Verdict(ok=True)],
        }
    )
    outcome = await ask("Get all 5 prices", script, pattern="refine")
    assert outcome.answer == "5 of 5 prices."
    assert script.used_up


async def test_a_tree_tries_the_best_thoughts_in_kernels_of_their_own_and_adopts_the_best(
    ask: Any, engine: Engine
) -> None:
    script = Script(
        {
            "main/propose": [Ideas(ideas=["corr", "scipy", "ml"])],
            "main/score": [Scores(scores=[0.3, 0.9, 0.5]), Scores(scores=[0.8, 0.2], why="it tells more")],
            "main.1/act": [run("way = 'scipy'\nprint(way, 11)"), "Scipy says 11."],
            "main.2/act": [run("way = 'ml'\nprint(way, 22)"), "ML says 22."],
        }
    )
    outcome = await ask("Find the correlation", script, pattern="tree")
    assert outcome.answer == "Scipy says 11."
    assert script.used_up
    session = engine.session(outcome.session_id)
    assert (await (await session.execute_code("print(way)")).wait()).text == "scipy\n"
    others = [one for one in engine.sessions("suspended") if one.record.branch_of == session.id]
    assert ["way = 'ml'" in cell.source for one in others for cell in one.cells if cell.runs] == [True]


async def test_an_ensemble_compares_what_all_branches_found(ask: Any) -> None:
    script = Script(
        {
            "main/propose": [Ideas(ideas=["k-means", "dbscan"])],
            "main.1/act": [run("score = 41\nprint(score)"), "Silhouette 41."],
            "main.2/act": [run("score = 77\nprint(score)"), "Silhouette 77."],
            "main/aggregate": [Pick(best=2, why="higher", answer="DBSCAN wins with 77 over 41.")],
        }
    )
    outcome = await ask("Which clustering is best?", script)
    assert outcome.pattern == "ensemble"
    assert (outcome.answer, outcome.untraced) == ("DBSCAN wins with 77 over 41.", ())
    assert script.used_up
    assert script.asked.index("main/aggregate") == len(script.asked) - 1


async def test_an_ensembles_answer_that_names_a_lost_notebook_gives_way_to_the_winners(ask: Any) -> None:
    lost = "It is 77, as digits_20200101_000000.ipynb shows."
    script = Script(
        {
            "main/propose": [Ideas(ideas=["k-means", "dbscan"])],
            "main.1/act": [run("print(41)"), "Silhouette 41."],
            "main.2/act": [run("print(77)"), "Silhouette 77."],
            "main/aggregate": [Pick(best=2, why="higher", answer=lost)],
        }
    )
    outcome = await ask("Which clustering is best?", script)
    assert (outcome.ok, outcome.answer) == (True, "Silhouette 77.")


async def test_branches_run_side_by_side(ask: Any, engine: Engine) -> None:
    waits = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nprint(5)"
    script = Script(
        {
            "main/propose": [Ideas(ideas=["a", "b"])],
            "main.1/act": [run(waits), "Done a."],
            "main.2/act": [run(waits), "Done b."],
            "main/aggregate": [Pick(best=1, why="first", answer="Both are done.")],
        }
    )

    async def let_both_go(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Neither ends before both have begun, so one after the other they would never end."""
        running: set[str] = set()
        with engine.subscribe() as events:
            task_status.started()
            async for event in events:
                assert isinstance(event, Event)
                if event.kind == "notebook.cell.executing":
                    running.add(event.session_id)
                if len(running) == 2:
                    break
        for session_id in running:
            # A branch sees its files where its trunk has them; they lie in its own place.
            (engine.session(session_id).storage / "files" / "go").touch()

    with fail_after(60):
        async with anyio.create_task_group() as tasks:
            await tasks.start(let_both_go)
            # Asked from no folder, branches work in folders of their own, into which one can reach while they run.
            outcome = await ask("Which is best?", script, directory=None)
    assert outcome.ok, outcome.report


@pytest.mark.parametrize(
    ("task", "pattern"),
    [
        ("Calculate the sum of squares from 1 to 100", "react"),
        ("Download JSON data from this API and show the top 5 entries", "react"),
        ("Load this CSV and create a bar chart by category", "reflect"),
        ("Create a scatter plot of sales vs marketing spend", "reflect"),
        ("Download stock data, calculate moving averages, and plot trends", "plan"),
        ("Find the best ML model for this classification dataset", "ensemble"),
        ("Find the best way to cluster this customer data", "ensemble"),
        ("Find correlation between weather and sales", "tree"),
        ("Scrape product prices and compare", "refine"),
        ("Download weather data and analyze patterns", "reflect"),
        ("Download Bitcoin prices and plot the trend", "react"),
        ("Analyze movie ratings by genre", "plan"),
        ("Analyze the ratings in movies.csv by genre", "react"),
        ("Plot the sales in this file, then calculate their mean, then plot that", "plan"),
    ],
)
def test_the_pattern_follows_from_the_tasks_shape(task: str, pattern: str) -> None:
    chosen = by_shape(task)
    assert chosen is not None
    assert chosen.pattern == pattern
    assert chosen.why


async def test_a_model_chooses_the_pattern_where_the_words_leave_it_open(ask: Any) -> None:
    long = "Please look into this matter for us and write down what you find out about it in detail. " * 3
    script = Script(
        {
            "main/choose": [Choice(pattern="react", why="it is vague")],
            "main/act": [run("print(1)"), "There is 1 finding."],
        }
    )
    outcome = await ask(long, script)
    assert (outcome.pattern, outcome.why) == ("react", "it is vague")
    assert script.used_up
    asked = told(script.prompts[0])
    assert "ensemble: it asks which of several ways is best" in asked
    assert "refine: pages are rarely as expected" in asked
    unhelpful = Script({"main/choose": NONSENSE, "main/act": [run("print(1)"), "There is 1 finding."]})
    assert (await ask(long, unhelpful)).pattern == "react"


def _contents(messages: Any) -> list[Any]:
    return [
        item
        for message in messages
        for part in message.parts
        if isinstance(getattr(part, "content", None), list)
        for item in part.content
    ]


def test_a_branch_begins_with_nothing_to_its_name() -> None:
    branch = Branch("main", answer="old", ok=True, failures=2, corrections=2, report="why")
    branch.begin()
    assert (branch.answer, branch.ok, branch.report) == ("", False, None)
    assert (branch.failures, branch.corrections) == (0, 0)
