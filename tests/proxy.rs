//! A proxy that connects every name to one server, and keeps what it was sent in the open.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// How it answers `CONNECT`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tunnel {
    Open,
    /// Never.
    Stall,
    Refuse,
}

/// The proxy.
pub(crate) struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<u8>>>,
    through: Arc<Mutex<Vec<u8>>>,
    reached: mpsc::Receiver<()>,
}

impl Proxy {
    /// Tunnels lead to this server, whatever was asked for.
    pub(crate) fn to(target: SocketAddr, tunnel: Tunnel) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (sender, reached) = mpsc::channel();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            through: Arc::default(),
            reached,
        };
        let (asked, through) = (Arc::clone(&proxy.asked), Arc::clone(&proxy.through));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (asked, through) = (Arc::clone(&asked), Arc::clone(&through));
                let (Ok(stream), sender) = (stream, sender.clone()) else {
                    continue;
                };
                // An error is one of the two going away.
                thread::spawn(move || serve(stream, target, tunnel, &asked, &through, &sender));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the proxy itself was told.
    pub(crate) fn asked(&self) -> String {
        String::from_utf8_lossy(&self.asked.lock().unwrap()).into_owned()
    }

    /// What went through its tunnels.
    pub(crate) fn through(&self) -> Vec<u8> {
        self.through.lock().unwrap().clone()
    }

    /// Waits until it was asked for a tunnel.
    #[track_caller]
    pub(crate) fn reached(&self) {
        let reached = self.reached.recv_timeout(Duration::from_secs(20));
        reached.expect("the proxy is asked");
    }
}

fn serve(
    stream: TcpStream,
    target: SocketAddr,
    tunnel: Tunnel,
    asked: &Mutex<Vec<u8>>,
    through: &Mutex<Vec<u8>>,
    reached: &mpsc::Sender<()>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut client = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = Vec::new();
        if client.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        asked.lock().unwrap().extend_from_slice(&line);
        if line == b"\r\n" {
            break;
        }
    }
    let _ = reached.send(());
    match tunnel {
        Tunnel::Open => (&stream).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
        Tunnel::Stall => return io::copy(&mut client, &mut io::sink()).map(|_| ()),
        Tunnel::Refuse => return (&stream).write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n"),
    }
    let server = TcpStream::connect(target)?;
    let back = (server.try_clone()?, stream);
    thread::spawn(move || copy(&back.0, &back.1, |_| {}));
    copy(client, &server, |bytes| {
        through.lock().unwrap().extend_from_slice(bytes)
    })
}

/// Copies until one side has gone, and then closes the other.
fn copy(mut from: impl Read, mut to: &TcpStream, see: impl Fn(&[u8])) -> io::Result<()> {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        see(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
    to.shutdown(std::net::Shutdown::Both)
}
