//! A container as the API of a Docker Engine has it.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, EndpointIpamConfig, EndpointSettings, HealthConfig, HostConfig,
    HostConfigLogConfig, Ipam, IpamConfig, Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
    NetworkCreateRequest, NetworkInspect, NetworkingConfig, RestartPolicy, RestartPolicyNameEnum, ThrottleDevice,
};
use oci_spec::runtime::Capability;

use super::devices::Device;
use crate::instance::Bind;
use crate::local::bundle;
use crate::network::Bridge;
use crate::runtime::{Launch, Volume};
use crate::throttle::{Disk, disks};

/// Of a core, as Docker has it.
const NANO_CPUS_PER_MILLI: i64 = 1_000_000;
/// Of one core, beside those of others.
const SHARES_PER_CORE: u64 = 1_024;
/// The kernel takes no less.
const SHARES_LEAST: u64 = 2;
/// What says of a container whose it is.
pub(super) const LABEL: &str = "dev.selvedge.container";

/// What says of a network's bridge what it is called.
const BRIDGE_NAME: &str = "com.docker.network.bridge.name";
/// What else is so of such networks: rules of the edge say who leaves them by whose address, and newer engines leave it
/// to those rules who comes in.
const BRIDGE: [(&str, &str); 2] = [
    ("com.docker.network.bridge.enable_ip_masquerade", "false"),
    ("com.docker.network.bridge.gateway_mode_ipv4", "routed"),
];

/// The network that the engine calls so, with one container in it.
pub(super) fn network(known: &str, bridge: &Bridge) -> NetworkCreateRequest {
    let mut options = HashMap::from(BRIDGE.map(|(key, value)| (key.to_owned(), value.to_owned())));
    options.insert(BRIDGE_NAME.to_owned(), bridge.link.clone());
    NetworkCreateRequest {
        name: known.to_owned(),
        driver: Some("bridge".to_owned()),
        ipam: Some(Ipam {
            config: Some(vec![IpamConfig {
                subnet: Some(bridge.subnet.clone()),
                gateway: Some(bridge.host.to_string()),
                ..IpamConfig::default()
            }]),
            ..Ipam::default()
        }),
        options: Some(options),
        labels: Some(HashMap::from([(LABEL.to_owned(), known.to_owned())])),
        ..NetworkCreateRequest::default()
    }
}

/// Whether the engine has that network as it is wanted now.
pub(super) fn is_of(found: &NetworkInspect, bridge: &Bridge) -> bool {
    let link = found.options.as_ref().and_then(|options| options.get(BRIDGE_NAME));
    let ipam = found.ipam.as_ref().and_then(|ipam| ipam.config.as_ref());
    let subnet = ipam.and_then(|config| config.first()?.subnet.as_ref());
    (link, subnet) == (Some(&bridge.link), Some(&bridge.subnet))
}

/// The container `name` of a launch, which sees these files of the host, is in the network that the engine calls so, at
/// an address of that, and in a control group.
///
/// # Errors
/// What of it cannot be, in words.
pub(super) fn of(
    name: &str,
    launch: &Launch,
    binds: &[Bind],
    devices: &[Device],
    network: &str,
    address: Option<Ipv4Addr>,
    group: Option<&str>,
) -> Result<ContainerCreateBody, String> {
    let words = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
    let env = launch.env.iter().map(|(name, value)| format!("{name}={value}"));
    Ok(ContainerCreateBody {
        image: Some(launch.image.clone()),
        entrypoint: words(&launch.command),
        cmd: words(&launch.args),
        env: Some(env.collect()),
        working_dir: launch.working_dir.as_deref().map(in_words),
        user: user(launch)?,
        hostname: bundle::hostname(launch),
        // Its probes are the manifest's, as with any other runtime; the image's would go on while its time stands
        // still.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        labels: Some(HashMap::from([(LABEL.to_owned(), name.to_owned())])),
        host_config: Some(HostConfig {
            cgroup_parent: group.map(str::to_owned),
            network_mode: Some(network.to_owned()),
            ..host_config(launch, binds, devices)?
        }),
        networking_config: address.map(|address| at(network, address)),
        ..ContainerCreateBody::default()
    })
}

