//! Feature maps as bytes, for work that another process does.

use std::sync::Arc;

use super::{FeatureMap, SoftmaxFeatures};
use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::wire::{Reader, Writer};

impl FeatureMap {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.count(self.input);
        if let Some((count, bandwidth, seed)) = self.fourier_settings() {
            out.text("fourier");
            out.count(count);
            out.double(bandwidth);
            out.text(&seed.to_string());
        } else if let Some(kernel) = self.kernel_parts() {
            out.text("kernel");
            kernel.landmarks().write(out);
            out.double(kernel.bandwidth());
            out.doubles(kernel.projection());
        } else if let Some(trees) = self.tree_parts() {
            out.text("trees");
            out.integers(trees.features());
            out.singles(trees.thresholds());
        } else {
            out.text("identity");
        }
        out.flag(self.contexts);
        out.flag(self.softmax.is_some());
        if let Some(softmax) = &self.softmax {
            softmax.write(out);
        }
        out.flag(self.intercept);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let input = from.count()?;
        let mut map = match from.text()? {
            "fourier" => {
                let (count, bandwidth, seed) = (from.count()?, from.double()?, from.text()?);
                let seed = seed.parse().map_err(|_| Error::setting("a seed", "a number", seed))?;
                FeatureMap::fourier(input, count, bandwidth, seed)?
            }
            "kernel" => {
                let landmarks = Contexts::read(from)?;
                FeatureMap::kernel_from_parts(landmarks, from.double()?, from.doubles()?)?
            }
            "trees" => FeatureMap::trees_from_parts(input, from.integers()?, from.singles()?)?,
            "identity" => FeatureMap::identity(input),
            other => return Err(Error::setting("the kind of features", "a known one", other)),
        };
        if from.flag()? {
            map = map.with_contexts();
        }
        if from.flag()? {
            map = map.with_softmax(Arc::new(SoftmaxFeatures::read(from)?))?;
        }
        Ok(if from.flag()? { map.with_intercept() } else { map })
    }
}

impl SoftmaxFeatures {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.count(self.input());
        out.doubles(self.weights());
        out.doubles(self.constants());
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        SoftmaxFeatures::new(from.count()?, from.doubles()?, from.doubles()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_every_kind_are_read_as_they_were_written() {
        let x = Contexts::dense((0..60).map(|i| (i % 7) as f32 / 3.0).collect(), 2).unwrap();
        let softmax = || Arc::new(SoftmaxFeatures::new(2, vec![0.1, -0.2, 0.3, 0.5], vec![0.0, 1.0]).unwrap());
        let kernel = || FeatureMap::kernel_at_most(&x, 5, 1.0).unwrap();
        let sparse = FeatureMap::kernel_at_most(&x.to_sparse(), 5, 1.0).unwrap();
        let all = [
            FeatureMap::identity(2),
            FeatureMap::identity(2).with_intercept(),
            FeatureMap::fourier(2, 3, 0.5, u64::MAX).unwrap(),
            kernel(),
            sparse,
            kernel().with_contexts().with_softmax(softmax()).unwrap(),
            FeatureMap::trees_from_parts(2, vec![0, u32::MAX, u32::MAX], vec![0.5, 0.0, 0.0]).unwrap().with_intercept(),
        ];
        for map in all {
            let mut out = Writer::default();
            map.write(&mut out);
            let bytes = out.finish();
            let read = FeatureMap::read(&mut Reader::new(&bytes)).unwrap();
            assert_eq!(read, map);
            let bits = |map: &FeatureMap| -> Vec<u32> {
                let mapped = map.apply(&x).unwrap().to_dense();
                mapped.iter().flat_map(|row| row.values().iter().map(|v| v.to_bits())).collect()
            };
            assert_eq!(bits(&read), bits(&map));
            assert!((0..bytes.len()).all(|end| FeatureMap::read(&mut Reader::new(&bytes[..end])).is_err()));
        }
    }
}
