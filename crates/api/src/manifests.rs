//! The manifests that were applied: a file for each resource, `manifests/{tenant}/{kind}/{name}.yaml`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agent::image::retention::Need;
use agent::workload::Configuration;
use manifest::workload::{Deployments, Service};
use manifest::{Resource, Route};
use route::CompiledRoute;

use crate::files::{blocking, named, remove, replace};
use crate::wrong::Done;

/// The files. Names are checked where a resource is read, so each is one path component.
#[derive(Debug)]
pub struct Manifests {
    data: Arc<Path>,
    directory: Arc<Path>,
    /// A route is compiled once, however many are applied after it: the hub is given all of a tenant's each time.
    routes: PerTenant<RoutesOfTenant>,
    workloads: PerTenant<Workloads>,
}

/// By name; as many as a tenant may have.
type RoutesOfTenant = BTreeMap<String, KeptRoute>;

#[derive(Debug)]
struct KeptRoute {
    route: Route,
    /// `None`: it cannot be.
    compiled: Option<Arc<CompiledRoute>>,
}

impl KeptRoute {
    /// One that cannot be compiled is left out by the hub, and the log says so.
    fn new(route: Route) -> Self {
        let compiled = CompiledRoute::compile(&route).inspect_err(|error| {
            tracing::error!(route = %route.name, tenant = %route.tenant, %error, "a route was left out");
        });
        Self {
            compiled: compiled.ok().map(Arc::new),
            route,
        }
    }
}

/// The applications of a tenant, and what they are given.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    pub(crate) deployments: Deployments,
    /// Names of deployments whose files cannot be read, as by an older version.
    pub(crate) unreadable: BTreeSet<String>,
    pub(crate) configuration: Configuration,
    pub(crate) services: BTreeMap<String, Service>,
}

impl Workloads {
    /// Their kinds.
    pub(crate) const KINDS: [&str; 4] = ["Deployment", "ConfigMap", "Secret", "Service"];

    /// Of a kind.
    pub(crate) fn names(&self, kind: &str) -> Vec<&String> {
        match kind {
            "Deployment" => self.deployments.keys().chain(&self.unreadable).collect(),
            "ConfigMap" => self.configuration.config_maps.keys().collect(),
            "Secret" => self.configuration.secrets.keys().collect(),
            "Service" => self.services.keys().collect(),
            _ => Vec::new(),
        }
    }

    fn put(&mut self, resource: Resource) {
        let name = resource.name().to_owned();
        if resource.kind() == "Deployment" {
            self.unreadable.remove(&name);
        }
        match resource {
            Resource::Deployment(deployment) => drop(self.deployments.insert(name, Arc::new(*deployment))),
            Resource::ConfigMap(map) => drop(self.configuration.config_maps.insert(name, map)),
            Resource::Secret(secret) => drop(self.configuration.secrets.insert(name, secret)),
            Resource::Service(service) => drop(self.services.insert(name, service)),
            Resource::Device(_) | Resource::Route(_) => {}
        }
    }

    fn remove(&mut self, kind: &str, name: &str) {
        match kind {
            "Deployment" => {
                self.deployments.remove(name);
                self.unreadable.remove(name);
            }
            "ConfigMap" => drop(self.configuration.config_maps.remove(name)),
            "Service" => drop(self.services.remove(name)),
            _ => drop(self.configuration.secrets.remove(name)),
        }
    }
}

/// What the files of each tenant say that has any and was asked for: a file is read once.
#[derive(Debug, Default)]
struct PerTenant<T>(Mutex<HashMap<String, T>>);

impl<T: Default> PerTenant<T> {
    /// `read`: the tenant's files, if it has any; a name that somebody asks for takes no room.
    fn with<R>(&self, tenant: &str, read: impl FnOnce() -> Option<T>, work: impl FnOnce(&T) -> R) -> R {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_tenant) = known.get(tenant) {
            return work(of_tenant);
        }
        match read() {
            Some(of_tenant) => work(known.entry(tenant.to_owned()).or_insert(of_tenant)),
            None => work(&T::default()),
        }
    }

    /// A tenant's files have changed, by `change` if that is known.
    fn changed(&self, tenant: &str, is_certain: bool, change: impl FnOnce(&mut T)) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(tenant) {
            Some(of_tenant) if is_certain => change(of_tenant),
            _ => drop(known.remove(tenant)),
        }
    }
}

impl Manifests {
    /// Those in the data directory `data`.
    pub fn new(data: &Path) -> Self {
        Self {
            data: data.into(),
            directory: data.join("manifests").into(),
            routes: PerTenant::default(),
            workloads: PerTenant::default(),
        }
    }

