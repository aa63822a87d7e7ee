//! The normal distribution, the quadrature of the perturbed argmax, linear algebra and random numbers.

mod kernels;
pub(crate) mod linear;
pub(crate) mod normal;
pub(crate) mod perturbed;
pub(crate) mod random;
#[allow(clippy::approx_constant)] // A step of 0.318 is not 1/pi.
mod tables;
