//! `sample-image`: the image service as a process of its own.

use std::io::{self, Write};
use std::net::SocketAddr;

use cheops_samples::IdForm;
use cheops_samples::image::{Config, serve};
use clap::Parser;
use tokio::net::TcpListener;

/// A store of images: POST /images, PUT /images/{id}/file, and so on.
#[derive(Parser)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The name in the header X-Sample-Site.
    #[arg(long, value_name = "NAME", default_value = "site1")]
    site: String,
    /// What ids look like.
    #[arg(long, value_enum, default_value = "uuid")]
    ids: IdForm,
    /// The largest content that is kept, per image; a larger one reads as zeros.
    #[arg(long, value_name = "BYTES")]
    kept_bytes_max: Option<u64>,
    /// Keep no content at all: hash it and drop it.
    #[arg(long, conflicts_with = "kept_bytes_max")]
    discard: bool,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let mut config = Config::new(arguments.site);
    config.ids = arguments.ids;
    if let Some(bytes) = arguments.kept_bytes_max {
        config.kept_bytes_max = bytes;
    }
    if arguments.discard {
        config.kept_bytes_max = 0;
    }
    let listener = TcpListener::bind(arguments.listen).await?;
    writeln!(
        io::stdout(),
        "listening on http://{}",
        listener.local_addr()?
    )?;
    serve(listener, config).await
}
