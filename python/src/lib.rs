//! The native part of the Python module `annals`. The module's own files give it its documented shape.

mod errors;
mod follow;
mod query;
mod store;
mod values;

use pyo3::prelude::*;

/// The classes that `annals/` uses.
#[pymodule]
fn _annals(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<store::Store>()?;
    module.add_class::<follow::Follower>()?;
    module.add_class::<values::Conversation>()?;
    module.add_class::<values::Event>()?;
    module.add_class::<values::Appended>()?;
    module.add_class::<values::Line>()?;
    module.add_class::<values::Hit>()?;
    module.add_class::<values::Usage>()?;
    module.add_class::<values::Attachment>()?;
    module.add_class::<values::Finding>()?;
    module.add_class::<values::Verification>()?;
    module.add_class::<values::Imported>()?;
    Ok(())
}
