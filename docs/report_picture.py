"""The picture of the report page in the README: python docs/report_picture.py build/docs/html/_static/live/report.html

Needs playwright, and a Chromium that it finds or that the variable CHROMIUM names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme="light")
    page.goto(Path(sys.argv[1]).resolve().as_uri())
    page.wait_for_timeout(2000)
    page.screenshot(path=str(Path(__file__).with_name("_static") / "report.png"))
    browser.close()
