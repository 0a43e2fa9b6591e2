//! Content types, as far as they say whether a body is JSON.

/// True for `application/json`, `application/*+json` and the patch types that are JSON.
pub fn is_json(media: &str) -> bool {
    // As most services write it: asked of every answer of one that has replicants.
    if media == "application/json" {
        return true;
    }
    let essence = media.split(';').next().unwrap_or_default().trim();
    let Some((_, subtype)) = essence.split_once('/') else {
        return false;
    };
    let ends = |end: &str| {
        let at = subtype.len().checked_sub(end.len());
        at.and_then(|at| subtype.get(at..))
            .is_some_and(|tail| tail.eq_ignore_ascii_case(end))
    };
    subtype.eq_ignore_ascii_case("json") || ends("+json") || ends("-json-patch")
}

/// True for the types that are a list of operations (RFC 6902).
pub(crate) fn is_json_patch(media: &str) -> bool {
    let essence = media.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json-patch+json")
        || (is_json(essence) && essence.to_ascii_lowercase().ends_with("-json-patch"))
}

/// True for a merge patch (RFC 7396).
pub(crate) fn is_merge_patch(media: &str) -> bool {
    let essence = media.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/merge-patch+json")
}
