//! Records of a file of rows: little-endian doubles, and a checksum over them and the record's index.

use crc32fast::Hasher;

/// The bytes of a number and of a checksum.
pub(super) const NUMBER: usize = size_of::<f64>();

/// The form of the records of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records {
    /// The number of numbers in a record.
    pub(super) width: usize,
}

impl Records {
    /// The bytes of a record.
    pub(super) fn size(self) -> usize {
        (self.width + 1) * NUMBER
    }

    /// The numbers of the records with these indices, or the index of the first record that was changed since it was
    /// written.
    pub(super) fn open(self, indices: impl IntoIterator<Item = usize>, bytes: &[u8]) -> Result<Vec<f64>, usize> {
        let mut numbers = Vec::with_capacity(bytes.len() / NUMBER);
        for (index, record) in indices.into_iter().zip(bytes.chunks_exact(self.size())) {
            let (values, sum) = record.split_at(self.width * NUMBER);
            if sum != of_record(index, values).to_le_bytes() {
                return Err(index);
            }
            numbers.extend(values.as_chunks().0.iter().map(|&word| f64::from_le_bytes(word)));
        }
        Ok(numbers)
    }
}

/// The checksum of the record with this index.
pub(super) fn of_record(index: usize, values: &[u8]) -> u64 {
    checksum([&(index as u64).to_le_bytes(), values])
}

/// CRC-32. Every change of up to 32 bits in a row alters it.
pub(super) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut crc = Hasher::new();
    parts.into_iter().for_each(|part| crc.update(part));
    crc.finalize().into()
}
