//! Servers that stop at a chosen point of an exchange, and say when they have got there.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, getsockname, listen, socket};

use crate::certificate::TRUSTED;
use crate::reply::Reply;
use crate::server::{self, Request};
use crate::service;
use crate::test::ms;

const PATIENCE: Duration = Duration::from_secs(20);

/// Where the exchange stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum At {
    /// Nobody accepts, and the queue is full.
    Connect,
    /// The server accepts a TLS connection and says nothing.
    Handshake,
    /// The request is read; nothing is sent.
    Headers,
    /// Half of the reply is sent.
    Body,
    /// A byte of the reply comes every few milliseconds, without end.
    Drip,
    /// The server asks to wait half a minute.
    Retry,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Over {
    Tcp,
    Tls,
}

/// The server.
pub(crate) struct Stall {
    at: At,
    over: Over,
    pub(crate) address: SocketAddr,
    reached: mpsc::Receiver<()>,
    answers: Arc<AtomicBool>,
    /// Of a server that does not accept yet: its socket, and what fills its queue.
    queue: Option<(OwnedFd, Vec<TcpStream>)>,
    sender: mpsc::Sender<()>,
}

impl Stall {
    pub(crate) fn new(at: At, over: Over) -> Self {
        let (sender, reached) = mpsc::channel();
        let answers = Arc::new(AtomicBool::new(false));
        let unconnected = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&unconnected, &SocketAddrV4::new([127, 0, 0, 1].into(), 0)).unwrap();
        listen(&unconnected, if at == At::Connect { 0 } else { 100 }).unwrap();
        let address = SocketAddr::try_from(getsockname(&unconnected).unwrap()).unwrap();
        let mut stall = Stall {
            at,
            over,
            address,
            reached,
            answers,
            queue: None,
            sender,
        };
        if at == At::Connect {
            // A connection that is in nobody's queue is given up; the one before it fills the queue.
            let connect = || TcpStream::connect_timeout(&address, ms(100));
            let filling = std::iter::from_fn(|| connect().ok()).collect();
            stall.queue = Some((unconnected, filling));
        } else {
            stall.accept(unconnected);
        }
        stall
    }

    fn accept(&self, listener: OwnedFd) {
        let listener = TcpListener::from(listener);
        let (at, over) = (self.at, self.over);
        let (reached, answers) = (self.sender.clone(), Arc::clone(&self.answers));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (reached, answers) = (reached.clone(), Arc::clone(&answers));
                let Ok(stream) = stream else { continue };
                // An error is the program going away, which is what it is told to do.
                thread::spawn(move || converse(at, over, stream, &reached, &answers));
            }
        });
    }

    pub(crate) fn base_url(&self) -> String {
        let scheme = match self.over {
            Over::Tcp => "http",
            Over::Tls => "https",
        };
        format!("{scheme}://{}/v1", self.address)
    }

    /// Waits until the exchange has stopped.
    #[track_caller]
    pub(crate) fn reached(&self) {
        if self.queue.is_some() {
            // The server knows nothing of the connection; the kernel does.
            let wanted = format!(":{:04X} 02 ", self.address.port());
            let end = Instant::now() + PATIENCE;
            while !std::fs::read_to_string("/proc/net/tcp")
                .unwrap()
                .contains(&wanted)
            {
                assert!(Instant::now() < end, "nobody connects");
                thread::sleep(ms(1));
            }
        } else {
            self.reached.recv_timeout(PATIENCE).expect("a request");
        }
    }

    /// From here on every request is answered.
    pub(crate) fn answer(&mut self) {
        self.answers.store(true, Ordering::SeqCst);
        if let Some((listener, filling)) = self.queue.take() {
            drop(filling);
            self.accept(listener);
        }
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn converse(
    at: At,
    over: Over,
    mut stream: TcpStream,
    reached: &mpsc::Sender<()>,
    answers: &AtomicBool,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let answers = || answers.load(Ordering::SeqCst);
    if at == At::Handshake && !answers() {
        stream.read_exact(&mut [0])?;
        let _ = reached.send(());
        return hold(&mut stream);
    }
    let stream: Box<dyn Stream> = match over {
        Over::Tcp => Box::new(stream),
        Over::Tls => Box::new(TRUSTED.secure(stream)),
    };
    let mut reader = BufReader::new(stream);
    while let Some(request) = server::read(&mut reader)? {
        let out = reader.get_mut();
        if answers() {
            Reply::chat("Answer: It is fine.").send(out, &request)?;
            continue;
        }
        match at {
            At::Connect | At::Handshake | At::Headers => {}
            At::Body => {
                Reply::cut("Answer: It is half of").send(out, &request)?;
            }
            At::Drip => begin(out, &request)?,
            At::Retry => {
                let reply = Reply::error(429, "slow down").header("retry-after", "30");
                reply.send(out, &request)?;
            }
        }
        out.flush()?;
        let _ = reached.send(());
        for gap in (5..20).cycle().take_while(|_| at == At::Drip) {
            out.write_all(b"1\r\nx\r\n")?;
            out.flush()?;
            thread::sleep(ms(gap));
        }
        if at != At::Retry {
            return hold(out);
        }
    }
    Ok(())
}

/// The beginning of a reply that never ends.
fn begin(out: &mut impl Write, request: &Request) -> io::Result<()> {
    let kind = match service::streams(request) {
        true => "text/event-stream",
        false => "application/json",
    };
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked";
    out.write_all(format!("{head}\r\ncontent-type: {kind}\r\n\r\n").as_bytes())
}

/// Says nothing until the other side has gone.
fn hold(stream: &mut impl Read) -> io::Result<()> {
    while stream.read(&mut [0; 256])? > 0 {}
    Ok(())
}
