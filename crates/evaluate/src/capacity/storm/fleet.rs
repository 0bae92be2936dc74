//! The edges that come back.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use mqtt::Packet;
use rustix::process::Signal;

use crate::arms::ServerProcess;
use crate::capacity::client::{Client, packet_id};
use crate::capacity::contender::On;
use crate::capacity::linked::{EdgeFiles, Linked, PATIENCE, Side, edge_arguments};
use crate::generator::socket::Endpoint;
use crate::network::{Host, Network, Place};

/// The first edge's door; the others' follow. No connection gets such a port for its own end, and the host is ours
/// alone.
const FIRST_PORT: u16 = 10_000;
/// So many may there be.
pub(in crate::capacity) const EDGES_MAX: u32 = 20_000;
/// Edges that start at one time: each has to be ready in 20 s.
const STARTING_AT_ONCE: usize = 50;
/// An edge's log has little to hold: files of 64 KiB, not of 16 MiB, a thousand times four. And it waits for no disk: a
/// thousand edges have a thousand of their own, which here would all be that of the cloud.
const STORE: &str = "durability = \"os\"\nsegment_bytes = 65536\npending_bytes = 32768\n";

/// Processes, each with its directory, on the devices' host.
pub(super) struct Fleet<'a> {
    linked: &'a Linked<'a>,
    host: &'a Host,
    edges: u32,
    running: Vec<ServerProcess>,
}

impl<'a> Fleet<'a> {
    /// Lets them in at a cloud that does not run, and writes down their ways there.
    pub(super) fn set_up(linked: &'a Linked<'a>, network: &'a Network, edges: u32) -> Result<Fleet<'a>, String> {
        let fleet = Fleet {
            linked,
            host: network.host(Place::Device),
            edges,
            running: Vec::with_capacity(edges as usize),
        };
        let names: Vec<String> = (0..edges).map(name).collect();
        let passwords = linked.site.add("edge", &names, &linked.data(Side::Cloud))?;
        for ((edge, name), password) in (0..edges).zip(&names).zip(&passwords) {
            let directory = fleet.directory(edge);
            std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            let files = EdgeFiles {
                name,
                password,
                head: "shards = 1\n",
                listen: &format!("mqtt = [\"{}\"]\n", address(edge)),
                store: STORE,
                link: "",
            };
            linked.write(&files, &directory, &directory.join("data"))?;
        }
        Ok(fleet)
    }

    fn directory(&self, edge: u32) -> PathBuf {
        self.linked.directory.join(name(edge))
    }

    /// Starts all of them. They share a CPU with the generator: those of the cloud and of the edge that is not cut off
    /// are theirs alone.
    pub(super) fn start(&mut self) -> Result<(), String> {
        let on = || On {
            host: self.host,
            cpu: self.linked.site.cpus.generator,
        };
        for first in (0..self.edges).step_by(STARTING_AT_ONCE) {
            let some = first..self.edges.min(first + STARTING_AT_ONCE as u32);
            for edge in some.clone() {
                let directory = self.directory(edge);
                let started = self
                    .linked
                    .site
                    .start_selvedge(&edge_arguments(&directory), &directory, on())?;
                self.running.push(started);
            }
            let started = &mut self.running[first as usize..];
            let ready = self.host.enter(|| {
                let mut all = some.zip(started);
                all.try_for_each(|(edge, process)| process.wait_until_ready(address(edge)).map(drop))
            });
            ready.map_err(|error| error.to_string())??;
        }
        Ok(())
    }

    /// A device at each edge says which round it is, and has the edge's word that it is kept.
    pub(super) fn leave_messages(&self, round: u64) -> Result<(), String> {
        let left = self
            .host
            .enter(|| (0..self.edges).try_for_each(|edge| leave_message(edge, round)));
        left.map_err(|error| error.to_string())?
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        // All at once; then each is waited for, which is soon over.
        self.running.iter().for_each(|edge| edge.signal(Signal::KILL));
    }
}

fn leave_message(edge: u32, round: u64) -> Result<(), String> {
    let endpoint = Endpoint {
        address: address(edge),
        tls: None,
        from: None,
    };
    let leave = || {
        let mut device = Client::connect(&endpoint, "storm-device", true)?;
        device.publish(packet_id(round), &topic(edge), round.to_string().as_bytes());
        device.flush()?;
        let mut is_kept = false;
        while !is_kept {
            let came = device.receive(PATIENCE, |packet, _| is_kept |= matches!(packet, Packet::PubAck(_)))?;
            if !came {
                return Err(std::io::Error::other("its edge does not acknowledge the message"));
            }
        }
        Ok(())
    };
    leave().map_err(|error: std::io::Error| format!("device at {}: {error}", name(edge)))
}

fn name(edge: u32) -> String {
    format!("storm-{edge}")
}

fn address(edge: u32) -> SocketAddr {
    // There are no more than fit.
    SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST_PORT + edge as u16))
}

fn topic(edge: u32) -> String {
    format!("devices/{}/telemetry/storm", name(edge))
}

/// Which edge a message comes through, by its topic.
pub(super) fn edge_of(topic: &str) -> Option<u32> {
    let id = topic.strip_prefix("devices/storm-")?;
    id.strip_suffix("/telemetry/storm")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_is_known_by_the_topic_of_its_device_and_has_a_door_of_its_own() {
        for edge in [0, 17, EDGES_MAX - 1] {
            assert_eq!(edge_of(&topic(edge)), Some(edge));
            assert_eq!(u32::from(address(edge).port()), u32::from(FIRST_PORT) + edge);
        }
        assert_eq!(edge_of("devices/live/telemetry"), None);
    }
}
