//! What the lengths in a page of delta-encoded text come to, before the Parquet reader makes room for them.
//!
//! `DELTA_LENGTH_BYTE_ARRAY` is the lengths of all texts, then the texts; `DELTA_BYTE_ARRAY` is how much each shares with
//! the text before it, then the rest in the first encoding. Lengths are packed by `DELTA_BINARY_PACKED`: the size of a
//! block, how many miniblocks it has, how many values there are, the first one; then for each block the least step, a
//! bit width for each miniblock, and the packed steps. A few bytes can claim any number of values of any length.
//!
//! `ByteViewArrayDecoderDeltaLength::new` and `DeltaByteArrayDecoder::new` make room for all lengths that a page should have:
//! `bad-lengths`, of 92 bytes, asked for 4 TiB, which ends the process. The second then copies each text with all that it
//! shares: `bad-shared`, of 1.2 kB, asked for 8 GiB. It also takes a length below zero for a very large one, and gives other text
//! than was written.

/// The number of texts in a page of `DELTA_LENGTH_BYTE_ARRAY` with `most` of them or fewer; `None` if the lengths are none.
pub(super) fn count(mut bytes: &[u8], most: usize) -> Option<usize> {
    head(&mut bytes, most).map(|(_, _, count)| count)
}

/// The bytes of all texts together, unpacked, in a page of `DELTA_BYTE_ARRAY` with `most` of them or fewer; `None` if the
/// lengths are none.
pub(super) fn size(bytes: &[u8], most: usize) -> Option<u64> {
    let (shared, rest) = lengths(bytes, most)?;
    Some(shared + lengths(rest, most)?.0)
}

/// What a list of lengths begins with: how many values a miniblock has, how many miniblocks a block has, and how many
/// values there are.
fn head(bytes: &mut &[u8], most: usize) -> Option<(usize, usize, usize)> {
    let mut number = || usize::try_from(varint(bytes)?).ok();
    let (block, minis, count) = (number()?, number()?, number()?);
    let fits = count <= most && minis > 0 && block > 0 && block.is_multiple_of(minis);
    fits.then(|| (block / minis, minis, count))
}

/// The sum of one list of lengths, with `most` of them or fewer, and what follows it.
fn lengths(mut bytes: &[u8], most: usize) -> Option<(u64, &[u8])> {
    let (mini, minis, mut left) = head(&mut bytes, most)?;
    let mut last = zigzag(&mut bytes)?;
    let mut sum = 0;
    if left > 0 {
        sum += u64::try_from(last).ok()?;
        left -= 1;
    }
    while left > 0 {
        let least = zigzag(&mut bytes)?;
        for &width in bytes.split_off(..minis)? {
            // After the last value, only the widths of the miniblocks that are left stand in the file.
            let here = mini.min(left);
            if here == 0 {
                break;
            }
            left -= here;
            let size = mini.checked_mul(usize::from(width))?.div_ceil(8);
            let packed = bytes.split_off(..size.min(bytes.len()))?;
            for i in 0..here {
                let step = bits(packed, i, width)?.cast_signed();
                // The reader counts in 32 bits.
                last = i64::from(last.wrapping_add(least).wrapping_add(step) as i32);
                sum += u64::try_from(last).ok()?;
            }
        }
    }
    Some((sum, bytes))
}

/// The `i`-th of the numbers of `width` bits, least bit first.
fn bits(packed: &[u8], i: usize, width: u8) -> Option<u64> {
    let width = usize::from(width);
    if width > 64 {
        return None;
    }
    let mut value = 0;
    for bit in 0..width {
        let at = i * width + bit;
        value |= u64::from(packed.get(at / 8)? >> (at % 8) & 1) << bit;
    }
    Some(value)
}

fn zigzag(rest: &mut &[u8]) -> Option<i64> {
    let bits = varint(rest)?;
    Some((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_specification_s_examples() {
        // 1, 2, 3, 4, 5: every step is 1, so no bits follow. Then 7, 5, 3, 1, 2, 3, 4, 5: the least step is -2.
        let plain = [128, 1, 4, 5, 2, 2, 0, 0, 0, 0];
        assert_eq!(lengths(&plain, 5), Some((15, &[][..])));
        let packed = [&[128, 1, 4, 8, 14, 3, 2, 0, 0, 0][..], &[0b1100_0000, 0b0011_1111], &[0; 6]].concat();
        assert_eq!(lengths(&packed, 8), Some((30, &[][..])));
        assert_eq!(count(&packed, 8), Some(8));
        assert_eq!(size(&[packed, plain.to_vec()].concat(), 8), Some(45));
    }

    #[test]
    fn more_values_than_the_page_has_and_lengths_below_zero_are_refused() {
        assert_eq!(lengths(&[128, 1, 4, 5, 2, 2, 0, 0, 0, 0], 4), None);
        assert_eq!(count(&[128, 1, 4, 5, 2], 4), None);
        assert_eq!(lengths(&[128, 1, 4, 1, 1], 4), None);
        assert_eq!(lengths(&[128, 1, 0, 1, 2], 4), None);
        assert_eq!(lengths(&[], 4), None);
    }
}
