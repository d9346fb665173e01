//! A certificate made for the tests, and the server's side of TLS with it.

use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::test::Test;

/// The host that the tests call by a name; only a proxy knows where it is.
pub(crate) const HOST: &str = "model.test";

/// The one that the program is told to trust.
pub(crate) static TRUSTED: LazyLock<Certificate> =
    LazyLock::new(|| Certificate::of(&[HOST, "localhost", "127.0.0.1"]));

/// A certificate that vouches for itself.
pub(crate) struct Certificate {
    pub(crate) pem: String,
    config: Arc<ServerConfig>,
}

/// A connection as its server sees it.
pub(crate) type Secured = StreamOwned<ServerConnection, TcpStream>;

impl Certificate {
    /// For these names and addresses.
    pub(crate) fn of(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let text = STANDARD.encode(cert.der());
        let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
        let lines = lines.collect::<Vec<_>>().join("\n");
        Certificate {
            pem: format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"),
            config: Arc::new(config),
        }
    }

    /// Secures a connection; the handshake comes with the first read.
    pub(crate) fn secure(&self, stream: TcpStream) -> Secured {
        StreamOwned::new(
            ServerConnection::new(Arc::clone(&self.config)).unwrap(),
            stream,
        )
    }
}

impl Test {
    /// The program trusts this certificate and no other.
    pub(crate) fn trusting(self, certificate: &Certificate) -> Self {
        let path: PathBuf = self.work().with_file_name("trusted.pem");
        std::fs::write(&path, &certificate.pem).unwrap();
        self.env("SSL_CERT_FILE", path.to_str().unwrap())
    }
}
