//! Records of a file of rows: little-endian doubles, and a checksum over them and the record's place.

use crc32fast::Hasher;

/// Bytes of a number, and of a checksum.
pub(super) const NUMBER: usize = size_of::<f64>();

/// The form of the records of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records {
    /// Numbers of a record.
    pub(super) width: usize,
    /// Whether a checksum follows them.
    pub(super) checked: bool,
}

impl Records {
    /// Bytes of a record.
    pub(super) fn size(self) -> usize {
        (self.width + usize::from(self.checked)) * NUMBER
    }

    /// The numbers of the records of some indices, or the index of the first one that is not as it was written.
    pub(super) fn open(self, indices: impl IntoIterator<Item = usize>, bytes: &[u8]) -> Result<Vec<f64>, usize> {
        let mut numbers = Vec::with_capacity(bytes.len() / NUMBER);
        for (index, record) in indices.into_iter().zip(bytes.chunks_exact(self.size())) {
            let (values, sum) = record.split_at(self.width * NUMBER);
            if self.checked && sum != of_record(index, values).to_le_bytes() {
                return Err(index);
            }
            numbers.extend(values.as_chunks().0.iter().map(|&word| f64::from_le_bytes(word)));
        }
        Ok(numbers)
    }
}

/// The checksum of the record of an index.
pub(super) fn of_record(index: usize, values: &[u8]) -> u64 {
    checksum([&(index as u64).to_le_bytes(), values])
}

/// CRC-32, which every change of up to 32 bits in a row alters.
pub(super) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut crc = Hasher::new();
    parts.into_iter().for_each(|part| crc.update(part));
    crc.finalize().into()
}
