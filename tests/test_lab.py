"""The lab's session, protocol and server, in one process and without a browser."""

import json
import math
import random
import re
import signal
import struct
import subprocess
import sys
import time
from dataclasses import asdict

import numpy as np
import pytest

from maxmargin.lab import protocol
from maxmargin.lab.document import Document, Settings, Term
from maxmargin.lab.export import python
from maxmargin.lab.presets import TITLES, load
from maxmargin.lab.protocol import KERNELS, PRESETS, PROBLEMS, SOLVERS, Refusal, encode, parse
from maxmargin.lab.session import Session, read_csv
from maxmargin.lab.tour import STOPS

LINEAR = [{"kind": "linear"}]


def decode(data: bytes):
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    arrays, at = {}, 4 + length
    for name, shape in header["arrays"].items():
        size = math.prod(shape)
        arrays[name] = np.frombuffer(data, "<f4", size, at).reshape(shape)
        at += 4 * size
    assert at == len(data)
    return header, arrays


def lane(replies, k=0):
    """The lane of the last reply, which must be a frame that JSON and NaN rules let through."""
    header, _ = decode(encode(replies[-1]))
    assert header["type"] == "frame", header
    return header["lanes"][k]


def solved(session, **message):
    """Follow a message and train to the end."""
    told = lane(session.handle(message))
    for _ in range(80):
        if not told.get("more"):
            break
        told = lane(session.handle({"type": "train"}))
    return told


def set_(session, **settings):
    return solved(session, type="set", settings=settings)


@pytest.fixture
def session():
    return Session()


# ---- the session -----------------------------------------------------------------------------


def test_opens_on_a_trained_preset(session):
    hello, document, frame = session.handle({"type": "hello"})
    assert hello.header["presets"][0][0] == "overlapping" == document.header["document"]["preset"]
    told = lane([frame])
    assert told["status"] == "optimal"
    assert told["certificate"]["relative_gap"] < 1e-9
    assert len(told["history"]) > 5  # the curves have something to show
    assert [r.header["last"] for r in (hello, document, frame)] == [False, False, True]


@pytest.mark.parametrize("name", PRESETS)
def test_presets(session, name):
    told = solved(session, type="preset", name=name)
    assert told["status"] == "optimal"
    assert name in TITLES
    assert session.document.preset == name


