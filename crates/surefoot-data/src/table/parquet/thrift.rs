//! As much of Thrift's compact protocol as it takes to look at a footer or a page's header before the Parquet reader does.
//!
//! A struct is a row of fields, each a byte with the step from the last field's number (0: the number follows) and the
//! type, then the value; a type of 0 ends it. Integers are zigzag varints.
//!
//! When `ThriftCompactInputProtocol::skip_till_depth` passes over a list or map of booleans, no entry takes a byte: 7 bytes
//! that say 2^31 of them keep it busy for 5 seconds and more, and a footer can have many. In the header of a page, doubles
//! take none either at the end of the input, which `ThriftReadInputProtocol::skip_bytes` does not notice: a list of 2^31 of
//! them took more than 20 seconds. `bad-endless-footer` and `bad-endless-header` are such. Parquet has no lists of booleans
//! and no maps, so they are refused. apache/arrow-rs#9874 is about the like.
//!
//! To find them is to read what the reader reads, which takes the type of a field that it knows on trust: so these fields
//! are held against [`FOOTER`] and [`PAGE_HEADER`]. Those that the reader passes over are not in there. Nothing here takes
//! memory or recurses by what the bytes say: the deepest nesting is [`DEEPEST`], and the end of the input ends everything.

use std::io::Read;

/// The deepest nesting. Parquet's own structs nest 6 deep or so.
const DEEPEST: usize = 16;

/// What a value should be.
pub(super) enum Shape {
    Boolean,
    Byte,
    Integer,
    /// An integer that is asked for.
    Asked(Tag),
    Double,
    Bytes,
    List(&'static Shape),
    /// A struct of fields by their number; others are passed over.
    Struct(&'static [(i16, Shape)]),
    /// A struct whose beginning is asked for.
    Begins(Tag, &'static [(i16, Shape)]),
}

/// What of it is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Tag {
    /// An element of the schema begins, and how many of the next ones are its children.
    Element,
    Children,
    /// The kind of a page, its bytes, and how many values it has as each kind.
    Kind,
    Unpacked,
    Packed,
    Data,
    Dictionary,
    DataV2,
}

use Shape::{Asked, Begins, Boolean, Byte, Bytes, Double, Integer, List, Struct};

const EMPTY: Shape = Struct(&[]);
const KEY_VALUE: Shape = Struct(&[(1, Bytes), (2, Bytes)]);
const UNIT: Shape = Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]);
const TIME: Shape = Struct(&[(1, Boolean), (2, UNIT)]);
const LOGICAL: Shape = Struct(&[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, Integer), (2, Integer)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, Byte), (2, Boolean)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Bytes)])),
    (18, Struct(&[(1, Bytes), (2, Integer)])),
]);
const ELEMENT: Shape = Begins(
    Tag::Element,
    &[
        (1, Integer),
        (2, Integer),
        (3, Integer),
        (4, Bytes),
        (5, Asked(Tag::Children)),
        (6, Integer),
        (7, Integer),
        (8, Integer),
        (9, Integer),
        (10, LOGICAL),
    ],
);
const BOX: Shape =
    Struct(&[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)]);
const COLUMN: Shape = Struct(&[
    (1, Integer),
    (2, List(&Integer)),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (9, Integer),
    (10, Integer),
    (11, Integer),
    (14, Integer),
    (15, Integer),
    (17, Struct(&[(1, BOX), (2, List(&Integer))])),
]);
const CHUNK: Shape =
    Struct(&[(1, Bytes), (2, Integer), (3, COLUMN), (4, Integer), (5, Integer), (6, Integer), (7, Integer)]);
const GROUP: Shape = Struct(&[
    (1, List(&CHUNK)),
    (2, Integer),
    (3, Integer),
    (4, List(&Struct(&[(1, Integer), (2, Boolean), (3, Boolean)]))),
    (5, Integer),
    (6, Integer),
    (7, Integer),
]);

/// Parquet's `FileMetaData`.
pub(super) const FOOTER: Shape = Struct(&[
    (1, Integer),
    (2, List(&ELEMENT)),
    (3, Integer),
    (4, List(&GROUP)),
    (5, List(&KEY_VALUE)),
    (6, Bytes),
    (7, List(&Struct(&[(1, EMPTY), (2, EMPTY)]))),
]);

/// Parquet's `PageHeader`.
pub(super) const PAGE_HEADER: Shape = Struct(&[
    (1, Asked(Tag::Kind)),
    (2, Asked(Tag::Unpacked)),
    (3, Asked(Tag::Packed)),
    (4, Integer),
    (5, Struct(&[(1, Asked(Tag::Data)), (2, Integer), (3, Integer), (4, Integer)])),
    (6, EMPTY),
    (7, Struct(&[(1, Asked(Tag::Dictionary)), (2, Integer), (3, Boolean)])),
    (
        8,
        Struct(&[
            (1, Asked(Tag::DataV2)),
            (2, Integer),
            (3, Integer),
            (4, Integer),
            (5, Integer),
            (6, Integer),
            (7, Boolean),
        ]),
    ),
]);

const STRUCT: u8 = 12;

