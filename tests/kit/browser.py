"""Debian's chromium without a window, driven by its DevTools protocol: what a person does in a page, and sees.

`make browser-tools` installs it. One browser serves a file's tests; each has a context of its own, with no cookie or
storage of another's.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.kit.waiting import PATIENCE, until

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
MISSING: Final = "no chromium here: make browser-tools installs Debian's"
FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests run as root, and in containers without user namespaces; they open our own pages alone
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)


def program() -> str | None:
    """The browser's path; None where there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class PageError(AssertionError):
    """What the page's own script threw."""


class Browser:
    """A running browser, and the connection to it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._ids = socket, itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._heard: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        self._reading = asyncio.create_task(self._read())

    async def call(self, method: str, session: str = "", /, **params: Any) -> dict[str, Any]:
        """Ask for something; raises PageError with what the browser says against it."""
        ident = next(self._ids)
        answer = self._answers[ident] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(
            {"id": ident, "method": method, "params": params} | ({"sessionId": session} if session else {})
        )
        async with asyncio.timeout(PATIENCE):
            found = await answer
        if "error" in found:
            raise PageError(f"{method}: {found['error']['message']}")
        result: dict[str, Any] = found["result"]
        return result

    def hear(self, session: str, handler: Callable[[str, dict[str, Any]], None]) -> None:
        """Call `handler(method, params)` for what happens in a page."""
        self._heard[session] = handler

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if (waits := self._answers.pop(told.get("id", 0), None)) is not None:
                waits.set_result(told)
            elif (handler := self._heard.get(told.get("sessionId", ""))) is not None:
                handler(told["method"], told.get("params", {}))

    async def close(self) -> None:
        """End the browser."""
        with suppress(Exception):
            await self.call("Browser.close")
        self._reading.cancel()


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Start one, and end it."""
    path = program()
    assert path is not None, MISSING
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [path, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        process = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=DEVNULL)
        try:
            async with aiohttp.ClientSession() as http:
                where = await _address(Path(folder), process)
                async with http.ws_connect(where, max_msg_size=0) as socket:
                    found = Browser(socket)
                    yield found
                    await found.close()
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _address(folder: Path, process: Process) -> str:
    """The browser writes its port into a file of its folder."""
    told = folder / "DevToolsActivePort"
    async with asyncio.timeout(PATIENCE):
        while len(lines := _lines(told)) < 2:
            assert process.returncode is None, f"chromium ended with {process.returncode}"
            await asyncio.sleep(0.02)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


class Page:
    """A tab."""

    def __init__(self, browser: Browser, session: str, context: str, target: str) -> None:
        self._browser, self._session, self.context, self._target = browser, session, context, target
        self.faults: list[str] = []
        """What the page's script threw, what its policy refused, and files that were not there."""
        self.received = 0
        """Bytes of bodies that came over the network."""
        browser.hear(session, self._hear)

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            told = f"{params['entry']['text']} {params['entry'].get('url', '')}"
            # A backend that is away or refuses is what the page itself shows; its icon is asked for at any time.
            if "/api/" not in told and "ERR_CONNECTION_REFUSED" not in told:
                self.faults.append(told)
        elif method == "Network.dataReceived":
            self.received += params["dataLength"]

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to this tab."""
        return await self._browser.call(method, self._session, **params)

    async def open(self, address: str) -> None:
        """Go there."""
        await self.call("Page.navigate", url=address)

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression, awaited where it is a promise; raises PageError where it throws."""
        found = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description") or details["text"])
        return found["result"].get("value")

    async def until(self, expression: str, *, limit: float = PATIENCE) -> None:
        """Wait until an expression is true; it may fail before the page is there."""
        safe = f"(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"

        async def holds() -> bool:
            try:
                return bool(await self.evaluate(safe))
            except PageError:
                return False  # another page takes this one's place

        try:
            await until(holds, expression, limit)
        except AssertionError as error:
            raise PageError(f"{error}; the page says\n{(await self.text())[:2000]}") from None

    async def text(self) -> str:
        """What can be read in the page."""
        return str(await self.evaluate("document.body ? document.body.innerText : ''"))

    async def sees(self, text: str) -> None:
        """Wait until a text can be read in the page."""
        await self.until(f"document.body.innerText.includes({json.dumps(text)})")

    async def click(self, selector: str) -> None:
        """Click what a selector finds, once it is there; where its middle is, as a mouse does."""
        where = json.dumps(selector)
        await self.until(f"document.querySelector({where})")
        at = await self.evaluate(
            f"(() => {{ const found = document.querySelector({where}); found.scrollIntoView({{block: 'center'}});"
            " const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    async def press(self, key: str, *, code: int = 0) -> None:
        """Press a key that is no letter, by its name: `Tab`, `ArrowRight`, `Enter`."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"text": "\r"} if key == "Enter" else {}
        number = code or codes[key]
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=number, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=number)

    async def window(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and whether the person's system is dark."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=scheme)

    async def picture(self, path: Path) -> None:
        """A picture of the window, as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def close(self) -> None:
        """End the tab."""
        await self._browser.call("Target.closeTarget", targetId=self._target)


@asynccontextmanager
async def page(of: Browser, *, language: str = "en", context: str = "") -> AsyncIterator[Page]:
    """A tab of 1280 × 900 pixels in a context of its own, or in that of another tab: then it has its cookies."""
    own = context or (await of.call("Target.createBrowserContext"))["browserContextId"]
    target = (await of.call("Target.createTarget", url="about:blank", browserContextId=own))["targetId"]
    session = (await of.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
    made = Page(of, session, own, target)
    for domain in ("Page", "Runtime", "Log", "Network"):
        await made.call(f"{domain}.enable")
    await made.call("Emulation.setLocaleOverride", locale=language)
    await made.call("Network.setExtraHTTPHeaders", headers={"Accept-Language": language})
    await made.window(1280, 900)
    try:
        yield made
    finally:
        await made.close()
        if not context:
            await of.call("Target.disposeBrowserContext", browserContextId=own)
