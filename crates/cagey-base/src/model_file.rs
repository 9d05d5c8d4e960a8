//! The container of saved models and checkpoints: one safetensors file with named arrays and a JSON document.
//!
//! The `__metadata__` of the file holds `format` (`cagey-model` or `cagey-checkpoint`), `version` (of this layout),
//! `cagey` (the crate version that wrote it), `document` (JSON text) and `sha256`. The last is a checksum over the
//! document and the name, data type, shape and bytes of every array, in the order of the names. Every float, in arrays
//! and in the document, is restored bit for bit.
//!
//! Safetensors allows 100 MB of metadata. Long lists of floats in the document are therefore stored as arrays of the
//! file, and empty lists take their places. Such an array has the JSON pointer to its empty list as its name.

#[cfg(feature = "write")]
use crate::atomic::write_bytes;
use crate::{Error, Result};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorView};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What a file contains.
pub struct Kind {
    /// The value of the `format` key.
    format: &'static str,
    /// The layout that this crate reads and writes.
    version: u64,
    /// The name in messages.
    noun: &'static str,
    /// The advice for a file whose content cannot be trusted.
    restore: &'static str,
}

const MODEL: Kind = Kind {
    format: "cagey-model",
    version: 2,
    noun: "model",
    restore: "copy it again from its source or save the model anew",
};

/// The state of a training.
pub const CHECKPOINT: Kind = Kind {
    format: "cagey-checkpoint",
    version: 3,
    noun: "checkpoint",
    restore: "copy it again from its source or start afresh",
};

/// A list of at least this many floats is stored as an array.
const LONG: usize = 64;

/// What a saved model consists of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFile {
    /// Everything that is not an array: kernel, options, names.
    pub document: Value,
    /// The arrays by name; no name begins with `/`.
    pub arrays: BTreeMap<String, Array>,
}

/// A dense array in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The extent of each dimension; empty for a scalar.
    pub shape: Vec<usize>,
    /// The entries, as many as the product of `shape`.
    pub data: ArrayData,
}

/// The entries of an [`Array`] in the precision the model was fitted in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ArrayData {
    /// Double precision.
    F64(Vec<f64>),
    /// Single precision.
    F32(Vec<f32>),
}

impl ModelFile {
    /// Adds the arrays of a member of an average, whose names begin with its number.
    pub fn add_member(&mut self, k: usize, arrays: BTreeMap<String, Array>) {
        self.arrays.extend(arrays.into_iter().map(|(name, array)| (format!("{k}.{name}"), array)));
    }

    /// Takes these arrays out again, with their own names.
    pub fn take_member(&mut self, k: usize) -> BTreeMap<String, Array> {
        let prefix = format!("{k}.");
        let own = |(name, array): (String, Array)| Some((name.strip_prefix(&prefix)?.to_string(), array));
        self.arrays.extract_if(.., |name, _| name.starts_with(&prefix)).filter_map(own).collect()
    }

