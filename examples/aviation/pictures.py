"""Take the pictures of the docs from a running demo: `python -m examples.aviation.pictures`.

Before, run `make demo`, launch the job `aviation_refresh`, materialize some days of
`delays_by_day`, and wait for both runs. Needs Chromium in the PATH.
"""

import argparse
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
PAGES = {
    "asset-page.png": ("/assets/aviation/airports", "1600,1000"),
    "partitions.png": ("/assets/aviation/delays_by_day?view=partitions", "1600,1000"),
}
"""Picture -> page of the UI, and width and height of the window in pixels."""
LOADING_MS = 25_000
"""How long a page's scripts may run, in the browser's own time."""


def main() -> None:
    """Take every picture; fails when Chromium is missing or a page cannot be opened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="address of the UI")
    url = parser.parse_args().url
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        parser.error("Chromium is not in the PATH.")
    for name, (page, window) in PAGES.items():
        command = [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={window}"),
            *(f"--virtual-time-budget={LOADING_MS}", f"--screenshot={FOLDER / name}", url + page),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main()
