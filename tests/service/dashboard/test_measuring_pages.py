"""Pages that measure: scores, recall, the map, duplicates."""

from __future__ import annotations

import re
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from dashboard_site import Site

pytestmark = pytest.mark.slow


def test_the_curve_follows_the_sliders(look: Any) -> None:
    """The S-curve is 1 - (1 - s^r)^L of the sliders' r and L, by mouse and by keyboard."""
    looked = look()
    page = looked.open("c/photographs/scores")
    for name, value in (("r: hashes a band", 3), ("L: bands", 20)):
        page.get_by_label(name).fill(str(value))
    page.get_by_label("r: hashes a band").press("ArrowRight")
    assert "r = 4 hashes a band and L = 20 bands" in page.locator("output").inner_text()
    drawn = page.evaluate("document.querySelector('.chart').plot.data")
    assert drawn[3] == pytest.approx([1 - (1 - s**4) ** 20 for s in drawn[0]])
    looked.wrong = [wrong for wrong in looked.wrong if "404" not in wrong]


def test_measured_scores_lie_under_the_curve(site: Site, look: Any) -> None:
    """The histograms of pairs and of neighbours are drawn behind the curve, each up to its highest bin, and a setting is suggested."""
    site.needs("tune")
    page = look().open("c/photographs/scores")
    _, pairs, neighbours, curve = page.evaluate("document.querySelector('.chart').plot.data")
    assert max(pairs) == max(neighbours) == 1
    assert np.average(range(len(pairs)), weights=pairs) < np.average(range(len(neighbours)), weights=neighbours)
    assert curve == sorted(curve)
    assert page.get_by_text("Suggested:").count() == 1
    assert page.get_by_role("table", name="What bands would do").get_by_role("row").count() > 10


def test_recall_is_what_the_route_measures(site: Site, look: Any) -> None:
    """Each mode has a row with its measured recall, what was predicted, and the mean bound."""
    site.needs("recall")
    page = look().open("c/photographs/recall")
    measured = httpx.get(f"{site.open}/v1/collections/photographs/recall?queries=100&k=10&seed=0", timeout=60).json()["modes"]
    shown = page.get_by_role("table", name="Measured by mode")
    for one in measured:
        row = shown.get_by_role("row").filter(has=page.get_by_role("rowheader", name=one["mode"], exact=True)).inner_text()
        assert f"{np.floor(one['recall'] * 1_000) / 10:.1f}".removesuffix(".0") in row, (one, row)


def test_marks_of_the_same_recall_lie_beside_each_other(look: Any) -> None:
    """An exact answer's recall, prediction and bound are all 1: both marks are seen whole, neither hides the other."""
    page = look().open("c/photographs/recall")
    page.get_by_role("table", name="Measured by mode").wait_for()
    drawn = """async () => {
        const { colour } = await import("/dashboard/charts.js"), canvas = document.querySelector(".chart canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return [1, 2].map(number => {
            const [r, g, b] = [1, 3, 5].map(at => parseInt(colour(number).slice(at, at + 2), 16));
            let seen = 0;
            for (let at = 0; at < data.length; at += 4) seen += data[at] === r && data[at + 1] === g && data[at + 2] === b;
            return seen / devicePixelRatio ** 2;
        });
    }"""
    told = page.evaluate("document.querySelector('.chart').plot.data")
    for seen, values in zip(page.evaluate(drawn), told[2:], strict=True):
        assert seen >= 40 * sum(value is not None for value in values), (seen, values)


def test_the_map_opens_items(site: Site, look: Any) -> None:
    """A click on a point opens its item, and the arrow keys go on to the next in the order of the axis."""
    site.needs("map")
    page = look().open("c/photographs/map")
    place = """(at => {
        const { plot } = document.querySelector(".chart"), [x, ...groups] = plot.data, box = plot.over.getBoundingClientRect();
        const y = groups.map(one => one[at]).find(one => one !== null);
        return [box.left + plot.valToPos(x[at], "x"), box.top + plot.valToPos(y, "y")];
    })"""
    page.mouse.click(*page.evaluate(f"{place}(0)"))
    page.locator(".opened .card img").wait_for()
    first = page.locator(".opened .id").inner_text()
    page.locator(".walked").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".opened .id")).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".opened .id")).to_have_text(first)


