//! Files as users have them: what is read, what is refused, and the text of the refusal.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cagey::data::{
    Cells, Encoding, Frame, Header, InputScale, Missing, ReadOptions, RowFile, Schema, Split, TargetKind, TargetScale,
    TargetTransform, atomic_write, read_training, read_with_schema, write_predictions,
};
use cagey::metrics::Predictive;
use cagey::{Error, data::Dataset};
use proptest::prelude::*;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn options() -> ReadOptions {
    ReadOptions::default()
}

fn read(text: impl AsRef<[u8]>, options: &ReadOptions) -> cagey::Result<(Schema, Dataset)> {
    read_training(Folder::new().file("t.csv", text), options)
}

/// Checks that `text` is refused with a message that contains all of `parts`.
fn refused(text: impl AsRef<[u8]>, options: &ReadOptions, parts: &[&str]) {
    let message = read(text, options).unwrap_err().to_string();
    for part in parts.iter().chain(&["t.csv"]) {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn check_two_by_two(path: &Path) {
    let (schema, data) = read_training(path, &options()).unwrap();
    assert_eq!((data.n, data.d), (2, 2));
    assert_eq!(data.x, [1.0, 2.0, 4.0, 5.5]);
    assert_eq!(data.y.unwrap(), [3.0, -6e-3]);
    assert_eq!((data.feature_names, data.target_name.as_str()), (vec!["a".to_owned(), "b".to_owned()], "y"));
    assert_eq!((schema.target.as_str(), schema.target_index, schema.width), ("y", 2, 3));
}

#[test]
fn text_in_all_its_dialects() {
    let folder = Folder::new();
    let plain = "a,b,y\n1,2,3\n4,5.5,-6e-3\n";
    for (name, text) in [
        ("comma.csv", plain.to_owned()),
        ("no_final_newline.csv", plain.trim_end().to_owned()),
        ("crlf.csv", plain.replace('\n', "\r\n")),
        ("old_mac.csv", plain.replace('\n', "\r")),
        ("blank_lines.csv", plain.replace('\n', "\n\n")),
        ("mark.csv", format!("\u{feff}{plain}")),
        ("tab.tsv", plain.replace(',', "\t")),
        ("tab_by_content.txt", plain.replace(',', "\t")),
        ("semicolon.csv", plain.replace(',', ";")),
        ("quoted.csv", "\"a\",\"b\",\"y\"\n\"1\",\"2\",\"3\"\n4,5.5,\"-6e-3\"\n".to_owned()),
        ("spaces.csv", plain.replace(',', " , ")),
    ] {
        check_two_by_two(&folder.file(name, &text));
        check_two_by_two(&folder.file(&format!("{name}.gz"), gzip(text.as_bytes())));
    }
    // Several gzip members in a row, and an extension that says nothing.
    let (first, second) = plain.split_at(13);
    check_two_by_two(&folder.file("members", [gzip(first.as_bytes()), gzip(second.as_bytes())].concat()));
}

#[test]
fn delimiters_inside_quotes_do_not_count_when_guessing() {
    let (schema, _) = read("\"a;b;c;d\",y\n1,2\n", &options()).unwrap();
    assert_eq!(schema.features[0].name, "a;b;c;d");
    let (_, data) = read("1|2\n3|4\n", &ReadOptions { delimiter: Some(b'|'), ..options() }).unwrap();
    assert_eq!(data.x, [1.0, 3.0]);
}

#[test]
fn header_is_found_or_forced() {
    let (schema, data) = read("1,2\n3,4\n", &options()).unwrap();
    assert_eq!((schema.features[0].name.as_str(), schema.target.as_str()), ("c0", "c1"));
    assert_eq!((data.n, data.rows), (2, vec![1, 2]));
    let (schema, data) = read("1,2\n3,4\n", &ReadOptions { header: Header::Yes, ..options() }).unwrap();
    assert_eq!((schema.features[0].name.as_str(), data.n, data.rows), ("1", 1, vec![2]));
    refused("a,b\n3,4\n", &ReadOptions { header: Header::No, ..options() }, &["row 1, column `c0`", "`a`"]);
    // Numbers instead of names count as a header if they are asked for.
    let by_name = ReadOptions { target: Some("2020".into()), ..options() };
    assert_eq!(read("2010,2020\n3,4\n", &by_name).unwrap().1.y.unwrap(), [4.0]);
    // Only the used columns matter; missing cells and dates are data.
    let used = ReadOptions { features: Some(vec!["c1".into()]), ..options() };
    assert_eq!(read("id7,1,2\nid8,3,4\n", &used).unwrap().1.x, [1.0, 3.0]);
    let dated = ReadOptions { dates: true, missing: Missing::Drop, ..options() };
    assert_eq!(read("2020-01-01,1\nNA,2\n", &dated).unwrap().1.x, [2020.0]);
    // A name that a data frame leaves empty.
    assert_eq!(read(",a,y\n0,1,2\n", &options()).unwrap().1.feature_names, ["c0", "a"]);
}

#[test]
fn columns_are_chosen_by_name_in_the_order_given() {
    let chosen = ReadOptions { target: Some("a".into()), features: Some(vec!["d".into(), "b".into()]), ..options() };
    let (schema, data) = read("a,b,c,d\n1,2,text,4\n5,6,,8\n", &chosen).unwrap();
    assert_eq!((data.x, data.y.unwrap()), (vec![4.0, 2.0, 8.0, 6.0], vec![1.0, 5.0]));
    assert_eq!(schema.features.iter().map(|column| column.index).collect::<Vec<_>>(), [3, 1]);
    let chosen = ReadOptions { target: Some("a".into()), ..options() };
    assert_eq!(read("a,b,c\n1,2,3\n", &chosen).unwrap().1.feature_names, ["b", "c"]);
}

#[test]
fn row_numbers_are_line_numbers() {
    for newline in ["\n", "\r\n", "\r"] {
        let text = "a,b,y\n1,2,3\n\n4,5,6\n7,8,x\n".replace('\n', newline);
        refused(&text, &options(), &["row 5, column `y`", "`x`"]);
        let (_, data) = read(text.replace('x', "9"), &options()).unwrap();
        assert_eq!(data.rows, [2, 4, 5], "{newline:?}");
        let (_, data) = read("\"a\nlong name\",y\n1,2\n\n\n3,4\n".replace('\n', newline), &options()).unwrap();
        assert_eq!(data.rows, [3, 6], "{newline:?}");
    }
}

#[test]
fn structural_faults() {
    refused("", &options(), &["empty"]);
    refused("\n\n", &options(), &["empty"]);
    refused("a,b,c\n", &options(), &["header", "no row"]);
    refused("a\n1\n2\n", &options(), &["no feature", "`a`", "commas"]);
    refused("a,b\n1,2\n3,4,5\n", &options(), &["row 3", "3 cells", "2", "delimiter"]);
    refused("a,b\n1,2\n3\n", &options(), &["row 3", "1 cells"]);
    refused(b"a,b\n1,2\n3,\xe9t\xe9\n", &options(), &["row 3, column `b`", "UTF-8", "iconv"]);
    refused(b"a,\xe9\n1,2\n", &options(), &["row 1", "UTF-8"]);
    refused(b"\xff\xfea\0,\0b\0", &options(), &["UTF-16"]);
    refused(b"PK\x03\x04 and so on", &options(), &["spreadsheet", "CSV"]);
    refused(&gzip(b"a,b\n1,2\n")[..15], &options(), &["gzip", "cut short"]);
    refused("a,b,a\n1,2,3\n", &options(), &["columns 1 and 3", "`a`"]);
}

#[test]
fn a_gzip_file_cut_short_far_in_is_refused() {
    let long: String = (0..100_000).map(|i| format!("{i},{}\n", i * i)).collect();
    let zipped = gzip(long.as_bytes());
    assert!(matches!(
        read(&zipped[..zipped.len() - 1000], &options()),
        Err(Error::Io { path, .. }) if path.ends_with("t.csv")
    ));
}

#[test]
fn files_that_cannot_be_opened() {
    let folder = Folder::new();
    let message = |path: &Path| read_training(path, &options()).unwrap_err().to_string();
    assert!(message(folder.0.path()).contains("directory"));
    let missing = message(&folder.path("nowhere.csv"));
    assert!(missing.contains("nowhere.csv") && missing.contains("no such file"), "{missing}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let secret = folder.file("secret.csv", "a,b\n1,2\n");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
        // The superuser can read everything.
        if fs::File::open(&secret).is_err() {
            assert!(message(&secret).contains("no permission"));
        }
    }
}

#[test]
fn wrong_names() {
    let target = |name: &str| ReadOptions { target: Some(name.into()), ..options() };
    refused("age,weight,y\n1,2,3\n", &target("wieght"), &["no column `wieght`", "did you mean `weight`?"]);
    refused("age,weight,y\n1,2,3\n", &target("Age"), &["did you mean `age`?"]);
    refused("age,weight,y\n1,2,3\n", &target("zzz"), &["the columns are `age`, `weight`, `y`"]);
    refused("1,2\n3,4\n", &target("price"), &["no header"]);
    let features = |names: &[&str]| ReadOptions {
        features: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..options()
    };
    refused("a,b,y\n1,2,3\n", &features(&["a", "y"]), &["`y` is the target", "last column", "ReadOptions::target"]);
    refused("a,b,y\n1,2,3\n", &features(&["a", "a"]), &["`a` is listed twice"]);
    refused("a,b,y\n1,2,3\n", &features(&[]), &["no feature"]);
    let explicit = ReadOptions { target: Some("a".into()), ..features(&["a"]) };
    refused("a,b,y\n1,2,3\n", &explicit, &["`a` is the target and also listed as a feature"]);
    // Only used columns need unique names.
    let unique = ReadOptions { target: Some("y".into()), ..features(&["b"]) };
    assert!(read("a,a,b,y\n1,2,3,4\n", &unique).is_ok());
}

#[test]
fn missing_cells() {
    for spelling in ["", "NA", "nan", "NaN", "inf", "-Inf", "null", "NULL", "?", " ", "N/A", "none"] {
        let text = format!("a,y\n1,2\n{spelling},4\n5,6\n7,8\n");
        refused(&text, &options(), &["row 3, column `a`", "missing", "ReadOptions::missing = drop"]);
        let dropping = ReadOptions { missing: Missing::Drop, ..options() };
        let (_, data) = read(&text, &dropping).unwrap();
        assert_eq!((data.n, data.dropped), (3, 1), "{spelling}");
        assert_eq!((data.x, data.rows, data.records), (vec![1.0, 5.0, 7.0], vec![2, 4, 5], vec![0, 2, 3]));
        let (_, data) = read(text.replace("1,2", &format!("1,{spelling}")), &dropping).unwrap();
        assert_eq!((data.x, data.dropped), (vec![5.0, 7.0], 2));
        let told = data.notes.warnings[0].to_string();
        assert_eq!(told, "2 of 4 rows with missing cells left out: `a` in 1, `y` in 1");
    }
    let dropping = ReadOptions { missing: Missing::Drop, ..options() };
    refused("a,y\n,1\n2,\n", &dropping, &["all 2 rows", "`a` in 1", "ReadOptions::drop = a", "missing = indicate"]);
    let gaps = "a,b,y\n,1,1\n,,2\n3,3,3\n,4,4\n5,5,5\n";
    refused(gaps, &dropping, &["3 of 5 rows", "`a` in 3, `b` in 1", "ReadOptions::drop = a"]);
}

#[test]
fn cells_that_are_no_usable_numbers() {
    refused("a,y\n1,2\n1e300,4\n", &options(), &["row 3, column `a`", "`1e300`", "rescale"]);
    refused("a,y\n1,-1e151\n", &options(), &["column `y`", "rescale"]);
    refused("a,y\n1,1e999\n", &options(), &["column `y`", "rescale"]);
    assert!(read("a,y\n1,1e150\n", &options()).is_ok());
    refused(
        "a,y\nred,2\n",
        &options(),
        &["row 2, column `a`", "`red`", "ReadOptions::one_hot", "ReadOptions::drop = a"],
    );
    refused("a,y\n2020-02-03,2\n", &options(), &["`2020-02-03` is a date", "ReadOptions::dates"]);
    refused("a,y\n1,good\n", &options(), &["column `y`", "`good`", "0, 1"]);
    refused("a,y\n1,2\n1.2.3,4\n", &options(), &["row 3", "`1.2.3`", "unlike other cells"]);
    refused("a;y\n1,5;2\n", &options(), &["`1,5`", "decimal comma"]);
    let long = "x".repeat(1000);
    let message = read(format!("a,y\n{long},2\n"), &options()).unwrap_err().to_string();
    assert!(message.len() < 300 && message.contains('…'), "{message}");
}

#[test]
fn categories_become_indicators() {
    let one_hot = ReadOptions { one_hot: true, ..options() };
    let text = "size,colour,y\n1,red,1\n2,blue,2\n3,red,3\n4,12,4\n";
    let (schema, data) = read(text, &one_hot).unwrap();
    assert_eq!(data.feature_names, ["size", "colour=12", "colour=blue", "colour=red"]);
    assert_eq!(data.row(0), [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(data.row(1), [2.0, 0.0, 1.0, 0.0]);
    assert_eq!(data.row(3), [4.0, 1.0, 0.0, 0.0]);
    assert_eq!((data.d, schema.d()), (4, 4));
    let categories = ["12", "blue", "red"].map(str::to_owned).to_vec();
    assert_eq!(schema.features[1].encoding, Encoding::OneHot(categories));

    let folder = Folder::new();
    let again = read_with_schema(folder.file("p.csv", text), &schema, &options(), true).unwrap();
    assert_eq!(again, Dataset { notes: again.notes.clone(), ..data });
    let unseen = folder.file("u.csv", "size,colour\n1,red\n1,green\n");
    let message = read_with_schema(unseen, &schema, &options(), false).unwrap_err().to_string();
    for part in ["u.csv: row 3, column `colour`", "`green`", "12, blue, red"] {
        assert!(message.contains(part), "{message}");
    }

    refused("a,y\nred,1\n?,2\n", &one_hot, &["row 3", "missing"]);
    refused("a,y\n2020-01-01,1\n", &one_hot, &["ReadOptions::dates"]);
    // A dropped row leaves no category behind.
    let dropping = ReadOptions { missing: Missing::Drop, ..one_hot.clone() };
    assert_eq!(read("a,b,y\nred,,1\nblue,2,2\n", &dropping).unwrap().1.feature_names, ["a=blue", "b"]);
    // A single category is one constant feature.
    assert_eq!(read("a,y\nred,1\nred,2\n", &one_hot).unwrap().1.x, [1.0, 1.0]);
    let codes = ReadOptions { categorical: vec!["zip".into()], ..options() };
    assert_eq!(read("zip,y\n0101,1\n101,2\n", &codes).unwrap().1.feature_names, ["zip=0101", "zip=101"]);

    let many = |count: usize| {
        let rows: String = (0..count).map(|i| format!("id{i},{i}\n")).collect();
        format!("a,y\n{rows}")
    };
    assert_eq!(read(many(1000), &one_hot).unwrap().1.d, 1000);
    refused(many(1001), &one_hot, &["row 1002, column `a`", "1000", "identifiers"]);
}

#[test]
fn dates_become_decimal_years() {
    let dates = ReadOptions { dates: true, ..options() };
    let text = "day,y\n2023-01-01,1\n2023-07-02T12:00:00,1\n2024-07-02,1\n2024-12-31 18:00,1\n1999-12-31T23:59:59.5,1\n\
                2024-01-01T01:00:00+01:00,1\n2024-07-02T00:00:00Z,1\n1900-03-01,1\n2000-03-01,1\n";
    let (schema, data) = read(text, &dates).unwrap();
    assert_eq!(schema.features[0].encoding, Encoding::Date);
    // Days since the first of January 2000.
    let expected = [8401.0, 8583.5, 8949.0, 9131.75, -0.5 / 86_400.0, 8766.0, 8949.0, -36_465.0, 60.0]
        .map(|d| 2000.0 + d / 365.25);
    for (got, expected) in data.x.iter().zip(expected) {
        assert!((got - expected).abs() < 1e-9, "{got} {expected}");
    }
    refused("day,y\n2023-01-01,1\n2023-02-30,1\n", &dates, &["row 3", "`2023-02-30`", "is not a date"]);
    refused("day,y\n2023-01-01,1\nNA,1\n", &dates, &["row 3", "missing"]);
}

#[test]
fn prediction_files_are_matched_by_name() {
    let (schema, _) = read("a,b,y\n1,2,3\n4,5,6\n", &options()).unwrap();
    let folder = Folder::new();
    let get = |text: &str, target| read_with_schema(folder.file("p.csv", text), &schema, &options(), target);
    let data = get("extra,b,y,a\nhello,2,3,1\n", true).unwrap();
    assert_eq!((data.x, data.y), (vec![1.0, 2.0], Some(vec![3.0])));
    let data = get("b,a\n2,1\n", false).unwrap();
    assert_eq!((data.x, data.y), (vec![1.0, 2.0], None));
    // An incomplete target is not a target, unless it is needed.
    assert_eq!(get("a,b,y\n1,2,3\n4,5,\n", false).unwrap().y, None);
    assert_eq!(get("a,b,y\n1,2,3\n4,5,6\n", false).unwrap().y, Some(vec![3.0, 6.0]));
    let message = |text: &str, target| get(text, target).unwrap_err().to_string();
    assert!(message("a,b,y\n1,2,3\n4,5,\n", true).contains("row 3, column `y`"));
    assert!(message("a,B\n1,2\n", false).contains("no column `b`; did you mean `B`?"));
    assert!(message("a,b\n1,2\n", true).contains("no column `y`"));
    // Without a header: as wide as the training file, or only the features.
    assert_eq!(get("1,2,3\n", true).unwrap().y, Some(vec![3.0]));
    assert_eq!(get("1,2\n", false).unwrap().x, [1.0, 2.0]);
    let narrow = message("1,2\n", true);
    assert!(narrow.contains("2 columns and no header") && narrow.contains("3 columns"), "{narrow}");
    assert!(message("1,2,3,4\n", false).contains("or the 2 features only"));
    assert!(message("a,b\n", false).contains("no row"));
}

#[test]
fn schema_survives_serialisation() {
    let encoded = ReadOptions { one_hot: true, dates: true, ..options() };
    let (schema, _) = read("d,c,n,y\n2020-01-01,é,1,2\n2021-01-01,b,1,2\n", &encoded).unwrap();
    let json = serde_json::to_string(&schema).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
}

#[test]
fn numpy_arrays() {
    let folder = Folder::new();
    let npy = |name: &str, descr: &str, fortran: bool, shape: &str, data: &[u8]| {
        let order = if fortran { "True" } else { "False" };
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        while (header.len() + 11) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        folder.file(name, bytes)
    };
    let doubles = |values: &[f64]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
    let check = |path: PathBuf| {
        let (schema, data) = read_training(path, &options()).unwrap();
        assert_eq!((data.x, data.y.unwrap()), (vec![1.0, 2.0, 4.0, 5.0], vec![3.0, 6.0]));
        assert_eq!((schema.target.as_str(), data.rows), ("c2", vec![1, 2]));
    };
    let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let columns = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
    check(npy("c.npy", "<f8", false, "(2, 3)", &doubles(&rows)));
    check(npy("f.npy", "<f8", true, "(2, 3)", &doubles(&columns)));
    let big: Vec<u8> = rows.iter().flat_map(|x| x.to_be_bytes()).collect();
    check(npy("big.npy", ">f8", false, "(2, 3)", &big));
    let singles: Vec<u8> = rows.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    check(npy("f4.npy", "<f4", false, "(2, 3)", &singles));
    let longs: Vec<u8> = rows.iter().flat_map(|x| (*x as i64).to_le_bytes()).collect();
    check(npy("i8.npy", "<i8", false, "(2, 3)", &longs));
    check(npy("u1.npy", "|u1", false, "(2, 3)", &[1, 2, 3, 4, 5, 6]));
    let plain = fs::read(npy("c.npy", "<f8", false, "(2, 3)", &doubles(&rows))).unwrap();
    check(folder.file("c.npy.gz", gzip(&plain)));

    // An array with one dimension is one feature without a target.
    let (schema, _) = read("x,y\n1,2\n", &options()).unwrap();
    let line = npy("line.npy", "<f8", false, "(3,)", &doubles(&[7.0, 8.0, 9.0]));
    assert_eq!(read_with_schema(&line, &schema, &options(), false).unwrap().x, [7.0, 8.0, 9.0]);

    let message = |path: PathBuf| read_training(path, &options()).unwrap_err().to_string();
    assert!(message(line).contains("no feature"));
    assert!(message(npy("nan.npy", "<f8", false, "(1, 2)", &doubles(&[f64::NAN, 1.0]))).contains("row 1, column `c0`"));
    assert!(message(npy("cube.npy", "<f8", false, "(1, 1, 1)", &doubles(&[1.0]))).contains("two dimensions"));
    assert!(message(npy("short.npy", "<f8", false, "(2, 3)", &doubles(&rows[..5]))).contains("cut short"));
    assert!(message(npy("huge.npy", "<f8", false, "(999999999999, 9)", &doubles(&rows))).contains("cut short"));
    assert!(message(npy("text.npy", "<U3", false, "(2,)", &[0; 24])).contains("float64"));
    assert!(message(npy("none.npy", "<f8", false, "(0, 999999999999)", &[])).contains("empty"));
    let overflow = npy("overflow.npy", "<f8", false, "(9999999999999, 9999999999999)", &[]);
    assert!(message(overflow).contains("damaged NPY header"));
    assert!(message(folder.file("bad.npy", b"\x93NUMPY\x01")).contains("NPY header"));
    // A parser of nested brackets once needed a minute for these.
    for open in ["{", "[", "(", "{'}':", "[']',"] {
        let header = format!("{:127}\n", open.repeat(16));
        let bytes = [b"\x93NUMPY\x01\x00\x80\x00", header.as_bytes(), &[0; 64]].concat();
        assert!(message(folder.file("nested.npy", bytes)).contains("brackets"), "{open}");
    }
    assert!(message(folder.file("long.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f")).contains("more than 10000"));
}

#[test]
fn standard_input() {
    const CHILD: &str = "CAGEY_TEST_STANDARD_INPUT";
    if std::env::var_os(CHILD).is_some() {
        let (_, data) = read_training("-", &options()).unwrap();
        assert_eq!((data.x, data.y.unwrap()), (vec![1.0, 3.0], vec![2.0, 4.0]));
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "standard_input"])
        .env(CHILD, "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&gzip(b"a\ty\n1\t2\n3\t4\n")).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn kept_columns_are_written_with_predictions() {
    let keep = ReadOptions { keep: true, features: Some(vec!["a".into()]), ..options() };
    let (_, data) = read("id,a,y\n\"x, 1\",1.50,2\nz,3,4\n", &keep).unwrap();
    let kept = data.columns.as_ref().unwrap();
    assert_eq!(kept.names, ["id", "a", "y"]);
    assert_eq!(kept.row(0).collect::<Vec<_>>(), ["x, 1", "1.50", "2"]);

    let folder = Folder::new();
    let out = folder.path("out.csv");
    write_predictions(&out, Some(kept), &[("mean", &[0.1, 1e-300]), ("sd", &[2.0, 1e20])]).unwrap();
    let written = fs::read_to_string(&out).unwrap();
    assert_eq!(written, "id,a,y,mean,sd\n\"x, 1\",1.50,2,0.1,2.0\nz,3,4,1e-300,1e20\n");
    let one = data.subset(&[1]);
    write_predictions(&out, one.columns.as_ref(), &[("mean", &[5.0])]).unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), "id,a,y,mean\nz,3,4,5.0\n");
    assert!(matches!(
        write_predictions(&out, None, &[("mean", &[5.0]), ("sd", &[])]),
        Err(Error::Shape { what, .. }) if what.contains("sd")
    ));
    assert_eq!(folder.names(), ["out.csv"]);
}

#[test]
fn a_failed_write_changes_nothing() {
    let folder = Folder::new();
    let path = folder.file("model", "old");
    let full = atomic_write(&path, |file| {
        file.write_all(&[b'x'; 200_000])?;
        Err(std::io::ErrorKind::StorageFull.into())
    });
    let message = full.unwrap_err().to_string();
    assert!(message.contains("model") && message.contains("disk is full"), "{message}");
    assert_eq!((fs::read_to_string(&path).unwrap(), folder.names()), ("old".to_owned(), vec!["model".to_owned()]));
    atomic_write(&path, |file| file.write_all(b"new")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");

    let message = |path: PathBuf| atomic_write(path, |file| file.write_all(b"x")).unwrap_err().to_string();
    assert!(message(folder.path("absent/file")).contains("folder does not exist"));
    assert!(message(folder.0.path().to_owned()).contains("directory"));
    #[cfg(target_os = "linux")]
    assert!(message("/dev/full".into()).contains("disk is full"));
}

#[cfg(unix)]
#[test]
fn written_files_keep_links_and_modes() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let plain = folder.file("plain", "");
    let usual = fs::metadata(&plain).unwrap().permissions().mode();
    let fresh = folder.path("fresh");
    atomic_write(&fresh, |file| file.write_all(b"x")).unwrap();
    assert_eq!(fs::metadata(&fresh).unwrap().permissions().mode(), usual);
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path("link");
    symlink(&plain, &link).unwrap();
    atomic_write(&link, |file| file.write_all(b"through")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&plain).unwrap(), "through");
    assert_eq!(fs::metadata(&plain).unwrap().permissions().mode() & 0o777, 0o640);
}

#[cfg(unix)]
#[test]
fn links_to_nothing_are_followed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    fs::create_dir(folder.path("models")).unwrap();
    let link = folder.path("link");
    symlink("next", &link).unwrap();
    symlink("models/new", folder.path("next")).unwrap();
    atomic_write(&link, |file| file.write_all(b"through")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(folder.path("models/new")).unwrap(), "through");
    symlink("nowhere/new", folder.path("lost")).unwrap();
    let problem = atomic_write(folder.path("lost"), |file| file.write_all(b"x")).unwrap_err().to_string();
    assert!(problem.contains("lost") && problem.contains("folder does not exist"), "{problem}");
    symlink("round", folder.path("round")).unwrap();
    let problem = atomic_write(folder.path("round"), |file| file.write_all(b"x")).unwrap_err().to_string();
    assert!(problem.contains("round") && problem.contains("lead to each other"), "{problem}");
}

