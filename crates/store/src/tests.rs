//! The log on a simulated disk: what crashes, damage, failures and want of space leave of it.

mod crash;
mod damage;
mod emptying;
mod failure;
mod owner;
mod reserve;
mod space;