    /// Writes the model to `path`. An existing file is replaced only after the new one is complete and its bytes were
    /// read back.
    ///
    /// # Errors
    /// [`Error::Shape`] if an array's entries do not fill its shape, [`Error::Usage`] for an array with a forbidden
    /// name or a document nested too deeply to be read back, and [`Error::Io`] if writing fails.
    #[cfg(feature = "write")]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let bytes = self.to_bytes()?;
        if !Self::from_bytes(&bytes).is_ok_and(|read| read.same(self)) {
            return Err(Error::Data("the model does not read back from its own bytes; nothing was written".into()));
        }
        write_bytes(path, &bytes)
    }

    /// Reads the model at `path` and checks it against its checksum.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read; [`Error::ModelFile`] if it is truncated, altered, not a model of this
    /// crate, or of a newer layout.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| Error::io(path, &source))?;
        Self::from_bytes(&bytes).map_err(|problem| Error::ModelFile { path: path.display().to_string(), problem })
    }

    /// Whether another file holds the same content, bit for bit.
    #[cfg(feature = "write")]
    fn same(&self, other: &Self) -> bool {
        let arrays = |(a, b): ((&String, &Array), (&String, &Array))| a.0 == b.0 && a.1.same(b.1);
        self.document == other.document
            && self.arrays.len() == other.arrays.len()
            && self.arrays.iter().zip(&other.arrays).all(arrays)
    }

    /// The content of the file.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.bytes_as(&MODEL)
    }

    /// The content of a file of this kind.
    pub fn bytes_as(&self, kind: &Kind) -> Result<Vec<u8>> {
        let mut lists = BTreeMap::new();
        let rest = lift(&self.document, "", &mut lists);
        let document = rest.to_string();
        if !serde_json::from_str::<Value>(&document).is_ok_and(|read| read == rest) {
            return Err(Error::Usage("the model's document cannot be read back from JSON: nest it less deeply".into()));
        }
        if let Some(name) = self.arrays.keys().find(|name| *name == "__metadata__" || name.starts_with('/')) {
            return Err(Error::Usage(format!("an array cannot be called `{name}`: rename it")));
        }
        let mut blocks = BTreeMap::new();
        for (name, array) in self.arrays.iter().chain(&lists) {
            let entries = array.data.len();
            if array.shape.iter().try_fold(1_usize, |size, &extent| size.checked_mul(extent)) != Some(entries) {
                let expected = format!("entries for shape {:?}", array.shape);
                return Err(Error::shape(format!("array `{name}`"), expected, format!("{entries} entries")));
            }
            blocks.insert(name.as_str(), (array, array.data.to_le_bytes()));
        }
        let unwritable = |source| Error::Usage(format!("the model cannot be written as safetensors: {source}"));
        let views = blocks
            .iter()
            .map(|(&name, (array, bytes))| Ok((name, TensorView::new(array.data.dtype(), array.shape.clone(), bytes)?)))
            .collect::<std::result::Result<BTreeMap<_, _>, _>>()
            .map_err(unwritable)?;
        let metadata = [
            ("format".to_owned(), kind.format.to_owned()),
            ("version".to_owned(), kind.version.to_string()),
            ("cagey".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("sha256".to_owned(), checksum(&document, &views)),
            ("document".to_owned(), document),
        ];
        let metadata = metadata.into_iter().collect();
        safetensors::serialize(views, Some(metadata)).map(ordered).map_err(unwritable)
    }

    /// The model in `bytes`, or what is wrong with them.
    #[doc(hidden)]
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Self, String> {
        Self::from_bytes_as(bytes, &MODEL)
    }

    /// Reads a file of this kind, or says what is wrong with it.
    pub fn from_bytes_as(bytes: &[u8], kind: &Kind) -> std::result::Result<Self, String> {
        let Kind { noun, restore, .. } = kind;
        let unreadable = |source| format!("not a {noun} file, or truncated or damaged ({source}); {restore}");
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(unreadable)?;
        let document = check_header(&header, kind)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(unreadable)?;
        let views: BTreeMap<_, _> = tensors.iter().collect();
        if header.metadata().as_ref().and_then(|keys| keys.get("sha256")) != Some(&checksum(document, &views)) {
            return Err(format!("its content does not match its checksum, so it was altered or damaged; {restore}"));
        }
        let mut document =
            serde_json::from_str::<Value>(document).map_err(|source| format!("its document is not JSON: {source}"))?;
        let mut arrays = BTreeMap::new();
        for (name, view) in views {
            let array = Array::read(name, &view)?;
            if name.starts_with('/') {
                let absent = || format!("its document has no place for the list `{name}`; {restore}");
                let place = document.pointer_mut(name).ok_or_else(absent)?;
                *place = Value::from(array.data.into_f64());
            } else {
                arrays.insert(name.to_owned(), array);
            }
        }
        Ok(Self { document, arrays })
    }
}

/// The same file with the keys of its header in order, so that equal models give equal files. Safetensors writes the
/// keys in a different order each time.
fn ordered(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some((length, rest)) = bytes.split_first_chunk_mut::<8>() else { return bytes };
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let Some(header) = rest.get_mut(..length) else { return bytes };
    if let Ok(mut sorted) = serde_json::from_slice::<Value>(header) {
        sorted.sort_all_objects();
        let text = sorted.to_string();
        if text.len() <= header.len() {
            header.fill(b' ');
            header[..text.len()].copy_from_slice(text.as_bytes());
        }
    }
    bytes
}

