"""`plancc report`: the page as a parser sees it, and what it refuses."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import h5py
import pytest
import sealing
from cli_helpers import as_json, fails, ok, plancc_run

pytestmark = pytest.mark.usefixtures("opened_once")

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

EMPTY = ("meta", "img", "br", "hr", "link", "input")
EVIL = "<script>alert(1)</script>\u202egro.\x07{{ 7 * 7 }}"
SHOWN = "<script>alert(1)</script>\N{REPLACEMENT CHARACTER}gro.\N{REPLACEMENT CHARACTER}{{ 7 * 7 }}"


class Page(HTMLParser):
    """A page as a parser sees it; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(text for texts in self.texts.values() for text in texts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def run(plan: Path, folder: Path) -> tuple[Path, Path]:
    """Log of a run of the plan on three ranks, and the timeline of its rehearsal."""
    log, trace = folder / "run.jsonl", folder / "trace.json"
    options = ["--ranks", 3, "--epochs", 4, "--hidden", 4]
    done = plancc_run(plan, *options, "--log", log)
    assert done.code == 0, done.err
    ok("rehearse", plan, *options, "--trace", trace)
    return log, trace


@pytest.fixture(scope="module")
def full(plan: Path, run: tuple[Path, Path], folder: Path) -> Path:
    """The page of one plan and its run."""
    page = folder / "one.html"
    log, trace = run
    ok(
        "report",
        plan,
        "--run",
        log,
        "--trace",
        trace,
        "--dims",
        "5,4,4",
        "--certificate",
        "-o",
        page,
    )
    return page


@pytest.fixture(scope="module")
def several(graph: Path, plan: Path, run: tuple[Path, Path], folder: Path) -> Path:
    """The page of three plans of three layouts, of which two are of hostile names."""
    other, edges = folder / "<b>rp & co.h5", folder / "edges.h5"
    ok("compile", graph, "-p", 60, "--model", "rp", "-o", other)
    ok("compile", graph, "-p", 5, "--model", "libra", "-o", edges)
    for path in (other, edges):
        with h5py.File(path, "r+") as file:
            for name in ("source_name", "command", "warnings", "model", EVIL[:9]):
                sealing.note(file["provenance"], **{name: EVIL.replace("\x07", "\x1b")})
    page = folder / "three.html"
    ok("report", plan, other, edges, "--run", run[0], "-o", page)
    return page


def sections(page: Page) -> list[str | None]:
    return [attributes.get("id") for attributes in page.named("section")]


def test_the_page_has_everything(plan: Path, full: Path) -> None:
    page = Page(full.read_text("utf-8"))
    figures = ["figures", "volume", "loads", "matrix", "training", "timeline", "tables"]
    assert sections(page) == [*figures, "provenance"]
    inspected = as_json("inspect", plan, "--per-part", "--dims", "5,4,4")
    volume = inspected["metrics"]["volume"]
    assert f"{volume:,}" in page.texts["strong"]
    proven = as_json("inspect", plan, "--certificate")["certificate"]["volume"]
    assert f"{proven:,} rows" in page.texts["strong"]
    sent = inspected["parts"]["sent"]
    titles = page.texts["title"]
    for part, rows in enumerate(sent):  # bars, and rows of the table
        assert titles.count(f"part {part}: {rows:,}") >= 1
    moved = [re.fullmatch(r"part (\d+) sends ([\d,]+) rows to part \d+", t) for t in titles]
    by_sender = [0] * len(sent)
    for match in filter(None, moved):
        by_sender[int(match[1])] += int(match[2].replace(",", ""))
    assert by_sender == sent
    assert "training a GCN of 5 x 4 x 4" in page.texts["caption"]
    assert "per part" in page.texts["caption"]
    assert inspected["provenance"]["command"] in page.texts["td"]
    notes = " ".join(page.texts["figcaption"])
    assert "training loss" in notes
    assert re.search(r"epoch \d took .*; ranks wait \d+% of it, from \d+% \(rank \d\)", notes)


def test_a_page_stands_alone_and_is_accessible(full: Path, several: Path) -> None:
    for path in (full, several):
        text = path.read_text("utf-8")
        page = Page(text)
        without = re.sub(r'"data:image/png;base64,[^"]*"|url\(#\w+\)', "", text)
        assert not re.search(r"https?:|//[a-z]|url\(|@import|javascript:", without)
        assert not page.named("script")
        assert not page.named("link")
        assert not [name for _, attributes in page.tags for name in attributes if name[:2] == "on"]
        assert "default-src 'none'" in str(page.named("meta"))
        drawn = [str(image["xlink:href"]) for image in page.named("image")]
        assert drawn
        assert all(address.startswith("data:image/png") for address in drawn)
        pictures = [a for tag, a in page.tags if a.get("role") == "img"]
        assert pictures
        assert all(each["aria-label"] for each in pictures)
        assert len(page.named("h1")) == 1
        assert page.named("html")[0]["lang"] == "en"
        ids = [a["id"] for _, a in page.tags if "id" in a]
        assert len(ids) == len(set(ids))
        assert {a["href"] for a in page.named("a")} <= {f"#{name}" for name in ids}
        regions = [a for _, a in page.tags if a.get("class") == "scroll"]
        assert len(regions) == len(page.named("table"))
        assert all(each["tabindex"] == "0" and each["aria-label"] for each in regions)


def test_plans_stand_side_by_side(several: Path, folder: Path, plan: Path) -> None:
    page = Page(several.read_text("utf-8"))
    assert "3 plans" in page.texts["h1"][0]
    assert "timeline" not in sections(page)
    first, second, _ = volumes = [
        as_json("inspect", path)["metrics"]["volume"]
        for path in (plan, folder / "<b>rp & co.h5", folder / "edges.h5")
    ]
    assert f"{second:,} " in page.texts["td"]
    assert f"{second / first:.2f}x" in page.texts["small"]
    shares = [str(each["style"]) for each in page.named("td") if "plan-" in str(each.get("class"))]
    assert len(shares) == 18  # bars of figures, in the same unit in columns of any width
    assert [float(shares[k].removeprefix("--share:")) for k in (0, 1)] == pytest.approx(
        [100 * each / max(volumes) for each in volumes[:2]], abs=0.01
    )
    ratios = re.findall(r"\d[\d,.]*x\b", page.text)
    assert len(ratios) > 20
    assert all(re.fullmatch(r"[\d,]+\.\d\dx", each) for each in ratios)
    # the three plans are of one matrix: one picture before, and three after
    assert [text.strip() for text in page.texts["h3"]].count("Before") == 1
    assert [text.strip() for text in page.texts["h3"]].count("After") == 3


def test_what_is_said_once_is_not_said_again(full, graph, plan, tmp_path):
    """Neither by a table of every plan what the comparison says, nor by facts what plans share."""
    other, path = tmp_path / "other.h5", tmp_path / "page.html"
    ok("compile", graph, "-p", 4, "--model", "rp", "--seed", 7, "-o", other)
    ok("report", plan, other, "--dims", "5,4,4", "-o", path)
    one, two = (Page(each.read_text("utf-8")) for each in (full, path))
    compared = {"communication and balance", "predicted time of an epoch"}
    compared.add("training a GCN of 5 x 4 x 4")
    assert compared <= set(one.texts["caption"])
    assert not compared & set(two.texts["caption"])
    assert "figure (ratio to an even random partition)" in two.texts["caption"]
    assert "words sent per epoch" in two.texts["th"]
    (source,) = {as_json("inspect", each)["provenance"]["source_sha256"] for each in (plan, other)}
    assert two.texts["td"].count(source) == one.texts["td"].count(source) == 1
    assert two.texts["th"].count("content") == 1
    assert {each.get("colspan") for each in two.named("td")} == {None, "2"}
    # a note on a column that only the page of one plan has
    assert "Random: an even random partition" in one.text
    assert "Random:" not in two.text


def test_text_of_files_is_escaped(several: Path) -> None:
    text = several.read_text("utf-8")
    page = Page(text)
    assert not page.named("script")
    assert "<b>rp & co.h5" in page.text
    assert SHOWN in page.texts["td"]
    assert len(re.findall(r"<ul class=\"warning\".*?<li>", text)) >= 2
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text
    )


