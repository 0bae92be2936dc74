//! Manifests that are applied at a cloud for one of its edges: kept there, brought over the link, applied by the edge
//! as its own are, and what became of each told back.

mod from_cloud;
mod records;
mod serving;
mod wanted;
mod wire;

pub(crate) mod for_edges;

pub(crate) use self::from_cloud::FromCloud;
pub use self::from_cloud::ManifestsFromCloud;
pub use self::serving::ManifestsForEdges;
pub(crate) use self::wanted::ForEdges;
pub(crate) use self::wire::Key;
