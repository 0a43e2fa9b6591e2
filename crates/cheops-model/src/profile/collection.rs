//! One collection of an API: what its resources are and which calls do what to them.

use serde::Deserialize;

/// Resources of one kind, below one path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collection {
    /// `/v2/images`, or `/v2/images/{id}` for the same. `{id}` before the end is the id of a parent,
    /// `{}` any one segment, `{+}` one or more. `*` alone: every collection that no other one fits.
    pub path: String,
    /// What they are; the last fixed segment of the path if left out.
    pub kind: Option<String>,
    /// Members that hold their id; `ids.fields` if left out.
    pub id: Option<Vec<String>>,
    /// True if an id says nothing without its collection: the same name may stand in several that fit this path. Such a
    /// resource is known by all of its path from the first `{…}` on.
    #[serde(default)]
    pub id_is_path: bool,
    /// The header of a create's answer that names the new id, before anything in the body.
    pub id_header: Option<String>,
    /// Bodies are to be kept to the byte: they are not taken apart, and no id is replaced in them.
    #[serde(default)]
    pub opaque: bool,
    /// The one member of bodies that holds the resource, `server` for `{"server": {…}}`; `""` if there is
    /// none; guessed if left out.
    pub wrap: Option<String>,
    /// The member of an answer that holds the list; guessed if left out.
    pub list: Option<String>,
    /// Members of a list's answer that count the items.
    #[serde(default)]
    pub counts: Vec<String>,
    /// The call that makes one.
    #[serde(default)]
    pub create: CreateBy,
    /// The calls that change one, the best first.
    pub update: Option<Vec<UpdateRule>>,
    /// Whether clients may choose the id.
    #[serde(default)]
    pub chosen: Chosen,
    /// The shape of the id that an agent chooses for a client that does not.
    pub given: Option<Given>,
    /// What stands below one, by its path there.
    #[serde(default, rename = "sub")]
    pub subs: Vec<SubRule>,
    /// How a create of ours is proved.
    pub mark: Option<MarkRule>,
    /// How a create is found again without proof.
    #[serde(rename = "match")]
    pub matching: Option<MatchRule>,
    /// Content that has to be at a site before a resource that names it.
    pub needs: Option<NeedsRule>,
    /// The header of a read's answer whose value names the item to the call that deletes it.
    pub delete_by: Option<String>,
    /// When one may be worked on after it was made.
    pub ready: Option<ReadyRule>,
    /// Members that are the site's own, besides those of the profile.
    #[serde(default)]
    pub own: Vec<String>,
    /// Members a client may write only while creating. Settle leaves them as they are.
    #[serde(default)]
    pub fixed: Vec<String>,
}

/// The call that makes a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CreateBy {
    /// POST to the collection.
    #[default]
    Post,
    /// PUT of the item, whose id the client chose.
    Put,
    /// Either.
    Either,
    /// None: they appear by themselves.
    Never,
}

/// Whether clients may choose ids. Where they may, a meta-id is the local id everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// The service makes them.
    #[default]
    Never,
    /// The client may; the id of a deleted one is not accepted again.
    Once,
    /// The client may, also one that was used before.
    Again,
}

/// The shape of ids that agents choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// With dashes.
    Uuid,
    /// 32 digits.
    Hex,
}

/// One way to change a resource.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateRule {
    /// PUT, PATCH or POST, of the item.
    pub method: String,
    /// The content type.
    #[serde(rename = "type", default = "json")]
    pub media: String,
    /// What the body is.
    pub form: UpdateForm,
}

fn json() -> String {
    "application/json".to_owned()
}

/// What the body of an update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateForm {
    /// Members that change, objects merged, `null` removes (RFC 7396).
    Merge,
    /// Members that change, each as a whole.
    Members,
    /// Every member that a client wrote.
    Whole,
    /// A list of operations (RFC 6902).
    JsonPatch,
}

/// Something below a resource.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubRule {
    /// Below the item: `file`, `tags/{}`. `*`: anything else.
    pub path: String,
    /// The methods meant; all that change something if left out.
    #[serde(default)]
    pub methods: Vec<String>,
    /// What such a call is to the resource.
    pub is: CallKind,
    /// Whether it may be made twice.
    #[serde(default)]
    pub idempotent: bool,
}

/// What a call is to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallKind {
    /// Makes it.
    Create,
    /// Writes it.
    Update,
    /// Removes it.
    Delete,
    /// Does something that is not state.
    Action,
    /// Reads it, whatever the method.
    Read,
    /// Nobody's business.
    Other,
}

/// Our operation id in the resource: proof that a create is ours.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkRule {
    /// The member of the create's body, `server/metadata/cheops`; `tags/-` appends to a list.
    pub member: String,
    /// What it says; `{operation}` is the operation id.
    #[serde(default = "mark_value")]
    pub value: String,
    /// The list to look in, `/v2/images?tag={mark}`; the collection if left out.
    pub find: Option<String>,
}

fn mark_value() -> String {
    "cheops-{operation}".to_owned()
}

/// How a create is found again by what it has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchRule {
    /// False: doubt about a create is not settled at all.
    #[serde(default = "yes")]
    pub allowed: bool,
    /// The list to look in; `{name}` is the member of that name. The collection if left out.
    pub find: Option<String>,
    /// Members that answers do not show: passwords.
    #[serde(default)]
    pub ignore: Vec<String>,
}

fn yes() -> bool {
    true
}

/// Content that a resource names by its digest. A site that lacks it gets it from one that has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeedsRule {
    /// Members of the body that name it, `config/digest`; `layers/*/digest` for each of a list.
    pub members: Vec<String>,
    /// Where it is, relative to the item: `../blobs/{}`.
    pub item: String,
    /// Where POST begins an upload, relative to the item. The `Location` of its answer takes the content by PUT.
    pub upload: String,
    /// The query of that PUT that names the content.
    pub query: String,
}

/// When a resource may be worked on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadyRule {
    /// A JSON pointer into the answer to GET of the item.
    pub pointer: String,
    /// The values that mean yes.
    pub ready: Vec<String>,
    /// The values that mean it never will be.
    #[serde(default)]
    pub failed: Vec<String>,
}

/// A refusal that the status code alone does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusalRule {
    /// The status codes meant.
    pub status: Vec<u16>,
    /// What the body says somewhere; anything if left out.
    pub body: Option<String>,
    /// The calls meant; all if left out.
    #[serde(default)]
    pub calls: Vec<CallKind>,
    /// What it is.
    pub class: RefusalClass,
}

/// What a refusal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalClass {
    /// About the request itself.
    Verdict,
    /// No room now.
    NoRoom,
    /// Not ready yet.
    NotReady,
    /// No refusal: it is done already.
    Applied,
    /// It may have been done.
    Unknown,
}
