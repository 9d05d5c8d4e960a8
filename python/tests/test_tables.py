"""Frames of pandas, polars and Arrow, and the command's one call for them."""

import logging

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import cagey
from cagey import GPClassifier, GPRegressor

KERNEL = "matern32(ard)"


@pytest.fixture(scope="module")
def sales():
    rng = np.random.default_rng(0)
    n = 90
    table = pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=n, freq="D"),
            "site": pd.Categorical(rng.choice(["north", "south"], n)),
            "open": rng.random(n) < 0.5,
            "size": rng.integers(1, 10, n),
        }
    )
    table["price"] = 2.0 * table["size"] + 3.0 * (table["site"] == "north") + 0.1 * rng.normal(size=n)
    return table


def test_columns_are_encoded_as_in_the_command(sales):
    X, y = sales.drop(columns="price"), sales["price"]
    model = GPRegressor(KERNEL, threads=1).fit(X, y)
    assert model.feature_names_in_.tolist() == ["day", "site", "open", "size"] and model.n_features_in_ == 4
    inputs = model.inspect()["inputs"]
    assert inputs == ["day", "site=north", "site=south", "open", "size"]
    assert model.score(X, y) > 0.98
    frames = [pl.from_pandas(X), pl.from_pandas(X).to_arrow()]
    for frame in frames:
        np.testing.assert_allclose(GPRegressor(KERNEL, threads=1).fit(frame, y).predict(frame), model.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"size": "width"}))
    with pytest.raises(ValueError, match="named columns"):
        model.predict(np.zeros((3, 4)))


def test_an_unknown_category_is_a_warning(sales):
    X = sales[["site", "size"]]
    model = GPRegressor(KERNEL, threads=1).fit(X, sales["price"])
    with pytest.warns(cagey.CageyWarning, match="east"):
        mean = model.predict(pd.DataFrame({"site": ["east"], "size": [5]}))
    assert 9 < mean[0] < 14


def test_missing_cells_are_refused_or_handled(sales):
    X = sales[["size"]].astype(float).copy()
    X.loc[3, "size"] = np.nan
    with pytest.raises(ValueError, match="NaN|missing"):
        GPRegressor(KERNEL, threads=1).fit(X, sales["price"])
    model = GPRegressor(KERNEL, threads=1, options={"missing": "indicate"}).fit(X, sales["price"])
    assert np.isfinite(model.predict(X)).all()
    dropping = GPRegressor(KERNEL, threads=1, options={"missing": "drop"}).fit(X, sales["price"])
    with pytest.raises(ValueError, match="row 4, column `size`: `NaN` is a missing value") as raised:
        dropping.predict(X)
    assert "options" not in str(raised.value)


def test_numbers_of_rows_by_the_name_of_their_column(sales):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": np.linspace(0, 3, 100), "hours": rng.uniform(1, 9, 100)})
    y = rng.poisson(table["hours"] * np.exp(np.sin(table["x"])))
    model = GPRegressor(likelihood="poisson", threads=1).fit(table, y, exposure="hours")
    double = table.assign(hours=2 * table["hours"])
    np.testing.assert_allclose(model.predict(double), 2 * model.predict(table), rtol=1e-6)


def test_classes_keep_their_labels(sales):
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=80), "where": rng.choice(["in", "out"], 80)})
    y = np.where(X["a"] + (X["where"] == "in") > 0.5, "10", "9")
    model = GPClassifier(threads=1).fit(X, y)
    assert model.classes_.tolist() == ["10", "9"] and model.score(X, y) > 0.9


def test_one_call_does_what_the_command_does(sales, caplog, tmp_path):
    with caplog.at_level(logging.INFO, "cagey"):
        model = cagey.fit(sales, target="price", kernel=KERNEL, holdout=0.2, threads=1)
    assert isinstance(model, GPRegressor) and "5 input columns" in caplog.text
    scores = model.report_["scores"]
    assert scores["n"] == 18 and scores["r2"] > 0.9
    assert "Held-out rows" in str(model.report_) and "Error bars" in str(model.report_)
    model.save(tmp_path / "sales.cagey")
    again = cagey.load(tmp_path / "sales.cagey")
    X = sales.drop(columns="price")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    dates = cagey.fit(sales[["day", "price"]], target="price", kernel=KERNEL, threads=1)
    np.testing.assert_allclose(dates.predict(sales[["day"]]), dates.leave_one_out_.mean, atol=3 * sales["price"].std())
    with pytest.raises(ValueError, match="named columns"):
        dates.predict(sales[["day"]].to_numpy(dtype=float))
    classes = cagey.fit(sales[["size", "price", "site"]], target="site", threads=1)
    assert isinstance(classes, GPClassifier) and classes.classes_.tolist() == ["north", "south"]
    with pytest.raises(TypeError, match="holdouts"):
        cagey.fit(sales, target="price", holdouts=0.2)
    with pytest.raises(ValueError, match="no column `prize`"):
        cagey.fit(sales, target="prize")


@pytest.mark.filterwarnings("error:X ")
def test_columns_may_have_the_names_that_arrays_get():
    x = np.linspace(0, 6, 60)
    table = pd.DataFrame({"x0": x, "x1": np.cos(3 * x), "y": np.sin(x) + 0.1 * np.cos(7 * x)})
    model = cagey.fit(table, target="y", kernel="rbf(ard)", threads=1)
    rows = table[["x0", "x1"]]
    np.testing.assert_array_equal(model.predict(rows), model.predict(rows.to_numpy()))


