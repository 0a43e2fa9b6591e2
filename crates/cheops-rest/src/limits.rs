//! What is bounded here, why, and what happens at the bound.

/// JSON in which ids are looked for. A larger body is [`crate::RewriteError::TooLarge`]: it would have to
/// be held in memory whole, and passing it on with local ids in it would be worse than not at all.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// Objects and lists within each other. Deeper JSON is an error; no service writes it, and the walk is recursive.
pub const DEPTH_MAX: usize = 128;

/// How deep members are taken apart into fields; what is deeper is one field. Keys stay short that way.
pub const FIELD_DEPTH_MAX: usize = 16;

/// Segments of a path that are looked at. A longer path is nobody's business.
pub const SEGMENTS_MAX: usize = 32;

/// Collections in a profile: each one is tried in turn for a request.
pub const COLLECTIONS_MAX: usize = 256;

/// Pages of a list that a search for a lost create follows. Then it gives up as if several were found.
pub const PAGES_MAX: usize = 64;

/// Operations in one patch. Each may copy a list that a client wrote; a longer patch is refused as unclear.
pub const PATCH_OPERATIONS_MAX: usize = 1000;

/// Contents that one request may need. More are not looked for: the service says what is missing.
pub const NEEDS_MAX: usize = 256;