#[test]
fn wide_tables_take_time_in_proportion() {
    const WIDE: usize = 70_000;
    let folder = Folder::new();
    let line = |cell: &dyn Fn(usize) -> String| (0..WIDE).map(cell).collect::<Vec<_>>().join(",") + "\n";
    let text = line(&|i| format!("column {i}")) + &line(&|i| i.to_string()) + &line(&|i| (i + 1).to_string());
    let table = folder.file("t.csv", text);
    let start = Instant::now();
    let every = ReadOptions { features: Some((0..WIDE - 1).map(|i| format!("column {i}")).collect()), ..options() };
    let (schema, data) = read_training(&table, &every).unwrap();
    assert_eq!((data.n, data.d), (2, WIDE - 1));
    assert_eq!(read_training(&table, &options()).unwrap().1, data);
    assert_eq!(read_with_schema(&table, &schema, &options(), true).unwrap(), data);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn rows_without_an_end_are_refused_by_name() {
    let folder = Folder::new();
    let endless = |start: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(start.as_bytes()).unwrap();
        (0..70).for_each(|_| encoder.write_all(&[b'7'; 1 << 20]).unwrap());
        let table = folder.file("t.csv.gz", encoder.finish().unwrap());
        read_training(table, &options()).unwrap_err().to_string()
    };
    let problem = endless("a,b,y\n1,2,3\n\n4,\"5,5\",");
    assert!(problem.contains("row 4, column `y`") && problem.contains("64 MiB"), "{problem}");
    let problem = endless("a,b,y\n1,2,3\n4,\"5\n6");
    assert!(problem.contains("row 3:") && problem.contains("quote that is not closed"), "{problem}");
    let problem = endless("a,");
    assert!(problem.contains("row 1, cell 2") && problem.contains("64 MiB"), "{problem}");
}

