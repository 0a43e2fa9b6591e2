//! Every page of the admin API, in one table: what is served and what is described cannot differ.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};

use crate::server::{self, Sources};
use crate::{operate, orders, replicas, stream, why};

/// The description of all of it, kept beside the code.
const OPENAPI: &str = include_str!("../openapi.json");

/// One page.
struct Route {
    path: &'static str,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "compared with what is described")
    )]
    method: &'static str,
    answer: MethodRouter<Sources>,
}

fn read(path: &'static str, answer: MethodRouter<Sources>) -> Route {
    let method = "get";
    Route {
        path,
        method,
        answer,
    }
}

fn write(path: &'static str, answer: MethodRouter<Sources>) -> Route {
    let method = "post";
    Route {
        path,
        method,
        answer,
    }
}

fn routes() -> Vec<Route> {
    vec![
        read("/v1/health", get(server::health)),
        read("/v1/sites", get(server::sites)),
        read("/v1/sites/{name}", get(operate::show)),
        write("/v1/sites/{name}/{verb}", post(operate::decide)),
        read("/v1/rtt", get(server::rtt)),
        write("/v1/scope/explain", post(server::explain)),
        read("/v1/resources", get(replicas::resources)),
        write("/v1/resources/adopt", post(orders::adopt)),
        read("/v1/resources/{id}", get(replicas::resource)),
        read("/v1/resources/{id}/diff", get(replicas::diff)),
        write("/v1/resources/{id}/repair", post(replicas::repair)),
        write("/v1/resources/{id}/promote", post(replicas::promote)),
        write("/v1/resources/{id}/rescope", post(orders::rescope)),
        read("/v1/operations", get(replicas::operations)),
        read("/v1/operations/{id}", get(replicas::operation)),
        write("/v1/operations/{id}/retry", post(replicas::retry)),
        write("/v1/operations/{id}/cancel", post(replicas::cancel)),
        read("/v1/conflicts", get(replicas::conflicts)),
        read("/v1/conflicts/{id}", get(replicas::conflict)),
        write("/v1/conflicts/{id}/resolve", post(orders::resolve)),
        read("/v1/why/{id}", get(why::why)),
        read("/v1/events", get(stream::events)),
        read("/v1/openapi.json", get(openapi)),
        read("/metrics", get(server::metrics)),
    ]
}

/// All pages, each answered by its own.
pub(crate) fn router() -> Router<Sources> {
    let mut router = Router::new();
    for Route { path, answer, .. } in routes() {
        router = router.route(path, answer);
    }
    router
}

async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_page_is_described_and_every_description_is_of_a_page() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                described.insert((path.clone(), method.clone()));
            }
        }
        let served = routes().into_iter();
        let served = served.map(|route| (route.path.to_owned(), route.method.to_owned()));
        assert_eq!(served.collect::<BTreeSet<_>>(), described);
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_parameter_of_a_path_is_described() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        check_references(&document, &document);
        for (path, methods) in document["paths"].as_object().unwrap() {
            let named = path.split('/').filter_map(|part| part.strip_prefix('{'));
            let named: BTreeSet<&str> = named.map(|part| part.trim_end_matches('}')).collect();
            for operation in methods.as_object().unwrap().values() {
                let given = operation["parameters"].as_array().unwrap().iter();
                let given = given.filter(|parameter| parameter["in"] == "path");
                let given = given.map(|parameter| parameter["name"].as_str().unwrap());
                assert_eq!(given.collect::<BTreeSet<_>>(), named, "{path}");
            }
        }
    }

    fn check_references(part: &Value, whole: &Value) {
        match part {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let place = reference.strip_prefix('#').unwrap();
                    assert!(whole.pointer(place).is_some(), "{reference}");
                }
                members
                    .values()
                    .for_each(|part| check_references(part, whole));
            }
            Value::Array(items) => items.iter().for_each(|part| check_references(part, whole)),
            _ => (),
        }
    }
}
