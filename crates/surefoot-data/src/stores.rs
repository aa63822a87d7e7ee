//! STORES: objects of Amazon S3 and of stores that speak its language, of Google Cloud Storage and of Azure Blob Storage, and
//! files of web servers.
//!
//! An object is named by a URL wherever a path is taken: `s3://bucket/key`, `gs://bucket/key`, `az://container/key`,
//! `https://host/file`. A prefix of keys is a folder. Credentials and endpoints come from the usual environment variables
//! (`AWS_...`, `GOOGLE_...`, `AZURE_...`).
//!
//! - An object is read in [blocks](Blocks) when they are needed, so nothing is downloaded that is not read. Each answer is
//!   compared with what the object was when it was opened: two versions are never mixed.
//! - A connection that is cut is opened again, from the byte where it was cut, a few times.
//! - An object is written at the end, from a temporary file, and appears complete or not at all.
//!
//! Without the feature `stores`, every URL is refused ([`absent`]).

#[cfg(not(feature = "stores"))]
mod absent;
#[cfg(feature = "stores")]
mod blocks;
#[cfg(feature = "stores")]
mod client;
#[cfg(feature = "stores")]
mod object;
#[cfg(feature = "stores")]
mod upload;

#[cfg(not(feature = "stores"))]
pub(crate) use absent::{Blocks, Object, Reader, check_writable, list, put, remove};
#[cfg(feature = "stores")]
pub(crate) use {
    blocks::{Blocks, Reader},
    object::{Object, list},
    upload::{check_writable, put, remove},
};

use std::path::Path;

/// Whether a path is a URL: a scheme in lower case, and `://`.
pub(crate) fn is_url(path: &Path) -> bool {
    split(path).is_some()
}

/// The scheme of a URL, and what follows it.
fn split(path: &Path) -> Option<(&str, &str)> {
    let (scheme, rest) = path.to_str()?.split_once("://")?;
    let named = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    named.then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme() {
        for url in ["s3://bucket/key", "https://host/a.csv", "s3://", "ftp://host/a"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for path in ["a/b.csv", "/a//b", "://a", "C://a", "-", "columns:pi_", "a b://c"] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
        // What the crate does with paths keeps a URL whole.
        let path = Path::new("s3://bucket/a/next.safetensors");
        assert_eq!(path.with_file_name("b").to_str(), Some("s3://bucket/a/b"));
        assert_eq!(path.with_extension("").to_str(), Some("s3://bucket/a/next"));
        assert_eq!(Path::new("s3://bucket/a/").join("b").to_str(), Some("s3://bucket/a/b"));
    }
}
