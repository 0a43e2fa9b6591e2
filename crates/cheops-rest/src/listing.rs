//! Lists in answers: where the items are, and where the list goes on.

use crate::id::kinds_agree;
use crate::json::{Node, decode};
use crate::rules::Rule;
use crate::url::target_of;

/// Members that hold the items of a list of anything.
const LISTS: &[&str] = &[
    "items",
    "data",
    "results",
    "records",
    "entries",
    "values",
    "value",
    "list",
    "objects",
    "resources",
    "content",
];
/// Members that count what there is, shown or not.
const TOTALS: &[&str] = &[
    "total",
    "total_count",
    "totalCount",
    "totalItems",
    "total_items",
    "count",
];

impl Rule {
    /// The list that an answer holds.
    pub(crate) fn list_of<'n, 'a>(&self, root: &'n Node<'a>, kind: &str) -> Option<&'n Node<'a>> {
        if root.items().is_some() {
            return Some(root);
        }
        if let Some(name) = &self.list {
            return root.get(name).filter(|list| list.items().is_some());
        }
        let lists = || {
            root.members()
                .iter()
                .filter(|(_, value)| value.items().is_some())
        };
        let named = lists().find(|(name, _)| kinds_agree(name, kind));
        let usual = || lists().find(|(name, _)| LISTS.contains(name));
        let only = || {
            let mut rest = lists().filter(|(name, _)| !name.ends_with("links"));
            rest.next().filter(|_| rest.next().is_none())
        };
        if let Some((_, list)) = named.or_else(usual).or_else(only) {
            return Some(list);
        }
        let mut objects = root.members().iter().filter(|(_, value)| value.is_object());
        objects.find_map(|(_, inner)| {
            let lists = inner.members().iter();
            let mut lists = lists.filter(|(name, value)| {
                value.items().is_some() && (LISTS.contains(name) || kinds_agree(name, kind))
            });
            lists.next().map(|(_, list)| list)
        })
    }
}

/// Where the list goes on, if the answer says so: path and query.
pub(crate) fn next_page(root: &Node<'_>, link_header: Option<&str>) -> Option<String> {
    if let Some(url) = link_header.and_then(next_of_header) {
        return Some(target_of(url).to_owned());
    }
    let (_, url) = next_of_body(root)?;
    Some(target_of(&url).to_owned()).filter(|target| !target.is_empty())
}

/// The member that says where the list goes on.
pub(crate) fn next_link<'n, 'a>(root: &'n Node<'a>) -> Option<&'n Node<'a>> {
    next_of_body(root).map(|(link, _)| link)
}

fn next_of_body<'n, 'a>(root: &'n Node<'a>) -> Option<(&'n Node<'a>, String)> {
    for (name, value) in root.members() {
        let found = match *name {
            "next" | "next_url" | "nextLink" | "@odata.nextLink" | "next_page_url" => {
                url(value).map(|url| (value, url))
            }
            "links" | "_links" | "paging" | "pagination" => {
                let next = value.get("next").and_then(|next| Some((next, url(next)?)));
                next.or_else(|| Some((value, rel_next(value)?)))
            }
            name if name.ends_with("_links") => rel_next(value).map(|url| (value, url)),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// A URL, or an object that holds one.
fn url(value: &Node<'_>) -> Option<String> {
    let text = |node: &Node<'_>| match node.of {
        crate::json::Of::Text(raw) => Some(decode(raw).into_owned()),
        _ => None,
    };
    let found = text(value).or_else(|| value.get("href").and_then(text))?;
    (found.contains('/') || found.starts_with('?')).then_some(found)
}

fn rel_next(value: &Node<'_>) -> Option<String> {
    let mut links = value.items()?.iter();
    let next = links.find(|link| {
        link.get("rel")
            .and_then(Node::scalar)
            .is_some_and(|rel| rel == "next")
    })?;
    url(next)
}

fn next_of_header(value: &str) -> Option<&str> {
    value.split('<').skip(1).find_map(|link| {
        let (url, rest) = link.split_once('>')?;
        let rel = rest
            .split(';')
            .map(str::trim)
            .find_map(|part| part.strip_prefix("rel="))?;
        let rel = rel.trim_end_matches(',').trim().trim_matches('"');
        rel.split(' ').any(|each| each == "next").then_some(url)
    })
}

/// True if the answer counts more items than it shows.
pub(crate) fn shows_less_than_all(root: &Node<'_>, shown: usize) -> bool {
    let more = |(name, value): &(&str, Node<'_>)| {
        TOTALS.contains(name) && value.raw.parse::<usize>().is_ok_and(|total| total > shown)
    };
    root.members().iter().any(more)
}
