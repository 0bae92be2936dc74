//! Groups that systemd keeps: an engine that has it make those of its containers takes no others above them
//! (systemd.resource-control(5)).

use std::io;
use std::process::{Command, Stdio};

use crate::cgroup::{Cgroup, Hierarchy, Limits};
use crate::tools;

/// What systemd takes 1 % of a core for.
const MILLIS_PER_PERCENT: u32 = 10;

/// That of all containers of a tenant that an engine runs.
pub(super) struct Slice {
    name: String,
    pub(super) group: Cgroup,
}

impl Slice {
    /// The one that is for a group of this name, whether it is there or not; `None`: there can be none.
    pub(super) fn of(hierarchy: &Hierarchy, group: &str) -> Option<Self> {
        let name = name_of(group);
        let group = hierarchy.slice(&name)?;
        Some(Slice { name, group })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What all in it may take together from now on, and until the machine is off; it need not be there yet.
    ///
    /// # Errors
    /// Where no systemd runs, or of what it says.
    pub(super) fn limit(&self, limits: &Limits) -> io::Result<()> {
        let properties = properties(limits);
        let mut words = vec!["set-property", "--runtime", &self.name];
        words.extend(properties.iter().map(String::as_str));
        systemctl(&words)
    }

    /// Forgets it, and ends what is in it.
    ///
    /// # Errors
    /// Where no systemd runs, or of what it says.
    pub(super) fn remove(&self) -> io::Result<()> {
        systemctl(&["stop", &self.name])?;
        systemctl(&["revert", &self.name])
    }
}

/// At the first level: a `-` more would put it into another slice, and Docker takes no `:`.
fn name_of(group: &str) -> String {
    let mut name = "selvedge-".to_owned();
    for byte in group.bytes() {
        match byte {
            b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => name.push(byte.into()),
            byte => name.push_str(&format!("_{byte:02x}")),
        }
    }
    name + ".slice"
}

fn properties(limits: &Limits) -> [String; 4] {
    let or_infinite = |most: Option<String>| most.unwrap_or("infinity".to_owned());
    let percent = |millis: u32| format!("{}.{}%", millis / MILLIS_PER_PERCENT, millis % MILLIS_PER_PERCENT);
    let swap = limits.memory_bytes.map(|_| "0".to_owned());
    [
        // It is not limited where nothing is said.
        format!("CPUQuota={}", limits.cpu_millis.map(percent).unwrap_or_default()),
        format!(
            "MemoryMax={}",
            or_infinite(limits.memory_bytes.map(|bytes| bytes.to_string()))
        ),
        format!("MemorySwapMax={}", or_infinite(swap)),
        format!("TasksMax={}", or_infinite(limits.pids.map(|pids| pids.to_string()))),
    ]
}

fn systemctl(words: &[&str]) -> io::Result<()> {
    let program = tools::find("systemctl").ok_or_else(|| io::Error::other("there is no systemctl"))?;
    let done = Command::new(program)
        .arg("--no-ask-password")
        .args(words)
        .stdin(Stdio::null())
        .output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(format!(
        "systemctl {}: {}",
        words.join(" "),
        said.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_two_tenants_are_two_and_in_none_of_another_tenant() {
        assert_eq!(name_of("ab12-acme"), "selvedge-ab12_2dacme.slice");
        assert_eq!(name_of("a-b"), "selvedge-a_2db.slice");
        assert_eq!(name_of("a_2db"), "selvedge-a_5f2db.slice");
        assert_eq!(name_of("a:b.C"), "selvedge-a_3ab.C.slice");
    }

    #[test]
    fn a_quota_is_what_systemd_calls_it_and_none_takes_it_back() {
        let limits = Limits {
            cpu_millis: Some(1_305),
            memory_bytes: Some(1 << 20),
            pids: Some(100),
            ..Limits::default()
        };
        assert_eq!(
            properties(&limits),
            [
                "CPUQuota=130.5%",
                "MemoryMax=1048576",
                "MemorySwapMax=0",
                "TasksMax=100"
            ]
        );
        assert_eq!(
            properties(&Limits::default()),
            [
                "CPUQuota=",
                "MemoryMax=infinity",
                "MemorySwapMax=infinity",
                "TasksMax=infinity"
            ]
        );
    }
}
