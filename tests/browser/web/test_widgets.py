"""Outputs that somebody uses: HTML with a script of its own, and widgets of the live kernel."""

from __future__ import annotations

from playwright.sync_api import expect

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
