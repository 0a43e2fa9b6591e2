//! `sample-compute`: the compute service as a process of its own.

use std::io::{self, Write};
use std::net::SocketAddr;

use cheops_samples::IdForm;
use cheops_samples::compute::{Config, REQUEST_ID_HEADER, serve};
use clap::Parser;
use hyper::Uri;
use hyper::header::HeaderName;
use tokio::net::TcpListener;

/// Boots servers from images: POST /servers {"name", "image_id"}.
#[derive(Parser)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The name in the header X-Sample-Site and in `booted_at`.
    #[arg(long, value_name = "NAME", default_value = "site1")]
    site: String,
    /// Where images are fetched.
    #[arg(long, value_name = "URL")]
    image_url: Uri,
    /// What ids look like.
    #[arg(long, value_enum, default_value = "uuid")]
    ids: IdForm,
    /// The headers that go along to the image service.
    #[arg(long, value_name = "HEADER", value_delimiter = ',', default_value = REQUEST_ID_HEADER)]
    pass_on: Vec<HeaderName>,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let mut config = Config::new(arguments.site, arguments.image_url);
    config.ids = arguments.ids;
    config.passed_on = arguments.pass_on;
    let listener = TcpListener::bind(arguments.listen).await?;
    writeln!(
        io::stdout(),
        "listening on http://{}",
        listener.local_addr()?
    )?;
    serve(listener, config).await
}
