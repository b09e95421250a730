//! Prints the public interface that a file of rustdoc's JSON describes: an item a line, in a stable order.
//!
//! Implementations that the compiler derives or gives to every type are left out: they follow from the item.

use std::env::args_os;
use std::io::{Write as _, stdout};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = args_os().nth(1).ok_or("usage: annals-interface RUSTDOC.json")?;
    let interface = public_api::Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    let mut out = stdout().lock();
    for item in interface.items() {
        writeln!(out, "{item}")?;
    }
    Ok(())
}
