//! Python with the models: where it is, and the files of an image that has it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::arms::output_of;
use crate::gateway::Site;

/// What training and predicting do not need; the largest of what is left out.
const LEFT_OUT: [&str; 20] = [
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "matplotlib",
    "fontTools",
    "PIL",
    "pillow.libs",
    "mypy",
    "mypyc",
    "onnx",
    "onnxruntime",
    "pytest",
    "_pytest",
    "pip",
    "setuptools",
    "pygments",
];
/// Of byte code: that it is not to be compared with its source, whose time an image does not keep (PEP 552).
const UNCHECKED: [u8; 4] = [1, 0, 0, 0];

/// Says where things are.
const ASK: &str = "import json, os, sys, selvedge_ml; print(json.dumps({'base': sys.base_prefix, 'version': \
                   sys.version.split()[0], 'package': os.path.dirname(selvedge_ml.__file__)}))";

/// An environment with the models.
pub(super) struct Python {
    /// Its program.
    pub(super) program: PathBuf,
    pub(super) version: String,
    environment: PathBuf,
    base: PathBuf,
    package: PathBuf,
}

#[derive(Deserialize)]
struct Said {
    base: PathBuf,
    version: String,
    package: PathBuf,
}

impl Python {
    /// The one of a directory.
    ///
    /// # Errors
    /// It is not there, or has no models, with what would help.
    pub(super) fn find(environment: &Path) -> Result<Python, String> {
        let hint = "`tools/install.sh ml` makes it in target/ml; another place is named by --ml";
        let named = |error: &dyn std::fmt::Display| {
            format!(
                "no Python with the models in {}: {error}; {hint}",
                environment.display()
            )
        };
        let environment = environment.canonicalize().map_err(|error| named(&error))?;
        let program = environment.join("bin/python");
        let said = output_of(&program, &["-c", ASK]).map_err(|error| named(&error))?;
        let said: Said = serde_json::from_str(&said).map_err(|error| named(&error))?;
        Ok(Python {
            program,
            version: format!("Python {}", said.version),
            environment,
            base: said.base,
            package: said.package,
        })
    }