#[test]
fn splits_by_seed_order_and_folds() {
    let split = Split::random(10, 0.3, 1).unwrap();
    // These rows are part of the interface: results in papers name seeds.
    assert_eq!(split.test, [4, 8, 9]);
    assert_eq!(Split::last(10, 0.25).unwrap().test, [7, 8, 9]);
    assert_eq!(Split::last(10, 0.25).unwrap().train, [0, 1, 2, 3, 4, 5, 6]);
    for bad in [0.0, 1.0, -0.5, f64::NAN, 0.01] {
        assert!(matches!(Split::random(10, bad, 1), Err(Error::Usage(_))), "{bad}");
        assert!(matches!(Split::last(10, bad), Err(Error::Usage(_))), "{bad}");
    }
    for bad in [0, 1, 11] {
        assert!(matches!(Split::folds(10, bad, 1), Err(Error::Usage(_))), "{bad}");
    }
}

proptest! {
    #[test]
    fn splits_partition_the_rows(n in 2..200_usize, k in 2..20_usize, fraction in 0.0..1.0_f64, seed: u64) {
        if let Ok(split) = Split::random(n, fraction, seed) {
            prop_assert_eq!(&split, &Split::random(n, fraction, seed).unwrap());
            prop_assert!((split.test.len() as f64 - fraction * n as f64).abs() <= 0.5);
            let mut all = [split.train, split.test].concat();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..n));
        }
        if k <= n {
            let folds = Split::folds(n, k, seed).unwrap();
            let mut tested: Vec<usize> = folds.iter().flat_map(|fold| fold.test.clone()).collect();
            tested.sort_unstable();
            prop_assert!(tested.into_iter().eq(0..n));
            for fold in folds {
                prop_assert!(fold.test.len().abs_diff(n / k) <= 1);
                prop_assert_eq!(fold.train.len() + fold.test.len(), n);
                prop_assert!(fold.train.iter().all(|row| !fold.test.contains(row)));
            }
        }
    }

    #[test]
    fn reader_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), one_hot: bool) {
        let _ = read(bytes, &ReadOptions { one_hot, dates: true, missing: Missing::Drop, keep: true, ..options() });
    }

    #[test]
    fn reader_survives_any_cells(text in "([0-9a-z\",;.\t-]{0,6}[,\n\r]){0,30}", one_hot: bool) {
        let _ = read(text, &ReadOptions { one_hot, dates: true, missing: Missing::Drop, keep: true, ..options() });
    }

    #[test]
    fn numbers_written_read_back_exactly(
        values in proptest::collection::vec(-1e150..1e150_f64, 1..20),
        power in -300..0_i32,
    ) {
        let values: Vec<f64> = values.iter().map(|x| x * 10_f64.powi(power)).collect();
        let folder = Folder::new();
        let path = folder.path("v.csv");
        write_predictions(&path, None, &[("a", &values), ("y", &values)]).unwrap();
        let (_, data) = read_training(&path, &options()).unwrap();
        prop_assert_eq!(data.x, values);
    }

    #[test]
    fn input_scale_standardises_and_inverts(
        x in proptest::collection::vec(-10.0..10.0_f64, 4..40),
        offset in prop_oneof![Just(0.0), Just(1e9), Just(-1e12)],
    ) {
        let rows = x.len() / 2;
        let x: Vec<f64> = x[..2 * rows].iter().map(|x| x + offset).collect();
        let scale = InputScale::fit(&x, 2).unwrap();
        let z = scale.apply(&x).unwrap();
        for column in 0..2 {
            let z: Vec<f64> = z.iter().skip(column).step_by(2).copied().collect();
            let mean = z.iter().sum::<f64>() / rows as f64;
            let variance = z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / rows as f64;
            // The computed mean is near the offset, and is rounded like a number of that size.
            let rounding = 4.0 * f64::EPSILON * offset.abs() / scale.sd[column] + 1e-12;
            prop_assert!(mean.abs() < rounding && (variance - 1.0).abs() < 1e-9, "{} {}", mean, variance);
        }
        for (back, x) in scale.invert(&z).unwrap().iter().zip(&x) {
            prop_assert!((back - x).abs() <= 1e-14 * (10.0 + offset.abs()));
        }
    }

    #[test]
    fn target_scale_inverts_and_has_the_slope_it_says(
        y in proptest::collection::vec(0.01..50.0_f64, 2..20),
        kind in prop_oneof![Just(TargetTransform::Identity), Just(TargetTransform::Log), Just(TargetTransform::Log1p)],
    ) {
        let at = |y: &[f64]| targets(y.to_vec());
        let scale = TargetScale::fit(kind, &at(&y)).unwrap();
        let z = scale.forward(&at(&y)).unwrap();
        prop_assert!((z.iter().sum::<f64>() / z.len() as f64).abs() < 1e-9);
        for (&z, &y) in z.iter().zip(&y) {
            prop_assert!((scale.inverse(z) - y).abs() < 1e-10 * (1.0 + y));
            let h = 1e-5 * y;
            let step = scale.forward(&at(&[y - h, y + h])).unwrap();
            let slope = (step[1] - step[0]) / (2.0 * h);
            prop_assert!((slope.ln() - scale.log_jacobian(y)).abs() < 1e-6);
            // The normal density of z, transformed to y, is the density of the predictive distribution there.
            let own = Predictive::Normal { mean: 0.3, sd: 0.7 }.log_density(z) + scale.log_jacobian(y);
            prop_assert!((own - scale.predictive(0.3, 0.7).log_density(y)).abs() < 1e-9);
        }
    }
}