def test_the_surface_is_the_decision_function(session):
    session.handle(
        {"type": "view", "x0": -2, "x1": 2, "y0": -1, "y1": 1, "columns": 30, "rows": 20}
    )
    told, arrays = decode(encode(session.handle({"type": "step", "n": 7})[-1]))
    told = told["lanes"][0]
    run, kernel = session.lanes[0].run, session.lanes[0].kernel
    at = np.array([[-2 + 4 * 11 / 29, -1 + 2 * 5 / 19]])
    f = kernel(at, session.document.X) @ run.record.beta + told["parameters"]["b"]
    assert arrays["0/grid"].shape == (20, 30)
    assert arrays["0/grid"][5, 11] == pytest.approx(float(f[0]), rel=1e-5)
    _, fine = decode(encode(session.handle({"type": "refine"})[-1]))
    assert fine["0/grid"].shape == (40, 60)
    assert fine["0/grid"][0, 0] == pytest.approx(arrays["0/grid"][0, 0], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_stepping_raises_the_dual_and_goes_back(session, solver):
    set_(session, solver=solver)
    first = lane(session.handle({"type": "step", "n": 1}))  # begins again at α = 0
    assert first["updates"] == 1
    duals, states = [0.0], []
    for _ in range(12):
        told = lane(session.handle({"type": "step", "n": 1}))
        duals.append(told["certificate"]["dual"])
        states.append((told["updates"], told["certificate"]["dual"], told["step"]))
    if solver not in ("ADMM", "Pegasos"):  # those are not monotone
        assert np.all(np.diff(duals) > -1e-9)
    for want in reversed(states[:-1]):
        told = lane(session.handle({"type": "back", "n": 1}))
        assert (told["updates"], told["certificate"]["dual"], told["step"]) == want
    again = lane(session.handle({"type": "step", "n": 11}))
    assert (again["updates"], again["certificate"]["dual"], again["step"]) == states[-1]


def test_a_step_tells_the_notes_equations(session):
    set_(session, solver="TextbookSMO", C=2.0)
    for _ in range(30):
        step = lane(session.handle({"type": "step", "n": 1}))["step"]
        eta = step["K_ii"] + step["K_jj"] - 2 * step["K_ij"]
        assert step["eta"] == pytest.approx(eta)
        free = step["alpha_j"] + step["y_j"] * (step["E_i"] - step["E_j"]) / eta  # N0 (96)
        assert step["alpha_j_unclipped"] == pytest.approx(free)
        clipped = min(max(free, step["L"]), step["H"])  # (97)
        assert step["alpha_j_new"] == pytest.approx(clipped, abs=1e-12)
        moved = step["y_i"] * step["y_j"] * (step["alpha_j"] - step["alpha_j_new"])  # (98)
        assert step["alpha_i_new"] == pytest.approx(step["alpha_i"] + moved, abs=1e-12)
        assert step["why"].startswith("i = ")
        assert step["C_i"] == 2.0


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_and_problem_works_or_says_why(session, solver, problem):
    narrow = [{"kind": "rbf", "sigma": 0.3}]
    told = set_(session, solver=solver, problem=problem, nu=0.4, C=2.0, tol=1e-2, kernel=narrow)
    if not told["ran"]:
        assert solver in told["note"]["title"]
        assert told["note"]["fixes"][0]["settings"] == {"solver": "SMO"}
        return
    assert told["status"] in ("optimal", "iteration_limit", "precision_limit")
    assert told["certificate"]["relative_gap"] < (0.1 if solver == "Pegasos" else 0.05)
    assert lane(session.handle({"type": "step", "n": 5}))["updates"] >= 1


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("op", ["+", "*"])
def test_every_kernel_composes(session, kind, op):
    terms = [{"kind": "rbf", "sigma": 0.8}, {"kind": kind, "op": op, "weight": 0.5, "degree": 2}]
    told = set_(session, kernel=terms)
    known = "stationary" if kind == "sigmoid" else "optimal"
    assert told["status"] == known
    assert ("gap proves nothing" in told["verdict"]) == (kind == "sigmoid")


def test_settings_of_the_soft_margin_scale_as_the_notes_say(session):
    n = len(session.document.labels)
    plain = set_(session, C=0.5)["certificate"]["primal"]
    mean = set_(session, scaling="mean", C=0.5 * n)["certificate"]["primal"]
    doubled = set_(session, scaling="doubled", C=1.0)["certificate"]["primal"]
    assert mean == pytest.approx(plain, rel=1e-9)
    assert doubled == pytest.approx(2 * plain, rel=1e-9)


def test_nu_and_its_prices_agree(session):
    session.handle({"type": "preset", "name": "six"})
    told = set_(session, problem="nu", nu=0.6, kernel=LINEAR)
    document = session.handle({"type": "hello"})[1].header
    assert document["K_m"] == pytest.approx(7.2)
    _, arrays = decode(encode(session.handle({"type": "train"})[-1]))
    margins, y = arrays["0/margin"], session.document.labels
    failures = [int((margins[y == sign] < 1 - 1e-3).sum()) for sign in (1, -1)]
    assert failures == [2, 3]  # N4, Figure 1
    assert told["parameters"]["eta"] > 0


# ---- what has no solution ----------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_hard_margin_on_overlapping_data_is_explained(session, solver):
    told = set_(session, problem="hard", kernel=LINEAR, solver=solver, tol=0.1)
    if not told["ran"]:
        assert solver in told["note"]["title"]
        return
    assert told["note"]["title"] == "No hyperplane separates these classes"
    assert {"problem": "soft"} in [fix["settings"] for fix in told["note"]["fixes"]]
    y, X = session.document.labels, session.document.X
    proving = np.array(told["proving"])
    assert set(y[proving]) == {-1.0, 1.0}
    weights = session.lanes[0].proving
    up, down = np.maximum(weights, 0), np.maximum(-weights, 0)
    shared = up @ X / up.sum()  # the star is a point that both hulls share
    assert shared == pytest.approx(down @ X / down.sum(), abs=1e-6)
    assert told["meeting"] == pytest.approx(shared.tolist())
    assert set_(session, **told["note"]["fixes"][1]["settings"])["note"] is None


def test_nu_too_large_is_explained_and_mended(session):
    for index in range(30):
        session.handle({"type": "remove", "index": 79 - index})
    told = set_(session, problem="nu", nu=0.9)
    assert not told["ran"]
    assert told["note"]["title"] == "ν is too large"
    assert "at most 0.4" in told["note"]["text"]
    mended = set_(session, **told["note"]["fixes"][0]["settings"])
    assert mended["ran"]
    assert mended["status"] == "optimal"


def test_nu_too_small_is_explained_and_mended(session):
    session.handle({"type": "preset", "name": "six"})
    told = set_(session, problem="nu", nu=0.1, kernel=LINEAR)
    assert told["note"]["title"] == "ν is too small for these data"
    for _ in range(4):  # each suggestion is larger
        told = set_(session, **told["note"]["fixes"][0]["settings"])
        if told["note"] is None:
            break
    assert told["note"] is None
    assert told["parameters"]["eta"] > 0


def test_no_points_one_class_and_one_point_are_explained(session):
    told = lane(session.handle({"type": "clear"}))
    assert told["note"]["title"] == "An empty canvas"
    for x in range(3):
        told = lane(session.handle({"type": "add", "x": x, "y": 0, "label": 1}))
        assert told["note"]["title"] == "One class only"
    told = lane(session.handle({"type": "add", "x": 1, "y": 2, "label": -1}))
    assert told["status"] == "optimal"


def test_an_indefinite_kernel_is_named(session):
    told = set_(session, kernel=[{"kind": "sigmoid"}], solver="ADMM")
    assert "positive semi-definite" in told["note"]["text"]


# ---- editing -----------------------------------------------------------------------------------


def test_edits_and_undo(session):
    before = session.document.rows()
    session.handle({"type": "add", "x": 0.123456789, "y": 1, "label": -1})
    assert session.document.rows()[-1] == [0.123457, 1.0, -1]
    assert session.document.preset is None
    for x in (0.2, 0.3, 0.4):  # one drag is one undo
        session.handle({"type": "move", "index": 0, "x": x, "y": 0, "live": True})
    session.handle({"type": "move", "index": 0, "x": 0.5, "y": 0, "live": False})
    session.handle({"type": "label", "index": 0, "label": -1})
    session.handle({"type": "remove", "index": 3})
    assert len(session.document.labels) == 80
    for _ in range(4):
        session.handle({"type": "undo"})
    assert session.document.rows() == before
    assert session.document.preset == "overlapping"
    (refused,) = session.handle({"type": "undo"})
    assert refused.header["text"] == "there is nothing to undo."
    for _ in range(4):
        session.handle({"type": "redo"})
    assert session.document.rows()[0] == [0.5, 0.0, -1]


def test_a_dragged_slider_is_one_undo(session):
    for C in (1.1, 1.3, 1.7):
        session.handle({"type": "set", "settings": {"C": C}, "live": True})
    session.handle({"type": "set", "settings": {"C": 2.0}, "live": False})
    session.handle({"type": "set", "settings": {"C": 5.0}, "live": True})
    session.handle({"type": "undo"})
    assert session.document.settings.C == 2.0
    session.handle({"type": "undo"})
    assert session.document.settings.C == 1.0


@pytest.mark.parametrize(
    ("text", "points", "labels"),
    [
        ("x,y,class\n1,2,a\n3,4,b\n", [[1, 2], [3, 4]], [-1, 1]),
        ("1;2;1\n3;4;-1", [[1, 2], [3, 4]], [1, -1]),
        ("1 2 0\n3 4 1", [[1, 2], [3, 4]], [-1, 1]),
        ('\ufeff"1", "2", "yes"\n3, 4, no\n', [[1, 2], [3, 4]], [1, -1]),
        ("1\t2\n3\t4", [[1, 2], [3, 4]], [1, 1]),
    ],
)
def test_csv(text, points, labels):
    X, y, note = read_csv(text, regression=False)
    assert X.tolist() == points
    assert y.tolist() == labels
    assert note.startswith("Read 2 rows")


@pytest.mark.parametrize("text", ["", "a,b\n", "1,2\nx,y", "1,nan,a", "1\n2\n", '"', "1,1e9,a"])
def test_bad_csv_is_refused(session, text):
    (refused,) = session.handle({"type": "csv", "text": text})
    assert refused.header["type"] == "error"
    assert len(session.document.labels) == 80


# ---- race, export, trace -----------------------------------------------------------------------


def test_race_runs_two_solvers_on_the_same_data(session):
    replies = session.handle({"type": "set", "settings": {"rival": "TextbookSMO"}})
    assert lane(replies, 1)["solver"] == "TextbookSMO"
    session.handle({"type": "reset"})
    replies = session.handle({"type": "step", "n": 40})
    quick, slow = lane(replies, 0), lane(replies, 1)
    assert quick["updates"] == slow["updates"] == 40
    assert quick["certificate"]["gap"] < slow["certificate"]["gap"]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", ["SMO", "DualCoordinate"])
def test_exported_code_runs_and_finds_the_same_optimum(session, problem, solver, capsys):
    told = set_(session, problem=problem, solver=solver, nu=0.4, C=1.5, tol=1e-4)
    if not told["ran"] or told["note"]:
        pytest.skip("no answer to compare with")
    code = python(session.document)
    names: dict = {}
    exec(compile(code, "exported.py", "exec"), names)
    assert names["solution"].certificate.primal == pytest.approx(
        told["certificate"]["primal"], rel=1e-4
    )
    assert "gap" in capsys.readouterr().out


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_trace_replays_and_is_certified_anew(session, solver):
    session.handle({"type": "remove", "index": 0})
    set_(session, solver=solver)
    session.handle({"type": "reset"})
    want = lane(session.handle({"type": "step", "n": 9}))
    (reply,) = session.handle({"type": "export", "kind": "trace"})
    trace = parse(json.dumps({"type": "replay", "trace": json.loads(reply.header["text"])}))
    other = Session()
    assert lane(other.handle(trace))["updates"] == 0
    told = lane(other.handle({"type": "step", "n": 9}))
    for key in ("updates", "iteration", "certificate", "step", "n_support"):
        assert told[key] == want[key], key
    lane(other.handle({"type": "step", "n": 1}))  # and it goes on from there


def test_a_forged_trace_is_refused(session):
    session.handle({"type": "step", "n": 3})
    (reply,) = session.handle({"type": "export", "kind": "trace"})
    trace = json.loads(reply.header["text"])
    for changes in ([[0, 5.0]], [[500, 0.1]], [[0, -1.0]]):
        trace["steps"][0]["changes"] = changes
        (refused,) = session.handle({"type": "replay", "trace": trace})[-1:]
        assert refused.header["type"] == "error"


def test_open_restores_what_describe_told(session):
    session.handle({"type": "add", "x": 1 / 3, "y": 2 / 3, "label": -1})
    set_(session, problem="nu", nu=0.3, kernel=[{"kind": "poly", "degree": 2, "coef0": 1.0}])
    told = session.handle({"type": "hello"})[1].header
    other = Session()
    other.handle({"type": "open", "document": told["document"]})
    assert other.document.rows() == session.document.rows()
    assert asdict(other.document.settings) == asdict(session.document.settings)


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.title)
def test_every_stop_of_the_tour(session, stop):
    assert len(STOPS) == 10
    assert 0 <= stop.right < len(stop.choices)
    told = solved(session, type="open", document=stop.document)
    assert told["ran"] or told["note"]
    if stop.then:
        assert set_(session, **stop.then)["ran"]


