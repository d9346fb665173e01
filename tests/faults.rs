//! Connections that break: refused, reset, cut and stalled at every place of a response, in every format, streamed and
//! not. Only a reply that is whole is one.

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use reagent::error::Result;
use reagent::llm::wire::Wire;
use reagent::llm::{self, Choice, Listener, Llm};
use reagent::session::event::Message;
use rustix::net::sockopt::set_socket_linger;

use crate::endpoints::endpoint;
use crate::server::{Reply, Server, read};
use crate::service::WIRES;
use crate::test::{Test, ms};

const ANSWER: &str = "a whole reply";
const TEXT: &str = "Answer: a whole reply";

/// How a connection ends before its time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Reset,
    Cut,
    /// Closed, where the end of the connection is the end of the body: it looks well.
    End,
    Stall,
}

/// A format, streamed or not.
#[derive(Clone, Copy, Debug)]
struct Way {
    wire: Wire,
    streamed: bool,
}

fn ways() -> impl Iterator<Item = Way> {
    WIRES
        .into_iter()
        .flat_map(|wire| [true, false].map(|streamed| Way { wire, streamed }))
}

/// Does the same for every way, each in a thread of its own.
fn each_way(work: impl Fn(Way) + Clone + Send + 'static) {
    let threads = ways().map(|way| {
        let work = work.clone();
        thread::spawn(move || work(way))
    });
    let threads: Vec<_> = threads.collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Ends every connection by this fault: the first before the first byte of the response, the next `step` bytes later,
/// and so on, the last after the last byte. Tells of each where that is, and from where on a client may say that the
/// reply was whole.
fn breaking(fault: Fault, way: Way, step: usize) -> (String, Receiver<Place>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, places) = mpsc::channel();
    thread::spawn(move || {
        for at in (0..).map(|number| number * step) {
            let (stream, _) = listener.accept().unwrap();
            let Some(place) = break_off(stream, fault, way, at) else {
                return;
            };
            let last = place.last;
            if sender.send(place).is_err() || last {
                return;
            }
        }
    });
    (address, places)
}

/// Where a response broke off.
#[derive(Debug)]
struct Place {
    at: usize,
    whole_from: usize,
    last: bool,
}

fn break_off(stream: TcpStream, fault: Fault, way: Way, at: usize) -> Option<Place> {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let request = read(&mut reader).unwrap()?;
    let mut bytes = Vec::new();
    Reply::chat(TEXT).send(&mut bytes, &request).unwrap();
    if fault == Fault::End {
        bytes = unframed(&String::from_utf8(bytes).unwrap());
    }
    let at = at.min(bytes.len());
    (&stream).write_all(&bytes[..at]).unwrap();
    match fault {
        Fault::Reset => set_socket_linger(&stream, Some(Duration::ZERO)).unwrap(),
        Fault::Cut | Fault::End => {}
        // Until the client has had enough.
        Fault::Stall => drop(reader.read(&mut [0])),
    }
    Some(Place {
        at,
        whole_from: whole_from(way, &String::from_utf8(bytes.clone()).unwrap()),
        last: at == bytes.len(),
    })
}

/// The response of a server that does not say how long it is.
fn unframed(response: &str) -> Vec<u8> {
    let (head, mut body) = response.split_once("\r\n\r\n").unwrap();
    let lines = head.lines();
    let lines =
        lines.filter(|line| !line.starts_with("content-length") && !line.contains("chunked"));
    let mut bytes: String = lines.map(|line| format!("{line}\r\n")).collect();
    bytes += "connection: close\r\n\r\n";
    if head.contains("content-length") {
        return (bytes + body).into_bytes();
    }
    while let Some((size, rest)) = body.split_once("\r\n").filter(|(size, _)| *size != "0") {
        let size = usize::from_str_radix(size, 16).unwrap();
        bytes += &rest[..size];
        body = &rest[size + "\r\n".len()..];
    }
    bytes.into_bytes()
}

/// How much of a response has to come before its reply is whole.
fn whole_from(way: Way, response: &str) -> usize {
    let mark = match way.wire {
        _ if !way.streamed && response.contains("chunked") => {
            return response.len() - "\r\n".len();
        }
        _ if !way.streamed => return response.len(),
        Wire::OpenAi => r#""finish_reason":"stop""#,
        Wire::Anthropic => r#"{"type":"message_stop"}"#,
        Wire::Gemini => r#""finishReason":"STOP""#,
        Wire::Ollama => r#""done":true"#,
    };
    let mark = response.find(mark).unwrap();
    mark + response[mark..].find(['\r', '\n']).unwrap()
}

