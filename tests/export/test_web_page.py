"""The example page in a real browser: a digit drawn with the mouse is projected as the model in Python projects it."""

import functools
import http.server
import os
import runpy
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kernelsieve import SparseKernelPCA

pytest.importorskip("onnx", reason="onnx is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_web"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
SEVEN = [(80, 60), (200, 60), (150, 140), (120, 230)]  # corners of a 7 on the pad
ZERO = [(140 + 60 * np.sin(t), 140 - 95 * np.cos(t)) for t in np.linspace(0, 2 * np.pi, 40)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that the example's own script builds."""
    if not EXAMPLE.is_dir():
        pytest.skip("the examples are not part of this copy of the project")
    build = runpy.run_path(str(EXAMPLE / "build.py"))
    runtime = build["BUILD"] / "npm" / "node_modules" / "onnxruntime-web"
    if shutil.which("npm") is None and not runtime.is_dir():
        pytest.skip("npm is not installed, which fetches onnxruntime-web")
    folder = tmp_path_factory.mktemp("site")
    build["main"](folder)
    return folder


@pytest.fixture(scope="module")
def browser():
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium is installed (set CHROMIUM to its path)")
    with playwright.sync_playwright() as runner:
        started = runner.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def page(site, browser):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tab = browser.new_page(viewport={"width": 1180, "height": 900})
    tab.problems = []
    tab.on("console", lambda message: message.type in ("error", "warning") and tab.problems.append(message.text))
    tab.on("pageerror", lambda error: tab.problems.append(str(error)))
    tab.goto(f"http://127.0.0.1:{server.server_address[1]}/")
    tab.wait_for_selector("body[data-ready=yes]", timeout=60_000)
    yield tab
    tab.close()
    server.shutdown()


def draw(page, corners):
    box = page.locator("#pad").bounding_box()
    scale = box["width"] / 280
    places = [(box["x"] + scale * x, box["y"] + scale * y) for x, y in corners]
    page.mouse.move(*places[0])
    page.mouse.down()
    for x, y in places[1:]:
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    page.wait_for_function("window.drawing !== null")
    page.wait_for_timeout(300)  # for the last stroke
    return page.evaluate("window.drawing")


def test_a_drawing_is_projected_live_as_the_model_projects_it(page):
    images, _ = load_digits(return_X_y=True)
    model = SparseKernelPCA(12, n_support=50, random_state=0).fit(images)
    places = {}
    for digit, corners in ((7, SEVEN), (0, ZERO)):
        page.click("#clear")
        found = draw(page, corners)
        pixels = np.array([found["pixels"]], dtype=np.float64)
        assert pixels.max() <= 16
        np.testing.assert_allclose(found["scores"], model.transform(pixels)[0], rtol=0, atol=2e-6)
        np.testing.assert_allclose(found["error"], model.reconstruction_error(pixels)[0], rtol=0, atol=5e-6)
        assert page.inner_text("#guess") == str(digit)
        assert page.locator("#nearest canvas").count() == 5
        places[digit] = found["place"]
    assert np.hypot(*np.subtract(places[7], places[0])) > 50  # pixels on the map
    assert page.problems == []


def test_the_point_moves_while_the_mouse_does(page):
    box = page.locator("#pad").bounding_box()
    page.mouse.move(box["x"] + 90, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 92, box["y"] + 62)
    page.wait_for_function("window.drawing !== null")
    seen = []
    for step in range(6):
        page.mouse.move(box["x"] + 90 + 18 * step, box["y"] + 60 + 25 * step, steps=3)
        page.wait_for_timeout(60)
        seen.append(tuple(page.evaluate("window.drawing.place")))
    page.mouse.up()
    assert len(set(seen)) >= 4


def test_axes_can_be_chosen_the_pad_cleared_and_the_page_fits_a_telephone(page):
    draw(page, SEVEN)
    before = page.evaluate("window.drawing.place")
    page.select_option("#across", "4")
    assert page.evaluate("window.drawing.place") != before
    page.click("#clear")
    page.wait_for_timeout(200)
    assert page.evaluate("window.drawing") is None
    assert not page.inner_text("#guess").isdigit()
    page.set_viewport_size({"width": 400, "height": 900})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.problems == []
