//! The number, the statuses and the durations of requests, by route.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Method, StatusCode};

use super::histogram::Histogram;
use super::text::{Kind, Text};

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 13] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The methods that are counted separately. All other methods are counted as one.
const METHODS: [&str; 7] = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];
const OTHER_METHOD: &str = "OTHER";

/// Requests by route, and by the name of a key.
#[derive(Default)]
pub(in crate::server) struct Metrics {
    routes: Mutex<BTreeMap<String, BTreeMap<&'static str, Series>>>,
    keys: Mutex<BTreeMap<Arc<str>, BTreeMap<u16, u64>>>,
}

/// The requests of one route and method.
struct Series {
    statuses: BTreeMap<u16, u64>,
    took: Histogram,
}

impl Default for Series {
    fn default() -> Self {
        Self { statuses: BTreeMap::new(), took: Histogram::new(&BOUNDS) }
    }
}

impl Metrics {
    /// Counts an answered request.
    pub fn count(&self, route: &str, method: &Method, status: StatusCode, took: Duration) {
        let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER_METHOD);
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if !routes.contains_key(route) {
            routes.insert(route.to_owned(), BTreeMap::new());
        }
        let Some(methods) = routes.get_mut(route) else { return };
        let series = methods.entry(method).or_default();
        *series.statuses.entry(status.as_u16()).or_default() += 1;
        series.took.add(took);
    }

    /// Counts an answered request of a caller with a named key.
    pub fn count_key(&self, name: &Arc<str>, status: StatusCode) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        *keys.entry(Arc::clone(name)).or_default().entry(status.as_u16()).or_default() += 1;
    }

    /// Writes the counts. `names` are the names of the keys that may be used; the counts of others are forgotten.
    pub fn write(&self, text: &mut Text, names: &[String]) {
        self.write_routes(text);
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|name, _| names.iter().any(|known| **known == **name));
        let requests = "annals_key_requests_total";
        text.head(requests, Kind::Counter, "Requests with a named key, by the key's name and the status.");
        for (name, statuses) in keys.iter() {
            for (status, count) in statuses {
                text.line(requests, &[("key", name), ("status", &status.to_string())], *count as f64);
            }
        }
    }

    fn write_routes(&self, text: &mut Text) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let all = || {
            routes.iter().flat_map(|(route, methods)| {
                methods.iter().map(move |(method, series)| (route, method, series))
            })
        };
        let requests = "annals_http_requests_total";
        text.head(requests, Kind::Counter, "Requests by route, method and status.");
        for (route, method, series) in all() {
            for (status, count) in &series.statuses {
                let status = status.to_string();
                text.line(
                    requests,
                    &[("method", method), ("route", route), ("status", &status)],
                    *count as f64,
                );
            }
        }
        let took = "annals_http_request_seconds";
        text.head(took, Kind::Histogram, "Seconds until an answer began, by route and method.");
        for (route, method, series) in all() {
            series.took.write(text, took, &[("method", method), ("route", route)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_unknown_methods_are_counted_as_one() {
        let metrics = Metrics::default();
        let unknown = Method::from_bytes(b"FROBNICATE").unwrap();
        metrics.count("/a/{id}", &Method::GET, StatusCode::OK, Duration::from_millis(1));
        metrics.count("/a/{id}", &Method::GET, StatusCode::NOT_FOUND, Duration::from_secs(100));
        metrics.count("/a/{id}", &unknown, StatusCode::METHOD_NOT_ALLOWED, Duration::ZERO);
        metrics.count_key(&"ann".into(), StatusCode::OK);
        metrics.count_key(&"gone".into(), StatusCode::OK);
        let mut text = Text::default();
        metrics.write(&mut text, &["ann".to_owned()]);
        let text = text.into_string();
        assert!(!text.contains("gone"), "{text}");
        for line in [
            r#"annals_key_requests_total{key="ann",status="200"} 1"#,
            r#"annals_http_requests_total{method="GET",route="/a/{id}",status="200"} 1"#,
            r#"annals_http_requests_total{method="GET",route="/a/{id}",status="404"} 1"#,
            r#"annals_http_requests_total{method="OTHER",route="/a/{id}",status="405"} 1"#,
            r#"annals_http_request_seconds_bucket{method="GET",route="/a/{id}",le="0.0005"} 0"#,
            r#"annals_http_request_seconds_bucket{method="GET",route="/a/{id}",le="0.001"} 1"#,
            r#"annals_http_request_seconds_bucket{method="GET",route="/a/{id}",le="10"} 1"#,
            r#"annals_http_request_seconds_bucket{method="GET",route="/a/{id}",le="+Inf"} 2"#,
            r#"annals_http_request_seconds_sum{method="GET",route="/a/{id}"} 100.001"#,
            r#"annals_http_request_seconds_count{method="GET",route="/a/{id}"} 2"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