fn targets(y: Vec<f64>) -> Dataset {
    Dataset {
        n: y.len(),
        rows: (2..y.len() + 2).collect(),
        target_name: "rain".into(),
        y: Some(y),
        ..Dataset::default()
    }
}

#[test]
fn constant_columns_are_only_shifted() {
    let scale = InputScale::fit(&[0.1, 1.0, 0.1, 2.0, 0.1, 3.0], 2).unwrap();
    assert_eq!((scale.mean[0], scale.sd[0], scale.mean[1]), (0.1, 1.0, 2.0));
    // A constant target has the scale of its size.
    for (transform, value, sd) in [
        (TargetTransform::Identity, -5.0, 5.0),
        (TargetTransform::Identity, 0.0, 1.0),
        (TargetTransform::Log, 5.0, 1.0),
    ] {
        assert_eq!(TargetScale::fit(transform, &targets(vec![value; 3])).unwrap().sd, sd);
    }
    assert!(matches!(InputScale::fit(&[], 2), Err(Error::Shape { .. })));
    assert!(matches!(InputScale::fit(&[1.0; 3], 2), Err(Error::Shape { .. })));
    assert!(matches!(scale.apply(&[1.0; 3]), Err(Error::Shape { .. })));
    assert_eq!(InputScale::identity(2).apply(&[3.0, 4.0]).unwrap(), [3.0, 4.0]);
}

#[test]
fn targets_outside_the_domain_are_named() {
    let message = |kind, y| TargetScale::fit(kind, &targets(y)).unwrap_err().to_string();
    for (targets, logarithm) in [
        (vec![0.5, 2.0], Some(TargetTransform::Log)),
        (vec![3.0, 0.0], Some(TargetTransform::Log1p)),
        // Classes, negative values, and no values.
        (vec![0.0, 1.0], None),
        (vec![-0.1, 2.0], None),
        (vec![], None),
    ] {
        assert_eq!(TargetTransform::logarithm(&targets), logarithm, "{targets:?}");
    }
    let log = message(TargetTransform::Log, vec![1.0, 0.0]);
    assert!(log.contains("row 3") && log.contains("`rain`") && log.contains("above 0"), "{log}");
    let log1p = message(TargetTransform::Log1p, vec![-1.5]);
    assert!(log1p.contains("row 2") && log1p.contains("-1.5") && log1p.contains("above -1"), "{log1p}");
    assert!(TargetScale::fit(TargetTransform::Log1p, &targets(vec![0.0, 3.0])).is_ok());
    let without = Dataset { y: None, ..targets(vec![]) };
    assert!(matches!(TargetScale::fit(TargetTransform::Log, &without), Err(Error::Data(_))));
}

#[test]
fn splits_by_mask_file() {
    let folder = Folder::new();
    let (_, data) = read("a,y\n1,2\n3,4\n5,6\n", &options()).unwrap();
    let split = |text: &[u8], column| Split::from_mask_file(folder.file("m.csv", text), column, &data);
    let expected = Split { train: vec![0, 2], test: vec![1] };
    assert_eq!(split(b"0\n1\n0\n", None).unwrap(), expected);
    assert_eq!(split(b"test\n0\n1\n0\n", None).unwrap(), expected);
    assert_eq!(split(&gzip(b"s0,s1\n1,0\n1,1\n1,0\n"), Some("s1")).unwrap(), expected);
    assert_eq!(split(b"s0,s1\n1,0\n1,1\n1,0\n", Some("1")).unwrap(), expected);
    assert_eq!(split(b"1,0\n1,1\n1,0\n", Some("1")).unwrap(), expected);
    let message = |text: &[u8], column| split(text, column).unwrap_err().to_string();
    assert!(message(b"s0,s1\n1,0\n", None).contains("choose one of `s0`, `s1`"));
    assert!(message(b"s0,s1\n1,0\n", Some("s9")).contains("no column `s9`"));
    assert!(message(b"0\n1\n", None).contains("2 rows but the data have 3"));
    assert!(message(b"0\n1\n2\n", None).contains("row 3, column `c0`: `2` is not a mark"));
    assert!(message(b"0\n0\n0\n", None).contains("0 of 3"));

    let dropping = ReadOptions { missing: Missing::Drop, ..options() };
    let (_, gaps) = read("a,y\n1,2\n,9\n3,4\n5,6\n", &dropping).unwrap();
    let mask = folder.file("m.csv", "0\n1\n1\n0\n");
    assert_eq!(Split::from_mask_file(mask, None, &gaps).unwrap(), expected);
    assert_eq!(gaps.subset(&expected.test).x, [3.0]);
}

