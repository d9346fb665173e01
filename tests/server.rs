//! A scripted model and web server on loopback: plain sockets, so that it can misbehave in every way that a real one does.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::certificate::Certificate;
use crate::reply::Next;
pub(crate) use crate::reply::Reply;

/// A request as it came.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Role and text of each message.
    pub(crate) fn messages(&self) -> Vec<(String, String)> {
        let messages = self.body["messages"]
            .as_array()
            .expect("messages is a list");
        let role = |m: &Value| m["role"].as_str().expect("a role").to_owned();
        messages.iter().map(|m| (role(m), content(m))).collect()
    }

    pub(crate) fn roles(&self) -> Vec<String> {
        self.messages().into_iter().map(|(role, _)| role).collect()
    }

    /// The text of the last message.
    pub(crate) fn last(&self) -> String {
        self.messages().pop().expect("at least one message").1
    }

    /// The question, without the word that may introduce it.
    pub(crate) fn question(&self) -> String {
        question(&self.last()).to_owned()
    }

    /// The text of the first message, which is the system prompt.
    pub(crate) fn system(&self) -> String {
        let (role, text) = self.messages().remove(0);
        assert_eq!(role, "system", "message 0 is the system prompt");
        text
    }

    /// The texts of all messages after the system prompt.
    pub(crate) fn conversation(&self) -> String {
        let texts = self.messages().into_iter().skip(1).map(|(_, text)| text);
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The question in the text of a user message.
pub(crate) fn question(text: &str) -> &str {
    text.strip_prefix("Question: ").unwrap_or(text)
}

fn content(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        other => panic!("content is neither text nor a list of parts: {other}"),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Promise {
    Called,
    Untouched,
    Nothing,
}

/// Replies without end: the one with each number, from 1.
struct Endless {
    given: AtomicUsize,
    reply: Box<dyn Fn(usize) -> Reply + Send + Sync>,
}

impl Endless {
    fn new(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        Endless {
            given: AtomicUsize::new(0),
            reply: Box::new(reply),
        }
    }

    fn next(&self) -> Reply {
        (self.reply)(self.given.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Reply>>,
    endless: Option<Endless>,
    routes: Mutex<Vec<(String, Endless)>>,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    overruns: AtomicUsize,
    broken_off: AtomicUsize,
    certificate: Option<&'static Certificate>,
    stop: AtomicBool,
}

/// The server. When it is dropped it fails the test if it was never called, was called too often, or has replies left.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    promise: Promise,
}

impl Server {
    /// Gives these replies to chat requests, each once, in this order.
    pub(crate) fn replies<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let script = replies.into_iter().map(Into::into).collect();
        Server::start(
            Promise::Called,
            Shared {
                script: Mutex::new(script),
                ..Shared::default()
            },
        )
    }

    /// The same over TLS; without replies it must not be called.
    pub(crate) fn secured<R: Into<Reply>>(
        certificate: &'static Certificate,
        replies: impl IntoIterator<Item = R>,
    ) -> Self {
        let script: VecDeque<Reply> = replies.into_iter().map(Into::into).collect();
        let promise = match script.is_empty() {
            true => Promise::Untouched,
            false => Promise::Called,
        };
        Server::start(
            promise,
            Shared {
                script: Mutex::new(script),
                certificate: Some(certificate),
                ..Shared::default()
            },
        )
    }

    /// Gives the same reply to every chat request.
    pub(crate) fn always(reply: impl Into<Reply>) -> Self {
        let reply = reply.into();
        Server::endless(move |_| reply.clone())
    }

    /// Gives a reply to every chat request, made of its number, from 1.
    pub(crate) fn endless(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        Server::start(
            Promise::Called,
            Shared {
                endless: Some(Endless::new(reply)),
                ..Shared::default()
            },
        )
    }

    /// A server without a script, for its routes.
    pub(crate) fn web() -> Self {
        Server::start(Promise::Called, Shared::default())
    }

    /// A server that must not be called.
    pub(crate) fn untouched() -> Self {
        Server::start(Promise::Untouched, Shared::default())
    }

    /// An address at which nothing listens.
    pub(crate) fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/v1", listener.local_addr().unwrap())
    }

    fn start(promise: Promise, shared: Shared) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(shared);
        let server = Server {
            address,
            shared: Arc::clone(&shared),
            promise,
        };
        thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // An error here is the client going away, which is its right.
                    if converse(&shared, stream).is_err() {
                        shared.broken_off.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        server
    }

    /// Whether it is called does not matter.
    pub(crate) fn at_will(mut self) -> Self {
        self.promise = Promise::Nothing;
        self
    }

    /// Answers requests with this path that are no chat requests. Where a query is given, each of its parts must be in the request's;
    /// the first route that fits counts.
    pub(crate) fn route(self, path: &str, reply: Reply) -> Self {
        self.page(path, move |_| reply.clone())
    }

    /// The same with a reply that is made of the number of the request for it, from 1.
    pub(crate) fn page(
        self,
        path: &str,
        reply: impl Fn(usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mut routes = self.shared.routes.lock().unwrap();
        routes.push((path.to_owned(), Endless::new(reply)));
        drop(routes);
        self
    }

    pub(crate) fn base_url(&self) -> String {
        self.url("/v1")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = match self.shared.certificate {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}{path}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The chat request with this number, from 0.
    #[track_caller]
    pub(crate) fn request(&self, number: usize) -> Request {
        let requests = self.requests();
        assert!(
            number < requests.len(),
            "request {number} of {} is missing",
            requests.len()
        );
        requests[number].clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.shared.requests.lock().unwrap().len()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many connections the client left while it was being written to; waits a while for the first.
    pub(crate) fn broken_off(&self) -> usize {
        let count = || self.shared.broken_off.load(Ordering::SeqCst);
        for _ in 0..100 {
            if count() > 0 {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
        count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if thread::panicking() {
            return;
        }
        let calls = self.calls();
        match self.promise {
            Promise::Called => assert!(calls > 0, "the server was never called"),
            Promise::Nothing => {}
            Promise::Untouched => {
                assert_eq!(calls, 0, "a server that must not be called was called")
            }
        }
        let left = self.shared.script.lock().unwrap().len();
        assert_eq!(left, 0, "{left} scripted replies were never asked for");
        let overruns = self.shared.overruns.load(Ordering::SeqCst);
        assert_eq!(
            overruns, 0,
            "the server was called {overruns} times more than scripted"
        );
    }
}

fn converse(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match shared.certificate {
        Some(certificate) => answer(shared, certificate.secure(stream)),
        None => answer(shared, stream),
    }
}

fn answer(shared: &Shared, stream: impl Read + Write) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader)? {
        shared.requests.lock().unwrap().push(request.clone());
        let reply = choose(shared, &request);
        if reply.send(reader.get_mut(), &request)? == Next::Close {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads a request; none where the client has left.
pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    // A client that closes an idle connection, in whatever way, has said all it wanted.
    if !matches!(reader.read_line(&mut line), Ok(1..)) {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let mut request = Request {
        method,
        path,
        headers,
        body: Value::Null,
    };
    let mut body = Vec::new();
    if let Some(length) = request.header("content-length") {
        body = vec![0; length.parse().map_err(io::Error::other)?];
        reader.read_exact(&mut body)?;
    } else if request.header("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    }
    request.body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Some(request))
}

fn fits(route: &str, address: &str) -> bool {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let (wanted, parts) = route.split_once('?').unwrap_or((route, ""));
    let mut parts = parts.split('&').filter(|part| !part.is_empty());
    path == wanted && parts.all(|part| query.split('&').any(|given| given == part))
}

fn choose(shared: &Shared, request: &Request) -> Reply {
    let calls = [
        "/chat/completions",
        "/messages",
        "/api/chat",
        "enerateContent",
    ];
    let path = request.path.split('?').next().unwrap_or_default();
    if request.method == "GET" || !calls.iter().any(|call| path.ends_with(call)) {
        let routes = shared.routes.lock().unwrap();
        let found = routes.iter().find(|(route, _)| fits(route, &request.path));
        return found.map_or_else(
            || Reply::error(404, "no such page"),
            |(_, replies)| replies.next(),
        );
    }
    if let Some(replies) = &shared.endless {
        return replies.next();
    }
    shared
        .script
        .lock()
        .unwrap()
        .pop_front()
        .unwrap_or_else(|| {
            shared.overruns.fetch_add(1, Ordering::SeqCst);
            Reply::error(400, "the script of the test has no more replies")
        })
}
