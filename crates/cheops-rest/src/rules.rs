//! What a profile says of its collections, checked.

use cheops_model::profile::{
    CallKind, Chosen, Collection, CreateBy, Given, MarkRule, MatchRule, NeedsRule, ReadyRule,
    UpdateForm,
};

use crate::calls::Update;
use crate::error::ProfileError;
use crate::names::Names;
use crate::pattern::Pattern;
use crate::url::percent_encode_into;

/// One collection.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Nothing for the one that speaks for all others.
    pub(crate) pattern: Option<Pattern>,
    pub(crate) kind: String,
    pub(crate) id: Vec<String>,
    /// Where ids begin that are paths: after so many segments.
    pub(crate) id_from: Option<usize>,
    pub(crate) id_header: Option<String>,
    pub(crate) opaque: bool,
    pub(crate) wrap: Option<String>,
    pub(crate) list: Option<String>,
    pub(crate) counts: Vec<String>,
    pub(crate) create: CreateBy,
    pub(crate) updates: Vec<Update>,
    /// True if the profile names the updates, and so says what they do.
    pub(crate) described: bool,
    pub(crate) chosen: Chosen,
    pub(crate) given: Option<Given>,
    pub(crate) subs: Vec<Sub>,
    pub(crate) mark: Option<MarkRule>,
    pub(crate) matching: Option<MatchRule>,
    pub(crate) needs: Option<NeedsRule>,
    pub(crate) delete_by: Option<String>,
    pub(crate) ready: Option<ReadyRule>,
    pub(crate) own: Names,
    pub(crate) fixed: Names,
}

/// Something below an item.
#[derive(Clone, Debug)]
pub(crate) struct Sub {
    /// Nothing for `*`.
    pub(crate) pattern: Option<Pattern>,
    pub(crate) methods: Vec<String>,
    pub(crate) is: CallKind,
    pub(crate) idempotent: bool,
}

/// What is assumed of a collection that says nothing. Members as a whole: right for services that merge
/// and for those that replace.
fn usual_updates() -> Vec<Update> {
    [("PATCH", UpdateForm::Members), ("PUT", UpdateForm::Whole)]
        .map(|(method, form)| Update {
            method: method.to_owned(),
            media: "application/json".to_owned(),
            form,
        })
        .to_vec()
}

impl Rule {
    /// Of collections that the profile does not name.
    pub(crate) fn unwritten(fields: &[String]) -> Rule {
        let nothing = Collection {
            path: "*".to_owned(),
            create: CreateBy::Either,
            ..Collection::default()
        };
        Rule::read(&nothing, fields, "collection").expect("what is not written has no faults")
    }

    pub(crate) fn read(
        raw: &Collection,
        fields: &[String],
        key: &str,
    ) -> Result<Rule, ProfileError> {
        let at = |part: &str| format!("{key}.{part}");
        let pattern = match raw.path.as_str() {
            "*" => None,
            path => Some(Pattern::collection(path, &at("path"))?),
        };
        let named = pattern
            .as_ref()
            .map(|pattern| pattern.last_name().to_owned());
        let kind = raw.kind.clone().or(named).unwrap_or_default();
        if kind.is_empty() && pattern.is_some() {
            return Err(ProfileError::new(
                at("kind"),
                "is empty; leave it out or name it",
            ));
        }
        if raw
            .id
            .as_ref()
            .is_some_and(|id| id.is_empty() || id.iter().any(String::is_empty))
        {
            return Err(ProfileError::new(
                at("id"),
                "names no member; leave it out or name one",
            ));
        }
        let subs = raw
            .subs
            .iter()
            .enumerate()
            .map(|(n, sub)| Sub::read(sub, &at(&format!("sub[{n}]"))));
        if raw.id_is_path && raw.chosen == Chosen::Never {
            return Err(ProfileError::new(
                at("id_is_path"),
                "is for names that clients choose; `chosen` says they do not",
            ));
        }
        check_mark(raw.mark.as_ref(), &at("mark"))?;
        check_ready(raw.ready.as_ref(), &at("ready"))?;
        check_needs(raw.needs.as_ref(), &at("needs"))?;
        let finds = [
            raw.mark.as_ref().map(|mark| ("mark", &mark.find)),
            raw.matching.as_ref().map(|rule| ("match", &rule.find)),
        ];
        for (part, find) in finds.into_iter().flatten() {
            check_find(find.as_deref(), &at(&format!("{part}.find")))?;
        }
        Ok(Rule {
            kind,
            id: raw.id.clone().unwrap_or_else(|| fields.to_vec()),
            id_from: raw
                .id_is_path
                .then(|| pattern.as_ref().map_or(0, Pattern::fixed_segments)),
            id_header: raw.id_header.clone(),
            opaque: raw.opaque,
            wrap: raw.wrap.clone(),
            list: raw.list.clone(),
            counts: raw.counts.clone(),
            create: raw.create,
            updates: updates(raw, &at("update"))?,
            described: raw.update.is_some(),
            chosen: raw.chosen,
            given: raw.given,
            subs: subs.collect::<Result<_, _>>()?,
            mark: raw.mark.clone(),
            matching: raw.matching.clone(),
            needs: raw.needs.clone(),
            delete_by: raw.delete_by.clone(),
            ready: raw.ready.clone(),
            own: Names::read(raw.own.iter().map(String::as_str), &at("own"))?,
            fixed: Names::read(raw.fixed.iter().map(String::as_str), &at("fixed"))?,
            pattern,
        })
    }