def test_every_value_has_its_colour_on_the_map(look: Any) -> None:
    """A field of at most 12 values has a colour a value, integers, too; numbers of more values are ranges."""
    page = look().open("c/words/items")
    told = """async count => {
        const { groups } = await import("/dashboard/pages/map.js"), { colour } = await import("/dashboard/charts.js");
        const made = groups(Array.from({ length: 300 }, (_, at) => at % count));
        return [made.map(one => one.label), new Set(made.map((_, at) => colour(at))).size];
    }"""
    for count in (10, 12):
        assert page.evaluate(told, count) == [[str(value) for value in range(count)], count]
    labels, different = page.evaluate(told, 13)
    assert labels[0].startswith("below ")
    assert different == len(labels) == 8


def test_long_values_are_cut_in_the_legend_of_the_map(look: Any) -> None:
    """The legend of a map names a long value by its first 40 characters."""
    made_of = "async values => (await import('./dashboard/pages/map.js')).groups(values).map(one => one.label)"
    assert look().open("c/words/items").evaluate(made_of, ["a" * 41, "b" * 40]) == ["a" * 40 + " …", "b" * 40]


def test_duplicates_are_shown(site: Site, look: Any) -> None:
    """Clusters are shown with their pictures, their least score and what is kept."""
    site.needs("duplicates")
    page = look().open("c/photographs/duplicates")
    page.get_by_role("button", name="Find").click()
    body = {"min_score": 0.95, "as": "clusters", "limit": 1_000}
    first = httpx.post(f"{site.open}/v1/collections/photographs/duplicates", json=body, timeout=60).json()["clusters"][0]
    group = page.locator(".groups > li").first
    assert f"least score {first['least']:.4f}; keep {first['keep']}" in group.inner_text()
    assert group.locator(".id").all_inner_texts() == first["ids"][:8]
    assert group.locator("img").count() == len(first["ids"][:8])


def test_duplicates_below_zero_are_asked_for(site: Site, look: Any) -> None:
    """Scores of the cosine go from -1 on, and so does the least score; what a kernel cannot have is refused by the server."""
    address = f"{site.open}/v1/collections/signed"
    assert httpx.put(address, json={"dim": 2, "kernel": "cosine"}).status_code == 201
    items = [{"id": "a", "vector": [1, 0]}, {"id": "b", "vector": [-1, 1]}]
    assert httpx.post(f"{address}/index", json={"items": items}).status_code == 200
    looked = look()
    page = looked.open("c/signed/duplicates")
    page.get_by_label("Least score").fill("-0.8")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("2 items, least score -0.7071").wait_for()
    page.get_by_label("Least score").fill("-3")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("min_score is a number from -1 to 1 for cosine").first.wait_for()
    assert len(looked.wrong) == 1
    looked.wrong.clear()


def test_all_duplicates_can_be_seen(site: Site, look: Any) -> None:
    """What is not shown of a cluster, and of the list, is counted, and a button shows more of it until all is there."""
    site.needs("duplicates")
    page = look().open("c/copies/duplicates")
    page.get_by_role("button", name="Find").click()
    groups = page.locator(".groups > li")
    expect(groups).to_have_count(30)
    page.get_by_text("2 of 32 clusters are hidden.").wait_for()
    group = groups.filter(has_text="12 items,")
    expect(group.locator(".id")).to_have_count(8)
    group.get_by_text("4 of 12 items are hidden.").wait_for()
    group.get_by_role("button", name="More").click()
    expect(group.locator(".id")).to_have_count(12)
    assert group.locator(".id").all_inner_texts() == [f"00-{number:02}" for number in range(12)]
    page.get_by_role("button", name="More").click()
    expect(groups).to_have_count(32)
    assert page.get_by_text("hidden").count() == page.get_by_role("button", name="More").count() == 0


