//! Errors of the store as exceptions of `annals.errors`.

use annals::Error;
use annals::error::ErrorClass;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Returns the exception for an error of the store.
pub(crate) fn raised(error: Error) -> PyErr {
    if matches!(error, Error::Closed) {
        Python::attach(crate::ends::stop_daemon);
        return invalid("the store is closed");
    }
    let name = match error.class() {
        _ if is_not_found(&error) => "MissingError",
        _ if matches!(&error, Error::CannotOpen { what, .. } if what.starts_with("there is no")) => {
            "MissingError"
        }
        ErrorClass::Missing => "MissingError",
        ErrorClass::Conflict => "ConflictError",
        ErrorClass::Invalid => "InvalidError",
        ErrorClass::TooLarge => "TooLargeError",
        ErrorClass::Cancelled => "CancelledError",
        ErrorClass::Busy => "BusyError",
        ErrorClass::Full => "FullError",
        ErrorClass::Unusable => "UnusableError",
        ErrorClass::Failed => "DamagedError",
        _ => "Error",
    };
    match &error {
        Error::QueryRefused { what, hint: Some(hint) } => of_class(name, format!("{what}; {hint}")),
        Error::Conflict { actual, .. } => Python::attach(|py| {
            let raised = of_class(name, error.to_string());
            match raised.value(py).setattr("found", *actual) {
                Ok(()) => raised,
                Err(failed) => failed,
            }
        }),
        error => of_class(name, error.to_string()),
    }
}

/// Returns whether a file or folder that the call names is not there.
fn is_not_found(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Returns an exception for a value that a caller gave and that cannot be used.
pub(crate) fn invalid(what: impl Into<String>) -> PyErr {
    of_class("InvalidError", what.into())
}

fn of_class(name: &str, text: String) -> PyErr {
    Python::attach(|py| {
        let class = py.import("annals.errors").and_then(|module| module.getattr(name));
        match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, text),
            Err(error) => error,
        }
    })
}
