//! The normal distribution, the quadrature of the perturbed argmax, linear algebra and random numbers.

use std::ops::RangeInclusive;

pub(crate) mod kernels;
mod lattice;
pub(crate) mod linear;
pub(crate) mod moments;
pub(crate) mod normal;
pub(crate) mod perturbed;
mod prefetch;
pub(crate) mod quadrature;
pub(crate) mod random;
pub(crate) mod real;
pub(crate) mod sum;
#[allow(clippy::approx_constant)] // A step of 0.318 is not 1/pi.
mod tables;
pub(crate) mod unequal;

/// The allowed range of a standard deviation: its square neither underflows nor overflows.
pub(crate) const SCALES: RangeInclusive<f64> = 1e-50..=1e50;
