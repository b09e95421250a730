//! The server as its clients meet it: over HTTP and sockets, each route by itself.

mod access;
mod bash;
mod begin;
mod choices;
mod commands;
mod conversations;
mod ends;
mod events;
mod files;
mod gateway;
mod git;
mod kept;
mod lifecycle;
mod plugins;
mod settings;
mod sockets;
mod webhooks;