def test_tour_says_the_truth(session):
    def opened(title):
        stop = next(s for s in STOPS if s.title == title)
        return stop, solved(session, type="open", document=stop.document)

    stop, told = opened("The widest street")
    _, arrays = decode(encode(session.handle({"type": "train"})[-1]))
    far = int(arrays["0/margin"].argmax())
    after = solved(session, type="remove", index=far)
    assert after["certificate"]["primal"] == pytest.approx(told["certificate"]["primal"], rel=1e-6)

    stop, told = opened("What C buys")
    width = 1 / session.lanes[0].run.record.certificate.primal
    narrow = set_(session, **stop.then)
    assert 1 / narrow["certificate"]["primal"] < width

    stop, told = opened("How far a point reaches")
    assert set_(session, **stop.then)["n_support"] > 0.85 * 240

    stop, told = opened("ν counts the failures")
    assert told["note"] is None
    set_(session, nu=0.2, solver="SMO")  # w = 0: rounding errors must not draw a boundary
    assert not session.lanes[0].draw(session.view).any()

    _, told = opened("When no line exists")
    assert told["status"] == "infeasible"


# ---- the protocol ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "3", '"x"', "{}", '{"type": 3}', '{"type": "explode"}',
        '{"type": "step"}', '{"type": "step", "n": 0}', '{"type": "step", "n": 1e9}',
        '{"type": "step", "n": true}', '{"type": "step", "n": 1.5}', '{"type": "step", "n": NaN}',
        '{"type": "step", "n": 1, "extra": 1}', '{"type": "step", "n": 1, "n": 2}',
        '{"type": "add", "x": Infinity, "y": 0, "label": 1}',
        '{"type": "add", "x": 1e999, "y": 0, "label": 1}',
        '{"type": "add", "x": 0, "y": 0, "label": 2}',
        '{"type": "add", "x": "0", "y": 0, "label": 1}',
        '{"type": "set", "settings": {"C": 0}}', '{"type": "set", "settings": {"C": -1}}',
        '{"type": "set", "settings": {"kernel": []}}',
        '{"type": "set", "settings": {"kernel": [{"kind": "eval"}]}}',
        '{"type": "set", "settings": {"solver": "__class__"}}',
        '{"type": "set", "settings": {"solver": ["SMO"]}}',
        '{"type": "open", "document": {"points": [[1, 2]]}}',
        '{"type": "view", "x0": 0, "x1": 1, "y0": 0, "y1": 1, "columns": 9999, "rows": 2}',
        "[" * 100000, '{"type": "csv", "text": "' + "x" * 200000 + '"}', "\x00", "{" * 9,
        '{"type": "step", "n": ' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_refusals(text):
    with pytest.raises(Refusal):
        parse(text)