@pytest.fixture(scope="module")
def many(site: Site) -> str:
    """A collection of two vectors an item, enough of them to be measured."""
    address, rng = f"{site.open}/v1/collections/many", np.random.default_rng(3)
    made = {"fields": {"colour": {"dim": 8}, "size": {"dim": 4}}}
    assert httpx.put(address, json=made).status_code == 201
    items = [{"id": f"i{i}", "vectors": {"colour": rng.random(8).tolist(), "size": [1, 2, 3, 4 + i % 5]}} for i in range(120)]
    assert httpx.post(f"{address}/index", json={"items": items}, timeout=60).status_code == 200
    return "many"


@pytest.mark.parametrize(
    ("page", "route", "button"), [("scores", "tune", "Measure"), ("duplicates", "duplicates", "Find"), ("map", "map", "Draw")]
)
def test_of_several_vectors_one_is_chosen(look: Any, many: str, page: str, route: str, button: str) -> None:
    """Pages that look at one vector ask which, the first of them at once, and say nothing of an error."""
    shown = look().open(f"c/{many}/{page}")
    shown.get_by_label("Vector").select_option("size")
    with shown.expect_response(lambda answer: answer.url.endswith(f"/{route}")) as answered:
        shown.get_by_role("button", name=button, exact=True).click()
    assert answered.value.status == 200
    assert answered.value.request.post_data_json["field"] == "size"
    assert shown.locator(".trouble").count() == 0


def test_recall_of_several_vectors_is_of_them_together(look: Any, many: str) -> None:
    """It is measured, and no request of the page is refused."""
    shown = look().open(f"c/{many}/recall")
    shown.get_by_role("table", name="Measured by mode").wait_for()


def banded(site: Site, name: str) -> str:
    """A new collection with a run of 8 hashes in 2 bands."""
    address, rng = f"{site.open}/v1/collections/{name}", np.random.default_rng(4)
    assert httpx.put(address, json={"dim": 16, "rows": 8, "bands": 2}).status_code == 201
    items = [{"id": f"i{i}", "vector": rng.random(16).tolist()} for i in range(300)]
    assert httpx.post(f"{address}/index", json={"items": items}, timeout=60).status_code == 200
    assert httpx.post(f"{address}/compact", json={}, timeout=60).status_code == 200
    return name


def test_sliders_begin_at_what_there_is(site: Site, look: Any) -> None:
    """r and L are those of the run; of rows without a run those of single hashes."""
    for name, setting in ((banded(site, "banded"), (8, 2)), ("pictures", (1, 128))):
        page = look().open(f"c/{name}/scores")
        assert [page.get_by_label(one).input_value() for one in ("r: hashes a band", "L: bands")] == [str(one) for one in setting]
        assert f"L = {setting[1]} bands" in page.locator("output").inner_text()


def test_a_rebuild_is_measured(site: Site, look: Any) -> None:
    """After a rebuild the page measures again, and says what there is now."""
    page = look().open(f"c/{banded(site, 'rebuilt')}/scores")
    page.get_by_text("Now: 2 bands of 8 hashes").wait_for()
    told = page.locator("b", has_text="Suggested: ").inner_text()
    suggested = told.removeprefix("Suggested: ").removesuffix(". ").rstrip(".")
    assert suggested != "2 bands of 8 hashes"
    page.get_by_role("button", name="Rebuild so").click()
    with page.expect_response("**/tune"):
        page.get_by_role("button", name="Rebuild", exact=True).click()
    page.get_by_text(f"Now: {suggested}").wait_for()
    assert f"L = {suggested.split(' ')[0]} bands" in page.locator("output").inner_text()


