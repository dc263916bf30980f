"""Outputs that somebody uses: HTML with a script of its own, and widgets of the live kernel."""

from __future__ import annotations

from playwright.sync_api import FrameLocator, Page, expect

from tests.browser.web.conftest import Looker, Served, assert_accessible

SCRIPTED = """
from IPython.display import HTML
HTML('''<button onclick="this.textContent = 'pressed'">press</button><ol id="tried"></ol><script>
const tried = async (name, work) => {
  let said; try { await work(); said = "reached"; } catch { said = "refused"; }
  document.getElementById("tried").insertAdjacentHTML("beforeend", "<li>" + name + " " + said + "</li>");
};
(async () => {
  await tried("page", () => top.document.title);
  await tried("cookies", () => document.cookie);
  await tried("server", () => fetch("/sessions"));
  await tried("network", () => fetch("https://elsewhere.example/"));
  await tried("storage", () => localStorage.length);
  await tried("eval", () => Function("return 1")());
  document.getElementById("tried").insertAdjacentHTML("afterend", "<p style='height: 700px'>all tried</p>");
})();
addEventListener("message", () => { location.href = "https://elsewhere.example/?leaving"; });
</script>''')
"""


def test_a_script_in_html_runs_when_asked_and_reaches_nothing(
    looker: Looker, served: Served, axe: str
) -> None:
    page = looker.go(f"/sessions/{served.notebook('Scripted', SCRIPTED)}")
    expect(page.get_by_text("runs only when you ask for it")).to_be_visible()
    expect(page.locator("iframe")).to_have_count(0)
    page.get_by_text("Run its script").click()
    frame = page.frame_locator("iframe.running")
    expect(frame.get_by_text("all tried")).to_be_visible()
    assert frame.locator("li").all_inner_texts() == [
        "page refused",
        "cookies refused",
        "server refused",
        "network refused",
        "storage refused",
        "eval reached",
    ]
    frame.get_by_role("button").click()
    expect(frame.get_by_role("button")).to_have_text("pressed")
    # It is as high as what is in it.
    page.wait_for_function("document.querySelector('iframe.running').clientHeight > 700")
    assert_accessible(page, axe)
    # It cannot lead away either, and in a window of its own it does not run.
    with page.expect_console_message(lambda message: "frame-src" in message.text):
        page.evaluate("document.querySelector('iframe.running').contentWindow.postMessage(1, '*')")
    address = page.locator("iframe.running").get_attribute("src")
    assert page.request.get(f"{served.url}{address}").status == 404
    assert not [one for one in looker.requests if "elsewhere" in one]
    looker.overlooked = "Content Security Policy"


INTERACT = """
from ipywidgets import interact
@interact(size=(0, 10), word=["one", "two"], twice=False)
def shown(size=3, word="one", twice=False):
    print("size", size * (2 if twice else 1), word)
"""
FORM = """
import ipywidgets as w
name, out, go = w.Text(description="Name"), w.Output(), w.Button(description="Greet")
def greet(_):
    with out:
        print("Hello", name.value)
    print("greeted", name.value)
go.on_click(greet)
w.Tab([w.VBox([w.HBox([name, go]), out]), w.Dropdown(options=["a", "b"], description="Kind")], titles=["Form", "More"])
"""
PROGRESS = """
import threading
from tqdm.notebook import tqdm
go_on = threading.Event()
for n in tqdm(range(4), desc="steps", mininterval=0, miniters=1):
    if n == 2: go_on.wait(120)
"""


def widget(page: Page, cell: int) -> FrameLocator:
    """The frame of a cell's widget, once it shows it."""
    output = page.locator("article.cell.code").nth(cell).locator(".output.widget")
    output.scroll_into_view_if_needed()
    frame = output.frame_locator("iframe")
    expect(frame.locator("#view[data-ready]")).to_be_visible()
    return frame


def fill_in(page: Page, form: FrameLocator) -> None:
    """Use the form: its button's code prints into its output, and elsewhere."""
    form.get_by_label("Name").fill("Ada")
    form.get_by_label("Name").press("Tab")
    form.get_by_role("button", name="Greet").click()
    expect(form.locator(".output pre")).to_have_text("Hello Ada\n")
    # What it prints elsewhere stands below the cell's outputs, and the widget stays as it is.
    expect(page.locator("article.cell.code").nth(1)).to_contain_text("greeted Ada")
    expect(form.get_by_role("button", name="Greet")).to_be_focused()
    form.get_by_role("tab", name="More").click()
    expect(form.get_by_label("Kind")).to_be_visible()
    expect(form.get_by_label("Name")).to_be_hidden()


def test_widgets_are_used_on_the_page(looker: Looker, served: Served, axe: str) -> None:
    session = served.notebook("Widgets", INTERACT, FORM)
    page = looker.go(f"/sessions/{session}")
    first = widget(page, 0)
    expect(first.locator(".output pre")).to_have_text("size 3 one\n")
    slider = first.get_by_role("slider", name="size")
    slider.press("ArrowRight")
    expect(first.locator(".output pre")).to_have_text("size 4 one\n")
    first.get_by_label("word").select_option("two")
    first.get_by_label("twice").check()
    expect(first.locator(".output pre")).to_have_text("size 8 two\n")
    expect(slider).to_have_attribute("aria-valuenow", "4.0")

    fill_in(page, widget(page, 1))
    for frame in (one for one in page.frames if one.url.endswith("/widgets/frame")):
        assert_accessible(frame, axe)
    assert_accessible(page, axe)

    # A reload shows the live widgets again, as they are; so does another window, and each hears of the other.
    looker.go(f"/sessions/{session}")
    expect(widget(page, 0).locator(".output pre")).to_have_text("size 8 two\n")
    expect(widget(page, 1).get_by_label("Name")).to_have_value("Ada")

    # Progress is seen while the cell runs, and a widget that is used meanwhile waits for its end.
    cell = served.add(session, PROGRESS, run=False)
    served.agent.begin("cell_execute", session_id=session, cell_id=cell)
    progress = widget(page, 2)
    expect(progress.locator("body")).to_contain_text("2/4")
    widget(page, 0).get_by_role("slider", name="size").press("ArrowRight")
    looker.hears("the widget hears of it after that")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("article.cell.code").nth(2).locator(".state")).to_have_text("interrupted")
    expect(widget(page, 0).locator(".output pre")).to_have_text("size 10 two\n")
    page.get_by_role("button", name="Switch between light and dark").click()

    # Without the kernel there is what was saved, to be read and no more.
    served.tell("kernel_restart", session_id=session)
    expect(page.get_by_text("A widget as it was saved")).to_have_count(3)
    saved = widget(page, 0)
    expect(saved.get_by_text("size 10 two")).to_be_visible()
    expect(saved.locator("#view")).to_have_attribute("inert", "")
