//! Tables as people have them: what the command reads, what it leaves out, and what it says.

use super::{Folder, close, numbers, position, table, wave};

/// Rows with a category whose level is added to the target.
fn sites(folder: &Folder, name: &str, target: impl Fn(usize, f64) -> String) {
    let level = |i: usize| [-2.0, 0.0, 3.0][i % 3];
    let rows = (0..60).map(|i| format!("s{},{},{}\n", i % 3, position(i) / 3.0, target(i, level(i))));
    folder.write(name, format!("site,x,y\n{}", rows.collect::<String>()));
    folder.write("known.csv", "site,x\ns0,2\ns1,2\ns2,2\n");
    folder.write("new.csv", "x,site\n2,s1\n2,s9\n");
}

#[test]
fn texts_and_dates_are_read_by_default_and_names_are_left_out() {
    let folder = Folder::new();
    let row = |i: usize| {
        let (day, price) = (format!("{:02}/{:02}/2020", 1 + i / 28, 1 + i % 28), format!("\"$1,{:03}\"", 7 * i));
        format!("{i},car {i},{},{day},{},{price}\n", ["a", "b", "c"][i % 3], i.is_multiple_of(4))
    };
    folder.write("cars.csv", format!(",name,kind,day,used,price\n{}", (0..40).map(row).collect::<String>()));
    let fit = ["fit", "cars.csv", "--steps", "2", "-o", "m.cagey"];
    let told = folder.says(&fit);
    for words in [
        "a 0/1 input for each text: `kind`",
        "dates with the month first, in decimal years: `day`",
        "0 and 1 for False and True: `used`",
        "read as numbers, without `$` and separators of thousands: `price`",
        "left out: `c0` numbers the rows, `name` has a text of its own",
        "5 input columns, target `price`",
        "the gaussian likelihood",
    ] {
        assert!(told.contains(words), "`{words}` is not in {told}");
    }
    let json = folder.json(&[&fit[..], &["--json"]].concat())["warnings"].to_string();
    for words in ["a 0/1 input for each text: `kind`", "left out: `c0` numbers the rows"] {
        assert!(json.contains(words), "`{words}` is not in {json}");
    }
    folder.write("next.csv", "day,kind,used,price\n02/03/2020,c,True,$990\n");
    assert!(numbers(&folder.ok(&["predict", "m.cagey", "next.csv"]), "mean")[0].is_finite());
    folder.ok(&["evaluate", "m.cagey", "next.csv"]);
    folder.fails(1, &[&fit[..], &["--text", "refuse"]].concat(), &["row 2", "`name`", "--one-hot", "--drop name"]);
    let told = folder.says(&[&fit[..], &["--features", "name,kind"]].concat());
    assert!(told.contains("43 input columns") && told.contains("`name` has 40 categories"), "{told}");
}

#[test]
fn rows_with_gaps_are_counted_by_column() {
    let folder = Folder::new();
    let row = |i: usize| {
        let gap = |every: usize| if i.is_multiple_of(every) { String::new() } else { (i % 7).to_string() };
        format!("{},{},{},{}\n", position(i), gap(3), gap(10), wave(i))
    };
    folder.write("gaps.csv", format!("x,age,b,y\n{}", (0..30).map(row).collect::<String>()));
    let words = ["row 2, column `age`", "--missing drop", "--missing indicate"];
    folder.fails(1, &["fit", "gaps.csv", "-o", "n"], &words);
    let fit = ["fit", "gaps.csv", "--steps", "2", "-o", "m.cagey", "--missing"];
    let told = folder.says(&[&fit[..], &["drop"]].concat());
    assert!(told.contains("12 of 30 rows with missing cells left out: `age` in 10, `b` in 3"), "{told}");
    let half = |i: usize| format!("{},{},{}\n", position(i), if i % 5 > 1 { "" } else { "1" }, wave(i));
    folder.write("half.csv", format!("x,age,y\n{}", (0..30).map(half).collect::<String>()));
    let words = ["half.csv", "18 of 30 rows", "`age` in 18", "--drop age", "--missing indicate"];
    folder.fails(1, &["fit", "half.csv", "--missing", "drop", "-o", "n"], &words);
    let told = folder.says(&[&fit[..], &["indicate"]].concat());
    assert!(told.contains("30 rows, 5 input columns"), "{told}");
    // The saved means fill later tables, without an option.
    let mean = (0..30).filter(|i| i % 3 != 0).map(|i| (i % 7) as f64).sum::<f64>() / 20.0;
    folder.write("a.csv", "x,age,b\n1,,2\n");
    let filled = folder.json(&["inspect", "m.cagey", "--json"]);
    assert_eq!(filled["inputs"], serde_json::json!(["x", "age", "age is missing", "b", "b is missing"]));
    let missing = numbers(&folder.ok(&["predict", "m.cagey", "a.csv"]), "mean")[0];
    folder.write("b.csv", format!("x,age,b\n1,{mean},2\n"));
    let there = numbers(&folder.ok(&["predict", "m.cagey", "b.csv"]), "mean")[0];
    assert!(missing.is_finite() && missing != there);
}

