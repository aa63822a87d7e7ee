//! Kernel features: the principal components of a kernel on landmarks (Williams and Seeger 2001, the Nystrom method).

use std::ops::Range;
use std::sync::OnceLock;

use rand::seq::SliceRandom;

use crate::contexts::{Contexts, Row};
use crate::error::{Error, Result, check_setting};
use crate::fingerprint::{Fingerprint, Hasher};
use crate::math::kernels::gaussian_kernel;
use crate::math::linear::{Block, eigenvectors, in_blocks, scores};
use crate::math::random::{Purpose, stream};

/// The largest number of landmarks: their eigenvectors take some seconds.
pub(super) const MOST_LANDMARKS: usize = 1500;

/// A smaller eigenvalue, relative to the largest one, may be only rounding error.
const SMALLEST_SHARE: f64 = 1e-10;

/// The number of rows that are mapped together: enough to outweigh the layout of the projection for the product.
const ROWS: usize = 256;

/// The parts of the kernel features `P' k(L, x)` of a [`FeatureMap`](super::FeatureMap): landmarks `L`, the kernel
/// `k(x, y) = exp(-|x - y|^2/(2 bandwidth^2))` and a projection `P`.
#[derive(Debug)]
pub struct KernelFeatures {
    landmarks: Landmarks,
    count: usize,
    /// One row per landmark.
    projection: Vec<f64>,
    /// Computed on first use.
    fingerprint: OnceLock<Fingerprint>,
}

/// Compares the content.
impl PartialEq for KernelFeatures {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
    }
}

impl KernelFeatures {
    /// The leading principal components of contexts that are known before the data; with `clip`, fewer than `count` if
    /// the contexts do not support as many.
    pub(super) fn principal(known: &Contexts, count: usize, bandwidth: f64, clip: bool) -> Result<Self> {
        let m = known.len().min(MOST_LANDMARKS);
        let count = if clip { count.min(m) } else { count };
        let allowed = |most: usize, why: &str| Error::setting(NUMBER, format!("from 1 to {most}, {why}"), count);
        if m == 0 {
            return Err(Error::size("the contexts that landmarks are taken of", "at least 1 row", 0));
        }
        if count == 0 || count > m {
            return Err(allowed(m, "the number of landmarks"));
        }
        // In a random order, because data may be sorted by class, and landmarks would come from a few classes.
        let mut order: Vec<usize> = (0..known.len()).collect();
        order.shuffle(&mut stream(0, Purpose::Features, 2));
        // A copy: a view would keep all contexts in memory.
        let drawn = known.select(&order[..m]);
        let landmarks =
            Landmarks::new(if drawn.is_sparse() { drawn.to_sparse() } else { drawn.to_dense() }, bandwidth)?;
        let gram = in_blocks(m, ROWS, (m, 0.0), |range, out| {
            landmarks.kernel(&landmarks.contexts, range, out);
            Ok(())
        })?;
        let (values, vectors) = eigenvectors(&gram, m)
            .ok_or_else(|| Error::setting("the kernel of the landmarks", "finite and diagonalisable", "not"))?;
        let safe = values.iter().filter(|&&v| v > SMALLEST_SHARE * values[m - 1]).count();
        let count = if clip { count.min(safe) } else { count };
        if count > safe {
            return Err(allowed(safe, "as many as the contexts support at this bandwidth"));
        }
        let entry = |i: usize, j: usize| vectors[i * m + m - 1 - j] / values[m - 1 - j].sqrt();
        let projection = (0..m * count).map(|at| entry(at / count, at % count)).collect();
        Ok(KernelFeatures { landmarks, count, projection, fingerprint: OnceLock::new() })
    }