#[cfg(feature = "parquet")]
#[test]
fn a_panic_of_the_parquet_crate_is_an_error() {
    let folder = Folder::new();
    let path = folder.path("t.parquet");
    // The offset of a column is not in the file.
    fs::write(&path, include_bytes!("common/damaged.parquet")).unwrap();
    let said = read_training(&path, &options()).unwrap_err().to_string();
    assert!(said.contains("t.parquet") && said.contains("damaged Parquet"), "{said}");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files() {
    use parquet::data_type::{BoolType, ByteArrayType, DoubleType, Int32Type, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    let message = "message m {
        required double a; optional int64 b; required binary colour (STRING); required int32 day (DATE);
        required int64 at (TIMESTAMP(MILLIS, true)); required int64 exactly (TIMESTAMP(NANOS, true));
        required boolean flag; required double y; }";
    let schema = parquet::schema::parser::parse_message_type(message).unwrap();
    let folder = Folder::new();
    let path = folder.path("t.parquet");
    let file = fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema.into(), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    macro_rules! column {
        ($kind:ty, $values:expr, $levels:expr) => {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<$kind>().write_batch($values, $levels, None).unwrap();
            column.close().unwrap();
        };
    }
    column!(DoubleType, &[1.5, 2.5, 3.5], None);
    column!(Int64Type, &[7, 9], Some(&[1, 0, 1]));
    column!(ByteArrayType, &["red".into(), "blue".into(), "red".into()], None);
    // A date that no calendar has is in a row that is left out.
    column!(Int32Type, &[0, i32::MAX, 18_262], None);
    column!(Int64Type, &[0, i64::MAX, 1_593_561_600_000], None);
    column!(Int64Type, &[0, 1, 1_593_561_600_000_000_000], None);
    column!(BoolType, &[true, false, false], None);
    column!(DoubleType, &[-1.0, -2.0, -3.0], None);
    group.close().unwrap();
    writer.close().unwrap();

    let encoded = ReadOptions { one_hot: true, dates: true, missing: Missing::Drop, keep: true, ..options() };
    let (_, data) = read_training(&path, &encoded).unwrap();
    assert_eq!(data.feature_names, ["a", "b", "colour=red", "day", "at", "exactly", "flag"]);
    // Years of 365.25 days from the first day of 2000 on.
    let [first, last] = [-10_957.0, 7_305.0].map(|days: f64| 2000.0 + days / 365.25);
    let july = 2000.0 + 7_487.0 / 365.25;
    assert_eq!((data.row(0), data.dropped), ([1.5, 7.0, 1.0, first, first, first, 1.0].as_slice(), 1));
    assert_eq!(data.row(1), [3.5, 9.0, 1.0, last, july, july, 0.0]);
    assert_eq!((data.y.clone().unwrap(), data.rows), (vec![-1.0, -3.0], vec![1, 3]));
    let message = read_training(&path, &options()).unwrap_err().to_string();
    assert!(message.contains("row 1, column `colour`: `red`"), "{message}");
    let two = ReadOptions { features: Some(vec!["b".into()]), ..options() };
    assert!(read_training(&path, &two).unwrap_err().to_string().contains("row 2, column `b`"));
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_needs_the_feature() {
    refused(b"PAR1....PAR1", &options(), &["Parquet", "--features parquet"]);
}

mod classes {
    use cagey::data::{Classes, TargetKind};

    use super::*;

    fn labelled() -> ReadOptions {
        ReadOptions { target_kind: TargetKind::Classes, ..options() }
    }

    #[test]
    fn labels_become_codes_in_their_order() {
        let (schema, data) = read("x,y\n1,versicolor\n2,setosa\n3,versicolor\n", &labelled()).unwrap();
        let classes = schema.classes.unwrap();
        assert_eq!(classes.labels(), ["setosa", "versicolor"]);
        assert_eq!(data.y.unwrap(), [1.0, 0.0, 1.0]);
        assert_eq!(classes.label(1), Some("versicolor"));
        assert_eq!(classes.code("setosa").unwrap(), 0);
        assert!(classes.code("setos").unwrap_err().to_string().contains("did you mean `setosa`?"));
    }

    #[test]
    fn numbers_are_labels_in_their_own_order() {
        let (schema, data) = read("x,y\n1,10\n2,9.0\n3,-1\n4,9\n", &labelled()).unwrap();
        assert_eq!(schema.classes.unwrap().labels(), ["-1", "9", "10"]);
        assert_eq!(data.y.unwrap(), [2.0, 1.0, 0.0, 1.0]);
        assert_eq!(Classes::new(["007".into(), "7".into()]).len(), 2);
    }

    #[test]
    fn the_first_cell_decides_on_request() {
        let auto = ReadOptions { target_kind: TargetKind::Auto, ..options() };
        let (schema, data) = read("x,y\n1,b\n2,a\n", &auto).unwrap();
        assert_eq!((schema.classes.unwrap().len(), data.y.unwrap()), (2, vec![1.0, 0.0]));
        let (schema, data) = read("x,y\n1,3.5\n2,1\n", &auto).unwrap();
        assert_eq!((schema.classes, data.y.unwrap()), (None, vec![3.5, 1.0]));
        refused("x,y\n1,3.5\n2,a\n", &auto, &["row 3", "`a` is not a number", "say that the target holds classes"]);
        refused("x,y\n1,b\n2,a\n", &options(), &["the target must be a number"]);
        refused("x,y\n1,b\n2,\n", &auto, &["missing value"]);
    }

    #[test]
    fn a_label_makes_no_header() {
        let (schema, data) = read("5.1,3.5,setosa\n4.9,3.0,virginica\n", &labelled()).unwrap();
        assert_eq!((data.n, schema.target.as_str()), (2, "c2"));
        let folder = Folder::new();
        let bare = folder.file("bare.csv", "4.9,3.0,virginica\n");
        let later = read_with_schema(bare, &schema, &options(), true).unwrap();
        assert_eq!(later.y.unwrap(), [1.0]);
    }

    #[test]
    fn a_label_above_numbers_makes_one() {
        let auto = ReadOptions { target_kind: TargetKind::Auto, ..options() };
        let (schema, data) = read("0,1,2,target\n5,6,7,0.5\n8,9,10,1.5\n", &auto).unwrap();
        assert_eq!((data.n, schema.target.as_str(), data.y), (2, "target", Some(vec![0.5, 1.5])));
        let (schema, data) = read("0,target\n5,1\n8,2\n", &auto).unwrap();
        assert_eq!((data.n, schema.target.as_str(), schema.classes), (2, "target", None));
        // Above labels, numbers are a header only if the other cells count the columns.
        let (schema, data) = read("0,1,2,kind\n5,6,7,a\n8,9,10,b\n", &auto).unwrap();
        assert_eq!((data.n, schema.target.as_str()), (2, "kind"));
        let (schema, data) = read("0,1,a\n5,6,b\n", &auto).unwrap();
        assert_eq!((data.n, schema.target.as_str()), (2, "c2"));
        assert_eq!(data.rows, [1, 2]);
    }

    #[test]
    fn later_files_have_the_same_classes() {
        let (schema, _) = read("x,y\n1,b\n2,a\n3,c\n", &labelled()).unwrap();
        let text = serde_json::to_string(&schema).unwrap();
        let schema: Schema = serde_json::from_str(&text).unwrap();
        let folder = Folder::new();
        let data = read_with_schema(folder.file("l.csv", "x,y\n1,c\n2,c\n"), &schema, &options(), true).unwrap();
        assert_eq!(data.y.unwrap(), [2.0, 2.0]);
        let unseen = folder.file("u.csv", "x,y\n1,c\n2,d\n");
        let message = read_with_schema(&unseen, &schema, &options(), true).unwrap_err().to_string();
        assert!(message.contains("row 3") && message.contains("not trained with; known are a, b, c"), "{message}");
        assert_eq!(read_with_schema(&unseen, &schema, &options(), false).unwrap().y, None);
        let without = folder.file("w.csv", "x\n1\n");
        assert_eq!(read_with_schema(without, &schema, &options(), false).unwrap().y, None);
    }

    #[test]
    fn schemas_without_classes_read_as_before() {
        let (schema, _) = read("x,y\n1,2\n", &options()).unwrap();
        let text = serde_json::to_string(&schema).unwrap();
        assert!(!text.contains("classes"), "{text}");
        assert_eq!(serde_json::from_str::<Schema>(&text).unwrap(), schema);
    }
}

mod idx {
    use cagey::data::TargetKind;

    use super::*;

    fn idx(kind: u8, shape: &[u32], data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, kind, shape.len() as u8];
        shape.iter().for_each(|extent| bytes.extend(extent.to_be_bytes()));
        bytes.extend(data);
        bytes
    }

    #[test]
    fn images_find_their_labels() {
        let folder = Folder::new();
        let pixels: Vec<u8> = (0..12).map(|i| i * 20).collect();
        let images = folder.file("train-images-idx3-ubyte.gz", gzip(&idx(8, &[3, 2, 2], &pixels)));
        folder.file("train-labels-idx1-ubyte.gz", gzip(&idx(8, &[3], &[7, 0, 7])));
        let labelled = ReadOptions { target_kind: TargetKind::Classes, ..options() };
        let (schema, data) = read_training(&images, &labelled).unwrap();
        assert_eq!((data.n, data.d, data.target_name.as_str()), (3, 4, "label"));
        assert_eq!(data.x, (0..12).map(|i| f64::from(i * 20)).collect::<Vec<_>>());
        assert_eq!(
            (schema.classes.as_ref().unwrap().labels(), data.y.unwrap()),
            (&["0".into(), "7".into()][..], vec![1., 0., 1.])
        );
        // Later images may have no labels and no compression.
        let bare = folder.file("new.idx3", idx(8, &[1, 2, 2], &[1, 2, 3, 4]));
        let later = read_with_schema(&bare, &schema, &options(), false).unwrap();
        assert_eq!((later.x, later.y), (vec![1.0, 2.0, 3.0, 4.0], None));
    }

    #[test]
    fn all_number_types_are_read() {
        let words: [(u8, Vec<u8>); 6] = [
            (0x08, vec![200, 3]),
            (0x09, vec![200, 3]),
            (0x0b, [(-300i16).to_be_bytes(), 3i16.to_be_bytes()].concat()),
            (0x0c, [(-70_000i32).to_be_bytes(), 3i32.to_be_bytes()].concat()),
            (0x0d, [1.5f32.to_be_bytes(), 3f32.to_be_bytes()].concat()),
            (0x0e, [0.1f64.to_be_bytes(), 3f64.to_be_bytes()].concat()),
        ];
        for ((kind, data), want) in words.into_iter().zip([200.0, -56.0, -300.0, -70_000.0, 1.5, 0.1]) {
            let path = Folder::new();
            let (_, data) = read_training(path.file("a.idx", idx(kind, &[1, 2], &data)), &options()).unwrap();
            assert_eq!((data.x, data.y.unwrap()), (vec![want], vec![3.0]), "type {kind:#x}");
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let refused = |bytes: Vec<u8>, part: &str| {
            let folder = Folder::new();
            let message = read_training(folder.file("a.idx", bytes), &options()).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("a.idx"), "`{part}` is not in: {message}");
        };
        refused(idx(8, &[2, 2], &[1, 2, 3]), "ends early");
        refused(idx(8, &[2, 2], &[1, 2, 3, 4, 5]), "goes on after its end");
        refused(idx(8, &[u32::MAX; 8], &[1]), "damaged IDX header");
        refused(idx(8, &[4_000_000_000, 2], &[1]), "ends early");
        refused(idx(8, &[0, 2], &[]), "empty");
        refused(idx(8, &[2], &[])[..6].to_vec(), "cut short");
    }

    #[test]
    fn labels_of_other_images_are_refused() {
        let folder = Folder::new();
        let images = folder.file("images.idx3", idx(8, &[2, 1, 2], &[1, 2, 3, 4]));
        folder.file("labels.idx1", idx(8, &[3], &[1, 2, 3]));
        let message = read_training(&images, &options()).unwrap_err().to_string();
        assert!(message.contains("2 rows") && message.contains("3 labels"), "{message}");
    }
}

#[test]
fn a_file_of_rows_holds_what_the_table_does() {
    let folder = Folder::new();
    let row = |i: usize| {
        let (colour, missing) = (["red", "green", "blue"][i / 2 % 3], if i == 17 { "" } else { "1.5" });
        let (day, class) = (1 + i % 28, ["yes", "no", "maybe"][i % 7 % 3]);
        format!("{},{colour},2020-02-{day:02},{missing},{class}\n", 0.1 * i as f64)
    };
    let text = format!("a,colour,day,b,y\n{}", (0..5000).map(row).collect::<String>());
    let table = folder.file("t.csv.gz", gzip(text.as_bytes()));
    let every = ReadOptions {
        one_hot: true,
        dates: true,
        missing: Missing::Drop,
        target_kind: TargetKind::Classes,
        ..options()
    };
    let (schema, data) = read_training(&table, &every).unwrap();
    let rows = RowFile::create(&table, &every, folder.path("t.rows")).unwrap();
    for rows in [rows, RowFile::open(folder.path("t.rows")).unwrap()] {
        assert_eq!(rows.schema(), &schema);
        assert_eq!((rows.len(), rows.d(), rows.dropped()), (4999, 6, 1));
        let picked = [7, 8, 9, 0, 4998, 16, 17];
        let (found, want) = (rows.read(&picked).unwrap(), data.subset(&picked));
        assert_eq!((&found.x, &found.y), (&want.x, &want.y));
        assert_eq!((&found.rows, &found.records), (&want.rows, &want.records));
        assert_eq!((&found.feature_names, &found.target_name), (&want.feature_names, &want.target_name));
        assert_eq!((found.n, found.d, found.dropped), (7, 6, 1));
        let (found, want) = (rows.input_scale(), InputScale::fit(&data.x, 6).unwrap());
        for (a, b) in found.mean.iter().chain(&found.sd).zip(want.mean.iter().chain(&want.sd)) {
            assert!((a - b).abs() < 1e-12 * b.abs().max(1.0), "{a} {b}");
        }
        assert_eq!(rows.target_moments(), (0.0, 1.0), "classes have no scale");
        assert!(rows.read(&[0, 5000]).unwrap_err().to_string().contains("row 5000 of 4999"));
    }
    assert!(RowFile::recognised(folder.path("t.rows")) && !RowFile::recognised(&table));
    let numbers = folder.file("n.csv", "a,y\n1,2\n3,6\n");
    let rows = RowFile::create(numbers, &options(), folder.path("n.rows")).unwrap();
    assert_eq!(rows.target_moments(), (4.0, 2.0));
}

/// CRC-32, as files of rows have it.
fn crc(bytes: &[u8]) -> u64 {
    let shifted = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    let crc = bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shifted));
    u64::from(!crc)
}

