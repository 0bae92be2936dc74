//! Records the commit that the program is built from, so that a measurement can name it (rule 14).

use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "SELVEDGE_COMMIT";
const REPOSITORY: &str = "../../.git";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    // Whoever packages sources without their history says the commit in the environment.
    if let Some(commit) = std::env::var(VARIABLE).ok().or_else(commit) {
        println!("cargo:rustc-env={VARIABLE}={commit}");
    }
}

/// Of this repository alone, not of one that a source archive was unpacked in; none for builds without optimisation,
/// whose figures are no results and which need not be made anew for each commit.
fn commit() -> Option<String> {
    let optimised = std::env::var("OPT_LEVEL").is_ok_and(|level| level != "0");
    if !optimised || !Path::new(REPOSITORY).exists() {
        return None;
    }
    println!("cargo:rerun-if-changed={REPOSITORY}/logs/HEAD");
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()?;
    let commit = String::from_utf8(output.stdout)
        .ok()
        .filter(|_| output.status.success())?;
    Some(commit.trim().to_owned())
}
