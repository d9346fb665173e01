//! The connections under every request: all that they wait for can be interrupted.
//!
//! ureq's transport interface is outside its version promise; it is used in this file alone.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout,
    RustlsConnector, Transport,
};
use ureq::{Agent, Timeout};

use crate::interrupt;
use crate::route::{self, Fault};

/// How long a name stands for the addresses that it was found to have.
const KNOWN: Duration = Duration::from_secs(60);
/// The most that is held back to go out together with what follows, in bytes.
const HELD: usize = 4096;
/// How long the rest of a response is waited for when no more of it is wanted.
const REST: Duration = Duration::from_secs(1);
/// How often a wait for a name looks whether it was interrupted.
const SLICE: Duration = Duration::from_millis(25);

/// How long connecting may take, and how long a server may be silent.
#[derive(Debug, Default, Clone)]
pub(crate) struct Patience {
    pub(crate) connect: Option<Duration>,
    /// From a request to the first byte of the response.
    pub(crate) first_byte: Option<Duration>,
    /// From one byte to the next.
    pub(crate) idle: Option<Duration>,
    /// Ends all patience with the response under way.
    pub(crate) enough: Enough,
}

/// Says that no more of a response is wanted. Its rest may still come, so that the connection can be
/// used again; but a server that never ends it keeps nobody waiting.
#[derive(Debug, Default, Clone)]
pub(crate) struct Enough {
    until: Arc<Mutex<Option<Instant>>>,
    left: Arc<AtomicBool>,
    used: Arc<AtomicBool>,
}

impl Enough {
    pub(crate) fn say(&self) {
        self.until().get_or_insert_with(|| Instant::now() + REST);
    }

    /// Says that more may come than belongs to the response: its connection is not used again.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    /// Whether the connection of the last request had been used before: then it may have been closed by the
    /// other side just as the request was sent.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::SeqCst)
    }

    /// When the response is given up.
    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// An agent that keeps one connection alive per endpoint, follows no redirect and hands out every
/// status as a response. The certificates that are trusted are the system's; they are read only if
/// `tls` says that they are needed. Without `proxy`, none is used, whatever the environment says.
pub(crate) fn agent(patience: Patience, tls: bool, proxy: bool) -> Agent {
    let config = Config::builder()
        .timeout_connect(patience.connect)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        // Zeroed for every connection; the head of a response has to fit.
        .input_buffer_size(64 << 10)
        .output_buffer_size(16 << 10)
        .user_agent(concat!(
            "reagent/",
            env!("CARGO_PKG_VERSION"),
            " (terminal agent; blocking reader)"
        ));
    let (proxy, no_proxy) = match proxy {
        true => route::proxy(),
        false => (None, None),
    };
    let (config, distrust) = match tls.then(route::roots) {
        Some(Ok(roots)) => {
            let tls = TlsConfig::builder().root_certs(roots).build();
            (config.tls_config(tls), None)
        }
        Some(Err(fault)) => (config, Some(fault)),
        None => (config, None),
    };
    let config = config.proxy(proxy);
    let gate = Gate { distrust, no_proxy };
    let connector = gate
        .chain(ConnectProxyConnector::default())
        .chain(Polled { patience })
        .chain(RustlsConnector::default());
    Agent::with_parts(config.build(), connector, Names::default())
}

/// Lets nothing through where something is wrong that no server can mend.
#[derive(Debug)]
struct Gate {
    distrust: Option<Fault>,
    no_proxy: Option<Fault>,
}

impl<In: Transport> Connector<In> for Gate {
    type Out = In;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let proxy = details.config.proxy();
        let concerned = proxy.is_some_and(|proxy| !proxy.is_no_proxy(details.uri));
        let no_proxy = self.no_proxy.as_ref().filter(|_| concerned);
        match self.distrust.as_ref().or(no_proxy) {
            Some(fault) => Err(io::Error::other(fault.clone()).into()),
            None => Ok(chained),
        }
    }
}

/// Makes connections that wait in [`interrupt::wait`].
#[derive(Debug)]
struct Polled {
    patience: Patience,
}

impl<In: Transport> Connector<In> for Polled {
    type Out = Either<In, Connection>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        // Through a proxy there is a connection already.
        if let Some(transport) = chained {
            return Ok(Some(Either::A(transport)));
        }
        let until = details
            .timeout
            .not_zero()
            .map(|left| Instant::now() + *left);
        let mut last = io::Error::from(ErrorKind::ConnectionRefused);
        let addresses: Vec<SocketAddr> = details.addrs.iter().copied().collect();
        for (at, address) in addresses.iter().enumerate() {
            // Each address gets an equal share of the time that is left.
            let share = until.map(|until| {
                let left = until.saturating_duration_since(Instant::now());
                Instant::now() + left / u32::try_from(addresses.len() - at).unwrap_or(1)
            });
            match dial(*address, share) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    self.patience.enough.left.store(false, Ordering::SeqCst);
                    self.patience.enough.used.store(false, Ordering::SeqCst);
                    let buffers = LazyBuffers::new(
                        details.config.input_buffer_size(),
                        details.config.output_buffer_size(),
                    );
                    return Ok(Some(Either::B(Connection {
                        stream,
                        buffers,
                        patience: self.patience.clone(),
                        unsent: Vec::new(),
                        heard: false,
                    })));
                }
                Err(error) if interrupt::reason().is_some() => return Err(error.into()),
                // The address may be a proxy's.
                Err(error) => {
                    last = io::Error::new(error.kind(), format!("{address}: {error}"));
                }
            }
        }
        match last.kind() {
            ErrorKind::TimedOut => Err(ureq::Error::Timeout(Timeout::Connect)),
            _ => Err(last.into()),
        }
    }
}