#[test]
fn every_flipped_bit_of_a_file_of_rows_is_noticed() {
    let folder = Folder::new();
    let table = folder.file("t.csv", "a,colour,y\n1,red,2\n3,blue,4\n5,red,1\n");
    let every = ReadOptions { one_hot: true, ..options() };
    RowFile::create(table, &every, folder.path("t.rows")).unwrap();
    let whole = fs::read(folder.path("t.rows")).unwrap();
    let read = |bytes: &[u8]| {
        let rows = RowFile::open(folder.file("flipped.rows", bytes))?;
        rows.read(&[2, 0, 1]).map(|data| (data.x, data.y))
    };
    read(&whole).unwrap();
    for bit in 0..8 * whole.len() {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let problem = read(&flipped).expect_err(&format!("bit {bit}")).to_string();
        assert!(problem.contains("flipped.rows") && problem.contains("anew from its table"), "{problem}");
    }
    let mut swapped = whole.clone();
    let (first, second) = swapped[..96].split_at_mut(48);
    first.swap_with_slice(second);
    assert!(read(&swapped).unwrap_err().to_string().contains("record 1 is damaged"));
}

#[test]
fn files_of_rows_hold_numbers_of_tables() {
    let folder = Folder::new();
    let table = folder.file("t.csv", "a,colour,y\n1,red,2\n3,blue,4\n");
    RowFile::create(table, &ReadOptions { one_hot: true, ..options() }, folder.path("t.rows")).unwrap();
    let whole = fs::read(folder.path("t.rows")).unwrap();
    for (place, number) in [(2, 1e300), (2, f64::NAN), (3, 2.0), (3, 0.5), (0, -1.0), (4, f64::INFINITY)] {
        let mut changed = whole.clone();
        // The second record: five numbers, and a checksum over them and its index.
        let record = &mut changed[48..96];
        record[8 * place..8 * place + 8].copy_from_slice(&f64::to_le_bytes(number));
        let sum = crc(&[&1u64.to_le_bytes(), &record[..40]].concat());
        record[40..].copy_from_slice(&sum.to_le_bytes());
        let rows = RowFile::open(folder.file("made.rows", changed)).unwrap();
        assert!(rows.read(&[0]).is_ok());
        let problem = rows.read(&[0, 1]).unwrap_err().to_string();
        assert!(problem.contains("made.rows") && problem.contains("record 2"), "{place} {number}: {problem}");
    }
}

#[test]
fn a_file_of_rows_stays_its_own_when_another_takes_its_name() {
    let folder = Folder::new();
    let [first, second] = ["a,y\n1,2\n", "a,y\n5,6\n7,8\n"].map(|text| {
        let table = folder.file("t.csv", text);
        RowFile::create(table, &options(), folder.path("t.rows")).unwrap()
    });
    assert_eq!((first.len(), first.read(&[0]).unwrap().x), (1, vec![1.0]));
    assert_eq!((second.len(), second.read(&[1]).unwrap().x), (2, vec![7.0]));
}

#[test]
fn files_of_rows_refuse_what_they_cannot_hold() {
    let folder = Folder::new();
    let create = |text: &str| {
        let before = folder.names();
        let table = folder.file("t.csv", text);
        let problem = RowFile::create(&table, &options(), folder.path("t.rows")).unwrap_err().to_string();
        fs::remove_file(table).unwrap();
        assert_eq!(folder.names(), before, "nothing half-written is left");
        problem
    };
    let problem = create("colour,y\nred,1\nblue,2\n");
    assert!(
        problem.contains("row 2") && problem.contains("`colour`") && problem.contains("ReadOptions::one_hot"),
        "{problem}"
    );
    let problem = create("a,y\n1,2\n3,x\n");
    assert!(problem.contains("row 3") && problem.contains("`y`"), "{problem}");
    assert!(create("a,y\n").contains("no row of data"));

    let table = folder.file("t.csv", "a,y\n1,2\n3,4\n");
    RowFile::create(table, &options(), folder.path("t.rows")).unwrap();
    let whole = fs::read(folder.path("t.rows")).unwrap();
    for damaged in [&whole[..whole.len() - 1], &whole[..10], &whole[8..], b""] {
        let problem = RowFile::open(folder.file("cut.rows", damaged)).unwrap_err().to_string();
        assert!(problem.contains("cut.rows") && problem.contains("not a file of rows"), "{problem}");
    }
    let problem = RowFile::open(folder.path("t.csv")).unwrap_err().to_string();
    assert!(problem.contains("not a file of rows"), "{problem}");
}

/// Tables as people have them: what is recognised, and what is said about it.
mod as_people_have_them {
    use cagey::data::{Column, DateOrder, LeaveOut};

    use super::*;

    /// As the command reads by default.
    fn usual() -> ReadOptions {
        let target_kind = TargetKind::Auto;
        ReadOptions { one_hot: true, dates: true, leave_out: LeaveOut::Names, target_kind, ..options() }
    }

    fn said(data: &Dataset) -> String {
        data.notes.said.iter().chain(&data.notes.warnings).map(|note| note.to_string() + "\n").collect()
    }

    /// One input column `x` beside numbers, under a header.
    fn column(cells: &[&str]) -> String {
        let quoted = cells.iter().zip(1..).map(|(cell, i)| format!("\"{cell}\",{i}.5\n"));
        format!("x,y\n{}", quoted.collect::<String>())
    }

    fn values(cells: &[&str], options: &ReadOptions) -> Vec<f64> {
        read(column(cells), options).unwrap_or_else(|error| panic!("{cells:?}: {error}")).1.x
    }

