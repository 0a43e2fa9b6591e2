//! `GET /v1/why/{id}`: why a resource or an operation is where and how it is.

use axum::Json;
use axum::extract::{Path, Query, State};
use cheops_engine::replication::api::Reasons;

use crate::problem::Problem;
use crate::replicas::{Which, find};
use crate::server::Sources;

pub(crate) async fn why(
    State(sources): State<Sources>,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Result<Json<Reasons>, Problem> {
    match find(&sources, &id, &which) {
        Ok(known) => {
            if let Some(resource) = sources.replication.resource(&known).await {
                return Ok(Json(Reasons::of_resource(&resource)));
            }
        }
        // It may be an operation's.
        Err(Problem::NotFound(_)) => (),
        Err(problem) => return Err(problem),
    }
    let Some((item, scope)) = sources.replication.operation_with_scope(&id).await else {
        return Err(Problem::NotFound(format!(
            "this site has no record of {id}, as a resource or as an operation"
        )));
    };
    Ok(Json(Reasons::of_operation(&item, scope)))
}
