//! The connections under every request: built from parts, so that waiting can be made our own.
//!
//! ureq's transport interface is outside its version promise; it is used in this file alone.

use std::time::Duration;

use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    ConnectProxyConnector, Connector, RustlsConnector, TcpConnector,
};

/// Connecting may take this long, whatever the whole call may take.
const CONNECT: Duration = Duration::from_secs(10);

/// An agent that keeps one connection alive per endpoint, follows no redirect, hands out every
/// status as a response, and ends each call, from connecting to the last byte, after `timeout`.
/// A server on this machine is reached without a proxy.
pub(crate) fn agent(timeout: Duration, on_this_machine: bool) -> Agent {
    let mut config = Config::builder()
        .timeout_global(Some(timeout))
        .timeout_connect(Some(CONNECT.min(timeout)))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("reagent/", env!("CARGO_PKG_VERSION")));
    if on_this_machine {
        config = config.proxy(None);
    }
    let connector =
        ().chain(ConnectProxyConnector::default())
            .chain(TcpConnector::default())
            .chain(RustlsConnector::default());
    Agent::with_parts(config.build(), connector, DefaultResolver::default())
}