/// Connects to one address.
fn dial(address: SocketAddr, until: Option<Instant>) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            if !interrupt::wait(Some((socket.as_fd(), PollFlags::OUT)), until)? {
                return Err(ErrorKind::TimedOut.into());
            }
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(TcpStream::from(socket))
}

/// A connection that blocks nowhere but in [`interrupt::wait`].
struct Connection {
    stream: TcpStream,
    buffers: LazyBuffers,
    patience: Patience,
    /// What was given to be sent, and waits for more or for the end of a request: its head goes out with its
    /// body.
    unsent: Vec<u8>,
    /// Something has come since the last request.
    heard: bool,
}

impl Connection {
    /// Sends what waits, and then so many bytes of the output.
    fn send(&mut self, amount: usize, timeout: &NextTimeout) -> Result<(), ureq::Error> {
        let until = timeout.not_zero().map(|left| Instant::now() + *left);
        let unsent = std::mem::take(&mut self.unsent);
        let mut sent = 0;
        while sent < unsent.len() + amount {
            let first = &unsent[sent.min(unsent.len())..];
            let then = &self.buffers.output()[sent.saturating_sub(unsent.len())..amount];
            match (&self.stream).write_vectored(&[IoSlice::new(first), IoSlice::new(then)]) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, until, timeout.reason)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(
        &self,
        flags: PollFlags,
        until: Option<Instant>,
        reason: Timeout,
    ) -> Result<(), ureq::Error> {
        match interrupt::wait(Some((self.stream.as_fd(), flags)), until)? {
            true => Ok(()),
            false => Err(ureq::Error::Timeout(reason)),
        }
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.heard = false;
        *self.patience.enough.until() = None;
        if self.unsent.is_empty() && amount <= HELD {
            self.unsent
                .extend_from_slice(&self.buffers.output()[..amount]);
            return Ok(());
        }
        self.send(amount, &timeout.for_write())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        if !self.unsent.is_empty() {
            self.send(0, &timeout)?;
        }
        let timeout = timeout.for_read();
        let left = timeout.not_zero().map(|left| *left);
        let silence = if self.heard {
            self.patience.idle
        } else {
            self.patience.first_byte
        };
        let (left, reason) = match (left, silence) {
            (Some(left), Some(silence)) if silence < left => (Some(silence), Timeout::PerRead),
            (None, Some(silence)) => (Some(silence), Timeout::PerRead),
            (left, _) => (left, timeout.reason),
        };
        let until = left.map(|left| Instant::now() + left);
        let enough = *self.patience.enough.until();
        let until = until.into_iter().chain(enough).min();
        loop {
            let input = self.buffers.input_append_buf();
            match (&self.stream).read(input) {
                Ok(read) => {
                    self.heard = true;
                    self.buffers.input_appended(read);
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN, until, reason)?
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_open(&mut self) -> bool {
        // Bytes that nobody asked for, and the end, mean that it is of no use any more.
        let mut byte = [0];
        let left = self.patience.enough.left.load(Ordering::SeqCst);
        self.patience.enough.used.store(true, Ordering::SeqCst);
        !left
            && matches!((&self.stream).read(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("to", &self.stream.peer_addr().ok())
            .finish()
    }
}

/// Finds the addresses of names, and remembers the last ones for a while.
#[derive(Debug, Default)]
struct Names {
    last: Mutex<Option<(String, Vec<SocketAddr>, Instant)>>,
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
        let name = name.ok_or(ureq::Error::HostNotFound)?;
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = last
            .as_ref()
            .filter(|(known, _, since)| *known == name && since.elapsed() < KNOWN);
        // An address needs no finding.
        let literal = name.parse().ok().map(|address: SocketAddr| vec![address]);
        let addresses = match literal.or_else(|| known.map(|(_, addresses, _)| addresses.clone())) {
            Some(addresses) => addresses,
            None => {
                let addresses = lookup(&name, timeout)?;
                *last = Some((name, addresses.clone(), Instant::now()));
                addresses
            }
        };
        let mut found = self.empty();
        let family = config.ip_family();
        let wanted = family.keep_wanted(addresses.into_iter());
        wanted.take(16).for_each(|address| found.push(address));
        match found.is_empty() {
            true => Err(ureq::Error::HostNotFound),
            false => Ok(found),
        }
    }
}

/// Asks the system, on a thread of its own, since that cannot be interrupted.
fn lookup(name: &str, timeout: NextTimeout) -> Result<Vec<SocketAddr>, ureq::Error> {
    let until = timeout.not_zero().map(|left| Instant::now() + *left);
    let (sender, receiver) = mpsc::channel();
    let asked = name.to_owned();
    let ask = move || {
        let _ = sender.send(asked.to_socket_addrs().map(Iterator::collect));
    };
    std::thread::Builder::new()
        .name("resolver".to_owned())
        .spawn(ask)?;
    loop {
        match receiver.recv_timeout(SLICE) {
            Ok(found) => return Ok(found?),
            Err(RecvTimeoutError::Disconnected) => return Err(ureq::Error::HostNotFound),
            Err(RecvTimeoutError::Timeout) => {
                interrupt::sleep(Duration::ZERO).map_err(io::Error::other)?;
            }
        }
        if until.is_some_and(|until| until <= Instant::now()) {
            return Err(ureq::Error::Timeout(Timeout::Resolve));
        }
    }
}
