//! The programs: how they are called, and what they say.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{CPU_MILLIS, FILE_TIMES, MEMORY_MIB, VOLUME};
use crate::arms;
use crate::gateway::manifests;
use crate::gateway::options::{Options, Runtime};
use crate::gateway::record::{Benchmark, Figure, Sample};
use crate::gateway::site::{Site, found as program};
use crate::interrupt::pause;

/// The image that has them.
pub(in crate::gateway) const IMAGE: &str = "tools:1";
/// Each with the package that has it.
const PROGRAMS: [&str; 4] = ["sysbench", "mbw", "fio", "iperf3"];
/// Of two arrays, so that twice as much has to fit into the limit.
const ARRAY_MIB: u32 = 16;
/// The paper's rate.
const UDP_BITS_PER_S: &str = "90M";
const FIRST_PORT: u16 = 5_201;
/// Until an instance listens.
const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(50);

/// Files of the image: the shell, and the programs of the host with the libraries that they load.
///
/// # Errors
/// One is not installed, with the package that has it.
pub(in crate::gateway) fn fill(folder: &Path, busybox: &Path) -> Result<(), String> {
    manifests::fill(folder, busybox)?;
    PROGRAMS.iter().try_for_each(|name| add(folder, name, name))
}

/// Puts a program of the host into a folder, at its path, with the libraries that it loads.
///
/// # Errors
/// It is not installed, with the package that has it.
pub(in crate::gateway) fn add(folder: &Path, name: &str, package: &str) -> Result<(), String> {
    add_file(folder, &program(name, package)?)
}

/// The same of a program by its path.
pub(crate) fn add_file(folder: &Path, path: &Path) -> Result<(), String> {
    copy(path, folder)?;
    let needs = arms::output_of(Path::new("ldd"), &[&path.display().to_string()])?;
    let libraries = needs.split_whitespace().filter(|word| word.starts_with('/'));
    libraries.map(Path::new).try_for_each(|library| copy(library, folder))
}

fn copy(path: &Path, folder: &Path) -> Result<(), String> {
    let to = folder.join(path.strip_prefix("/").unwrap_or(path));
    let copied = to
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::copy(path, &to));
    copied.map(drop).map_err(|error| format!("{}: {error}", path.display()))
}

/// How often each arm has its turn. Where the arrays of mbw lie makes more of a process's rate than anything that is
/// measured, and what a disk does meanwhile of a file's.
pub(super) fn rounds(benchmark: Benchmark, options: &Options) -> u32 {
    let (whole, least) = match benchmark {
        Benchmark::Cpu => (3, 3),
        Benchmark::Memory => (100, 20),
        Benchmark::Disk => (8, 4),
        Benchmark::Udp => (1, 1),
    };
    (whole / options.cost_divisor).max(least)
}

/// What an instance does in `directory`: says that it is there, and runs the program each time that it is told to;
/// fio's file is in `files`.
pub(super) fn script(
    benchmark: Benchmark,
    number: u32,
    (directory, files): (&Path, &Path),
    options: &Options,
) -> String {
    let file = files.join(format!("file-{number}")).display().to_string();
    let size_mib = FILE_TIMES * MEMORY_MIB / options.cost_divisor;
    let fio = |rw: &str| {
        format!(
            "fio --name=gateway --filename={file} --size={size_mib}M --bs=1M --rw={rw} --ioengine=psync --end_fsync=1 \
             --output-format=json"
        )
    };
    let command = match benchmark {
        Benchmark::Cpu => format!(
            "sysbench cpu --cpu-max-prime=20000 --threads=1 --time=0 --events={} run",
            options.events / options.cost_divisor
        ),
        Benchmark::Memory => format!("mbw -q -n {} {ARRAY_MIB}", (5 / options.cost_divisor).max(1)),
        Benchmark::Disk => format!("{{ {} && {} && rm {file}; }}", fio("write"), fio("read")),
        Benchmark::Udp => {
            let [first, second] = ports(number);
            format!("{{ iperf3 -s -1 -p {first}; iperf3 -s -1 -p {second}; }}")
        }
    };
    format!(
        "cd {}\necho > ready-{number}\nround=0\nwhile [ $round -lt {} ]; do\nread -r go < go-{number}\n{command} >> out-{number} \
         2> err-{number}\nrm -f {file}\necho > end-$round-{number}\nround=$((round + 1))\ndone\nexec sleep 100000\n",
        directory.display(),
        rounds(benchmark, options)
    )
}

fn ports(number: u32) -> [u16; 2] {
    [0, 1].map(|way| FIRST_PORT + 2 * number as u16 + way)
}