    /// The routes of all tenants. A file that cannot be read is left out, and the log says so.
    pub fn all_routes(&self) -> Vec<Route> {
        let tenants = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let tenants = tenants.filter_map(|entry| entry.file_name().into_string().ok());
        tenants.flat_map(|tenant| self.routes_of(&tenant)).collect()
    }

    /// The images that applications of all tenants need.
    ///
    /// # Errors
    /// A file cannot be read, so that it is not known what it needs; which, and why.
    pub fn needs(&self) -> std::io::Result<Vec<Need>> {
        let mut needs = Vec::new();
        for tenant in names_in(&self.directory)? {
            for file in names_in(&self.directory.join(&tenant).join("Deployment"))? {
                let path = self.directory.join(&tenant).join("Deployment").join(file);
                if !is_manifest(&path) {
                    continue;
                }
                let deployment = match read(&path) {
                    Ok(Resource::Deployment(deployment)) => deployment,
                    Ok(_) => continue,
                    // It was deleted meanwhile.
                    Err(_) if !path.exists() => continue,
                    Err(why) => return Err(std::io::Error::other(why)),
                };
                let pod = &deployment.spec.template.spec;
                let containers = pod.init_containers.iter().chain(&pod.containers);
                needs.extend(containers.map(|container| Need {
                    image: container.image.clone(),
                    by: format!("Deployment/{}", deployment.metadata.name),
                }));
            }
        }
        Ok(needs)
    }

    /// Names of what a tenant has of a kind; nothing of devices.
    pub(crate) fn names(&self, tenant: &str, kind: &str) -> BTreeSet<String> {
        match kind {
            "Route" => self.with_routes(tenant, |routes| routes.keys().cloned().collect()),
            _ => self.with_workloads(tenant, |workloads| workloads.names(kind).into_iter().cloned().collect()),
        }
    }

    /// As [`Manifests::all_routes`], of one tenant.
    pub(crate) fn routes_of(&self, tenant: &str) -> Vec<Route> {
        self.with_routes(tenant, |routes| {
            routes.values().map(|kept| kept.route.clone()).collect()
        })
    }

    /// Those of them that can be evaluated.
    pub(crate) fn compiled_of(&self, tenant: &str) -> Vec<Arc<CompiledRoute>> {
        let compiled = |routes: &RoutesOfTenant| routes.values().filter_map(|kept| kept.compiled.clone()).collect();
        self.with_routes(tenant, compiled)
    }

    fn with_routes<T>(&self, tenant: &str, work: impl FnOnce(&RoutesOfTenant) -> T) -> T {
        let read = || {
            let routes = self.read_all(tenant, "Route").filter_map(|(_, read)| match read {
                Some(Resource::Route(route)) => Some((route.name.clone(), KeptRoute::new(route))),
                _ => None,
            });
            Some(routes.collect()).filter(|routes: &RoutesOfTenant| !routes.is_empty())
        };
        self.routes.with(tenant, read, work)
    }

    /// What is known of a tenant's applications.
    pub(crate) fn with_workloads<T>(&self, tenant: &str, work: impl FnOnce(&Workloads) -> T) -> T {
        let read = || {
            let (mut workloads, mut has_any) = (Workloads::default(), false);
            for kind in Workloads::KINDS {
                for (name, read) in self.read_all(tenant, kind) {
                    has_any = true;
                    match read {
                        Some(resource) => workloads.put(resource),
                        None if kind == "Deployment" => drop(workloads.unreadable.insert(name)),
                        None => {}
                    }
                }
            }
            has_any.then_some(workloads)
        };
        self.workloads.with(tenant, read, work)
    }

    /// All of a kind, by name. What cannot be read is none, and the log says why.
    fn read_all(&self, tenant: &str, kind: &str) -> impl Iterator<Item = (String, Option<Resource>)> {
        let directory = self.directory.join(tenant).join(kind);
        let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let paths = files.map(|entry| entry.path()).filter(|path| is_manifest(path));
        paths.filter_map(|path| {
            let name = path.file_stem()?.to_str()?.to_owned();
            let read = read(&path).inspect_err(|error| tracing::error!(%error, "a manifest was left out"));
            Some((name, read.ok()))
        })
    }

    /// The resource as it was applied.
    pub(crate) async fn get(&self, tenant: &str, kind: &str, name: &str) -> Done<Option<Resource>> {
        let path = self.path(tenant, kind, name);
        blocking(move || if path.exists() { read(&path).map(Some) } else { Ok(None) }).await
    }