#[test]
fn an_unknown_category_is_a_mixture_of_the_known_ones() {
    let folder = Folder::new();
    let predicted = |folder: &Folder, options: &[&str]| {
        let text = folder.ok(&[&["predict", "m.cagey", "known.csv"], options].concat());
        let ran = folder.run(&[&["predict", "m.cagey", "new.csv"], options].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("`site`: the model was not trained with `s9` (1)"), "{}", ran.err);
        (text, ran.out)
    };
    let average = |of: &dyn Fn(usize) -> f64| (0..3).map(of).sum::<f64>() / 3.0;
    let moments = |known: &str, new: &str| {
        let [mean, sd] = ["mean", "sd"].map(|column| numbers(known, column));
        let centre = average(&|k| mean[k]);
        let variance = average(&|k| sd[k].powi(2) + (mean[k] - centre).powi(2));
        let [new_mean, new_sd] = ["mean", "sd"].map(|column| numbers(new, column));
        assert!(close(new_mean[0], mean[1], 1e-9) && close(new_sd[0], sd[1], 1e-9), "the known row is as before");
        assert!(close(new_mean[1], centre, 1e-6), "{} {centre}", new_mean[1]);
        assert!(close(new_sd[1], variance.sqrt(), 1e-6), "{} {}", new_sd[1], variance.sqrt());
    };
    sites(&folder, "real.csv", |i, level| (level + wave(i)).to_string());
    folder.ok(&["fit", "real.csv", "--calibrate", "no", "-o", "m.cagey"]);
    for options in [&[][..], &["--latent"]] {
        let (known, new) = predicted(&folder, options);
        moments(&known, &new);
    }
    assert!(numbers(&folder.ok(&["predict", "m.cagey", "new.csv"]), "sd")[1] > 1.5, "sites differ by 2.05");
    folder.write("score.csv", "site,x,y\ns0,1,-2\ns9,2,1\ns8,3,0\n");
    let told = folder.says(&["evaluate", "m.cagey", "score.csv"]);
    assert!(told.contains("`s8` (1), `s9` (1)") && told.contains("2 rows"), "{told}");

    let short = ["--steps", "30", "-o", "m.cagey"];
    sites(&folder, "counts.csv", |i, level| ((level + 3.0) * (1.0 + (i % 4) as f64)).round().to_string());
    folder.ok(&[&["fit", "counts.csv", "--likelihood", "poisson", "--model", "laplace"], &short[..]].concat());
    let (known, new) = predicted(&folder, &[]);
    moments(&known, &new);
    let [low, high] = ["rate_lower", "rate_upper"].map(|column| numbers(&new, column)[1]);
    let ends = |column| numbers(&known, column);
    assert!(low >= ends("rate_lower")[0] && high <= ends("rate_upper")[2] && low < high);

    sites(&folder, "classes.csv", |i, level| if (i * 7 % 5) as f64 > level + 1.0 { "yes".into() } else { "no".into() });
    folder.ok(&[&["fit", "classes.csv", "--model", "laplace"], &short[..]].concat());
    let (known, new) = predicted(&folder, &[]);
    let [known, new] = [known, new].map(|text| numbers(&text, "probability_yes"));
    assert!(close(new[1], average(&|k| known[k]), 1e-9), "{new:?} {known:?}");
    folder.fails(1, &["sample", "m.cagey", "new.csv"], &["`s9`", "not trained with"]);
}

