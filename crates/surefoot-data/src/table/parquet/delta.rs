//! What the lengths in a page of delta-encoded text come to, before the Parquet reader makes room for them.
//!
//! `DELTA_LENGTH_BYTE_ARRAY` is the lengths of all texts, then the texts; `DELTA_BYTE_ARRAY` is how much each shares with
//! the text before it, then the rest in the first encoding. Lengths are packed by `DELTA_BINARY_PACKED`: the size of a
//! block, how many miniblocks it has, how many values there are, the first one; then for each block the least step, a
//! bit width for each miniblock, and the packed steps. A few bytes can claim any number of values of any length.

/// The number of texts and the bytes of all of them together, unpacked, in a page with `values` of them or fewer; `None`
/// if the lengths are none.
pub(super) fn size(bytes: &[u8], values: usize, shared: bool) -> Option<u64> {
    let (first, rest) = lengths(bytes, values)?;
    if !shared {
        return Some(first);
    }
    let (second, _) = lengths(rest, values)?;
    Some(first + second)
}

/// The sum of one list of lengths, with `most` of them or fewer, and what follows it.
fn lengths(mut bytes: &[u8], most: usize) -> Option<(u64, &[u8])> {
    let block = usize::try_from(varint(&mut bytes)?).ok()?;
    let minis = usize::try_from(varint(&mut bytes)?).ok()?;
    let count = usize::try_from(varint(&mut bytes)?).ok()?;
    let mut last = zigzag(&mut bytes)?;
    if count > most || minis == 0 || block == 0 || !block.is_multiple_of(minis) {
        return None;
    }
    let mini = block / minis;
    let mut left = count;
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
        assert_eq!(size(&packed, 8, false), Some(30));
        assert_eq!(size(&[packed, plain.to_vec()].concat(), 8, true), Some(45));
    }

    #[test]
    fn more_values_than_the_page_has_and_lengths_below_zero_are_refused() {
        assert_eq!(lengths(&[128, 1, 4, 5, 2, 2, 0, 0, 0, 0], 4), None);
        assert_eq!(lengths(&[128, 1, 4, 1, 1], 4), None);
        assert_eq!(lengths(&[128, 1, 0, 1, 2], 4), None);
        assert_eq!(lengths(&[], 4), None);
    }
}