def test_too_many_points_are_refused(session):
    rows = [[0, 0, 1]] * (protocol.MAX_POINTS + 1)
    with pytest.raises(Refusal, match="points"):
        protocol.check({"type": "open", "document": {"points": rows}})
    rng = np.random.default_rng(0)
    X = rng.normal(size=(protocol.MAX_POINTS, 2))
    rows = [[*p, 1 if p[0] > 0 else -1] for p in X.tolist()]
    session.handle({"type": "open", "document": {"points": rows}})
    (refused,) = session.handle({"type": "add", "x": 0, "y": 0, "label": 1})
    assert "2000 points" in refused.header["text"]


def test_whatever_happens_inside_is_an_answer(session, monkeypatch, caplog):
    monkeypatch.setattr(session, "_on_train", lambda message: 1 / 0)
    (reply,) = session.handle({"type": "train", "id": 7})
    assert reply.header["type"] == "error"
    assert reply.header["re"] == 7
    assert "ZeroDivisionError" in reply.header["text"]
    assert "the lab failed" in caplog.text


def test_kernels_bind_as_they_are_written():
    terms = (Term("linear"), Term("rbf", sigma=2.0), Term("poly", op="*", degree=2, weight=3.0))
    kernel = Settings(kernel=terms).composed()
    assert repr(kernel) == "Linear() + RBF(sigma=2.0) * (3.0 * Polynomial(degree=2, coef0=1.0))"