/// A document without its long lists of floats. They are added to `lists`, with the JSON pointers to them as names.
/// `place` is the pointer to the document itself.
fn lift(document: &Value, place: &str, lists: &mut BTreeMap<String, Array>) -> Value {
    match document {
        Value::Array(items) if items.len() >= LONG && !place.is_empty() && items.iter().all(Value::is_f64) => {
            lists.insert(place.to_owned(), Array::list(items.iter().filter_map(Value::as_f64).collect()));
            Value::Array(Vec::new())
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| lift(item, &format!("{place}/{index}"), lists)).collect()
        }
        Value::Object(entries) => entries
            .iter()
            .map(|(key, entry)| {
                let step = key.replace('~', "~0").replace('/', "~1");
                (key.clone(), lift(entry, &format!("{place}/{step}"), lists))
            })
            .collect(),
        other => other.clone(),
    }
}

impl Array {
    /// An array in double precision.
    pub fn f64(shape: &[usize], values: impl Into<Vec<f64>>) -> Self {
        Self { shape: shape.to_vec(), data: ArrayData::F64(values.into()) }
    }

    /// A list of numbers in double precision.
    pub fn list(values: Vec<f64>) -> Self {
        Self::f64(&[values.len()], values)
    }

    #[cfg(feature = "write")]
    fn same(&self, other: &Self) -> bool {
        self.shape == other.shape
            && match (&self.data, &other.data) {
                (ArrayData::F64(a), ArrayData::F64(b)) => {
                    a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()))
                }
                (ArrayData::F32(a), ArrayData::F32(b)) => {
                    a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()))
                }
                _ => false,
            }
    }

    /// The array that `view` shows.
    fn read(name: &str, view: &TensorView<'_>) -> std::result::Result<Self, String> {
        let data = match view.dtype() {
            Dtype::F64 => {
                ArrayData::F64(view.data().as_chunks().0.iter().map(|&word| f64::from_le_bytes(word)).collect())
            }
            Dtype::F32 => {
                ArrayData::F32(view.data().as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
            }
            other => return Err(format!("its array `{name}` holds {other}; a model holds F64 or F32 only")),
        };
        Ok(Self { shape: view.shape().to_vec(), data })
    }
}

impl ArrayData {
    /// The number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::F64(entries) => entries.len(),
            Self::F32(entries) => entries.len(),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries in double precision.
    pub fn into_f64(self) -> Vec<f64> {
        match self {
            Self::F64(entries) => entries,
            Self::F32(entries) => entries.into_iter().map(f64::from).collect(),
        }
    }

    fn dtype(&self) -> Dtype {
        match self {
            Self::F64(_) => Dtype::F64,
            Self::F32(_) => Dtype::F32,
        }
    }

    fn to_le_bytes(&self) -> Vec<u8> {
        match self {
            Self::F64(entries) => entries.iter().flat_map(|entry| entry.to_le_bytes()).collect(),
            Self::F32(entries) => entries.iter().flat_map(|entry| entry.to_le_bytes()).collect(),
        }
    }
}

/// The document's text, if the header says that this crate can read the rest.
fn check_header<'a>(header: &'a Metadata, kind: &Kind) -> std::result::Result<&'a str, String> {
    let Kind { format, version, noun, restore } = *kind;
    let key = |name: &str| header.metadata().as_ref().and_then(|keys| keys.get(name)).map(String::as_str);
    if key("format") != Some(format) {
        return Err(format!("a safetensors file, but not a {noun} of cagey; give a file that cagey saved"));
    }
    let ours = env!("CARGO_PKG_VERSION");
    match key("version").and_then(|version| version.parse::<u64>().ok()) {
        Some(known) if known == version => key("document").ok_or_else(|| format!("its document is missing; {restore}")),
        Some(newer) if newer > version => Err(format!(
            "written by cagey {} in {noun} format {newer}; cagey {ours} reads format {version}: install a newer cagey",
            key("cagey").unwrap_or("of unknown version")
        )),
        _ => Err(format!("its format version {:?} does not exist; {restore}", key("version").unwrap_or_default())),
    }
}

/// SHA-256 over the document and every array. Each part follows its length, so that different contents never give the
/// same bytes.
fn checksum(document: &str, views: &BTreeMap<&str, TensorView<'_>>) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(document.as_bytes());
    for (name, view) in views {
        part(name.as_bytes());
        part(view.dtype().to_string().as_bytes());
        part(&view.shape().iter().flat_map(|&extent| (extent as u64).to_le_bytes()).collect::<Vec<_>>());
        part(view.data());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
