//! Random numbers: every draw comes from a seed, a purpose and an index, never from global state.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The purpose of a stream. Two purposes never share a stream, for any seeds and indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The order of the records in an epoch.
    Shuffle = 1,
    /// The choice of an action.
    Decide = 2,
    /// The reward that an action brings.
    Reward = 3,
    /// The split of a data set.
    Split = 4,
    /// The training of the logging policy.
    Logger = 5,
    /// Random Fourier features, the rule of thumb for bandwidths, landmarks.
    Features = 6,
    /// The contexts of a synthetic world.
    Contexts = 7,
    /// The parameters of a synthetic world.
    World = 8,
    /// The weights of a bootstrap.
    Bootstrap = 9,
}

/// The stream of a seed, a purpose, and an index within it (a round, for example).
pub(crate) fn stream(seed: u64, purpose: Purpose, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
    key[16..24].copy_from_slice(&index.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// The stream of one record: the same on any thread and in any order.
pub(crate) fn record_stream(base: &ChaCha8Rng, record: u64) -> ChaCha8Rng {
    let mut rng = base.clone();
    rng.set_stream(record);
    rng.set_word_pos(0);
    rng
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_differ_by_seed_purpose_index_and_record() {
        let base = stream(1, Purpose::Decide, 0);
        let mut draws = vec![
            stream(1, Purpose::Decide, 0).next_u64(),
            stream(2, Purpose::Decide, 0).next_u64(),
            stream(1, Purpose::Reward, 0).next_u64(),
            stream(1, Purpose::Decide, 1).next_u64(),
            record_stream(&base, 1).next_u64(),
            record_stream(&base, 2).next_u64(),
        ];
        draws.sort_unstable();
        draws.dedup();
        assert_eq!(draws.len(), 6);
    }
}
