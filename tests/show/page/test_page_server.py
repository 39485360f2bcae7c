"""The process that serves details: exact numbers for whoever knows the address, and nothing for anybody else."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import regard
from regard import cli
from regard.show.page.pyramid import LongAttention
from regard.show.page.server import Server

pytestmark = pytest.mark.threads  # in which the process serves

KEYS = np.random.default_rng(0).normal(0, 1.5, (700, 8)).astype(np.float32)
ARRAYS = np.stack([KEYS, KEYS])  # each attends to itself
DENSE = regard.attend(ARRAYS[0], ARRAYS[1], ARRAYS[1]).weights


@pytest.fixture
def served() -> Iterator[Server]:
    with Server(LongAttention(*ARRAYS)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_a_row_and_a_part_are_those_of_the_dense_weights(served: Server) -> None:
    status, content = ask(served, f"/{served.token}/row?head=0&row=17")
    assert status == 200
    np.testing.assert_allclose(np.frombuffer(content, "<f4"), DENSE[17], rtol=1e-4, atol=1e-6)
    status, content = ask(served, f"/{served.token}/part?head=0&top=3&bottom=9&left=100&right=120")
    parts = np.frombuffer(content, "<f4").reshape(2, 6, 20)
    np.testing.assert_allclose(parts[0], DENSE[3:9, 100:120], rtol=1e-4, atol=1e-6)


def test_the_page_reads_from_its_own_address_only(served: Server) -> None:
    status, content = ask(served, f"/{served.token}/")
    assert status == 200
    assert b"connect-src &#x27;self&#x27;" in content


def test_only_this_machine_is_listened_to(served: Server) -> None:
    assert served.server_address[0] == "127.0.0.1"
    assert len(served.token) >= 40


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/", "GET", {}, 404),
        ("/x", "GET", {}, 404),
        ("/wrong/row?head=0&row=1", "GET", {}, 404),
        ("/é/", "GET", {}, 404),
        ("/{token}", "GET", {}, 404),
        ("/{token}/other", "GET", {}, 404),
        ("/{token}/../x", "GET", {}, 404),
        ("/{token}/", "GET", {"Host": "evil.example:80"}, 403),
        ("/{token}/", "GET", {"Host": ""}, 403),
        ("/{token}/", "GET", {"Host": "127.0.0.1"}, 403),
        ("/{token}/row?head=0&row=1", "GET", {"Origin": "https://evil.example"}, 403),
        ("/{token}/row?head=0&row=1", "GET", {"Origin": "null"}, 403),
        ("/{token}/", "POST", {}, 405),
        ("/{token}/", "PUT", {}, 405),
        ("/{token}/", "OPTIONS", {}, 405),
        ("/{token}/", "HEAD", {}, 405),
        ("/{token}/row?head=0&row=700", "GET", {}, 400),
        ("/{token}/row?head=0&row=-1", "GET", {}, 400),
        ("/{token}/row?head=1&row=1", "GET", {}, 400),
        ("/{token}/row?head=0", "GET", {}, 400),
        ("/{token}/row?head=0&row=x", "GET", {}, 400),
        ("/{token}/part?head=0&top=5&bottom=5&left=0&right=1", "GET", {}, 400),
        ("/{token}/part?head=0&top=0&bottom=701&left=0&right=1", "GET", {}, 400),
    ],
)
def test_everything_else_is_refused(
    served: Server, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    code, content = ask(served, path.format(token=served.token).replace("é", "%C3%A9"), method, **headers)
    assert code == status
    assert served.token.encode() not in content


def test_nothing_of_a_request_is_printed(served: Server, capfd: Any) -> None:
    ask(served, f"/{served.token}/")
    ask(served, "/wrong")
    assert capfd.readouterr() == ("", "")


def test_the_verb_serves_until_ctrl_c(tmp_path: Any, monkeypatch: Any, capsys: Any) -> None:
    def stop(self: Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", stop)
    path = tmp_path / "arrays.npz"
    np.savez(path, q=ARRAYS[0][:9], k=ARRAYS[1][:9])  # values are not needed
    assert cli.main(["show", str(path), "--serve"]) == 130
    out = capsys.readouterr().out
    assert out.startswith("open http://127.0.0.1:")
    assert out.rstrip().endswith("Ctrl-C ends it")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--serve"], "--serve needs files with queries and keys"),
        (["q.npz", "--serve", "--out", "page.html"], "--out and --serve exclude each other: give one"),
        ([], "give --out FILE.html, the page to write, or --serve"),
    ],
)
def test_options_that_do_not_fit_are_one_line(arguments: list[str], message: str, capsys: Any) -> None:
    assert cli.main(["show", *arguments]) == 2
    assert capsys.readouterr().err == f"regard show: error: {message}\n"


@pytest.mark.slow
def test_a_browser_gets_exact_numbers_where_it_zooms_in(browser: Any, served: Server) -> None:
    tab = browser.new_page(viewport={"width": 1400, "height": 1000})
    faults: list[str] = []
    tab.on("console", lambda message: faults.append(message.text))
    tab.on("request", lambda r: None if r.url.startswith(served.address) else faults.append(r.url))
    tab.goto(served.address)
    canvas = tab.locator(".long-canvas")
    canvas.focus()
    with tab.expect_response(lambda answer: "/part?" in answer.url):
        for key in "++++++":
            tab.keyboard.press(key)
    tab.wait_for_function("document.querySelector('.readout').textContent.includes('query 351 ')")
    assert f"query 351 → key 351 {DENSE[350, 350]:.4f}" in tab.locator(".readout").inner_text()
    with tab.expect_response(lambda answer: "/row?" in answer.url):
        tab.keyboard.press("Enter")
    tab.wait_for_selector("text=All its weights")
    assert tab.locator(".long-best b").first.text_content() == f"{DENSE[350].max():.4f}"
    tab.close()
    assert faults == []
