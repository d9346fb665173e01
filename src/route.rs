//! What the environment says about the way to other machines: the proxy, and the certificates that
//! are trusted.
//!
//! What it names and cannot be used is a fault, and not passed over.

use std::env;
use std::fmt;

use rustls::CertificateError::{Expired, ExpiredContext, NotValidForName, NotValidForNameContext};
use rustls::Error::{InvalidCertificate, InvalidMessage};
use ureq::tls::{Certificate, RootCerts};
use ureq::{Error, Proxy, ProxyProtocol};

/// What is in the way, and what to do about it. It will not go better the next time.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    message: String,
    pub(crate) hint: &'static str,
}

impl Fault {
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self {
            message: message.into(),
            hint,
        }
    }

    /// What an error has to do with the way, if it has.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        let inner = match error {
            Error::Io(error) => error.get_ref()?,
            Error::ConnectProxyFailed(why) => {
                return Some(Self::new(
                    format!("the proxy does not connect: {why}"),
                    "look at HTTPS_PROXY and ALL_PROXY; NO_PROXY=HOST goes past them",
                ));
            }
            _ => return None,
        };
        if let Some(fault) = inner.downcast_ref::<Self>() {
            return Some(fault.clone());
        }
        Some(match inner.downcast_ref()? {
            InvalidCertificate(why @ (NotValidForName | NotValidForNameContext { .. })) => {
                Self::new(
                    format!("the certificate is for another host: {why}"),
                    "look at the host in --base-url",
                )
            }
            InvalidCertificate(why @ (Expired | ExpiredContext { .. })) => Self::new(
                format!("the certificate is too old: {why}"),
                "look at the clock of this machine, and at the server",
            ),
            InvalidCertificate(why) => Self::new(
                format!("the certificate is not trusted: {why}"),
                "if it should be: export SSL_CERT_FILE=/path/to/its/authority.pem",
            ),
            InvalidMessage(_) => Self::new(
                "the server does not speak TLS",
                "look at --base-url; a server on this machine may want http://",
            ),
            other => Self::new(
                format!("TLS: {other}"),
                "look at --base-url, and at the server",
            ),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// The certificates that the system trusts, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`; where the
/// system has none, those that come with the program.
pub(crate) fn roots() -> Result<RootCerts, Fault> {
    let found = rustls_native_certs::load_native_certs();
    if !found.certs.is_empty() {
        let certs = found.certs.iter();
        return Ok(certs
            .map(|cert| Certificate::from_der(cert.as_ref()).to_owned())
            .into());
    }
    let names = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
    let named = names
        .iter()
        .find_map(|name| Some((name, env::var_os(name)?)));
    let Some((name, path)) = named else {
        return Ok(RootCerts::WebPki);
    };
    let why = found.errors.first().map(ToString::to_string);
    let why = why.unwrap_or_else(|| "there is no certificate in it".to_owned());
    Err(Fault::new(
        format!("{name} is {}: {why}", path.display()),
        "set SSL_CERT_FILE to a file of certificates in PEM, or unset it",
    ))
}

/// The proxy, which knows the hosts in `NO_PROXY`, and what is wrong with it.
pub(crate) fn proxy() -> (Option<Proxy>, Option<Fault>) {
    let Some((name, value)) = either_case(&["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"]) else {
        return (None, None);
    };
    let given = Proxy::new(&value);
    let why = match given.as_ref().map(Proxy::protocol) {
        Ok(ProxyProtocol::Http | ProxyProtocol::Https) => None,
        Ok(_) => Some("a SOCKS proxy, which cannot be used"),
        Err(_) => Some("not the address of a proxy"),
    };
    let mut proxy = match given.ok().filter(|_| why.is_none()) {
        Some(given) => {
            let proxy = Proxy::builder(given.protocol());
            let mut proxy = proxy.host(given.host()).port(given.port());
            if let Some(name) = given.username() {
                proxy = proxy.username(name);
            }
            if let Some(password) = given.password() {
                proxy = proxy.password(password);
            }
            proxy
        }
        // Nothing gets to it: it only knows which hosts are not concerned.
        None => Proxy::builder(ProxyProtocol::Http),
    };
    let (_, hosts) = either_case(&["NO_PROXY"]).unwrap_or_default();
    for host in hosts
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty())
    {
        proxy = proxy.no_proxy(host);
        // As everywhere else, a name stands for those below it too.
        if !host.starts_with(['*', '.']) {
            proxy = proxy.no_proxy(&format!(".{host}"));
        }
    }
    let fault = |why| {
        let hint = "a proxy looks like http://proxy.example:3128; NO_PROXY=HOST goes past it";
        Fault::new(format!("{name} is {why}"), hint)
    };
    (proxy.build().ok(), why.map(fault))
}

/// The first of these variables that is not empty, in capitals or not.
fn either_case(names: &[&str]) -> Option<(String, String)> {
    let names = names
        .iter()
        .flat_map(|name| [(*name).to_owned(), name.to_lowercase()]);
    names
        .filter_map(|name| env::var(&name).ok().map(|value| (name, value)))
        .find(|(_, value)| !value.is_empty())
}