#[test]
fn the_noise_column_is_for_noisy_rows_only() {
    let folder = Folder::new();
    let sd = |i: usize| if i.is_multiple_of(2) { 0.1 } else { 0.5 };
    folder.write("noise.csv", table(&["s", "x", "y"], 30, |i| vec![sd(i), position(i), wave(i)]));
    folder.write("with.csv", "x,s\n1,0\n2,0\n");
    folder.write("without.csv", "x,y\n1,0.8\n2,0.9\n");
    folder.ok(&["fit", "noise.csv", "--noise-column", "s", "-o", "m.cagey"]);
    // What is known to be exact says which kernel is right: no average.
    assert!(folder.json(&["inspect", "m.cagey", "--json"])["average"].is_null());
    let latent = |name: &str| folder.ok(&["predict", "m.cagey", name, "--latent"]);
    assert_eq!(latent("without.csv"), latent("with.csv"));
    assert_eq!(folder.says(&["predict", "m.cagey", "without.csv", "--latent"]).matches("warning").count(), 0);
    let told = folder.says(&["predict", "m.cagey", "without.csv"]);
    assert!(
        told.contains("no column `s`") && told.contains("learned noise alone") && told.contains("--latent"),
        "{told}"
    );
    assert_eq!(folder.ok(&["predict", "m.cagey", "without.csv"]), folder.ok(&["predict", "m.cagey", "with.csv"]));
    folder.fails(1, &["evaluate", "m.cagey", "without.csv"], &["no column `s`"]);

    let counts = |i: usize| [9.0_f64, 4.0, 0.0, 25.0, 16.0, 0.0][i % 6];
    folder.write("bins.csv", table(&["x", "root", "n"], 30, |i| vec![position(i), counts(i).sqrt(), counts(i)]));
    let fit =
        ["fit", "bins.csv", "--noise-column", "root", "--likelihood", "gaussian", "--steps", "2", "-o", "b.cagey"];
    let told = folder.says(&fit);
    assert!(told.contains("`root` is 0 in 10 rows (4, 7, 10,") && told.contains("--likelihood poisson"), "{told}");

    let table = table(&["e", "x", "y"], 30, |i| vec![1.0 + (i % 3) as f64, position(i), (i % 5) as f64]);
    folder.write("counts.csv", table);
    let fit =
        ["fit", "counts.csv", "--likelihood", "poisson", "--exposure", "e", "--model", "laplace", "-o", "c.cagey"];
    folder.ok(&fit);
    folder.write("one.csv", "e,x\n1,1\n1,2\n");
    let told = folder.says(&["predict", "c.cagey", "without.csv"]);
    assert!(told.contains("no column `e`") && told.contains("an exposure of 1"), "{told}");
    assert_eq!(folder.ok(&["predict", "c.cagey", "without.csv"]), folder.ok(&["predict", "c.cagey", "one.csv"]));
}

#[test]
fn a_period_holds_for_each_of_several_columns() {
    let folder = Folder::new();
    let angles = |i: usize| [(97 * i % 360) as f64, (41 * i % 720) as f64];
    let target = |[a, b]: [f64; 2]| a.to_radians().sin() + b.to_radians().cos();
    let row = |i: usize| [&angles(i)[..], &[target(angles(i)) + 0.02 * wave(i)]].concat();
    folder.write("angles.csv", table(&["wind", "wave", "y"], 80, row));
    folder.write("ends.csv", "wind,wave\n0,180\n360,180\n0,540\n360,540\n90,10\n90,370\n");
    for kernel in
        ["periodic(period=360, fix=period)", "periodic(period=360, fix=period, dims=[wind, wave]) + rbf(dims=wind)"]
    {
        folder.ok(&["fit", "angles.csv", "--kernel", kernel, "-o", "m.cagey"]);
        let mean = numbers(&folder.ok(&["predict", "m.cagey", "ends.csv"]), "mean");
        if kernel.ends_with("period)") {
            for (row, other) in [(0, 1), (0, 2), (0, 3), (4, 5)] {
                assert!((mean[row] - mean[other]).abs() < 1e-6, "{mean:?}");
            }
            assert!((mean[4] - 1.98).abs() < 0.1, "{mean:?}");
        } else {
            assert!((mean[4] - mean[5]).abs() < 1e-6, "{mean:?}");
        }
    }
    // A learned period has a value for each column, in its own unit.
    folder.ok(&["fit", "angles.csv", "--kernel", "periodic", "--steps", "3", "-o", "m.cagey"]);
    let kernel = folder.json(&["inspect", "m.cagey", "--json"])["kernel"].as_str().unwrap().to_string();
    assert!(kernel.contains("period=["), "{kernel}");
}

