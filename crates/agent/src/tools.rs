//! Programs of the host that are used where they are.

use std::env;
use std::path::PathBuf;

/// Where programs are looked for, where nobody says where.
pub(crate) const DIRECTORIES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The whole path of a program, by `PATH`, which of a service need not have all of these.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(env::split_paths(DIRECTORIES));
    directories
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}
