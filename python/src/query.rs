//! Values of SQL in both directions.

use annals::store::SqlValue;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};

use crate::errors::invalid;

/// Returns named parameters. The names are without a colon.
pub(crate) fn parameters(given: &Bound<'_, PyDict>) -> PyResult<Vec<(String, SqlValue)>> {
    given
        .iter()
        .map(|(name, value)| Ok((name.extract()?, of_python(&name.extract::<String>()?, &value)?)))
        .collect()
}

fn of_python(name: &str, value: &Bound<'_, PyAny>) -> PyResult<SqlValue> {
    if value.is_none() {
        return Ok(SqlValue::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(SqlValue::Integer(value.is_true().into()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(SqlValue::Integer(value.extract()?));
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(SqlValue::Real(value.value()));
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(SqlValue::Text(value.to_str()?.to_owned()));
    }
    if let Ok(value) = value.cast::<PyBytes>() {
        return Ok(SqlValue::Blob(value.as_bytes().to_vec()));
    }
    let class = value.get_type().name()?.to_string();
    Err(invalid(format!(
        "the parameter {name} is a {class}; None, bool, int, float, str and bytes are possible"
    )))
}

/// Returns a value as a Python object.
pub(crate) fn to_python(py: Python<'_>, value: SqlValue) -> PyResult<Bound<'_, PyAny>> {
    match value {
        SqlValue::Null => Ok(py.None().into_bound(py)),
        SqlValue::Integer(value) => value.into_bound_py_any(py),
        SqlValue::Real(value) => value.into_bound_py_any(py),
        SqlValue::Text(value) => value.into_bound_py_any(py),
        SqlValue::Blob(value) => Ok(PyBytes::new(py, &value).into_any()),
    }
}
