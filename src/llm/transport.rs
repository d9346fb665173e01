//! The connections under every request: built from parts, so that waiting can be made our own.
//!
//! ureq's transport interface is outside its version promise; it is used in this file alone.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    ConnectProxyConnector, Connector, NextTimeout, RustlsConnector, TcpConnector,
};

/// Connecting may take this long, whatever the whole call may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a name stands for the addresses that it was found to have.
const KNOWN: Duration = Duration::from_secs(60);

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
    Agent::with_parts(config.build(), connector, Names::default())
}

/// Finds the addresses of names, and remembers the last ones for a while: the default asks anew for
/// each request, on a thread of its own, also when the connection is there already.
#[derive(Debug, Default)]
struct Names {
    last: Mutex<Option<(String, Vec<SocketAddr>, Instant)>>,
    asked: DefaultResolver,
}

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let name = uri.scheme().zip(uri.authority());
        let name =
            name.and_then(|(scheme, authority)| DefaultResolver::host_and_port(scheme, authority));
        let name = name.unwrap_or_default();
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = last
            .as_ref()
            .filter(|(known, _, since)| *known == name && since.elapsed() < KNOWN);
        // An address needs no finding.
        let literal = name.parse().ok().map(|address: SocketAddr| vec![address]);
        if let Some(addresses) =
            literal.or_else(|| known.map(|(_, addresses, _)| addresses.clone()))
        {
            let mut found = self.empty();
            addresses
                .into_iter()
                .for_each(|address| found.push(address));
            return Ok(found);
        }
        let found = self.asked.resolve(uri, config, timeout)?;
        *last = Some((name, found.to_vec(), Instant::now()));
        Ok(found)
    }
}
