//! Ledgers. Any text is a ledger or an error; a ledger that is written and read again is the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use surefoot::audit::Ledger;

fuzz_target!(|text: &str| {
    if let Ok(ledger) = text.parse::<Ledger>() {
        let again: Ledger = ledger.to_string().parse().expect("a ledger that was written");
        assert_eq!(again, ledger);
    }
});