fn at(network: &str, address: Ipv4Addr) -> NetworkingConfig {
    let endpoint = EndpointSettings {
        ipam_config: Some(EndpointIpamConfig {
            ipv4_address: Some(address.to_string()),
            ..EndpointIpamConfig::default()
        }),
        ..EndpointSettings::default()
    };
    NetworkingConfig {
        endpoints_config: Some(HashMap::from([(network.to_owned(), endpoint)])),
    }
}

/// In place of the image's.
fn user(launch: &Launch) -> Result<Option<String>, String> {
    match (launch.uid, launch.gid) {
        (Some(uid), Some(gid)) => Ok(Some(format!("{uid}:{gid}"))),
        (Some(uid), None) => Ok(Some(uid.to_string())),
        (None, None) => Ok(None),
        (None, Some(_)) => Err("runAsGroup needs runAsUser where Docker runs it; write both".to_owned()),
    }
}

fn host_config(launch: &Launch, binds: &[Bind], devices: &[Device]) -> Result<HostConfig, String> {
    let (rights, limits) = (&launch.rights, &launch.limits);
    let capabilities = bundle::capabilities(rights)?;
    let capabilities = capabilities.bounding().iter().flatten().map(Capability::to_string);
    let memory = limits.memory_bytes.map(signed);
    let may_gain = if rights.may_gain {
        Vec::new()
    } else {
        vec!["no-new-privileges".to_owned()]
    };
    Ok(HostConfig {
        mounts: Some(binds.iter().map(mount).collect()),
        tmpfs: Some(launch.mounts.iter().filter_map(in_memory).collect()),
        devices: Some(devices.iter().map(device).collect()),
        group_add: launch.volumes_gid.map(|gid| vec![gid.to_string()]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(capabilities.collect()),
        security_opt: Some(may_gain),
        readonly_rootfs: Some(rights.is_root_read_only),
        nano_cpus: limits.cpu_millis.map(|millis| i64::from(millis) * NANO_CPUS_PER_MILLI),
        cpu_shares: limits
            .promised_cpu_millis
            .map(|millis| signed((u64::from(millis) * SHARES_PER_CORE / 1_000).max(SHARES_LEAST))),
        memory,
        // Without any of the swap beyond.
        memory_swap: memory,
        memory_reservation: limits.promised_memory_bytes.map(signed),
        pids_limit: limits.pids.map(i64::from),
        blkio_device_read_bps: limits.read_bytes_per_s.map(of_each_disk),
        blkio_device_write_bps: limits.write_bytes_per_s.map(of_each_disk),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), launch.log.file_bytes.to_string()),
                ("max-file".to_owned(), launch.log.files.to_string()),
            ])),
        }),
        // The agent starts it again itself.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            ..RestartPolicy::default()
        }),
        ..HostConfig::default()
    })
}

fn of_each_disk(bytes_per_s: u64) -> Vec<ThrottleDevice> {
    let throttle = |disk: Disk| ThrottleDevice {
        path: Some(in_words(&disk.path)),
        rate: Some(signed(bytes_per_s)),
    };
    disks().into_iter().map(throttle).collect()
}

fn mount(bind: &Bind) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(in_words(&bind.source)),
        target: Some(in_words(&bind.target)),
        read_only: Some(bind.is_read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

fn in_memory(mount: &crate::runtime::Mount) -> Option<(String, String)> {
    let Volume::Memory { bytes_max } = mount.volume else {
        return None;
    };
    let size = bytes_max.map_or(String::new(), |bytes| format!(",size={bytes}"));
    Some((in_words(&mount.path), format!("rw,exec,nosuid,nodev,mode=1777{size}")))
}

fn device(device: &Device) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(in_words(&device.node)),
        path_in_container: Some(in_words(&device.path)),
        cgroup_permissions: Some("rw".to_owned()),
    }
}

fn in_words(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