/// An application that runs a script within the limits; a container has the directory at [`VOLUME`].
pub(super) fn manifest(site: &Site, (name, runtime): (&str, Runtime), script: &str, directory: &Path) -> String {
    let quoted = Value::from(script).to_string();
    let class = match runtime {
        Runtime::Oci => "",
        Runtime::Process => "      runtimeClassName: process\n",
        Runtime::Docker => "      runtimeClassName: docker\n",
    };
    let (run, volumes) = if runtime == Runtime::Process {
        (
            format!(
                "image: '{}', args: [sh, -c, {quoted}], env: [{{name: PATH, value: '/usr/sbin:/usr/bin:/sbin:/bin'}}]",
                site.busybox.display()
            ),
            String::new(),
        )
    } else {
        (
            format!(
                "image: '{IMAGE}', command: [/bin/busybox], args: [sh, -c, {quoted}], env: [{{name: PATH, value: \
                 '/usr/sbin:/usr/bin:/sbin:/bin'}}], volumeMounts: [{{name: work, mountPath: {VOLUME}}}]"
            ),
            format!(
                "      volumes:\n        - {{name: work, hostPath: {{path: '{}'}}}}\n",
                directory.display()
            ),
        )
    };
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  strategy: {{type: Recreate}}\n  selector: \
         {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n{class}      \
         terminationGracePeriodSeconds: 0\n      containers:\n        - {{name: main, {run}, resources: {{limits: {{cpu: \
         {CPU_MILLIS}m, memory: {MEMORY_MIB}Mi}}}}}}\n{volumes}"
    )
}

/// What the programs have said, instance by instance: a value of each turn.
pub(super) fn found(benchmark: Benchmark, said: &[String], options: &Options) -> Result<Vec<Sample>, String> {
    let each = |figure, of: &dyn Fn(&str) -> Vec<f64>| {
        let all: Vec<Vec<f64>> = said.iter().map(|text| of(text)).collect();
        // Of less, something has failed.
        if all
            .iter()
            .any(|values| values.len() != rounds(benchmark, options) as usize)
        {
            return Err(format!("{benchmark:?} said: {}", said.join(" | ").trim()));
        }
        let values = all.into_iter().flatten().map(Some).collect();
        Ok(Sample { figure, values })
    };
    let memory = |figure, method| each(figure, &|text| mbw_bytes_per_s(text, method));
    let disk = |figure, way| each(figure, &|text| fio_bytes_per_s(text, way));
    match benchmark {
        Benchmark::Cpu => Ok(vec![each(Figure::CpuS, &sysbench_s)?]),
        Benchmark::Memory => Ok(vec![
            memory(Figure::MemcpyBytesPerS, "MEMCPY")?,
            memory(Figure::DumbBytesPerS, "DUMB")?,
            memory(Figure::McblockBytesPerS, "MCBLOCK")?,
        ]),
        Benchmark::Disk => Ok(vec![
            disk(Figure::WriteBytesPerS, "write")?,
            disk(Figure::ReadBytesPerS, "read")?,
        ]),
        Benchmark::Udp => Ok(Vec::new()),
    }
}

/// Of lines such as `total time:                          2.0012s`.
fn sysbench_s(text: &str) -> Vec<f64> {
    let times = text.lines().filter_map(|line| line.trim().strip_prefix("total time:"));
    times
        .filter_map(|time| time.trim().strip_suffix('s')?.parse().ok())
        .collect()
}

/// Of lines that begin with `AVG` and have `Method: MEMCPY` and, at their end, `Copy: 7808.881 MiB/s`.
fn mbw_bytes_per_s(text: &str, method: &str) -> Vec<f64> {
    let method = format!("Method: {method}\t");
    let lines = text
        .lines()
        .filter(|line| line.starts_with("AVG") && line.contains(&method));
    let rate = |line: &str| {
        line.split_once("Copy:")?
            .1
            .trim()
            .strip_suffix("MiB/s")?
            .trim()
            .parse::<f64>()
            .ok()
    };
    lines.filter_map(rate).map(|rate| rate * f64::from(1 << 20)).collect()
}

/// Of documents whose job wrote, or read: one follows the other.
fn fio_bytes_per_s(text: &str, way: &str) -> Vec<f64> {
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let rates = documents.filter_map(|document| document.ok()?["jobs"][0][way]["bw_bytes"].as_f64());
    rates.filter(|rate| *rate > 0.0).collect()
}

