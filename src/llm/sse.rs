//! Server-sent events: the `data:` of each event, from bytes that come in any pieces.
//!
//! Follows the event stream format of the HTML standard as far as model endpoints use it: comments,
//! other fields and empty events are skipped, one blank after the colon is dropped, lines end in
//! LF or CR LF.

use std::io::{self, BufRead, Read};
use std::ops::ControlFlow;

/// The longest line that is accepted.
const LINE_LIMIT: u64 = 1 << 20;

/// Calls `take` with the data of each event until it breaks or the stream ends.
/// Says whether `take` broke it off.
pub(crate) fn each(
    mut reader: impl BufRead,
    mut take: impl FnMut(&str) -> ControlFlow<()>,
) -> io::Result<bool> {
    let mut line = Vec::new();
    let mut data = String::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut line)?;
        if read as u64 == LINE_LIMIT && line.last() != Some(&b'\n') {
            return Err(io::Error::other("a line of the stream is too long"));
        }
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
        if (text.is_empty() || read == 0) && !data.is_empty() {
            if take(&data).is_break() {
                return Ok(true);
            }
            data.clear();
        }
        if read == 0 {
            return Ok(false);
        }
        if data.len() as u64 > LINE_LIMIT {
            return Err(io::Error::other("an event of the stream is too long"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn events(bytes: &[u8], buffer: usize) -> Vec<String> {
        let mut found = Vec::new();
        let reader = BufReader::with_capacity(buffer, bytes);
        each(reader, |data| {
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
                events(stream.as_bytes(), buffer),
                ["{\"a\":\"é\"}", "1\n2", "[DONE]"]
            );
        }
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let endless = io::repeat(b'x');
        assert!(each(BufReader::new(endless), |_| ControlFlow::Continue(())).is_err());
    }
}
