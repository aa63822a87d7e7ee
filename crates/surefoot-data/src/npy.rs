//! The header of numpy's `.npy` format: item type, memory order and shape.

use std::io::Read;

use crate::error::{Error, Result};
use crate::source::{Source, display_shape};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// numpy's own headers take some hundred bytes, and it refuses to read more than 10,000.
const LONGEST_HEADER: usize = 10_000;

/// The header of an array.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    /// numpy's name of the type, such as `<f4`.
    pub(crate) descr: String,
    /// Whether the first index varies fastest, not the last (Fortran order).
    pub(crate) fortran: bool,
    pub(crate) shape: Vec<usize>,
}

/// How the bytes of an item encode a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// 0 or 1.
    Boolean,
    Unsigned,
    Signed,
    Float,
}

impl Header {
    pub(crate) fn read<R: Read>(source: &mut Source<R>) -> Result<Self> {
        let wrong = |source: &Source<R>, part: &str, allowed: &str, found: String| Error::Header {
            place: source.place().to_owned(),
            part: part.into(),
            allowed: allowed.into(),
            found,
        };
        let mut start = [0; 8];
        source.take(&mut start, 10)?;
        if &start[..6] != MAGIC {
            let found = start[..6].escape_ascii().to_string();
            return Err(wrong(source, "the start", r"\x93NUMPY, that of an .npy array", found));
        }
        let length = match start[6] {
            1 => {
                let mut bytes = [0; 2];
                source.take(&mut bytes, 10)?;
                usize::from(u16::from_le_bytes(bytes))
            }
            2 | 3 => {
                let mut bytes = [0; 4];
                source.take(&mut bytes, 12)?;
                u32::from_le_bytes(bytes) as usize
            }
            version => {
                return Err(wrong(source, "the version of the .npy format", "1, 2 or 3", version.to_string()));
            }
        };
        if length > LONGEST_HEADER {
            let allowed = format!("at most {LONGEST_HEADER} bytes");
            return Err(wrong(source, "the length of the header", &allowed, length.to_string()));
        }
        let before = if start[6] == 1 { 10 } else { 12 };
        let mut text = vec![0; length];
        source.take(&mut text, before + length as u64)?;
        parse(&text).ok_or_else(|| {
            let allowed = "a dictionary with a simple type as 'descr', 'fortran_order' and 'shape'";
            wrong(source, "the header", allowed, text.trim_ascii().escape_ascii().to_string())
        })
    }

    /// The bytes before the items, as numpy writes them: items begin at a multiple of 64 bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let order = if self.fortran { "True" } else { "False" };
        let shape = display_shape(&self.shape);
        let mut text = format!("{{'descr': '{}', 'fortran_order': {order}, 'shape': {shape}, }}", self.descr);
        let (before, newline) = (10, 1);
        let padding = (before + text.len() + newline).next_multiple_of(64) - (before + text.len() + newline);
        text.extend(std::iter::repeat_n(' ', padding));
        text.push('\n');
        // Two sizes of at most 20 digits are far shorter than 16 bits allow.
        let length = (text.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0][..], &length, text.as_bytes()].concat()
    }

    /// The kind and the width of an item, and whether it is big-endian. `None` for types that are not numbers of up to
    /// 8 bytes.
    pub(crate) fn item(&self) -> Option<(Kind, usize, bool)> {
        let [order @ (b'<' | b'>' | b'|' | b'='), kind, width] = *self.descr.as_bytes() else {
            return None;
        };
        let kind = match kind {
            b'b' => Kind::Boolean,
            b'u' => Kind::Unsigned,
            b'i' => Kind::Signed,
            b'f' => Kind::Float,
            _ => return None,
        };
        let width = match width {
            b'1' => 1,
            b'2' => 2,
            b'4' => 4,
            b'8' => 8,
            _ => return None,
        };
        if kind == Kind::Boolean && width > 1 {
            return None;
        }
        // numpy writes '=' for no type; its meaning, the order of the writer's machine, is little-endian in practice.
        Some((kind, width, order == b'>'))
    }
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, the keys in any order, each exactly once.
fn parse(text: &[u8]) -> Option<Header> {
    let mut rest = Rest(text.trim_ascii());
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    rest.token("{")?;
    while rest.token("}").is_none() {
        let key = rest.string()?;
        rest.token(":")?;
        let again = match key {
            b"descr" => descr.replace(rest.string()?).is_some(),
            b"fortran_order" => fortran.replace(rest.boolean()?).is_some(),
            b"shape" => shape.replace(rest.tuple()?).is_some(),
            _ => return None,
        };
        if again {
            return None;
        }
        if rest.token(",").is_none() {
            rest.token("}")?;
            break;
        }
    }
    rest.0.is_empty().then_some(())?;
    Some(Header { descr: String::from_utf8(descr?.to_vec()).ok()?, fortran: fortran?, shape: shape? })
}

/// The remaining text of the header; it never starts with a space.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn token(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(token.as_bytes())?.trim_ascii_start();
        Some(())
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let (&quote, rest) = self.0.split_first()?;
        if quote != b'\'' && quote != b'"' {
            return None;
        }
        let end = rest.iter().position(|&c| c == quote)?;
        self.0 = rest[end + 1..].trim_ascii_start();
        Some(&rest[..end])
    }

    fn boolean(&mut self) -> Option<bool> {
        if self.token("True").is_some() {
            return Some(true);
        }
        self.token("False").map(|()| false)
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut sizes = Vec::new();
        self.token("(")?;
        while self.token(")").is_none() {
            sizes.push(self.size()?);
            if self.token(",").is_none() {
                self.token(")")?;
                break;
            }
        }
        Some(sizes)
    }

    fn size(&mut self) -> Option<usize> {
        let digits = self.0.iter().take_while(|c| c.is_ascii_digit()).count();
        let size = std::str::from_utf8(&self.0[..digits]).ok()?.parse().ok()?;
        self.0 = self.0[digits..].trim_ascii_start();
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_may_have_its_keys_in_any_order_and_either_quote() {
        let header = parse(br#"{"shape": (3,), 'fortran_order':True,'descr': '>i2'}  "#).unwrap();
        assert_eq!(header, Header { descr: ">i2".into(), fortran: true, shape: vec![3] });
        assert_eq!(header.item(), Some((Kind::Signed, 2, true)));
    }

    #[test]
    fn a_header_that_is_not_exactly_the_three_keys_is_refused() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': (1,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} ()",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_header_is_read_as_it_is_written() {
        for shape in [vec![3], vec![60_000, 784], vec![usize::MAX, usize::MAX]] {
            let header = Header { descr: "<f4".into(), fortran: false, shape };
            let bytes = header.bytes();
            assert_eq!(bytes.len() % 64, 0);
            let mut source = Source::new(&bytes[..], "x".into(), crate::source::Packing::None, bytes.len() as u64);
            assert_eq!(Header::read(&mut source).unwrap(), header);
        }
    }

    #[test]
    fn types_that_are_not_small_numbers_have_no_item() {
        for descr in ["|O", "<U3", "<b2", "<f16", "<c8", "f4", "<f", "", "<M8[ns]"] {
            let header = Header { descr: descr.into(), fortran: false, shape: vec![] };
            assert_eq!(header.item(), None, "{descr}");
        }
    }
}
