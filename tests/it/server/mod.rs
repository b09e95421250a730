//! Tests of the server as clients use it: over HTTP and sockets, each route separately.

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