    pub(super) fn from_parts(landmarks: Contexts, bandwidth: f64, projection: Vec<f64>) -> Result<Self> {
        let m = landmarks.len();
        if m == 0 {
            return Err(Error::size("landmarks", "at least 1 row", 0));
        }
        let count = projection.len() / m;
        if count == 0 || !projection.len().is_multiple_of(m) {
            let expected = format!("a multiple of {m} entries, a row for each landmark");
            return Err(Error::size("the projection", expected, projection.len()));
        }
        if count > m {
            return Err(Error::setting(NUMBER, format!("from 1 to {m}, the number of landmarks"), count));
        }
        if let Some(i) = projection.iter().position(|v| !v.is_finite()) {
            return Err(Error::value(
                i / count,
                format!("feature {} of the projection", i % count),
                "finite",
                projection[i],
            ));
        }
        let landmarks = Landmarks::new(landmarks, bandwidth)?;
        Ok(KernelFeatures { landmarks, count, projection, fingerprint: OnceLock::new() })
    }

    /// The landmarks, `L`.
    pub fn landmarks(&self) -> &Contexts {
        &self.landmarks.contexts
    }

    /// The bandwidth of the kernel.
    pub fn bandwidth(&self) -> f64 {
        self.landmarks.bandwidth
    }

    /// The number of output features.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The projection `P`, row-major: one row per landmark, one column per feature.
    pub fn projection(&self) -> &[f64] {
        &self.projection
    }

    /// The fingerprint of the features.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = Hasher::new("kernel features");
            hasher.double(self.bandwidth());
            hasher.count(self.landmarks().features());
            hasher.count(self.landmarks().len());
            self.landmarks().iter().for_each(|row| hasher.row(row));
            hasher.doubles(&self.projection);
            hasher.finish()
        })
    }

    pub(super) fn apply(&self, contexts: &Contexts) -> Result<Contexts> {
        let m = self.landmarks().len();
        let values = in_blocks(contexts.len(), ROWS, (self.count, 0.0), |range, out| {
            let n = range.len();
            let mut kernel = vec![0.0; n * m];
            self.landmarks.kernel(contexts, range, &mut kernel);
            let mut values = vec![0.0; n * self.count];
            Block::Dense { x: &kernel, n, p: m }.scores(&self.projection, self.count, &mut values);
            out.iter_mut().zip(values).for_each(|(out, v)| *out = v as f32);
            Ok(())
        })?;
        Contexts::dense(values, self.count)
    }
}

const NUMBER: &str = "the number of kernel features";

/// Contexts with a kernel centred at each.
#[derive(Debug)]
struct Landmarks {
    contexts: Contexts,
    bandwidth: f64,
    /// The contexts, one per column.
    columns: Vec<f64>,
    /// The squares of their norms.
    squares: Vec<f64>,
}

impl Landmarks {
    fn new(contexts: Contexts, bandwidth: f64) -> Result<Self> {
        check_setting("the bandwidth", bandwidth, bandwidth > 0.0, "above 0")?;
        let (input, m) = (contexts.features(), contexts.len());
        // 8 GB of columns.
        if input.saturating_mul(m) > 1 << 30 {
            let value = format!("{input} x {m}");
            return Err(Error::setting("features that go in x landmarks", "at most 1073741824", value));
        }
        let mut columns = vec![0.0; input * m];
        for (j, row) in contexts.iter().enumerate() {
            row.for_each(|f, v| columns[f * m + j] = v);
        }
        let squares = squares(&contexts, 0..m).collect();
        Ok(Landmarks { contexts, bandwidth, columns, squares })
    }

    /// `k(l, x)` for a range of contexts and all landmarks: one row per context.
    fn kernel(&self, contexts: &Contexts, range: Range<usize>, out: &mut [f64]) {
        let m = self.squares.len();
        let rows: Vec<Row<'_>> = range.clone().map(|i| contexts.row(i)).collect();
        scores(&rows, &self.columns, m, out);
        for (square, out) in squares(contexts, range).zip(out.chunks_exact_mut(m)) {
            gaussian_kernel(square, &self.squares, self.bandwidth, out);
        }
    }
}

fn squares(contexts: &Contexts, range: Range<usize>) -> impl Iterator<Item = f64> {
    range.map(|i| contexts.norm(i) * contexts.norm(i))
}
