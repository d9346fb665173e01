//! Streams cut into pieces, from bytes that come in any sizes: server-sent events, or a line each.
//!
//! Follows the event stream format of the HTML standard as far as model endpoints use it: comments,
//! other fields and empty events are skipped, one blank after the colon is dropped, lines end in
//! LF or CR LF.

use std::io::{self, BufRead, Read};
use std::ops::ControlFlow;

/// The longest line that is accepted.
const LINE_LIMIT: u64 = 1 << 20;

/// Calls `take` with the data of each event until it breaks or the stream ends.
pub(crate) fn events(
    mut reader: impl BufRead,
    mut take: impl FnMut(&str) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    let mut data = String::new();
    loop {
        let more = next(&mut reader, &mut line)?;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if let Some(more) = text.strip_prefix("data:") {
            let more = more.strip_prefix(' ').unwrap_or(more);
            if !data.is_empty() {
                data.push('\n');
            }
            data.push_str(more);
        }
        // A blank line ends an event; so does the end of a stream that forgot it.
        if (text.is_empty() || !more) && !data.is_empty() {
            if take(&data).is_break() {
                return Ok(());
            }
            data.clear();
        }
        if !more {
            return Ok(());
        }
        if data.len() as u64 > LINE_LIMIT {
            return Err(io::Error::other("an event of the stream is too long"));
        }
    }
}

/// Calls `take` with each line that is not blank until it breaks or the stream ends.
pub(crate) fn lines(
    mut reader: impl BufRead,
    mut take: impl FnMut(&str) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    while next(&mut reader, &mut line)? {
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() && take(text.trim()).is_break() {
            break;
        }
    }
    Ok(())
}

/// Reads the next line; says whether there was one.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = reader.by_ref().take(LINE_LIMIT).read_until(b'\n', line)?;
    match read as u64 == LINE_LIMIT && line.last() != Some(&b'\n') {
        true => Err(io::Error::other("a line of the stream is too long")),
        false => Ok(read > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn read(bytes: &[u8], buffer: usize) -> Vec<String> {
        let mut found = Vec::new();
        let reader = BufReader::with_capacity(buffer, bytes);
        super::events(reader, |data| {
            found.push(data.to_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
        found
    }

    #[test]
    fn events_are_the_same_however_the_bytes_come() {
        let stream =
            ": hello\r\n\r\ndata: {\"a\":\"é\"}\n\nevent: x\ndata:1\ndata: 2\n\n\n\ndata: [DONE]";
        for buffer in 1..stream.len() {
            assert_eq!(
                read(stream.as_bytes(), buffer),
                ["{\"a\":\"é\"}", "1\n2", "[DONE]"]
            );
        }
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let endless = io::repeat(b'x');
        assert!(events(BufReader::new(endless), |_| ControlFlow::Continue(())).is_err());
    }
}
