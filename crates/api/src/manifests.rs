//! The manifests that were applied: a file for each resource, `manifests/{tenant}/{kind}/{name}.yaml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use manifest::{Resource, Route};

use crate::files::{blocking, named, remove, replace};
use crate::wrong::Done;

/// The files. Names are checked where a resource is read, so each is one path component.
#[derive(Clone, Debug)]
pub struct Manifests {
    data: Arc<Path>,
    directory: Arc<Path>,
}

impl Manifests {
    /// Those in the data directory `data`.
    pub fn new(data: &Path) -> Self {
        Self {
            data: data.into(),
            directory: data.join("manifests").into(),
        }
    }

    /// The routes of all tenants. A file that cannot be read is left out, and the log says so.
    pub fn all_routes(&self) -> Vec<Route> {
        let tenants = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let tenants = tenants.filter_map(|entry| entry.file_name().into_string().ok());
        tenants.flat_map(|tenant| self.routes_of(&tenant)).collect()
    }

    /// As [`Manifests::all_routes`], of one tenant.
    pub(crate) fn routes_of(&self, tenant: &str) -> Vec<Route> {
        let directory = self.directory.join(tenant).join("Route");
        let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let paths = files.map(|entry| entry.path()).filter(|path| is_manifest(path));
        let routes = paths.filter_map(|path| match read(&path) {
            Ok(Resource::Route(route)) => Some(route),
            Ok(_) => None,
            Err(error) => {
                tracing::error!(%error, "a route was left out");
                None
            }
        });
        routes.collect()
    }

    /// The resource as it was applied.
    pub(crate) async fn get(&self, tenant: &str, kind: &'static str, name: &str) -> Done<Option<Resource>> {
        let path = self.path(tenant, kind, name);
        blocking(move || if path.exists() { read(&path).map(Some) } else { Ok(None) }).await
    }

    /// Keeps a resource; once this returns, it survives a power cut.
    pub(crate) async fn put(&self, resource: &Resource) -> Done<()> {
        let path = self.path(resource.tenant(), resource.kind(), resource.name());
        let text = resource.to_yaml();
        let data = Arc::clone(&self.data);
        blocking(move || replace(&data, &path, text.as_bytes())).await
    }

    /// Forgets a resource; whether it was there.
    pub(crate) async fn remove(&self, tenant: &str, kind: &'static str, name: &str) -> Done<bool> {
        let path = self.path(tenant, kind, name);
        let data = Arc::clone(&self.data);
        blocking(move || remove(&data, &path)).await
    }

    fn path(&self, tenant: &str, kind: &str, name: &str) -> PathBuf {
        self.directory.join(tenant).join(kind).join(format!("{name}.yaml"))
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml")
}

fn read(path: &Path) -> Result<Resource, String> {
    let text = std::fs::read_to_string(path).map_err(|error| named(path, &error))?;
    let documents = manifest::parse(&path.to_string_lossy(), &text).map_err(|errors| errors.to_string())?;
    let document = documents.into_iter().next();
    document
        .map(|document| document.resource)
        .ok_or_else(|| format!("{}: holds no manifest", path.display()))
}
