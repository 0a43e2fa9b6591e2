//! Commands about what lives on several sites, and what they share: asking, failing, printing.

pub(crate) mod conflict;
pub(crate) mod op;
pub(crate) mod resource;
pub(crate) mod wait;
pub(crate) mod why;

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use bytes::Bytes;
use cheops_control::client::Client;
use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::replicas::RightsArgs;
use crate::cli::{AskArgs, Format};
use crate::terminal;

/// `GET`, as what it is known to be.
async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> anyhow::Result<T> {
    read(client.get(path).await?)
}

/// `POST`, likewise.
async fn post<T: DeserializeOwned>(client: &Client, path: &str, body: &Value) -> anyhow::Result<T> {
    read(client.post(path, body.to_string().into_bytes()).await?)
}

/// An object, or what the agent says is wrong.
fn read<T: DeserializeOwned>((status, body): (StatusCode, Bytes)) -> anyhow::Result<T> {
    if !status.is_success() {
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        match problem["detail"].as_str() {
            Some(detail) => bail!("{detail}"),
            None => bail!("the agent answered {status}"),
        }
    }
    serde_json::from_slice(&body)
        .context("the agent's answer cannot be read; is it as new as this program?")
}

/// Headers as they were typed, or as they stand in a file: what is typed is seen by everybody on the machine.
fn headers(rights: &RightsArgs) -> anyhow::Result<BTreeMap<String, String>> {
    let mut lines = Vec::new();
    for given in &rights.headers {
        match given.strip_prefix('@') {
            None => lines.push(given.clone()),
            Some(file) => {
                let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
                lines.extend(text.lines().map(str::to_owned));
            }
        }
    }
    let mut headers = BTreeMap::new();
    for line in lines.iter().filter(|line| !line.trim().is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            bail!("--header: write `Name: value`");
        };
        headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
    }
    Ok(headers)
}

/// Prints the object itself, or what `text` makes of it.
fn show<T: Serialize>(
    ask: &AskArgs,
    object: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    match ask.format.format {
        Format::Json => terminal::print(&serde_json::to_string_pretty(object)?),
        Format::Text => terminal::print(&text(object)),
    }
    Ok(())
}

/// A path with its query; what is not given is left out.
fn with_query(path: &str, members: &[(&str, Option<&str>)]) -> String {
    let given = members
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", escape((*value)?))));
    let query: Vec<String> = given.collect();
    match query.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", query.join("&")),
    }
}

/// One segment of a path or a value of a query.
fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escaped = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escaped).collect()
}

/// At most that many characters, so that a line fits.
fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn or_dash(text: Option<&str>) -> &str {
    text.unwrap_or("-")
}

/// How long ago an RFC 3339 time was.
fn age_of(time: Option<&str>) -> String {
    let since = time.and_then(terminal::since);
    since.map_or_else(|| "-".to_owned(), terminal::age)
}

/// Says that there are more than were asked for.
fn with_rest(mut table: String, next: Option<&String>) -> String {
    if next.is_some() {
        table.push_str("\nthere are more: raise --limit");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_cannot_leave_its_place_in_a_path() {
        let path = with_query("/v1/x", &[("a", Some("1&b=2/?")), ("c", None)]);
        assert_eq!(path, "/v1/x?a=1%26b%3D2%2F%3F");
        assert_eq!(clip("12345", 4), "123…");
        assert_eq!(clip("1234", 4), "1234");
    }
}
