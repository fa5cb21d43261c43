"""The lab in a real Chromium: what a visitor does, on one server, without a console error.

Skipped where no chromium or no playwright is installed; screenshots go to build/screenshots.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")

PICTURES = Path(__file__).parents[1] / "build" / "screenshots"
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-pings",
]
LINEAR = "#preset=overlapping&kernel=linear"
expect = playwright.expect
expect.set_options(timeout=20_000)  # nothing here takes a second where nothing else runs


@pytest.fixture(scope="module")
def server():
    command = [sys.executable, "-m", "maxmargin.lab", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield re.search(r"http://\S+", process.stdout.readline()).group()
    process.terminate()
    process.wait(timeout=10)
    process.stdout.close()


@pytest.fixture(scope="module")
def browser():
    os.environ.setdefault("NODE_NO_WARNINGS", "1")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, server):
    """Open a page; at the end nothing may have gone wrong, and no request may have left."""
    pages, wrong = [], []

    def watch(page):
        page.on("console", lambda m: m.type in ("error", "warning") and wrong.append(m.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda r: r.url.startswith((server, "data:", "blob:")) or wrong.append(r.url),
        )

    def open_(fragment="", *, width=1280, height=800, scheme="light", touch=False):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            has_touch=touch,
            accept_downloads=True,
        )
        context.set_default_timeout(20_000)
        page = context.new_page()
        watch(page)
        page.goto(server + fragment)
        settle(page)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.context.close()
    assert wrong == []


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def gap(page):
    text = page.locator(".mm-gap").inner_text()
    return float(re.search(r"gap (\S+)", text).group(1).replace("∞", "inf"))


def click_at(page, x, y, **more):
    page.locator("canvas").first.click(position={"x": x, "y": y}, **more)


def settle(page, state=re.compile("ready|idle")):
    """Wait until the answer to what was asked stands there; "idle": the fine surface, too."""
    expect(page.locator(".mm-lab")).to_have_attribute("data-state", state)


def photograph(page, name):
    PICTURES.mkdir(parents=True, exist_ok=True)
    settle(page, "idle")
    page.screenshot(path=PICTURES / f"{name}.png")


def document(page):
    return page.url.partition("#")[2]


def status(page):
    return page.locator(".mm-chip")


def download(page, act):
    with page.expect_download() as waiting:
        act()
    return Path(waiting.value.path())


def test_opens_trained_with_everything_on_screen(visit):
    page = visit()
    expect(status(page)).to_have_text("optimal")
    assert gap(page) < 1e-9
    box = page.locator("canvas").first.bounding_box()
    assert box["width"] > 500
    assert box["height"] > 500  # the data canvas is the first
    for name in ("Train", "Play", "Step", "Back", "Reset"):
        expect(button(page, name)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    assert page.locator("math").count() > 4
    expect(page.locator(".mm-legend")).to_contain_text("α = C")
    colours = page.evaluate(
        """() => { const c = document.querySelector("canvas");
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        return new Set(Array.from({length: 4000}, (_, k) => d[4 * 97 * k])).size }"""
    )
    assert colours > 20  # a surface, not an empty canvas
    photograph(page, "open-light")
    photograph(visit("#preset=moons&C=10&kernel=rbf,sigma=0.5", scheme="dark"), "open-dark")


def test_first_paint_is_soon(visit):
    page = visit()
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert 0 < paint < 5000  # the promise of a second is measured where nothing else runs


def test_add_move_delete_undo(visit):
    page = visit("#preset=separable&kernel=linear")
    points = page.get_by_text(re.compile(r"^\d+ points?$"))
    expect(points).to_have_text("40 points")
    click_at(page, 300, 330)
    expect(points).to_have_text("41 points")
    button(page, "class −1").click()
    click_at(page, 330, 310)
    expect(points).to_have_text("42 points")
    assert ",-" in page.evaluate("decodeURIComponent(location.hash)")
    expect(page.get_by_label("Preset")).to_have_value("")
    before = document(page)
    page.mouse.move(*centre(page, 330, 310))
    page.mouse.down()
    page.mouse.move(*centre(page, 200, 200), steps=12)
    page.mouse.up()
    settle(page)
    moved = document(page)
    assert moved != before
    button(page, "Undo").click()
    settle(page)
    assert document(page) == before
    button(page, "Redo").click()
    settle(page)
    assert document(page) == moved
    click_at(page, 200, 200, button="right")
    expect(points).to_have_text("41 points")
    page.keyboard.press("Control+z")
    expect(points).to_have_text("42 points")
    expect(status(page)).to_have_text("optimal")


def centre(page, x, y):
    box = page.locator("canvas").first.bounding_box()
    return box["x"] + x, box["y"] + y


def test_train_step_and_back(visit):
    page = visit(LINEAR)
    button(page, "Step").click()
    expect(page.locator(".mm-counter")).to_have_text("update 1")
    expect(page.get_by_role("heading", name="Step 1")).to_be_visible()
    first = page.locator(".mm-step").inner_text()
    assert "Most violating" in first
    expect(page.locator(".mm-step svg.mm-box").first).to_have_attribute(
        "aria-label", re.compile("segment L = ")
    )
    expect(page.locator(".mm-step math")).to_have_count(8)  # the pair, two errors, five lines
    for _ in range(4):
        button(page, "Step").click()
    expect(page.locator(".mm-counter")).to_have_text("update 5")
    photograph(page, "step-light")
    for _ in range(4):
        button(page, "Back").click()
    expect(page.locator(".mm-counter")).to_have_text("update 1")
    assert page.locator(".mm-step").inner_text() == first
    button(page, "Play").click()
    expect(button(page, "Pause")).to_be_visible()
    expect(page.locator(".mm-counter")).not_to_have_text("update 1")
    button(page, "Pause").click()
    expect(button(page, "Play")).to_be_visible()
    open_gap = gap(page)
    button(page, "Train").click()
    expect(status(page)).to_have_text("optimal")
    assert gap(page) < min(open_gap, 1e-3)


def test_drag_a_slider(visit):
    page = visit(LINEAR)
    slider = page.get_by_role("slider", name="C", exact=True)
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.15, box["y"] + box["height"] / 2, steps=15)
    settle(page)
    live = float(re.search(r"C=([\d.e-]+)", page.url).group(1))
    assert live < 0.1  # trained anew while the button is still down
    page.mouse.up()
    settle(page)
    expect(status(page)).to_have_text("optimal")
    button(page, "Undo").click()
    settle(page)
    assert "&C=" not in page.url  # one undo for the whole drag
    field = page.get_by_label("C, value")
    field.fill("2.5")
    field.press("Enter")
    expect(page).to_have_url(re.compile("C=2.5"))


def test_every_solver_and_kernel(visit):
    page = visit("#preset=overlapping&tol=0.01")
    for name in ("TextbookSMO", "PlattSMO", "ADMM", "Pegasos", "DualCoordinate", "SMO"):
        page.get_by_role("combobox", name="Solver", exact=True).select_option(name)
        expect(status(page)).to_have_text(re.compile("optimal|limit"))
        settle(page)
        expect(page.locator(".mm-words")).not_to_be_empty()
        button(page, "Reset").click()
        button(page, "Step").click()
        expect(page.locator(".mm-counter")).to_have_text("update 1")
        expect(page.get_by_role("heading", name="Step 1")).to_be_visible()
    for kind in ("linear", "poly", "laplacian", "matern", "sigmoid", "rbf"):
        page.get_by_role("combobox", name="Kernel 1").select_option(kind)
        settle(page)
        expect(status(page)).to_have_text("stationary" if kind == "sigmoid" else "optimal")
    button(page, "+ kernel").click()
    button(page, "× kernel").click()
    expect(page.get_by_role("combobox", name="Kernel 3")).to_be_visible()
    expect(status(page)).to_have_text("optimal")
    photograph(page, "kernels-light")
    button(page, "Remove kernel 3").click()
    expect(page.get_by_role("combobox", name="Kernel 3")).to_have_count(0)


@pytest.mark.parametrize("problem", ["nu", "squared", "svr", "one_class"])
def test_every_problem(visit, problem):
    page = visit()
    page.get_by_role("combobox", name="Problem").select_option(problem)
    expect(page).to_have_url(re.compile(f"problem={problem}"))
    expect(status(page)).to_have_text("optimal")
    button(page, "Step").click()
    button(page, "Step").click()
    expect(page.locator(".mm-counter")).to_have_text("update 2")
    photograph(page, f"problem-{problem}")


def test_infeasible_cases_are_explained(visit):
    page = visit(LINEAR + "&problem=hard")
    note = page.locator(".mm-note")
    expect(note).to_contain_text("No hyperplane separates these classes")
    expect(status(page)).to_have_text("infeasible")
    photograph(page, "infeasible-hard")
    button(page, "Allow slack: soft margin").click()
    expect(note).to_be_hidden()
    expect(status(page)).to_have_text("optimal")

    rows = ";".join([f"{x / 10},{x % 3}" for x in range(12)] + ["2,2,-", "3,1,-"])
    page = visit(f"#points={rows}&problem=nu&nu=0.9&kernel=linear")
    note = page.locator(".mm-note")
    expect(note).to_contain_text("ν is too large")
    expect(note).to_contain_text("at most 0.285714")
    photograph(page, "infeasible-nu")
    page.get_by_role("button", name=re.compile("Use ν")).click()
    expect(note).to_be_hidden()

    page = visit("#preset=six&problem=nu&nu=0.1&kernel=linear")
    expect(page.locator(".mm-note")).to_contain_text("ν is too small")

    page = visit("#preset=overlapping&problem=one_class&solver=Pegasos")
    expect(page.locator(".mm-note")).to_contain_text("Pegasos cannot solve this")

    button(page, "Clear").click()
    expect(page.locator(".mm-note")).to_contain_text("An empty canvas")


def test_race(visit):
    page = visit("#preset=moons&C=10&kernel=rbf,sigma=0.7", scheme="dark")
    button(page, "Race").click()
    expect(page.locator("canvas.mm-canvas:visible")).to_have_count(2)
    page.get_by_role("combobox", name="Second solver").select_option("PlattSMO")
    expect(page.locator(".mm-rivals")).to_contain_text("PlattSMO")
    button(page, "Reset").click()
    for _ in range(30):
        page.keyboard.press("s")
    expect(page.locator(".mm-rivals")).to_contain_text("30 updates")
    photograph(page, "race-dark")
    button(page, "Race").click()
    expect(page.locator("canvas.mm-canvas:visible")).to_have_count(1)


def test_tour(visit):
    page = visit()
    button(page, "Tour").click()
    for stop in range(1, 11):
        expect(page.locator(".mm-tour h2")).to_have_text(re.compile(rf"^{stop}\. "))
        expect(page.locator(".mm-answer")).to_be_hidden()
        page.locator(".mm-choice").first.click()
        expect(page.locator(".mm-answer")).to_be_visible()
        expect(page.locator(".mm-choice.right")).to_have_count(1)
        if stop in (3, 6, 9):
            photograph(page, f"tour-{stop}")
        name = "Next stop" if stop < 10 else "End of the tour"
        button(page, name).click()
    expect(page.locator(".mm-tour")).to_be_hidden()


def test_export_and_run_the_code(visit, tmp_path):
    page = visit("#preset=moons&C=5&kernel=rbf,sigma=0.6%2Blinear,weight=0.1")
    primal = page.locator(".mm-primal dd").inner_text()
    page.get_by_text("Export", exact=True).click()
    code = download(page, button(page, "Python code").click)
    run = subprocess.run([sys.executable, code], capture_output=True, text=True, check=True)
    printed = float(re.search(r"primal +(\S+)", run.stdout).group(1))
    assert f"{printed:.6g}" == primal
    page.get_by_text("Export", exact=True).click()
    picture = download(page, button(page, "Picture (PNG)").click)
    assert picture.read_bytes().startswith(b"\x89PNG")

    for _ in range(3):
        button(page, "Step").click()
    expect(page.locator(".mm-counter")).to_have_text("update 3")
    dual = page.locator(".mm-dual dd").inner_text()
    page.get_by_text("Export", exact=True).click()
    trace = download(page, button(page, "Trace file").click)
    kept = tmp_path / "trace.json"
    kept.write_bytes(trace.read_bytes())
    assert len(json.loads(kept.read_text())["steps"]) == 3
    other = visit()
    other.locator("input[type=file][accept='.json']").set_input_files(kept)
    expect(other.locator(".mm-counter")).to_have_text("update 0")
    for _ in range(3):
        button(other, "Step").click()
    expect(other.locator(".mm-counter")).to_have_text("update 3")
    expect(other.locator(".mm-dual dd")).to_have_text(dual)


def test_the_url_restores_everything(visit):
    page = visit("#preset=six&problem=nu&nu=0.6&kernel=poly,degree=2&solver=ADMM")
    click_at(page, 120, 140)
    settle(page)
    state, facts = document(page), page.locator(".mm-facts").inner_text()
    page.reload()
    expect(page.locator(".mm-facts")).to_have_text(re.compile("primal"))
    settle(page)
    assert document(page) == state
    assert page.locator(".mm-facts").inner_text() == facts
    page.evaluate("location.hash = '#preset=circles'")
    expect(page.get_by_label("Preset")).to_have_value("circles")
    page.goto(page.url.partition("#")[0] + "#preset=nonsense&C=-3")
    expect(page.locator(".mm-toast")).to_contain_text("must be one of")


def test_ledger_on_hover_and_by_keyboard(visit):
    page = visit("#preset=six&problem=soft&kernel=linear&C=0.5")
    canvas = page.locator("canvas").first
    canvas.focus()
    page.keyboard.press(".")
    tip = page.locator(".mm-tip")
    expect(tip).to_contain_text("Point 0, class +1")
    expect(tip).to_contain_text("KKT residual")
    photograph(page, "ledger-row")
    place = document(page)
    page.keyboard.press("Shift+ArrowRight")
    settle(page)
    assert document(page) != place
    page.keyboard.press("x")
    expect(tip).to_contain_text("Point 0, class −1")
    page.keyboard.press("Delete")
    expect(page.get_by_text("11 points")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_text("12 points")).to_be_visible()
    page.keyboard.press("Control+z")
    expect(page.get_by_text("11 points")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_csv_and_errors_in_words(visit, tmp_path):
    page = visit()
    file = tmp_path / "data.csv"
    file.write_text("a,b,kind\n0,0,cat\n1,1,dog\n1,0,dog\n0,1,cat\n")
    page.locator("input[type=file][accept*='.csv']").set_input_files(file)
    expect(page.locator(".mm-toast")).to_contain_text("class +1 is 'dog'")
    expect(page.get_by_text("4 points")).to_be_visible()
    file.write_text("a,b,kind\n0,oops,cat\n1,x,dog\n")
    page.locator("input[type=file][accept*='.csv']").set_input_files(file)
    expect(page.locator(".mm-toast")).to_contain_text("two finite numbers")


def test_phone_and_dark(visit):
    page = visit("#preset=circles", width=390, height=844, touch=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    photograph(page, "phone-light")
    page.locator("canvas").first.tap(position={"x": 60, "y": 60})
    expect(page.get_by_text("81 points")).to_be_visible()
    page.locator("canvas").first.tap(position={"x": 60, "y": 60})
    expect(page.locator(".mm-tip")).to_contain_text("Delete")
    button(page, "Delete").tap()
    expect(page.get_by_text("80 points")).to_be_visible()
    button(page, "Step").tap()
    page.screenshot(path=PICTURES / "phone-whole.png", full_page=True)
    page = visit(
        "#preset=chessboard&C=100&kernel=rbf,sigma=0.6", width=390, height=844, scheme="dark"
    )
    photograph(page, "phone-dark")


def test_the_notebook_widget_is_the_same_module(visit):
    """Python's widget answers; its messages reach a fake model in place of Jupyter's."""
    pytest.importorskip("anywidget")
    from maxmargin.lab import Lab

    lab = Lab([[0.0, 1.0], [2.0, 1.5], [0.0, -1.0], [2.0, -1.2]], [1, 1, -1, -1], C=10.0)
    told = []
    text = base64.b64encode
    lab.send = lambda header, buffers=None: told.append([header, text(buffers[0]).decode()])

    def ask(message):
        told.clear()
        lab._handle_custom_msg(message, [])
        return told

    page = visit()
    page.expose_function("askPython", ask)
    page.evaluate(
        """async () => {
        const listeners = [];
        const model = {
          on: (name, listen) => listeners.push(listen),
          off() {},
          async send(message) {
            for (const [header, text] of await window.askPython(message)) {
              const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
              for (const listen of listeners) listen(header, [new DataView(bytes.buffer)]);
            }
          },
        };
        const { default: widget } = await import("/lab.js");
        document.body.replaceChildren();
        widget.render({ model, el: document.body });
        }"""
    )
    expect(page.get_by_text("4 points")).to_be_visible()
    expect(status(page)).to_have_text("optimal")
    button(page, "Step").click()
    expect(page.locator(".mm-counter")).to_have_text("update 1")
    click_at(page, 200, 200)
    expect(page.get_by_text("5 points")).to_be_visible()
    assert len(lab.session.document.labels) == 5
    photograph(page, "widget-light")


def test_theme_can_be_chosen(visit):
    page = visit()
    assert page.locator(".mm-lab").get_attribute("data-theme") == "light"
    button(page, "Theme").click()
    assert page.locator(".mm-lab").get_attribute("data-theme") == "dark"
    page.reload()
    assert page.locator(".mm-lab").get_attribute("data-theme") == "dark"