def test_candidates_are_compared_on_the_same_rows(sales):
    found = cagey.compare(sales[["size", "price"]], target="price", kernels=["linear", "constant"], holdout=0.3, threads=1)
    assert [one["name"] for one in found][0] == "exact linear" and found[0]["best"]
    assert "best" in str(found) and "exact constant" in str(found)


@pytest.mark.parametrize("kind", ["pandas", "polars", "enum"])
def test_categories_that_look_like_numbers_are_categories(kind):
    rng = np.random.default_rng(3)
    code = rng.integers(0, 6, 120)
    y = np.array([0, 5, 1, 4, 2, 9.0])[code] + 0.1 * rng.normal(size=120)
    texts, levels = [str(one) for one in code], [str(one) for one in range(6)]
    table = {
        "pandas": lambda: pd.DataFrame({"code": pd.Categorical(code), "x": rng.normal(size=120)}),
        "polars": lambda: pl.DataFrame({"code": pl.Series(texts, dtype=pl.Categorical)}),
        "enum": lambda: pl.DataFrame({"code": pl.Series(texts, dtype=pl.Enum(levels))}),
    }[kind]()
    model = GPRegressor("linear", threads=1).fit(table, y)
    assert model.score(table, y) > 0.99
    with_target = table.assign(y=y) if kind == "pandas" else table.with_columns(y=y)
    assert cagey.fit(with_target, target="y", kernel="linear", threads=1).score(table, y) > 0.99


@pytest.mark.parametrize("mixed", [False, True])
def test_ordered_classes_have_their_own_order(mixed, tmp_path):
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 5, 90)
    X = pd.DataFrame({"x": x, "g": rng.choice(["u", "v"], 90)}) if mixed else x[:, None]
    names = ["low", "mid", "high"]
    code = np.digitize(x + 0.3 * rng.normal(size=90), [1.5, 3.5])
    plain = np.array(names)[code]
    ordered = pd.Categorical.from_codes(code, [*names, "none"], ordered=True)
    enum = pl.Series(plain.tolist(), dtype=pl.Enum(names))
    asked = {"options": {"classes": names}}
    text = {"options": {"classes": "low,mid,high"}}
    for y, more in [(ordered, {}), (pd.Series(ordered), {}), (enum, {}), (plain, asked), (plain, text)]:
        model = GPClassifier("linear", likelihood="ordinal", threads=1, **more).fit(X, y)
        assert model.classes_.tolist() == names and model.score(X, plain) > 0.75
    model.save(tmp_path / "model.cagey")
    assert clone(cagey.load(tmp_path / "model.cagey")).fit(X, plain).classes_.tolist() == names
    with pytest.raises(ValueError, match="classes"):
        GPClassifier(likelihood="ordinal", options={"classes": ["low", "high"]}).fit(X, plain)


def test_options_about_columns_are_used_or_refused():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"a": rng.uniform(0, 5, 60), "b": rng.integers(1, 4, 60)})
    y = np.sin(table["a"])
    fit = lambda X, **options: GPRegressor("rbf(ard)", threads=1, options=options).fit(X, y)
    dropped = fit(table, drop=["b"])
    assert dropped.inspect()["inputs"] == fit(table, features=["a"]).inspect()["inputs"] == ["a"]
    np.testing.assert_array_equal(dropped.predict(table), dropped.predict(table[["a"]]))
    assert fit(table, categorical=["b"]).inspect()["inputs"] == ["a", "b=1", "b=2", "b=3"]
    with pytest.raises(ValueError, match="nope"):
        fit(table, drop=["nope"])
    for name in ("drop", "features", "categorical"):
        with pytest.raises(ValueError, match=rf"options\['{name}'\] is about columns of a frame"):
            fit(table.to_numpy(), **{name: ["nope"]})
    with pytest.raises(ValueError, match="the target of an estimator is y"):
        fit(table, target="b")
    with pytest.raises(ValueError, match="for GPClassifier"):
        fit(table, classes=["b"])


def test_columns_that_are_left_out_are_told_and_durations_are_days():
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"id": np.arange(90), "g": rng.choice(["u", "v"], 90), "x": rng.uniform(0, 5, 90)})
    y = np.sin(table["x"])
    with pytest.warns(cagey.CageyWarning, match="no inputs: 'id'"):
        model = GPRegressor(KERNEL, threads=1).fit(table, y)
    np.testing.assert_array_equal(model.predict(table), model.predict(table.drop(columns="id")))
    with pytest.warns(cagey.CageyWarning, match="no inputs: 'id'"):
        called = cagey.fit(table.assign(y=y), target="y", kernel=KERNEL, threads=1)
    np.testing.assert_array_equal(called.predict(table), called.predict(table.drop(columns="id")))
    hours = pd.DataFrame({"after": pd.to_timedelta(np.arange(90), unit="h")})
    for frame in (hours, pl.from_pandas(hours)):
        model = GPRegressor("linear", threads=1).fit(frame, np.arange(90) / 24)
        np.testing.assert_allclose(model.predict(frame), np.arange(90) / 24, atol=1e-3)


def test_a_lazy_frame_is_that_of_its_columns():
    table = pl.DataFrame({"a": np.linspace(0, 5, 40), "b": np.cos(np.arange(40.0))})
    model = GPRegressor(KERNEL, threads=1).fit(table.lazy(), np.sin(table["a"]))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="order"):
        model.predict(table.select(["b", "a"]).lazy())
    with pytest.raises(ValueError, match="2D"):
        model.fit(table["a"], table["a"])
    with pytest.raises(TypeError, match="named columns"):
        cagey.fit(table.to_numpy(), target="a")