/// A client on the gateway's host sends to each instance at once, then each instance to it.
pub(super) fn udp(site: &Site, addresses: &[String], options: &Options) -> Result<Vec<Sample>, String> {
    let iperf = program("iperf3", "iperf3")?;
    let seconds = (options.udp_s / options.cost_divisor).max(1).to_string();
    let mut samples = Vec::new();
    for (way, figures) in [
        (0, [Figure::UdpReceiveCpuShare, Figure::UdpReceiveLostShare]),
        (1, [Figure::UdpSendCpuShare, Figure::UdpSendLostShare]),
    ] {
        let said: Vec<Result<Value, String>> = site.enter(|| {
            std::thread::scope(|scope| {
                let ask = |(address, number): (&String, u32)| {
                    let client = (
                        iperf.clone(),
                        address.clone(),
                        ports(number)[way].to_string(),
                        seconds.clone(),
                    );
                    scope.spawn(move || client_of(&client, way == 1))
                };
                let clients: Vec<_> = addresses.iter().zip(0..).map(ask).collect();
                let answers = clients
                    .into_iter()
                    .map(|client| client.join().expect("asking does not panic"));
                answers.collect()
            })
        })?;
        let said: Vec<Value> = said.into_iter().collect::<Result<_, _>>()?;
        let share = |pointer: &str| {
            let values = said
                .iter()
                .map(|json| json.pointer(pointer)?.as_f64().map(|percent| Some(percent / 100.0)));
            values
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| format!("iperf3 said no {pointer}"))
        };
        let pointers = ["/end/cpu_utilization_percent/remote_total", "/end/sum/lost_percent"];
        for (figure, pointer) in figures.into_iter().zip(pointers) {
            samples.push(Sample {
                figure,
                values: share(pointer)?,
            });
        }
    }
    Ok(samples)
}

/// What one client says, once there is somebody who listens.
fn client_of(
    (iperf, address, port, seconds): &(PathBuf, String, String, String),
    reversed: bool,
) -> Result<Value, String> {
    let mut words = vec![
        "-c",
        address,
        "-p",
        port,
        "-u",
        "-b",
        UDP_BITS_PER_S,
        "-t",
        seconds,
        "-J",
    ];
    words.extend(reversed.then_some("-R"));
    let began = Instant::now();
    loop {
        match arms::output_of(iperf, &words) {
            // One whom nobody hears says so in its document, too.
            Ok(said) if !said.contains("\"error\":") => {
                return serde_json::from_str(&said).map_err(|error| format!("iperf3 -J: {error}"));
            }
            Ok(said) | Err(said) if began.elapsed() > PATIENCE => return Err(said),
            _ => pause(STEP)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_programs_print_is_read_as_they_mean_it() {
        assert_eq!(
            sysbench_s("General statistics:\n    total time:                          2.0012s\n"),
            [2.0012]
        );
        let mbw = "Long uses 8 bytes.\nAVG\tMethod: MEMCPY\tElapsed: 0.002\tMiB: 16.0\tCopy: 8000.0 MiB/s\nAVG\tMethod: \
                   DUMB\tElapsed: 0.004\tMiB: 16.0\tCopy: 4000.0 MiB/s\n";
        assert_eq!(mbw_bytes_per_s(mbw, "DUMB"), [4000.0 * 1_048_576.0]);
        let found = |benchmark, said: &str| found(benchmark, &[said.to_owned()], &Options::default());
        assert!(
            found(Benchmark::Memory, mbw).is_err(),
            "it ran less often than it should"
        );
        let fio = r#"{"jobs":[{"write":{"bw_bytes":200},"read":{"bw_bytes":0}}]}
                     {"jobs":[{"write":{"bw_bytes":0},"read":{"bw_bytes":300}}]}"#;
        assert_eq!(fio_bytes_per_s(fio, "write"), [200.0]);
        assert_eq!(fio_bytes_per_s(fio, "read"), [300.0]);
        let [written, _] = &found(Benchmark::Disk, &fio.repeat(8)).unwrap()[..] else {
            panic!("two figures");
        };
        assert_eq!(written.values, [Some(200.0); 8]);
        assert!(found(Benchmark::Cpu, "nothing").is_err());
    }

    #[test]
    fn instances_have_ports_and_files_of_their_own() {
        let options = Options::default();
        let work = Path::new("/work");
        let [one, other] = [0, 1].map(|number| script(Benchmark::Udp, number, (work, work), &options));
        assert!(one.contains("-p 5201;") && one.contains("-p 5202;") && other.contains("-p 5203;"));
        let on = |files| script(Benchmark::Disk, 3, (work, Path::new(files)), &options);
        assert!(on("/work").contains("--filename=/work/file-3 --size=384M"));
        assert!(on("/").starts_with("cd /work\n") && on("/").contains("--filename=/file-3 "));
    }
}