    /// Fills a folder with all that it takes, at the same places; bytes of that.
    ///
    /// # Errors
    /// A file cannot be copied.
    pub(super) fn fill(&self, site: &Site, folder: &Path) -> Result<u64, String> {
        let real = self
            .program
            .canonicalize()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        site.fill(folder, &real)?;
        let mut all = vec![self.environment.join("lib"), self.package.clone()];
        all.extend(
            self.modules()
                .map_err(|error| format!("{}: {error}", self.base.display()))?,
        );
        let mut objects = Vec::new();
        for path in &all {
            copy(path, folder, &mut objects).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.link(folder, &real)?;
        self.libraries(folder, &objects)?;
        bytes_of(folder).map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// Of the interpreter itself, without what others have put beside them.
    fn modules(&self) -> io::Result<Vec<PathBuf>> {
        let named = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut all = Vec::new();
        for version in fs::read_dir(self.base.join("lib"))?.flatten() {
            if !named(&version).starts_with("python3") || !version.file_type()?.is_dir() {
                continue;
            }
            let modules = fs::read_dir(version.path())?.flatten();
            let are_others = |name: &str| name.ends_with("-packages") || name.starts_with("config-");
            all.extend(
                modules
                    .filter(|entry| !are_others(&named(entry)))
                    .map(|entry| entry.path()),
            );
        }
        Ok(all)
    }

    /// What makes it an environment.
    fn link(&self, folder: &Path, real: &Path) -> Result<(), String> {
        let settings = self.environment.join("pyvenv.cfg");
        let (to, program) = (inside(folder, &settings), inside(folder, &self.program));
        let made = fs::create_dir_all(program.parent().unwrap_or(folder))
            .and_then(|()| fs::copy(&settings, &to).map(drop))
            .and_then(|()| symlink(real, &program));
        made.map_err(|error| format!("{}: {error}", program.display()))
    }

    /// Of the machine, that its modules load.
    fn libraries(&self, folder: &Path, objects: &[PathBuf]) -> Result<(), String> {
        let words: Vec<String> = objects.iter().map(|path| path.display().to_string()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // Of one that is no object it says so and fails, and tells of the others.
        let said = words.chunks(100).map(|some| output_of(Path::new("ldd"), some));
        let said: Vec<String> = said.map(|said| said.unwrap_or_else(|said| said)).collect();
        let all = said.iter().flat_map(|text| text.split_whitespace());
        let needed = all.filter(|word| word.starts_with('/') && !word.ends_with(':'));
        for library in needed.map(Path::new) {
            let to = inside(folder, library);
            if to.exists() || library.starts_with(&self.environment) || !library.exists() {
                continue;
            }
            let copied = fs::create_dir_all(to.parent().unwrap_or(folder)).and_then(|()| fs::copy(library, &to));
            copied.map_err(|error| format!("{}: {error}", library.display()))?;
        }
        Ok(())
    }
}

fn inside(folder: &Path, path: &Path) -> PathBuf {
    folder.join(path.strip_prefix("/").unwrap_or(path))
}

/// A file, or a directory with what is in it, at the same place in `folder`; shared objects are named.
fn copy(path: &Path, folder: &Path, objects: &mut Vec<PathBuf>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if LEFT_OUT.contains(&&*name) {
        return Ok(());
    }
    let (about, to) = (fs::symlink_metadata(path)?, inside(folder, path));
    fs::create_dir_all(to.parent().unwrap_or(folder))?;
    if about.is_symlink() {
        return match fs::read_link(path) {
            Ok(target) => symlink(target, to),
            Err(error) => Err(error),
        };
    }
    if about.is_dir() {
        fs::create_dir_all(&to)?;
        let mut entries = fs::read_dir(path)?;
        return entries.try_for_each(|entry| copy(&entry?.path(), folder, objects));
    }
    if name.ends_with(".pyc") {
        let mut code = fs::read(path)?;
        if let Some(flags) = code.get_mut(4..8) {
            flags.copy_from_slice(&UNCHECKED);
        }
        return fs::write(to, code);
    }
    if name.contains(".so") {
        objects.push(path.to_owned());
    }
    // A second name costs nothing, where both are in one file system.
    fs::hard_link(path, &to).or_else(|_| fs::copy(path, &to).map(drop))
}

fn bytes_of(folder: &Path) -> io::Result<u64> {
    let each = fs::read_dir(folder)?.map(|entry| {
        let entry = entry?;
        let about = entry.metadata()?;
        match about.is_dir() {
            true => bytes_of(&entry.path()),
            false => Ok(about.len()),
        }
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_code_in_an_image_is_good_whatever_the_times_are_and_what_is_not_needed_stays_outside() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = from.path().join("__pycache__");
        fs::create_dir_all(&cache).unwrap();
        fs::create_dir_all(from.path().join("tkinter")).unwrap();
        fs::write(from.path().join("tkinter/large"), "x").unwrap();
        fs::write(cache.join("one.pyc"), [9, 9, 9, 9, 0, 0, 0, 0, 7, 7]).unwrap();
        fs::write(from.path().join("one.so.1"), "object").unwrap();
        let mut objects = Vec::new();
        copy(from.path(), to.path(), &mut objects).unwrap();
        let there = |name: &str| inside(to.path(), &from.path().join(name));
        assert_eq!(
            fs::read(there("__pycache__/one.pyc")).unwrap(),
            [9, 9, 9, 9, 1, 0, 0, 0, 7, 7]
        );
        assert!(!there("tkinter").exists());
        assert_eq!(objects, [from.path().join("one.so.1")]);
        assert_eq!(bytes_of(to.path()).unwrap(), 16);
    }
}