    #[test]
    fn signs_beside_numbers() {
        for (cells, want, sign) in [
            (["$5,000", "$950", "-$1,200.50"], [5000.0, 950.0, -1200.5], "`$`"),
            (["163.8 cm", "1,170cm", "-9 cm"], [163.8, 1170.0, -9.0], "`cm`"),
            (["1,650", "950", "1,234,567.5"], [1650.0, 950.0, 1_234_567.5], "separators of thousands"),
            (["12%", "7.5 %", "-3%"], [12.0, 7.5, -3.0], "`%`"),
            (["5 €", "1 650 €", "(3 €)"], [5.0, 1650.0, -3.0], "`€`"),
            (["1'650", "2\u{a0}000", "3"], [1650.0, 2000.0, 3.0], ""),
            (["EUR 5", "EUR 6.5", "7"], [5.0, 6.5, 7.0], "`EUR`"),
        ] {
            if sign.is_empty() {
                // Two separators in one column.
                refused(column(&cells), &usual(), &["row 3, column `x`", "other signs"]);
                continue;
            }
            let (schema, data) = read(column(&cells), &usual()).unwrap();
            assert_eq!(data.x, want, "{cells:?}");
            assert!(said(&data).contains("read as numbers, without") && said(&data).contains(sign), "{}", said(&data));
            let folder = Folder::new();
            let schema: Schema = serde_json::from_str(&serde_json::to_string(&schema).unwrap()).unwrap();
            let again = read_with_schema(folder.file("p.csv", column(&cells)), &schema, &options(), false).unwrap();
            assert_eq!(again.x, want, "later tables are read in the same way");
        }
        refused(column(&["12%", "0.5", "3%"]), &usual(), &["row 3", "`0.5`", "percent sign"]);
        refused(column(&["12 kg", "0.5", "3 kg"]), &usual(), &["row 3", "`0.5`", "unit `kg`"]);
        refused(column(&["12 kg", "0.5 lb", "3 kg"]), &usual(), &["row 3", "`0.5 lb`", "`kg`"]);
        refused(column(&["$1", "$2", "€3"]), &usual(), &["row 4", "`€3`", "other signs"]);
        refused(column(&["$1", "$2", "free"]), &usual(), &["row 4", "`free`", "categorical = x"]);
    }

    #[test]
    fn prices_are_no_classes() {
        let table = |price: &dyn Fn(usize) -> String| {
            let rows = (0..40).map(|i| format!("{i},\"{}\"\n", price(i)));
            format!("area,price\n{}", rows.collect::<String>())
        };
        for text in [table(&|i| format!("${},{:03}", i + 1, 7 * i)), table(&|i| format!("{},{:03}", i + 1, 7 * i))] {
            let (schema, data) = read(&text, &usual()).unwrap();
            assert_eq!((schema.classes.clone(), data.y.unwrap()[3]), (None, 4021.0));
            let folder = Folder::new();
            let again = read_with_schema(folder.file("p.csv", &text), &schema, &options(), true).unwrap();
            assert_eq!(again.y.unwrap()[3], 4021.0);
        }
        refused(table(&|i| format!("2020-01-{:02}", i % 28 + 1)), &usual(), &["is a date", "ReadOptions::target"]);
        refused(table(&|i| format!("{i},5")), &usual(), &["row 2, column `price`", "`0,5`", "decimal_comma"]);
    }

    #[test]
    fn commas_of_two_meanings_are_named() {
        let comma = ReadOptions { decimal_comma: true, delimiter: Some(b';'), ..usual() };
        let doubtful = "x;y\n1,650;5\n2,350;6\n";
        let (_, data) = read(doubtful, &comma).unwrap();
        assert_eq!(data.x, [1.65, 2.35]);
        assert!(said(&data).contains("`1,650` are read as 1.65"), "{}", said(&data));
        let (_, data) = read(doubtful, &ReadOptions { delimiter: Some(b';'), ..usual() }).unwrap();
        assert_eq!(data.x, [1650.0, 2350.0]);
        assert!(said(&data).contains("decimal_comma"), "{}", said(&data));
        let (_, data) = read("qm;preis\n65,5;1.650,00\n70;1.700,50\n80,5;990\n", &comma).unwrap();
        assert_eq!(
            (data.x.as_slice(), data.y.as_ref().unwrap().as_slice()),
            (&[65.5, 70.0, 80.5][..], &[1650.0, 1700.5, 990.0][..])
        );
        assert!(data.notes.warnings.is_empty(), "{}", said(&data));
    }

    #[test]
    fn truth_values_and_months() {
        assert_eq!(values(&["True", "FALSE", "true"], &usual()), [1.0, 0.0, 1.0]);
        assert_eq!(values(&["Jan", "december", "Sept."], &usual()), [1.0, 12.0, 9.0]);
        refused(column(&["True", "False", "2"]), &ReadOptions { one_hot: false, ..usual() }, &["`True`"]);
    }

    #[test]
    fn dates_in_many_forms() {
        // 1949 begins 18,627 days before 2000, 1960 14,610 days.
        let year = |day: f64| 2000.0 + (day - 18_627.0) / 365.25;
        assert_eq!(values(&["1949-01", "1949-02", "1949-12"], &usual()), [0.0, 31.0, 334.0].map(year));
        let quarters = [0.0, 366.0 + 181.0, 366.0 + 365.0 + 365.0 + 273.0].map(|d| 2000.0 + (d - 14_610.0) / 365.25);
        assert_eq!(values(&["1960Q1", "1961-Q3", "Q4 1963"], &usual()), quarters);
        let first = [0.0, 30.0, 31.0].map(year);
        assert_eq!(values(&["01/01/1949", "01/31/1949", "02/01/1949"], &usual()), first);
        assert_eq!(values(&["01/01/1949", "31/01/1949", "01/02/1949"], &usual()), first);
        assert_eq!(values(&["01.01.1949", "31.1.1949", "1.2.1949"], &usual()), first);
        assert_eq!(values(&["1 Jan 1949", "January 31, 1949", "1949/02/01"], &usual()), first);
        assert_eq!(values(&["Jan 1949", "Feb-1949", "1949 Mar"], &usual())[1], year(31.0));
        assert_eq!(values(&["1/1/1949 12:00", "1/31/1949 6:00 PM", "2/1/1949 12:00 AM"], &usual())[1], year(30.75));
        let open = column(&["01/02/1949", "02/03/1949", "03/04/1949"]);
        refused(&open, &usual(), &["row 2, column `x`", "`01/02/1949`", "day or its month first", "date_order"]);
        let asked = |order| read(&open, &ReadOptions { date_order: Some(order), ..usual() }).unwrap().1.x[0];
        assert_eq!(asked(DateOrder::Day), year(31.0));
        assert_eq!(asked(DateOrder::Month), year(1.0));
        refused(column(&["31/01/1949", "30/01/1949", "01/13/1949"]), &usual(), &["row 4", "with the day first"]);
        refused(column(&["1/31/49", "2/3/50"]), &usual(), &["row 2", "two digits of its year"]);
        // The order that the training data told holds for later tables.
        let (schema, _) = read(column(&["01/02/1949", "13/02/1949"]), &usual()).unwrap();
        assert_eq!(schema.features[0].encoding, Encoding::DayFirst);
        let later = Folder::new();
        let later = read_with_schema(later.file("p.csv", "x\n01/02/1949\n"), &schema, &options(), false).unwrap();
        assert_eq!(later.x, [year(31.0)]);
    }

    #[test]
    fn columns_that_name_the_rows() {
        let rows = |first: &str, cell: &dyn Fn(usize) -> String| {
            let rows = (0..30).map(|i| format!("{},{},{}\n", cell(i), i * i % 7, i % 5));
            format!("{first},a,y\n{}", rows.collect::<String>())
        };
        for (text, why) in [
            (rows("name", &|i| format!("car {i}")), "a text of its own"),
            (rows("", &|i| (i + i / 5).to_string()), "`c0` numbers the rows"),
            (rows("rownames", &|i| (i + 1).to_string()), "`rownames` numbers the rows"),
            (rows("id", &|i| (7 * i % 30).to_string()), "`id` numbers the rows"),
            (rows("nothing", &|_| String::new()), "`nothing` is empty"),
        ] {
            let (_, data) = read(&text, &usual()).unwrap();
            assert_eq!(data.feature_names, ["a"], "{text}");
            assert!(said(&data).contains(why) && said(&data).contains("ReadOptions::features"), "{}", said(&data));
        }
        for kept in [
            rows("t", &|i| i.to_string()),
            rows("id", &|i| (i % 10).to_string()),
            rows("kind", &|i| ["a", "b", "c"][i % 3].into()),
        ] {
            assert!(read(&kept, &usual()).unwrap().1.d > 1, "{kept}");
        }
        let chosen = ReadOptions { features: Some(vec!["id".into(), "a".into()]), ..usual() };
        assert_eq!(read(rows("id", &|i| i.to_string()), &chosen).unwrap().1.d, 2);
        // An index that is all there is may be the time.
        let series: String = (0..30).map(|i| format!("{i},{}\n", i % 5)).collect();
        assert_eq!(read(format!(",y\n{series}"), &usual()).unwrap().1.feature_names, ["c0"]);
        let names: String = (0..30).map(|i| format!("car {i},{}\n", i % 5)).collect();
        refused(format!("name,y\n{names}"), &usual(), &["no input is left", "`name`"]);
    }