def test_documents_round_trip():
    document = load("moons")
    assert document.as_json()["preset"] == "moons"
    assert Document(document.points, document.labels).as_json()["points"] == document.rows()


# ---- the server --------------------------------------------------------------------------------

PORT = 8765
URL = f"ws://127.0.0.1:{PORT}/ws"
ORIGIN = {"origin": f"http://127.0.0.1:{PORT}"}


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("starlette")
    pytest.importorskip("httpx2")
    from starlette.testclient import TestClient

    from maxmargin.lab.server import make_app

    with TestClient(make_app(PORT), base_url=f"http://127.0.0.1:{PORT}") as found:
        yield found


def ask(socket, **message):
    socket.send_text(json.dumps(message))
    return finish(socket)


def finish(socket):
    replies = []
    while not replies or not replies[-1][0].get("last", True):
        replies.append(decode(socket.receive_bytes()))
    return replies


def test_pages_and_their_headers(client):
    for path, kind in [
        ("/", "text/html"),
        ("/lab.js", "text/javascript"),
        ("/lab.css", "text/css"),
    ]:
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert client.get("/../server.py").status_code == 404
    assert client.get("/docs").status_code == 404


def test_no_request_leaves_the_machine(client):
    text = "".join(client.get(path).text for path in ("/", "/lab.js", "/lab.css"))
    known = {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
    assert {url.rstrip("'\"") for url in re.findall(r"https?://[^\s'\"`)]+", text)} <= known


def test_foreign_hosts_and_origins_are_refused(client):
    from starlette.websockets import WebSocketDisconnect

    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/", headers={"host": "127.0.0.1:80"}).status_code == 421
    bad = [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1"},
    ]
    for headers in [*bad, ORIGIN | {"host": "evil.example"}]:
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(URL, headers=headers):
            pass
    with client.websocket_connect(URL, headers={"origin": f"http://localhost:{PORT}"}) as socket:
        assert ask(socket, type="hello")[0][0]["type"] == "hello"


def test_two_hundred_random_messages_leave_it_answering(client):
    """Malformed frames, wrong types, random fields and random good messages."""
    rng = random.Random(0)
    values = [None, True, -1, 0, 1, 1e300, "x", [], {}, [[1, 2, 1]], {"C": 1}, "SMO", 0.5, 10**30]
    kinds = list(protocol.MESSAGES)

    def noise():
        if rng.random() < 0.3:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(60)))
        fields = {k for kind in kinds for k in protocol.MESSAGES[kind]}
        names = rng.sample(sorted(f.rstrip("?") for f in fields), 3)
        message = {"type": rng.choice(kinds), **{n: rng.choice(values) for n in names}}
        if rng.random() < 0.5:  # only the fields it may have: some get through
            own = {f.rstrip("?") for f in protocol.MESSAGES[message["type"]]} | {"type"}
            message = {k: v for k, v in message.items() if k in own}
        return json.dumps(message)

    with client.websocket_connect(URL, headers=ORIGIN) as socket:
        refused = 0
        for _ in range(200):
            data = noise()
            if isinstance(data, bytes):
                rng.choice([socket.send_bytes, lambda d: socket.send_text(d.decode("latin-1"))])(
                    data
                )
            else:
                socket.send_text(data)
            refused += finish(socket)[-1][0]["type"] == "error"
        assert refused > 100
        told = ask(socket, type="preset", name="moons", id=77)
        assert told[-1][0]["re"] == 77
        assert told[-1][0]["lanes"][0]["status"] == "optimal"


