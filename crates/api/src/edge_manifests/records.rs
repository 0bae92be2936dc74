//! What is kept of manifests that cross a link: a file for each, `{directory}/{tenant}/{kind}/{name}.json`.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{Key, to_json};
use crate::files::{blocking, named, remove, replace};
use crate::wrong::Done;

/// Records of type `R`.
#[derive(Debug)]
pub(super) struct Records<R> {
    data: Arc<Path>,
    directory: Arc<Path>,
    of: PhantomData<fn() -> R>,
}

impl<R: Serialize + DeserializeOwned + Send + 'static> Records<R> {
    /// Those of `directory` in the data directory.
    pub(super) fn new(data: &Arc<Path>, directory: impl AsRef<Path>) -> Self {
        Self {
            data: Arc::clone(data),
            directory: data.join(directory).into(),
            of: PhantomData,
        }
    }

    /// All of them. A file that cannot be read is left out, and the log says so.
    pub(super) async fn all(&self) -> Done<BTreeMap<Key, R>> {
        let directory = Arc::clone(&self.directory);
        blocking(move || {
            let records = files(&directory).filter_map(|path| match read(&path) {
                Ok(record) => Some((key(&path)?, record?)),
                Err(error) => {
                    tracing::error!(%error, "a manifest was left out");
                    None
                }
            });
            Ok(records.collect())
        })
        .await
    }

    /// How many there are.
    pub(super) async fn count(&self) -> Done<usize> {
        let directory = Arc::clone(&self.directory);
        blocking(move || Ok(files(&directory).count())).await
    }

    pub(super) async fn get(&self, key: &Key) -> Done<Option<R>> {
        let path = self.path(key);
        blocking(move || read(&path)).await
    }

    /// Keeps a record; once this returns, it survives a power cut.
    pub(super) async fn put(&self, key: &Key, record: &R) -> Done<()> {
        let (data, path, json) = (Arc::clone(&self.data), self.path(key), to_json(record));
        blocking(move || replace(&data, &path, &json)).await
    }

    pub(super) async fn remove(&self, key: &Key) -> Done<()> {
        let (data, path) = (Arc::clone(&self.data), self.path(key));
        blocking(move || remove(&data, &path).map(drop)).await
    }

    /// Forgets all of them.
    pub(super) async fn clear(&self) -> Done<()> {
        let directory = Arc::clone(&self.directory);
        blocking(move || match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(named(&directory, &error)),
            _ => Ok(()),
        })
        .await
    }

    /// Keys are checked where they come in.
    fn path(&self, key: &Key) -> PathBuf {
        let Key { tenant, kind, name } = key;
        self.directory.join(tenant).join(kind).join(format!("{name}.json"))
    }
}

fn files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = below(directory).into_iter().flat_map(|tenant| below(&tenant));
    let paths = paths.flat_map(|kind| below(&kind));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"))
}

fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn key(path: &Path) -> Option<Key> {
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let kind = path.parent()?;
    Some(Key {
        tenant: name(kind.parent()?)?,
        kind: name(kind)?,
        name: path.file_stem()?.to_str()?.to_owned(),
    })
}

fn read<R: DeserializeOwned>(path: &Path) -> Result<Option<R>, String> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| named(path, &error))?,
    };
    let record = serde_json::from_slice(&text);
    record.map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_kept_is_read_back_under_its_name_dots_and_all() {
        let data = tempfile::tempdir().unwrap();
        let records = Records::<u64>::new(&data.path().into(), "records");
        let key = Key {
            tenant: "a.new".to_owned(),
            kind: "Route".to_owned(),
            name: "b.json.new".to_owned(),
        };
        assert_eq!(records.all().await.unwrap(), BTreeMap::new());
        records.put(&key, &7).await.unwrap();
        records.put(&key, &8).await.unwrap();
        assert_eq!(records.get(&key).await.unwrap(), Some(8));
        assert_eq!(records.all().await.unwrap(), BTreeMap::from([(key.clone(), 8)]));
        assert_eq!(records.count().await.unwrap(), 1);
        records.remove(&key).await.unwrap();
        assert_eq!(records.get(&key).await.unwrap(), None);
        records.clear().await.unwrap();
        records.clear().await.unwrap();
    }
}
