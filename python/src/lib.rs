//! The native part of the Python module `annals`. The module's own files give it its documented shape.

mod ends;
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
    module.add_function(wrap_pyfunction!(ends::close_all, module)?)?;
    // After the threads that the interpreter waits for, before the others are stopped.
    let close_all = module.getattr("close_all")?;
    module.py().import("atexit")?.call_method1("register", (close_all,))?;
    Ok(())
}