def test_stale_positions_of_a_drag_are_dropped():
    from maxmargin.lab.server import Visit, _supersedes

    visit = Visit.__new__(Visit)
    visit.waiting = __import__("collections").deque(
        [{"type": "move", "index": 3, "x": x, "y": 0.0, "live": x < 5} for x in range(6)]
        + [{"type": "train"}]
    )
    assert visit.next()["x"] == 5
    assert visit.next() == {"type": "train"}
    assert not _supersedes(
        {"type": "set", "settings": {"nu": 1}}, {"type": "set", "settings": {"C": 1}, "live": True}
    )


def test_a_flood_is_answered_with_refusals(client):
    with client.websocket_connect(URL, headers=ORIGIN) as socket:
        for _ in range(700):
            socket.send_text("x")
        texts = [decode(socket.receive_bytes())[0]["text"] for _ in range(700)]
        assert any("messages a second" in text for text in texts)
        time.sleep(0.05)  # a token comes back
        assert ask(socket, type="hello")[0][0]["type"] == "hello"


def test_ctrl_c_ends_the_server_with_a_page_open():
    """A real process on a free port; the promise in seconds is `make bench-small`'s."""
    websockets = pytest.importorskip("websockets.sync.client")
    command = [sys.executable, "-W", "error", "-m", "maxmargin.lab", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://(\S+)/", process.stdout.readline()).group(1)
        with websockets.connect(f"ws://{url}/ws", origin=f"http://{url}") as socket:
            socket.send('{"type": "hello"}')
            assert decode(socket.recv())[0]["type"] == "hello"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


def test_a_taken_port_is_named():
    from maxmargin.lab.server import _listen

    with _listen(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} is taken"):
            _listen(port)


# ---- the widget --------------------------------------------------------------------------------


@pytest.fixture
def widget(monkeypatch):
    pytest.importorskip("anywidget")
    from maxmargin.lab import Lab

    return Lab


def test_widget_answers_messages(widget, monkeypatch):
    X = np.array([[0.0, 1.0], [2.0, 1.5], [0.0, -1.0], [2.0, -1.2]])
    lab = widget(X, ["a", "a", "b", "b"], C=10.0, kernel=LINEAR)
    told = []
    monkeypatch.setattr(lab, "send", lambda header, buffers=None: told.append((header, buffers)))
    lab._handle_custom_msg({"type": "hello", "id": 1}, [])
    assert [header["type"] for header, _ in told] == ["hello", "document", "frame"]
    header, (buffer,) = told[-1]
    sizes = [math.prod(shape) for shape in header["arrays"].values()]
    assert len(buffer) == 4 * sum(sizes)
    assert lab.session.document.labels.tolist() == [-1, -1, 1, 1]
    assert header["lanes"][0]["status"] == "optimal"
    json.dumps([header for header, _ in told], allow_nan=False)


@pytest.mark.parametrize(
    ("arguments", "settings", "text"),
    [
        ((np.zeros((3, 3)), [1, 1, 2]), {}, "one or two features"),
        ((np.zeros((3, 2)), [1, 2, 3]), {}, "two classes"),
        ((np.zeros((3, 2)), [1, 2]), {}, "one per row"),
        ((np.full((3, 2), np.nan), [1, 2, 2]), {}, "finite"),
        ((np.zeros((3, 1)),), {}, "targets"),
        ((np.zeros((3, 2)), [1, 1, 2]), {"C": -1}, "settings.C must be"),
        ((np.zeros((3, 2)), [1, 1, 2]), {"gama": 1}, "no field 'gama'"),
    ],
)
def test_widget_refuses_in_words(widget, arguments, settings, text):
    with pytest.raises(ValueError, match=text):
        widget(*arguments, **settings)


def test_widget_takes_targets_and_one_class(widget):
    x = np.linspace(0, 3, 20)
    assert widget(x[:, None], np.sin(x)).session.document.settings.problem == "svr"
    assert (
        widget(np.random.default_rng(0).normal(size=(9, 2))).session.document.settings.problem
        == "one_class"
    )


def test_a_fine_surface_of_many_points_is_bounded():
    """No message may keep its thread for long, however large the view and however many points."""
    rng = np.random.default_rng(0)
    points = [[*map(float, xy), int(s)] for xy, s in zip(
        rng.normal(size=(2000, 2)).round(4), rng.choice([-1, 1], 2000), strict=True
    )]  # fmt: skip
    session = Session()
    session.handle({"type": "open", "document": {"points": points, "settings": {"C": 0.001}}})
    ends = {"x0": -3.0, "x1": 3.0, "y0": -3.0, "y1": 3.0}
    session.handle({"type": "view", **ends, "columns": 400, "rows": 400})
    (reply,) = session.handle({"type": "refine"})
    rows, columns = reply.arrays["0/grid"].shape
    assert rows * columns * 2000 < 3e7


def test_without_the_extra_the_module_says_what_to_install(monkeypatch, capsys):
    from maxmargin import lab
    from maxmargin.lab.__main__ import main

    lab.__dict__.pop("serve", None)
    monkeypatch.setitem(sys.modules, "maxmargin.lab.server", None)  # cannot be imported
    monkeypatch.setattr(sys, "argv", ["lab", "--no-browser"])
    assert main() == 1
    assert "maxmargin.lab.server" in capsys.readouterr().err