/// Reads a struct of this shape, hands out what is asked for, and returns how many bytes it takes; `None` if it has
/// another shape, or if `found` does not want it.
pub(super) fn walk(input: impl Read, shape: &Shape, found: &mut dyn FnMut(Tag, i64) -> Option<()>) -> Option<u64> {
    let mut thrift = Thrift { input, taken: 0, found };
    thrift.value(STRUCT, Some(shape), 0)?;
    Some(thrift.taken)
}

/// A stream of values; every `None` means that the bytes are none.
struct Thrift<'a, R> {
    input: R,
    /// How many bytes were read.
    taken: u64,
    found: &'a mut dyn FnMut(Tag, i64) -> Option<()>,
}

impl<R: Read> Thrift<'_, R> {
    /// Passes over a value of a type that should have a shape, if it is known.
    fn value(&mut self, kind: u8, shape: Option<&Shape>, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match (kind, shape) {
            // The value of a boolean field is its type.
            (1 | 2, Some(Boolean) | None) => Some(()),
            (3, Some(Byte) | None) => self.pass(1),
            (4..=6, Some(Integer) | None) => self.integer().map(drop),
            (4..=6, Some(Asked(tag))) => {
                let value = self.integer()?;
                (self.found)(*tag, value)
            }
            (7, Some(Double) | None) => self.pass(8),
            (8, Some(Bytes) | None) => {
                let length = self.varint()?;
                self.pass(length)
            }
            (9, Some(List(inner))) => self.list(Some(inner), depth),
            (9 | 10, None) => self.list(None, depth),
            (STRUCT, Some(Begins(tag, fields))) => {
                (self.found)(*tag, 0)?;
                self.fields(fields, depth)
            }
            (STRUCT, Some(Struct(fields))) => self.fields(fields, depth),
            (STRUCT, None) => self.fields(&[], depth),
            (13, None) => self.pass(16),
            // Parquet has no maps.
            _ => None,
        }
    }

    fn fields(&mut self, shapes: &[(i16, Shape)], depth: usize) -> Option<()> {
        let mut id: i16 = 0;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                return Some(());
            }
            id = match head >> 4 {
                0 => i16::try_from(self.integer()?).ok()?,
                step => id.checked_add(i16::from(step))?,
            };
            let shape = shapes.iter().find(|(known, _)| *known == id);
            self.value(kind, shape.map(|(_, shape)| shape), depth + 1)?;
        }
    }

    fn list(&mut self, inner: Option<&Shape>, depth: usize) -> Option<()> {
        let head = self.byte()?;
        let (count, kind) = match head >> 4 {
            15 => (self.varint()?, head & 0x0f),
            count => (u64::from(count), head & 0x0f),
        };
        if count > 0 && matches!(kind, 1 | 2) {
            return None;
        }
        // Each entry takes a byte at the least, so that the end of the input ends this.
        (0..count).try_for_each(|_| self.value(kind, inner, depth + 1))
    }

    fn integer(&mut self) -> Option<i64> {
        let bits = self.varint()?;
        Some((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte).ok()?;
        self.taken += 1;
        Some(byte[0])
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        let passed = std::io::copy(&mut self.input.by_ref().take(count), &mut std::io::sink()).ok()?;
        self.taken += passed;
        (passed == count).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Shape = Struct(&[(1, Boolean), (20, Asked(Tag::Packed))]);

    #[test]
    fn fields_of_every_type_are_passed_over_up_to_the_one_that_is_asked_for() {
        // true, a byte, -1, a double, the text "ab", a list of two integers, a struct of one, then 20: 150.
        let bytes = [
            &[0x11, 0x13, 7, 0x15, 1, 0x17][..],
            &[0; 8],
            &[0x18, 2, b'a', b'b', 0x19, 0x25, 1, 1, 0x1c, 0x15, 4, 0, 0x05, 40, 0xac, 2, 0],
        ]
        .concat();
        let mut found = None;
        let mut note = |tag, value| {
            found = Some((tag, value));
            Some(())
        };
        assert_eq!(walk(&bytes[..], &ASKED, &mut note), Some(bytes.len() as u64));
        assert_eq!(found, Some((Tag::Packed, 150)));
        for cut in 0..bytes.len() {
            assert_eq!(walk(&bytes[..cut], &ASKED, &mut |_, _| Some(())), None, "{cut}");
        }
    }

    #[test]
    fn known_fields_of_another_type_and_lists_of_booleans_are_refused() {
        // An integer for the boolean, text for the integer, a list of two booleans, a map.
        for bytes in [&[0x15, 0, 0][..], &[0x08, 40, 0, 0], &[0x29, 0x21, 1, 1, 0], &[0x2b, 0, 0]] {
            assert_eq!(walk(bytes, &ASKED, &mut |_, _| Some(())), None, "{bytes:?}");
        }
    }

    #[test]
    fn nesting_without_end_is_refused() {
        for byte in [0x1c, 0x19] {
            let bytes = vec![byte; 1 << 20];
            assert_eq!(walk(&bytes[..], &EMPTY, &mut |_, _| Some(())), None);
        }
    }
}