#[test]
fn columns_that_determine_the_target_are_pointed_out() {
    let folder = Folder::new();
    let told = |name: &str, leak: &dyn Fn(usize) -> String, target: &dyn Fn(usize) -> String| {
        let rows = (0..40).map(|i| format!("{},{},{}\n", position(i), leak(i), target(i)));
        folder.write(name, format!("x,z,y\n{}", rows.collect::<String>()));
        folder.says(&["fit", name, "--steps", "1", "-o", "m.cagey"])
    };
    let real = |i: usize| wave(i).to_string();
    let class = |i: usize| ["no", "yes"][usize::from(wave(i) > 0.0)].to_string();
    let words = "the column `z` determines the target `y`";
    for (leak, target, how) in [
        (
            &(|i| (3.5 - 2.0 * wave(i)).to_string()) as &dyn Fn(usize) -> String,
            &real as &dyn Fn(usize) -> String,
            "a copy",
        ),
        (&|i| format!("{:.4}", 1.8 * wave(i) + 32.0), &real, "a copy"),
        (&|i| wave(i).exp().powi(3).to_string(), &real, "in the same order"),
        (&|i| ["1", "7"][usize::from(wave(i) > 0.0)].to_string(), &class, "a code"),
        (&|i| ["bad", "good"][usize::from(wave(i) > 0.0)].to_string(), &class, "a code"),
    ] {
        let told = told("leak.csv", leak, target);
        assert!(told.contains(words) && told.contains(how) && told.contains("--drop z"), "{told}");
    }
    for (column, target) in [
        (
            &(|i| (wave(i) + 0.05 * wave(i + 7)).to_string()) as &dyn Fn(usize) -> String,
            &real as &dyn Fn(usize) -> String,
        ),
        (&|i| (i % 3).to_string(), &class),
        (&|i| ["a", "b"][i % 2].into(), &real),
    ] {
        let told = told("fine.csv", column, target);
        assert!(!told.contains("determines"), "{told}");
    }
}

#[test]
fn inputs_are_transformed_where_it_is_asked_for() {
    let folder = Folder::new();
    let tail = |i: usize| (0.3 * i as f64).exp();
    folder.write("t.csv", super::table(&["income", "age", "y"], 40, |i| vec![tail(i), (i % 7) as f64, i as f64]));
    let fit = |asked: &[&str]| folder.run(&[&["fit", "t.csv", "--steps", "2", "-o", "m.cagey"], asked].concat());
    let told = fit(&["--input-transform", "income=asinh"]);
    assert!(told.out.contains("asinh of income (lengthscales are in units of the data at the median)"), "{}", told.out);
    let described = folder.json(&["inspect", "m.cagey", "--json"]);
    let warps = described["input_scale"]["warps"].as_array().unwrap();
    assert!(warps[0]["asinh"]["scale"].as_f64().unwrap() > 0.0 && warps[1] == "identity", "{warps:?}");
    assert!(folder.ok(&["predict", "m.cagey", "t.csv"]).lines().count() == 41);
    assert!(folder.json(&["inspect", "m.cagey", "--json"])["settings"]["input_transform"]["all"].is_null());
    assert!(!fit(&[]).out.contains("transformed inputs"));
    for (asked, words) in
        [("age=log", "`age` has the value 0"), ("incom=log", "did you mean `income`"), ("sqrt", "ranks")]
    {
        let ran = fit(&["--input-transform", asked]);
        assert!(ran.code != 0 && ran.err.contains(words) && ran.err.contains("--input-transform"), "{}", ran.err);
    }
}

#[test]
fn texts_that_differ_in_case_and_times_of_other_zones_are_told() {
    let folder = Folder::new();
    let row = |i: usize| {
        let time = format!("2023-04-{:02}T{:02}:00:00+02:00", 1 + i / 12, i % 12);
        format!("{},{time},{}\n", ["Drug", "drug", "other"][i % 3], position(i) + (i % 3) as f64)
    };
    folder.write("t.csv", format!("arm,time,y\n{}", (0..40).map(row).collect::<String>()));
    let told = folder.says(&["fit", "t.csv", "--steps", "2", "-o", "m.cagey"]);
    for words in [
        "differ in upper and lower case only are different ones, in `arm` (`Drug`, `drug`)",
        "dates in UTC, in decimal years; dates without an offset count as UTC",
    ] {
        assert!(told.contains(words), "`{words}` is not in {told}");
    }
    folder.write("new.csv", "arm,time,y\nOther,2023-04-02T03:00:00Z,1\nOther,2023-04-02T04:00:00Z,2\n");
    let scored = folder.says(&["evaluate", "m.cagey", "new.csv"]);
    assert!(scored.contains("did you mean `other`?") && scored.contains("was not tested"), "{scored}");
    let json = folder.json(&["evaluate", "m.cagey", "new.csv", "--json"]);
    assert!(json["error_bars"]["words"][0].as_str().unwrap().contains("was not tested"), "{json}");
}