/// Listens to nothing: what counts is the reply.
struct Deaf;

impl Listener for Deaf {
    fn hear(&mut self, _: &str) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn again(&mut self) -> bool {
        true
    }
}

/// The program's own client.
fn client(way: Way, address: &str) -> Box<dyn Llm> {
    let options = llm::Options {
        stream: way.streamed,
        retries: 0,
        timeout: ms(10_000),
        ..llm::Options::default()
    };
    llm::connect(&Choice::Remote(endpoint(way.wire, address)), &options)
}

fn ask(client: &mut dyn Llm) -> Result<llm::Reply> {
    let messages = [Message::system("Be kind."), Message::user("Question: q")];
    let request = llm::Request {
        messages: &messages,
        stop: &["\nObservation"],
        ..llm::Request::default()
    };
    client.ask(&request, &mut Deaf)
}

/// Asks until the response has broken off at every byte.
fn at_every_byte(fault: Fault) {
    each_way(move |way| {
        let (address, places) = breaking(fault, way, 1);
        let mut client = client(way, &address);
        let mut count = 0;
        loop {
            let begun = Instant::now();
            let reply = ask(&mut *client);
            let place = places.recv().unwrap();
            assert!(begun.elapsed() < ms(5000), "{way:?} {place:?} takes long");
            count += 1;
            match reply {
                Ok(reply) => {
                    assert!(place.at >= place.whole_from, "{way:?} {place:?}: {reply:?}");
                    assert_eq!(reply.text, TEXT, "{way:?} {place:?}");
                }
                Err(error) => {
                    // A reset may overtake the last bytes.
                    assert!(
                        !place.last || fault == Fault::Reset,
                        "{way:?} {place:?}: {error}"
                    );
                    assert_eq!(error.exit_code(), 6, "{way:?} {place:?}: {error}");
                }
            }
            if place.last {
                assert_eq!(count, place.at + 1, "every byte");
                return;
            }
        }
    });
}

#[test]
fn a_response_that_is_reset_at_any_byte_is_whole_or_an_error() {
    at_every_byte(Fault::Reset);
}

#[test]
fn a_response_that_is_cut_at_any_byte_is_whole_or_an_error() {
    at_every_byte(Fault::Cut);
}

#[test]
fn a_response_that_ends_at_any_byte_is_whole_or_an_error() {
    at_every_byte(Fault::End);
}

#[test]
fn the_program_shows_no_part_of_a_reply_as_an_answer_wherever_it_breaks() {
    each_way(|way| {
        for (fault, step) in [
            (Fault::Stall, 25),
            (Fault::Reset, 75),
            (Fault::Cut, 75),
            (Fault::End, 75),
        ] {
            let (address, places) = breaking(fault, way, step);
            let mut test = asking(way, &address);
            if fault == Fault::Stall {
                test = test.args(["--first-byte-timeout", "50ms", "--idle-timeout", "50ms"]);
            }
            loop {
                let run = test.run();
                let place = places.recv().unwrap();
                let what = format!("{way:?} {fault:?} {place:?} comes out well");
                let answered = run.exit_code() == 0
                    && run.stdout == format!("{ANSWER}\n")
                    && place.at >= place.whole_from;
                let failed = run.exit_code() == 6
                    && run.stdout.is_empty()
                    && (!place.last || matches!(fault, Fault::Reset | Fault::Stall));
                run.check(answered || failed, &what);
                run.check(run.duration < ms(10_000), &what);
                if place.last {
                    break;
                }
            }
        }
    });
}

/// The program asking in this way, once.
fn asking(way: Way, address: &str) -> Test {
    let (model, address) = match way.wire {
        Wire::OpenAi => ("scripted", format!("{address}/v1")),
        Wire::Anthropic => ("anthropic/scripted", address.to_owned()),
        Wire::Gemini => ("gemini/scripted", address.to_owned()),
        Wire::Ollama => ("ollama/scripted", address.to_owned()),
    };
    let flags: &[&str] = if way.streamed { &[] } else { &["--no-stream"] };
    Test::new()
        .env("REAGENT_API_KEY", "sk-test")
        .args(["--base-url", &address, "-m", model, "--retries", "0", "q"])
        .args(flags)
}

#[test]
fn a_refused_connection_exits_6_in_every_format() {
    for way in ways() {
        let address = Server::nobody();
        asking(way, address.trim_end_matches("/v1"))
            .run()
            .code(6)
            .stdout("")
            .error("refused")
            .hint("is the server running?")
            .within(ms(5000));
    }
}

