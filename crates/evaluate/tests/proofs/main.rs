//! Proofs that the instrument measures what it says, with servers that we did not write.

mod bench;
mod capacity;
mod network;
mod rtt;