    /// Keeps a resource; once this returns, it survives a power cut.
    pub(crate) async fn put(&self, resource: &Resource) -> Done<()> {
        let path = self.path(resource.tenant(), resource.kind(), resource.name());
        let text = resource.to_yaml();
        let data = Arc::clone(&self.data);
        let replaced = blocking(move || replace(&data, &path, text.as_bytes())).await;
        match resource {
            Resource::Route(route) => self.routes.changed(&route.tenant, replaced.is_ok(), |routes| {
                routes.insert(route.name.clone(), KeptRoute::new(route.clone()));
            }),
            _ => self
                .workloads
                .changed(resource.tenant(), replaced.is_ok(), |workloads| {
                    workloads.put(resource.clone());
                }),
        }
        replaced
    }

    /// Forgets a resource; whether it was there.
    pub(crate) async fn remove(&self, tenant: &str, kind: &str, name: &str) -> Done<bool> {
        let path = self.path(tenant, kind, name);
        let data = Arc::clone(&self.data);
        let removed = blocking(move || remove(&data, &path)).await;
        match kind {
            "Route" => self
                .routes
                .changed(tenant, removed.is_ok(), |routes| drop(routes.remove(name))),
            _ if Workloads::KINDS.contains(&kind) => {
                let forget = |workloads: &mut Workloads| workloads.remove(kind, name);
                self.workloads.changed(tenant, removed.is_ok(), forget);
            }
            _ => {}
        }
        removed
    }

    fn path(&self, tenant: &str, kind: &str, name: &str) -> PathBuf {
        self.directory.join(tenant).join(kind).join(format!("{name}.yaml"))
    }
}

/// None where the directory is not there.
fn names_in(directory: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
    match std::fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn route(name: &str, from: &str) -> Resource {
        let text = format!(
            "apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {{name: {name}}}\nspec: {{from: {from}, to: [{{topic: x}}]}}\n"
        );
        let documents = manifest::parse("test", &text).unwrap();
        documents.into_iter().next().unwrap().resource
    }

    fn names(routes: &[Arc<CompiledRoute>]) -> Vec<&str> {
        routes.iter().map(|route| route.name()).collect()
    }

    #[tokio::test]
    async fn a_route_is_compiled_once_however_many_are_applied_after_it() {
        let data = tempfile::tempdir().unwrap();
        let manifests = Manifests::new(data.path());
        manifests.put(&route("a", "devices/+/telemetry")).await.unwrap();
        let first = manifests.compiled_of("default");
        for number in 0..10 {
            let other = route(&format!("b{number}"), "devices/+/telemetry");
            manifests.put(&other).await.unwrap();
        }
        let now = manifests.compiled_of("default");
        assert_eq!((now.len(), names(&first)), (11, vec!["a"]));
        assert!(Arc::ptr_eq(&now[0], &first[0]), "compiled anew");
        let again = manifests.compiled_of("default");
        assert!(now.iter().zip(&again).all(|(one, other)| Arc::ptr_eq(one, other)));
    }

    #[tokio::test]
    async fn what_is_known_of_routes_is_what_the_files_say() {
        let data = tempfile::tempdir().unwrap();
        let manifests = Manifests::new(data.path());
        assert!(manifests.compiled_of("default").is_empty());
        for name in ["a", "b"] {
            manifests.put(&route(name, "devices/+/telemetry")).await.unwrap();
            manifests.compiled_of("default");
        }
        manifests.put(&route("a", "devices/other/telemetry")).await.unwrap();
        assert!(manifests.remove("default", "Route", "b").await.unwrap());
        assert!(!manifests.remove("default", "Route", "c").await.unwrap());
        let read_anew = Manifests::new(data.path());
        assert_eq!(manifests.routes_of("default"), read_anew.routes_of("default"));
        assert_eq!(names(&manifests.compiled_of("default")), ["a"]);
        assert_eq!(manifests.routes_of("default")[0].from, "devices/other/telemetry");
        manifests.remove("default", "Route", "a").await.unwrap();
        assert!(manifests.routes_of("default").is_empty() && manifests.compiled_of("default").is_empty());
    }

    #[tokio::test]
    async fn where_a_file_cannot_be_written_it_is_read_to_know() {
        let data = tempfile::tempdir().unwrap();
        let manifests = Manifests::new(data.path());
        manifests.put(&route("a", "devices/+/telemetry")).await.unwrap();
        let first = manifests.compiled_of("default");
        // A directory has the place of the file that would be renamed.
        std::fs::create_dir_all(data.path().join("manifests/default/Route/b.new")).unwrap();
        assert!(manifests.put(&route("b", "devices/+/telemetry")).await.is_err());
        let now = manifests.compiled_of("default");
        assert_eq!(names(&now), ["a"]);
        assert!(!Arc::ptr_eq(&now[0], &first[0]));
    }
}