#[test]
fn every_status_has_its_outcome() {
    each_way(|way| {
        let replies = (100..600).map(|status| Reply::chat(TEXT).status(status));
        let server = Server::replies(replies);
        // One client for all: no response may leave anything behind for the next.
        let mut client = client(way, &server.url(""));
        for status in 100..600 {
            let begun = Instant::now();
            let reply = ask(&mut *client);
            let what = format!("{way:?} {status}: {reply:?}");
            assert!(begun.elapsed() < ms(5000), "{what} takes long");
            let wanted = match status {
                // No body belongs to it, whatever comes.
                204 => 6,
                200..300 => 0,
                401 | 403 => 5,
                _ => 6,
            };
            let code = reply.as_ref().map_or_else(|error| error.exit_code(), |_| 0);
            assert_eq!(code, wanted, "{what}");
        }
    });
}

/// Answers one request by what `send` does with the response to it.
fn once(send: impl FnOnce(TcpStream, &[u8]) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let request = read(&mut BufReader::new(&stream)).unwrap().unwrap();
        let mut response = Vec::new();
        Reply::chat(TEXT).send(&mut response, &request).unwrap();
        send(stream, &response);
    });
    address
}

#[test]
fn interim_responses_are_no_outcome() {
    each_way(|way| {
        for interim in ["100 Continue", "102 Processing", "103 Early Hints"] {
            let address = once(move |mut stream, response| {
                write!(stream, "HTTP/1.1 {interim}\r\n\r\n").unwrap();
                stream.write_all(response).unwrap();
            });
            let reply = ask(&mut *client(way, &address));
            assert_eq!(reply.unwrap().text, TEXT, "{way:?} {interim}");
        }
    });
}

#[test]
fn a_stream_that_stays_open_after_its_end_keeps_nobody_waiting() {
    each_way(|way| {
        for pings in [false, true].into_iter().filter(|_| way.streamed) {
            let address = once(move |mut stream, response| {
                let end = response.len() - b"0\r\n\r\n".len();
                stream.write_all(&response[..end]).unwrap();
                while pings && stream.write_all(b"1\r\n\n\r\n").is_ok() {
                    thread::sleep(ms(50));
                }
                let _ = stream.read(&mut [0]);
            });
            let begun = Instant::now();
            let reply = ask(&mut *client(way, &address));
            assert_eq!(reply.unwrap().text, TEXT, "{way:?}");
            assert!(begun.elapsed() < ms(5000), "{way:?}, pings: {pings}");
        }
    });
}

#[test]
fn the_program_has_an_exit_code_for_statuses_of_every_kind() {
    for (status, code) in [
        (100, 6),
        (101, 6),
        (103, 6),
        (199, 6),
        (201, 0),
        (204, 6),
        (299, 0),
        (300, 6),
        (304, 6),
        (308, 6),
        (399, 6),
        (401, 5),
        (402, 6),
        (403, 5),
        (407, 6),
        (418, 6),
        (451, 6),
        (499, 6),
        (500, 6),
        (529, 6),
        (599, 6),
    ] {
        let server = Server::always(Reply::chat(TEXT).status(status));
        let run = Test::with(&server).args(["--retries", "0", "q"]).run();
        let answer = if code == 0 {
            format!("{ANSWER}\n")
        } else {
            String::new()
        };
        run.check(run.exit_code() == code, &format!("{status} exits {code}"));
        run.check(run.stdout == answer, &format!("{status}"));
    }
}

#[test]
fn a_body_that_comes_late_and_does_not_belong_is_not_the_next_response() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = thread::spawn(move || {
        let mut first = BufReader::new(listener.accept().unwrap().0);
        read(&mut first).unwrap();
        first
            .get_mut()
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .unwrap();
        if read(&mut first).unwrap().is_some() {
            first.get_mut().write_all(b"2\r\n{}\r\n0\r\n\r\n").unwrap();
            return 1;
        }
        let mut second = BufReader::new(listener.accept().unwrap().0);
        let request = read(&mut second).unwrap().unwrap();
        let reply = Reply::chat("Answer: ok");
        reply.send(second.get_mut(), &request).unwrap();
        2
    });
    let base_url = format!("http://{address}/v1");
    let run = Test::new()
        .args(["--base-url", &base_url, "-m", "x", "q"])
        .run();
    assert_eq!(connections.join().unwrap(), 2);
    run.success().stdout("ok\n");
}