@pytest.fixture
def small(plan: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(plan, tmp_path / "plan.h5"))


def test_what_is_no_run_of_the_plan_is_refused(small, run, tmp_path):
    log, trace = (Path(shutil.copy(path, tmp_path / path.name)) for path in run)
    lines = log.read_text().splitlines()
    page = tmp_path / "page.html"

    def refused(*words: object) -> str:
        return fails(tmp_path, "report", *words, "-o", page)

    broken = tmp_path / "broken.jsonl"
    broken.write_text(f"{lines[0]}\n{lines[1][:50]}")
    assert "broken.jsonl, line 2: " in refused(small, "--run", broken)
    broken.write_text("\n".join(lines[:2]))
    error = refused(small, "--run", broken, "--trace", trace)
    assert error.endswith(f"trace.json: is of another run: {broken} has no epoch 2")
    assert "line 1" in refused(small, "--run", trace)
    assert "cut off" in refused(small, "--trace", log)
    assert "give at most one --run for every plan" in refused(small, "--run", log, "--run", log)
    one = tmp_path / "one.h5"
    ok("dataset", "karate", "-o", tmp_path / "karate.mtx")
    ok("compile", tmp_path / "karate.mtx", "--model", "block", "-p", 2, "-o", one)
    error = refused(one, "--trace", trace)
    assert f"has rank 2, but {one} runs on at most 2 ranks" in error


def test_a_run_of_another_plan_is_refused(graph, plan, run, tmp_path):
    """By the content hash that log and timeline name, though ranks and epochs would fit."""
    other, page = tmp_path / "other.h5", tmp_path / "page.html"
    ok("compile", graph, "-p", 7, "--model", "rp", "-o", other)
    with h5py.File(plan, locking=False) as file:
        content = sealing.attributes(file)["content_sha256"]
    for flag, path in (("--run", run[0]), ("--trace", run[1])):
        error = fails(tmp_path, "report", other, flag, path, "-o", page)
        assert f"{path}: belongs to another plan (content hash {content[:12]}; {other}" in error
    log, trace = (tmp_path / path.name for path in run)
    for path, without in zip(run, (log, trace), strict=True):
        # as other programs write it, and earlier versions did
        without.write_text(path.read_text().replace(f'"plan": "{content}"', '"by": "another"'))
        assert content not in without.read_text()
    ok("report", other, "--run", log, "--trace", trace, "-o", page)


@pytest.mark.parametrize("library", ["jinja2", "matplotlib"])
def test_without_a_library_it_says_what_to_install(library, small, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, library, None)
    error = fails(tmp_path, "report", small, "-o", tmp_path / "page.html", code=1)
    assert error == f"a report needs {library}: pip install 'plancc[report]'"
