"""ADED Explorer, started from a checkout: ``python app.py``. Installed, the same program is ``aded-explorer``."""

from ui.app import run

if __name__ == "__main__":
    run()
