//! `cheops why`.

use std::fmt::Write;
use std::process::ExitCode;

use cheops_engine::replication::api::Reasons;

use super::{escape, get, show, with_query};
use crate::cli::replicas::OneArgs;
use crate::commands::block_on;

pub(crate) fn run(one: &OneArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let path = format!("/v1/why/{}", escape(&one.id));
        let path = with_query(&path, &[("service", one.service.as_deref())]);
        let reasons: Reasons = get(&one.ask.admin.client(), &path).await?;
        show(&one.ask, &reasons, page)?;
        let stuck = reasons.reasons.iter().any(|reason| reason.next.is_some());
        Ok(ExitCode::from(u8::from(stuck)))
    })
}

fn page(reasons: &Reasons) -> String {
    let mut text = format!("{} {}", reasons.about, reasons.id);
    for reason in &reasons.reasons {
        let site = reason.site.as_ref();
        let place = site.map_or_else(String::new, |site| format!("{site}: "));
        let _ = write!(text, "\n{place}{}: {}", reason.state, reason.why);
        if let Some(next) = &reason.next {
            let _ = write!(text, "\n  {next}");
        }
    }
    text
}
