//! WIRE: numbers and texts as bytes, for work that another process does.
//!
//! Numbers have eight or four bytes, the lowest first, on every machine, and come back bit for bit. Each list is preceded by
//! its length, which is checked before memory is taken for it. Both sides are of the same version.

use crate::error::{Error, Result};

/// Bytes that are being written.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn count(&mut self, n: usize) {
        self.0.extend_from_slice(&(n as u64).to_le_bytes());
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    pub(crate) fn double(&mut self, x: f64) {
        self.0.extend_from_slice(&x.to_le_bytes());
    }

    pub(crate) fn doubles(&mut self, values: &[f64]) {
        self.count(values.len());
        values.iter().for_each(|x| self.double(*x));
    }

    pub(crate) fn singles(&mut self, values: &[f32]) {
        self.count(values.len());
        values.iter().for_each(|x| self.0.extend_from_slice(&x.to_le_bytes()));
    }

    pub(crate) fn integers(&mut self, values: &[u32]) {
        self.count(values.len());
        values.iter().for_each(|x| self.0.extend_from_slice(&x.to_le_bytes()));
    }

    pub(crate) fn counts(&mut self, values: &[usize]) {
        self.count(values.len());
        values.iter().for_each(|x| self.count(*x));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Bytes that are being read.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let taken = self.0.split_off(..n);
        taken.ok_or_else(|| Error::size("the bytes of a task", format!("at least {n} more"), self.0.len()))
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    fn numbers<const N: usize, T>(&mut self, of: fn([u8; N]) -> T) -> Result<Vec<T>> {
        let n = self.count()?;
        let bytes = self.take(n.saturating_mul(N))?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|bytes| of(*bytes)).collect())
    }

    pub(crate) fn count(&mut self) -> Result<usize> {
        let n = u64::from_le_bytes(self.number()?);
        usize::try_from(n).map_err(|_| Error::setting("a number of a task", "within the range of this machine", n))
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.number::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Error::setting("a flag of a task", "0 or 1", other)),
        }
    }

    pub(crate) fn double(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.number()?))
    }

    pub(crate) fn doubles(&mut self) -> Result<Vec<f64>> {
        self.numbers(f64::from_le_bytes)
    }

    pub(crate) fn singles(&mut self) -> Result<Vec<f32>> {
        self.numbers(f32::from_le_bytes)
    }

    pub(crate) fn integers(&mut self) -> Result<Vec<u32>> {
        self.numbers(u32::from_le_bytes)
    }

    pub(crate) fn counts(&mut self) -> Result<Vec<usize>> {
        let n = self.count()?;
        // Each takes eight bytes, so that a wrong length takes no memory.
        let mut all = Reader(self.take(n.saturating_mul(8))?);
        (0..n).map(|_| all.count()).collect()
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.count()?;
        self.take(n)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|reason| Error::setting("a text of a task", "UTF-8", reason))
    }

    /// Checks that everything was read.
    pub(crate) fn end(&self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(Error::size("the bytes of a task", "no more", more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn everything_is_read_as_it_was_written(
            n in any::<usize>(), flag in any::<bool>(), doubles in prop::collection::vec(any::<u64>(), 0..5),
            singles in prop::collection::vec(-1e30f32..1e30, 0..5), integers in prop::collection::vec(any::<u32>(), 0..5),
            counts in prop::collection::vec(any::<usize>(), 0..5), text in ".{0,9}",
        ) {
            // Every pattern of bits, NaN too.
            let doubles: Vec<f64> = doubles.into_iter().map(f64::from_bits).collect();
            let mut out = Writer::default();
            out.count(n);
            out.flag(flag);
            out.doubles(&doubles);
            out.singles(&singles);
            out.integers(&integers);
            out.counts(&counts);
            out.text(&text);
            let bytes = out.finish();
            let mut from = Reader::new(&bytes);
            prop_assert_eq!((from.count().unwrap(), from.flag().unwrap()), (n, flag));
            let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&from.doubles().unwrap()), bits(&doubles));
            prop_assert_eq!(from.singles().unwrap(), singles);
            prop_assert_eq!(from.integers().unwrap(), integers);
            prop_assert_eq!(from.counts().unwrap(), counts);
            prop_assert_eq!(from.text().unwrap(), text);
            prop_assert!(from.end().is_ok());
        }

        #[test]
        fn bytes_of_anybody_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Reader::new(&bytes).doubles();
            let _ = Reader::new(&bytes).counts();
            let _ = Reader::new(&bytes).text();
            let _ = Reader::new(&bytes).flag();
        }
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused() {
        let mut out = Writer::default();
        out.doubles(&[1.0, 2.0]);
        let bytes = out.finish();
        let said = Reader::new(&bytes[..20]).doubles().unwrap_err().to_string();
        assert_eq!(said, "the bytes of a task should have at least 16 more, but has 12");
        let said = Reader::new(&bytes).end().unwrap_err().to_string();
        assert_eq!(said, "the bytes of a task should have no more, but has 24");
        let said = Reader::new(&[7]).flag().unwrap_err().to_string();
        assert_eq!(said, "a flag of a task should be 0 or 1, but is 7");
    }
}
