//! Makes all line ends the same, so that lines can be counted.

use std::io::{self, Chain, Read};

/// A text stream with every line end (`\r\n`, `\r` or `\n`) as `\n`, and one at its very end.
pub(super) struct Newlines {
    inner: Chain<Box<dyn Read>, &'static [u8]>,
    after_return: bool,
}

impl Newlines {
    pub(super) fn new(inner: Box<dyn Read>) -> Self {
        Self { inner: inner.chain(b"\n".as_slice()), after_return: false }
    }
}

impl Read for Newlines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.inner.read(buffer)?;
            if n == 0 || (!self.after_return && !buffer[..n].contains(&b'\r')) {
                return Ok(n);
            }
            let mut kept = 0;
            for i in 0..n {
                let byte = buffer[i];
                let second_half = self.after_return && byte == b'\n';
                self.after_return = byte == b'\r';
                if !second_half {
                    buffer[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
            }
            // All bytes may have been the second half of a line end. Returning 0 would mean the end of the file.
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}
