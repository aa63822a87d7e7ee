//! What the command line says, word for word: help and errors, with their exit codes.
//!
//! After a change that is meant: `TRYCMD=overwrite cargo test -p surefoot-cli --test it snapshots`, and read the difference.

#[test]
fn help_and_errors_read_as_they_did() {
    let cases = trycmd::TestCases::new();
    // All streams are pipes here, so that the width of the help depends on this variable alone.
    cases.env("COLUMNS", "100").env("NO_COLOR", "1");
    cases.insert_var("[VERSION]", env!("CARGO_PKG_VERSION")).unwrap();
    cases.case("tests/cmd/*.trycmd");
}
