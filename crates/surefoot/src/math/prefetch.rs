//! The only `unsafe` code of the crate: prefetching memory.
#![allow(unsafe_code)]

/// Asks the processor to fetch the memory of a slice. The rows of a shuffled batch are anywhere in memory, and no
/// processor predicts the next one.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        // The processor prefetches the rest of a long row by itself.
        const MOST: usize = 64 * LINE;
        let bytes = slice.as_ptr().cast::<i8>();
        for offset in (0..size_of_val(slice).min(MOST)).step_by(LINE) {
            // SAFETY: the address is inside the slice; a prefetch reads nothing, and SSE is part of x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.add(offset)) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = slice;
}
