//! Reads the models of a LiteLLM proxy: their windows, abilities and prices, under the names that the proxy gives them.

use std::time::Duration;

use super::http::Transport;
use super::known::Models;
use super::settings::Settings;
use crate::json::{Out, Raw};

/// The timeout of the request.
const WAIT: Duration = Duration::from_secs(10);

/// The maximum length of the answer, in bytes.
const BYTES_MAX: usize = 16 << 20;

impl Models {
    /// Returns the tables with the models of the settings' proxy on top. The tables are unchanged if the settings name
    /// no proxy, or if its answer cannot be read. A missing answer is not an error, because models may be unknown.
    pub async fn with_proxy(self, settings: &Settings, transport: &Transport) -> Self {
        let proxies = ["litellm_proxy/", "openhands/"];
        let is_proxy = proxies.iter().any(|prefix| settings.model.starts_with(prefix));
        let Some(base) = settings.base_url.as_deref().filter(|_| is_proxy) else { return self };
        let base = base.trim_end_matches('/');
        let url = format!("{}/v1/model/info", base.strip_suffix("/v1").unwrap_or(base));
        let key = settings.api_key.as_ref().and_then(|key| key.secret()).map(|key| key.expose());
        let response = tokio::time::timeout(WAIT, read(transport, &url, key)).await;
        let table = response.ok().flatten().and_then(|answer| table(&answer));
        match table.map(|table| self.clone().with_table(&table)) {
            Some(Ok(models)) => models,
            _ => self,
        }
    }
}

async fn read(transport: &Transport, url: &str, key: Option<&str>) -> Option<String> {
    let mut response = transport.get(url, key).await.filter(|response| response.status().is_success())?;
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.ok()? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > BYTES_MAX {
            return None;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns the proxy's list as a table. Each model has two names: its own, and the name of the model behind it.
fn table(answer: &str) -> Option<String> {
    let list = Raw::parse(answer).ok()?.get("data").filter(|list| list.is_array())?;
    let mut out = Out::default();
    out.open("{");
    for entry in list.elements() {
        let Some(info) = entry.get("model_info").filter(|info| info.is_object()) else { continue };
        let behind = entry.get("litellm_params").and_then(|params| params.get("model"));
        let names = [entry.get("model_name"), behind].into_iter().flatten().filter_map(Raw::as_str);
        for name in names {
            out.key(&name.to_lowercase());
            out.raw(info.text());
        }
    }
    out.close("}");
    Some(out.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxys_list_is_a_table_by_both_names() {
        let answer = r#"{"data":[{"model_name":"Prod/Mine","litellm_params":{"model":"anthropic/claude-x"},
            "model_info":{"max_input_tokens":99000,"supports_vision":true}},{"model_name":"no-info"}]}"#;
        let models = Models::default().with_table(&table(answer).unwrap()).unwrap();
        for name in ["litellm_proxy/prod/mine", "litellm_proxy/anthropic/claude-x"] {
            let known = models.find(name, "litellm_proxy").unwrap();
            assert_eq!((known.input_tokens_max, known.vision), (Some(99_000), Some(true)), "{name}");
        }
        assert_eq!(table("[]"), None);
    }
}
