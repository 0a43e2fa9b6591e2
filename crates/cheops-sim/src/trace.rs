//! Calls and messages in a few words.

use cheops_core::eventual::{Body, Entry, Row};
use cheops_core::{Call, Message};

/// A message in one line.
pub fn message(message: &Message) -> String {
    match message {
        Message::Submit { submission, epoch } => {
            format!("submit {:?} under {epoch:?}", submission.op.id)
        }
        Message::Append {
            header,
            entries,
            base,
        } => format!(
            "append {:?} {:?} runs {:?} rows v{} {} {}{}",
            header.id,
            header.epoch,
            header.runs,
            header.rows_version,
            rows(header.rows.iter().map(|(site, row)| (site.as_str(), row))),
            entries.iter().map(entry).collect::<Vec<_>>().join(" "),
            if base.is_some() { " with base" } else { "" },
        ),
        Message::Report {
            replicant,
            epoch,
            promised,
            runs,
            row,
            results,
            recovering,
            ..
        } => format!(
            "report {replicant:?} {epoch:?} promised {promised:?} runs {runs:?} {} {results:?}{}",
            rows([("own", row)].into_iter()),
            if *recovering { " recovering" } else { "" },
        ),
        Message::Promise {
            epoch,
            header,
            entries,
            base,
        } => format!(
            "promise {:?} {epoch:?} runs {:?} {}{}",
            header.id,
            header.runs,
            entries.iter().map(entry).collect::<Vec<_>>().join(" "),
            if base.is_some() { " with base" } else { "" },
        ),
        Message::Shared { headers, .. } => format!(
            "shared {:?}",
            headers.iter().map(|h| h.id).collect::<Vec<_>>()
        ),
        other => format!("{other:?}"),
    }
}

fn rows<'a>(rows: impl Iterator<Item = (&'a str, &'a Row)>) -> String {
    let row = |(site, row): (&str, &Row)| {
        let note = row.note.map_or(String::new(), |(index, status)| {
            format!(" held at {index} by {status}")
        });
        format!("{site}:{:?}@{}{note}", row.state, row.applied)
    };
    format!("[{}]", rows.map(row).collect::<Vec<_>>().join(" "))
}

fn entry(entry: &Entry) -> String {
    let what = match &entry.body {
        Body::Run(op) => format!("{:?} {:?}", op.kind, op.id),
        Body::Void(id) => format!("void {id:?}"),
        Body::Park(op) => format!("park {:?}", op.id),
    };
    format!("#{} {:?} {what};", entry.index, entry.epoch)
}

/// A call in one line.
pub fn call(call: &Call) -> String {
    match call {
        Call::Create { op, fields } => format!("create {:?} {fields:?}", op.id),
        Call::Run { op, local } => {
            format!("{:?} {:?} {:?} on {local:?}", op.kind, op.id, op.fields)
        }
        Call::Settle {
            local,
            fields,
            unset,
        } => format!("settle {local} {fields:?} without {unset:?}"),
        Call::Delete { local, only_if, .. } => format!("delete {local} if {only_if:?}"),
        Call::Probe { how, op, .. } => format!("probe {:?} by {how:?}", op.id),
    }
}