    /// The path of an item. An id that is a path is kept as it came.
    pub(crate) fn item(&self, collection: &str, id: &str) -> String {
        let mut item = format!("{collection}/");
        match self.id_from {
            Some(_) => item.push_str(id),
            None => percent_encode_into(id, &mut item),
        }
        item
    }

    /// True if such an update writes what it writes, however often. Operations of a patch may not: `add` to a
    /// list twice is twice in it.
    pub(crate) fn writes_plainly(&self, method: &str) -> bool {
        let plainly = |way: &Update| way.method == method && way.form != UpdateForm::JsonPatch;
        self.described && self.updates.iter().any(plainly)
    }
}

fn updates(raw: &Collection, key: &str) -> Result<Vec<Update>, ProfileError> {
    let Some(ways) = &raw.update else {
        return Ok(usual_updates());
    };
    for way in ways {
        if !matches!(way.method.as_str(), "PUT" | "PATCH" | "POST") {
            let fault = format!("{:?} is none of PUT, PATCH, POST", way.method);
            return Err(ProfileError::new(format!("{key}.method"), fault));
        }
    }
    let ways = ways.iter().map(|way| Update {
        method: way.method.clone(),
        media: way.media.clone(),
        form: way.form,
    });
    Ok(ways.collect())
}

impl Sub {
    fn read(raw: &cheops_model::profile::SubRule, key: &str) -> Result<Sub, ProfileError> {
        let pattern = match raw.path.as_str() {
            "*" => None,
            path => Some(Pattern::below(path, &format!("{key}.path"))?),
        };
        if raw.is == CallKind::Create {
            let fault =
                "a create below a resource is a collection of its own: write its path as one";
            return Err(ProfileError::new(format!("{key}.is"), fault));
        }
        if raw
            .methods
            .iter()
            .any(|method| method.is_empty() || method.bytes().any(|b| !b.is_ascii_uppercase()))
        {
            return Err(ProfileError::new(
                format!("{key}.methods"),
                "a method is written in capitals, such as \"PUT\"",
            ));
        }
        Ok(Sub {
            pattern,
            methods: raw.methods.clone(),
            is: raw.is,
            idempotent: raw.idempotent,
        })
    }
}

fn check_needs(rule: Option<&NeedsRule>, key: &str) -> Result<(), ProfileError> {
    let Some(rule) = rule else {
        return Ok(());
    };
    let fault = match rule {
        rule if rule.members.is_empty() => ("members", "names no member of the body"),
        rule if !rule.item.contains("{}") => ("item", "has no `{}` for the name of the content"),
        rule if rule.query.is_empty() => ("query", "is empty"),
        _ => return Ok(()),
    };
    Err(ProfileError::new(format!("{key}.{}", fault.0), fault.1))
}

fn check_mark(mark: Option<&MarkRule>, key: &str) -> Result<(), ProfileError> {
    let Some(mark) = mark else { return Ok(()) };
    if mark.member.is_empty() || mark.member.starts_with('/') {
        let fault =
            "names a member of the create's body, such as `server/metadata/cheops` or `tags/-`";
        return Err(ProfileError::new(format!("{key}.member"), fault));
    }
    if !mark.value.contains("{operation}") {
        let fault = "has to contain `{operation}`, or it proves nothing";
        return Err(ProfileError::new(format!("{key}.value"), fault));
    }
    Ok(())
}

/// A path, or a query of the collection.
fn check_find(find: Option<&str>, key: &str) -> Result<(), ProfileError> {
    let Some(find) = find else { return Ok(()) };
    if !find.starts_with(['/', '?']) {
        return Err(ProfileError::new(
            key,
            format!("{find:?} begins with neither `/` nor `?`"),
        ));
    }
    let mut inside = false;
    for each in find.chars().filter(|each| matches!(each, '{' | '}')) {
        if inside == (each == '{') {
            return Err(ProfileError::new(
                key,
                format!("{find:?} has a brace without its other half"),
            ));
        }
        inside = each == '{';
    }
    match inside {
        true => Err(ProfileError::new(
            key,
            format!("{find:?} has a brace without its other half"),
        )),
        false => Ok(()),
    }
}

fn check_ready(ready: Option<&ReadyRule>, key: &str) -> Result<(), ProfileError> {
    let Some(ready) = ready else { return Ok(()) };
    if !ready.pointer.starts_with('/') {
        return Err(ProfileError::new(
            format!("{key}.pointer"),
            "a JSON pointer begins with `/`",
        ));
    }
    if ready.ready.is_empty() {
        return Err(ProfileError::new(
            format!("{key}.ready"),
            "names no value; it would never be ready",
        ));
    }
    if let Some(both) = ready
        .ready
        .iter()
        .find(|value| ready.failed.contains(value))
    {
        return Err(ProfileError::new(
            format!("{key}.failed"),
            format!("{both:?} is also in `ready`"),
        ));
    }
    Ok(())
}