    #[test]
    fn missing_cells_are_indicated() {
        let indicate = ReadOptions { missing: Missing::Indicate, ..usual() };
        let text = "age,colour,b,y\n20,red,1,1\n,blue,2,2\n40,,3,3\n60,red,4,\n";
        let (schema, data) = read(text, &indicate).unwrap();
        let names = ["age", "age is missing", "colour=blue", "colour=red", "colour is missing", "b"];
        assert_eq!((data.feature_names.as_slice(), data.n, data.dropped), (&names.map(String::from)[..], 3, 1));
        assert_eq!(data.row(0), [20.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
        assert_eq!(data.row(1), [30.0, 1.0, 1.0, 0.0, 0.0, 2.0]);
        assert_eq!(data.row(2), [40.0, 0.0, 0.0, 0.0, 1.0, 3.0]);
        let schema: Schema = serde_json::from_str(&serde_json::to_string(&schema).unwrap()).unwrap();
        let folder = Folder::new();
        let later = |text: &str| read_with_schema(folder.file("p.csv", text), &schema, &options(), false);
        assert_eq!(later("age,colour,b\nNA,red,7\n").unwrap().x, [30.0, 1.0, 0.0, 1.0, 0.0, 7.0]);
        assert!(later("age,colour,b\n1,red,\n").unwrap_err().to_string().contains("row 2, column `b`"));
        refused(
            "a,b,y\n,1,1\n,2,2\n",
            &ReadOptions { leave_out: LeaveOut::Nothing, ..indicate.clone() },
            &["`a`", "drop = a"],
        );
        // A file of rows holds the same.
        let rows = RowFile::create(folder.file("t.csv", text), &indicate, folder.path("t.rows")).unwrap();
        assert_eq!(rows.read(&[0, 1, 2]).unwrap().x, data.x);
        assert_eq!(RowFile::open(folder.path("t.rows")).unwrap().read(&[1]).unwrap().x, data.row(1));
        let plain = serde_json::to_string(&Column::numeric("a", 0)).unwrap();
        assert_eq!(plain, "{\"name\":\"a\",\"index\":0,\"encoding\":\"Numeric\"}");
    }

    #[test]
    fn unknown_categories_are_counted() {
        let (schema, _) = read("colour,a,y\nred,1,1\nblue,2,2\nred,3,3\nblue,4,4\n", &usual()).unwrap();
        let folder = Folder::new();
        let mix = ReadOptions { mix_unknown: true, ..options() };
        let later = folder.file("p.csv", "colour,a\nred,1\ngreen,1\ngreen,2\ngrey,3\n");
        let data = read_with_schema(&later, &schema, &mix, false).unwrap();
        assert_eq!((data.row(0), data.row(1)), (&[0.0, 1.0, 1.0][..], &[0.5, 0.5, 1.0][..]));
        let told = data.notes.warnings[0].to_string();
        assert!(
            told.contains("`colour`") && told.contains("`green` (2), `grey` (1)") && told.contains("3 rows"),
            "{told}"
        );
        assert!(read_with_schema(&later, &schema, &options(), false).is_err());
    }
}

#[test]
fn a_table_in_memory_reads_as_the_file_with_its_cells() {
    let folder = Folder::new();
    let file = folder.file("t.csv", "day,site,size,y\n2024-01-01,a,1.5,1\n2024-02-01,b,,2\n2024-03-01,a,2.5,4\n");
    let texts = |cells: [&str; 3]| Cells::Texts(cells.map(String::from).to_vec());
    let frame = |site: [&str; 3]| {
        let columns = [
            ("day", texts(["2024-01-01", "2024-02-01", "2024-03-01"])),
            ("site", texts(site)),
            ("size", Cells::Numbers(vec![1.5, f64::NAN, 2.5])),
            ("y", Cells::Numbers(vec![1.0, 2.0, 4.0])),
        ];
        Frame::new("table", columns.map(|(name, cells)| (name.to_string(), cells)).to_vec()).unwrap()
    };
    let options = ReadOptions { one_hot: true, dates: true, missing: Missing::Indicate, ..ReadOptions::default() };
    let (schema, data) = frame(["a", "b", "a"]).read_training(&options).unwrap();
    let (expected, read) = read_training(&file, &options).unwrap();
    assert_eq!(schema, expected);
    assert_eq!((&data.x, &data.y, &data.feature_names), (&read.x, &read.y, &read.feature_names));
    let new = frame(["b", "b", "c"]);
    let problem = new.read_with_schema(&schema, &options, false).unwrap_err().to_string();
    assert!(problem.starts_with("table: row 3, column `site`"), "{problem}");
    let mixed = ReadOptions { mix_unknown: true, ..options };
    let data = new.read_with_schema(&schema, &mixed, false).unwrap();
    assert_eq!((data.n, &data.row(2)[1..3]), (3, &[0.5, 0.5][..]));
    assert!(Frame::new("table", vec![]).is_err());
    let uneven = vec![("a".to_string(), Cells::Numbers(vec![1.0])), ("b".to_string(), texts(["1", "2", "3"]))];
    assert!(Frame::new("table", uneven).unwrap_err().to_string().contains("column `b`"));
}

#[test]
fn dates_go_on_as_the_calendar_does() {
    use cagey::data::calendar::{Step, written};
    // Days since the first of January 2000.
    let date = |days: f64| 2000.0 + days / 365.25;
    let year = |year: i32, days: i32| {
        let before = [(1900, -36_524), (2023, 8401), (2024, 8766)].into_iter().find(|(y, _)| *y == year);
        date(f64::from(before.unwrap().1 + days))
    };
    // Days before the first of January, February, …, of a leap year.
    let months: Vec<f64> = [0, 31, 60, 91, 121].iter().map(|days| year(2024, *days)).collect();
    assert_eq!(Step::of(&months), Some(Step::Months { count: 1, ends: false }));
    let next = |rows: &[f64], count| written(&Step::of(rows).unwrap().after(rows[rows.len() - 1], count));
    assert_eq!(next(&months, 9)[6..], ["2024-12-01", "2025-01-01", "2025-02-01"]);
    let ends = [year(2023, 364), year(2024, 30), year(2024, 59)];
    assert_eq!(next(&ends, 3), ["2024-03-31", "2024-04-30", "2024-05-31"]);
    assert_eq!(next(&[-365.0, 0.0, 366.0].map(date), 2), ["2002-01-01", "2003-01-01"]);
    assert_eq!(next(&[year(1900, 57), year(1900, 58)], 2), ["1900-03-01", "1900-03-02"]);
    assert_eq!(next(&[year(2024, 51), year(2024, 58)], 1), ["2024-03-06"]);
    let hour = |h: f64| date(8766.0 + 59.0 + h / 24.0);
    assert_eq!(next(&[hour(22.5), hour(23.0), hour(23.5)], 2), ["2024-03-01T00:00:00", "2024-03-01T00:30:00"]);
    assert_eq!(Step::of(&[2000.0, 2000.0]), None);
}

#[test]
fn axes_of_dates_have_round_dates() {
    use cagey::data::calendar::ticks;
    let labels = |low: f64, high: f64, count| -> Vec<String> {
        let all = ticks(low, high, count);
        assert!(all.len() <= count + 1 && all.iter().all(|(at, _)| (low..=high).contains(at)), "{all:?}");
        all.into_iter().map(|(_, label)| label).collect()
    };
    assert_eq!(labels(1949.0, 1962.9, 7), ["1950", "1952", "1954", "1956", "1958", "1960", "1962"]);
    assert_eq!(labels(2019.99, 2020.9, 4), ["2020-01", "2020-04", "2020-07", "2020-10"]);
    let day = 1.0 / 365.25;
    // The first of January 2024 was a Monday, and is 2024.0.
    assert_eq!(labels(2024.0, 2024.0 + 20.0 * day, 4), ["2024-01-01", "2024-01-08", "2024-01-15"]);
    assert_eq!(labels(2024.0 - 0.1 * day, 2024.0 + 2.1 * day, 3), ["2024-01-01", "2024-01-02", "2024-01-03"]);
    assert_eq!(labels(2024.0, 2024.0 + 0.6 * day, 3), ["01-01 00:00", "01-01 06:00", "01-01 12:00"]);
    assert_eq!(ticks(2024.0, 2024.0 + 6e-5 * day, 5)[1].1, "00:00:05");
    for (low, high) in [(-5.0, 5.0), (2000.0, 1e9), (3.0, 3.0), (f64::NAN, 4.0), (2000.0, f64::INFINITY)] {
        assert!(ticks(low, high, 5).is_empty());
    }
}

#[test]
fn series_are_numbered_in_the_order_of_their_texts() {
    let folder = Folder::new();
    let table = folder.file("a.csv", "t,y,ward\n1,2.5,7\n2,3.5,10\n3,4.0,7\n1,1.0,B\n");
    let options = ReadOptions { series: Some("ward".into()), ..ReadOptions::default() };
    let (schema, data) = read_training(&table, &options).unwrap();
    // The target is the last column that is no series, and texts that look like numbers are texts.
    assert_eq!((schema.target.as_str(), data.x.as_slice()), ("y", &[1.0, 1.0, 2.0, 0.0, 3.0, 1.0, 1.0, 2.0][..]));
    let (at, column) = schema.series().unwrap();
    assert_eq!((at, column.encoding.labels().unwrap()), (1, &["10", "7", "B"].map(String::from)[..]));
    let new = folder.file("b.csv", "ward,t\nC,5\n10,6\n");
    let refused = read_with_schema(&new, &schema, &ReadOptions::default(), false).unwrap_err().to_string();
    assert!(refused.contains("`C`") || refused.contains("\"C\""), "{refused}");
    let mixed = ReadOptions { mix_unknown: true, ..ReadOptions::default() };
    let data = read_with_schema(&new, &schema, &mixed, false).unwrap();
    assert_eq!(data.x, [5.0, 3.0, 6.0, 0.0]);
    assert!(data.notes.warnings[0].text.contains("no rows of the series `C` (1)"), "{:?}", data.notes.warnings);
    let gap = folder.file("c.csv", "t,ward,y\n1,,2\n2,a,3\n");
    let problem = read_training(&gap, &options).unwrap_err().to_string();
    assert!(problem.contains("row 2") && problem.contains("ward"), "{problem}");
    let options = ReadOptions { drop: vec!["ward".into()], ..options };
    assert!(read_training(&table, &options).unwrap_err().to_string().contains("not an input"));
}
