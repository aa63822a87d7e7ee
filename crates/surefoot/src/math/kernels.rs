//! Loops that run on the widest instructions of the machine.
//!
//! Each is a plain loop that the compiler vectorises; `pulp` compiles it once for every instruction set and picks one at
//! run time. Nothing is fused and nothing is summed across lanes, so that every machine gives the same bits.

use pulp::{Arch, NullaryFnOnce};

use super::normal::cdf_pdf;

/// `cdfs[b] = Phi(z - s_b)` and `hazards[b] = phi(z - s_b)/Phi(z - s_b)`.
pub(crate) fn cdfs_and_hazards(arch: Arch, z: f64, scores: &[f64], cdfs: &mut [f64], hazards: &mut [f64]) {
    arch.dispatch(CdfsAndHazards { z, scores, cdfs, hazards });
}

struct CdfsAndHazards<'a> {
    z: f64,
    scores: &'a [f64],
    cdfs: &'a mut [f64],
    hazards: &'a mut [f64],
}

impl NullaryFnOnce for CdfsAndHazards<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for ((hazard, cdf), &s) in self.hazards.iter_mut().zip(self.cdfs).zip(self.scores) {
            let (phi, density) = cdf_pdf(self.z - s);
            *cdf = phi;
            *hazard = density / phi;
        }
    }
}

/// `cdfs[b] = Phi(z - s_b)`.
pub(crate) fn cdfs(arch: Arch, z: f64, scores: &[f64], cdfs: &mut [f64]) {
    arch.dispatch(Cdfs { z, scores, cdfs });
}

struct Cdfs<'a> {
    z: f64,
    scores: &'a [f64],
    cdfs: &'a mut [f64],
}

impl NullaryFnOnce for Cdfs<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (cdf, s) in self.cdfs.iter_mut().zip(self.scores) {
            *cdf = cdf_pdf(self.z - s).0;
        }
    }
}
