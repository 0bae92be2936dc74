//! The log on real files, as its owner sees it.

mod directory;
mod full_disk;
mod owner;
mod records;
