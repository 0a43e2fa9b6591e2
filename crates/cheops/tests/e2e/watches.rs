//! JSON that does not end: passed on as it comes, with the ids that clients see.

use serde_json::{Value, json};

use crate::common::client::Connection;
use crate::common::notes::Notes;
use crate::common::setup::Setup;
use crate::replicas::{BOTH, at, in_path};
use crate::resources::converged;

async fn document(connection: &mut Connection) -> Value {
    let size = connection.line().await.unwrap();
    let size = usize::from_str_radix(&size, 16).unwrap();
    let chunk = connection.exactly(size).await.unwrap();
    connection.line().await.unwrap();
    serde_json::from_slice(&chunk).unwrap()
}

#[tokio::test]
async fn a_watch_is_streamed_document_by_document() {
    let notes = [Notes::start().await, Notes::start().await];
    let setup = Setup::of(2)
        .image_at(1, notes[0].address())
        .image_at(2, notes[1].address());
    let mesh = setup.start().await;
    let made = at(&mesh, 1, "POST", "/notes", BOTH, json!({ "text": "a" })).await;
    let meta = in_path(&made.json()["id"]);
    converged(&mesh, 1, &meta).await;

    let mut watch = Connection::open(mesh.site(1).image).await;
    watch
        .head("GET /notes?watch=1 HTTP/1.1", &[("Host", "app.example")])
        .await;
    let head = watch.answer_head().await.unwrap();
    assert_eq!(
        (head.status, head.header("transfer-encoding")),
        (200, "chunked")
    );
    for _ in 0..3 {
        // The service has not ended its answer, and the client has this.
        let shown = document(&mut watch).await;
        assert_eq!(
            (in_path(&shown["id"]), &shown["text"]),
            (meta.clone(), &json!("a"))
        );
        notes[0].release();
    }
    drop(watch);
    // From another site, over the mesh.
    let mut watch = Connection::open(mesh.site(1).image).await;
    let headers = [("Host", "app.example"), ("X-Scope", "image: site2")];
    watch.head("GET /notes?watch=1 HTTP/1.1", &headers).await;
    assert_eq!(watch.answer_head().await.unwrap().status, 200);
    assert_eq!(in_path(&document(&mut watch).await["id"]), meta);
}