@pytest.mark.parametrize(
    ("auto", "microseconds", "pays", "told"),
    [
        ("links", 9.0, False, "Queries in mode auto walk the links, which finds 97.0 % of the nearest in 2 µs."),
        ("exact", 9.0, False, "Queries in mode auto score every row, and bands are no faster here."),
        ("bands", 9.0, False, "The bands that are there are about as fast as the suggested ones, and find enough."),
        ("bands", 5.0, True, "Queries by bands would take 50.0 % less time."),
    ],
)
def test_the_page_says_whether_a_rebuild_pays(look: Any, auto: str, microseconds: float, pays: bool, told: str) -> None:
    """The page begins with whether a rebuild pays, and why; its button is the main one only then."""
    page = look().open("c/linked/items")

    def answered(route: Any) -> None:
        """What the server says, with other figures in it."""
        made = route.fetch().json()
        if route.request.url.endswith("/tune"):
            made["current"] |= {"rows": 3, "bands": 128, "runs": 1, "recall": 0.95, "microseconds": 10.0}
            made["suggested"] = {"rows": 2, "bands": 64, "why": "recall 0.950; bands are no faster than scans here"}
            made["bands"] = [made["bands"][0] | {"rows": 2, "bands": 64, "recall": 0.95, "microseconds": microseconds}]
            made["walks"] = [{"width": 1, "recall": 0.97, "microseconds": 2.0}]
        else:
            made["stats"]["auto"] = auto
        route.fulfill(json=made)

    page.route(re.compile("/collections/linked(/tune)?$"), answered)
    page.goto(page.url.replace("items", "scores"))
    verdict = page.locator("p", has_text=told)
    verdict.wait_for()
    assert verdict.inner_text().startswith("A rebuild pays. " if pays else "There is no need to rebuild. ")
    assert page.get_by_role("button", name="Rebuild so").get_attribute("class") == ("primary" if pays else None)


def test_points_at_the_edges_are_drawn_whole(look: Any) -> None:
    """The axes of a chart of points reach beyond the first, the last, the least and the greatest of them by more than half a point."""
    page = look().open("c/photographs/scores")
    page.get_by_role("table", name="What bands would do").wait_for()
    left, right, top, bottom = page.evaluate(
        """() => {
            const { plot } = [...document.querySelectorAll(".chart")].at(-1), [x, ...series] = plot.data;
            const ys = series.flat().filter(one => one !== null).map(one => plot.valToPos(one, "y"));
            const xs = x.map(one => plot.valToPos(one, "x"));
            const { clientWidth, clientHeight } = plot.over;
            return [Math.min(...xs), clientWidth - Math.max(...xs), Math.min(...ys), clientHeight - Math.max(...ys)];
        }"""
    )
    assert min(left, right, top, bottom) > 6


def test_legends_tell_no_values_while_nobody_points(look: Any) -> None:
    """A legend names its series, and their values only where the pointer is."""
    page = look().open("c/photographs/scores")
    page.get_by_role("table", name="What bands would do").wait_for()
    legend = page.locator(".chart .u-legend").first
    assert legend.locator(".u-value").all_inner_texts() == ["", "", "", ""]
    page.locator(".chart .u-over").first.hover()
    legend.get_by_text(re.compile(r"^0\.\d+$")).first.wait_for()


@pytest.mark.parametrize(("name", "told"), [("empty", "nothing has a neighbour"), ("pictures", "No row lies in a run with bands")])
def test_nothing_is_suggested_where_there_is_nothing_to_rebuild(look: Any, name: str, told: str) -> None:
    """A collection that is empty, or has no run, says so: no setting is suggested, and no table of settings shown."""
    page = look().open(f"c/{name}/scores")
    page.get_by_text(told).wait_for()
    page.get_by_text("There is nothing to rebuild yet.").wait_for()
    assert page.get_by_text("Suggested").count() == page.get_by_role("button", name="Rebuild so").count() == 0
    assert page.get_by_role("table", name="What bands would do").count() == 0


def test_recall_of_nothing_is_said(look: Any) -> None:
    """Where no item has a neighbour, the page says that there is nothing to measure."""
    look().open("c/empty/recall").get_by_text("There is nothing to measure: no item has a neighbour.").wait_for()


def test_what_has_no_hashes_is_not_asked_for_bands(look: Any) -> None:
    """Strings have no bands: Scores says why, Recall measures the modes that there are, and no request is refused."""
    looked = look()
    page = looked.open("c/names/scores")
    page.get_by_text("Strings under levenshtein have no bands: no hash tells how near two are.").wait_for()
    page = looked.open("c/names/recall")
    page.get_by_role("table", name="Measured by mode").wait_for()
    assert looked.wrong == []
    assert [url for url in looked.requested if url.endswith("/tune")] == []
