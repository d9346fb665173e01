//! A file that only grows: a line is written whole or not at all, as far as the disk allows.
//!
//! What is written goes through [`Disk`], so that a test can have each operation fail in turn.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use rustix::fs::OFlags;

/// The operations on files that a record needs.
pub trait Disk {
    /// Makes a folder that nobody else may enter, and those above it.
    fn folder(&self, path: &Path) -> io::Result<()>;

    /// Opens a file that nobody else may read, to be read and appended to; it must not exist yet if it is
    /// to be `new`. A link in its place is not followed.
    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn Medium>>;

    /// Has the names in a folder survive the loss of power.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// An open file.
pub trait Medium {
    /// Has it for itself: waits until others are done with it, or else fails at once.
    fn lock(&self, wait: bool) -> io::Result<()>;

    /// How many bytes it has.
    fn size(&self) -> io::Result<u64>;

    /// Its last bytes, at most so many.
    fn end(&mut self, most: u64) -> io::Result<Vec<u8>>;

    /// Appends bytes, perhaps not all of them. Says how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Cuts it to so many bytes.
    fn cut(&mut self, size: u64) -> io::Result<()>;

    /// Has what was written survive the loss of power.
    fn sync(&mut self) -> io::Result<()>;
}

/// The disk itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn Medium>> {
        Ok(Box::new(open(path, new)?))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Opens a file that nobody else may read; a link in its place is not followed.
pub(super) fn open(path: &Path, new: bool) -> io::Result<File> {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .create_new(new)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(path)
}

/// Opens a file to read it. What is no file, such as a pipe, is an error, and keeps nobody waiting.
pub(crate) fn readable(path: &Path) -> io::Result<File> {
    let no_wait = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(no_wait)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a file")),
    }
}

impl Medium for File {
    fn lock(&self, wait: bool) -> io::Result<()> {
        match wait {
            true => File::lock(self),
            false => self.try_lock().map_err(io::Error::from),
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn end(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let size = Medium::size(self)?;
        self.seek(SeekFrom::Start(size.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        self.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The first bytes of SHA-256 of these parts together, in hexadecimal.
pub(super) fn hash(parts: &[&str], bytes: usize) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut context = Context::new(&SHA256);
    parts
        .iter()
        .for_each(|part| context.update(part.as_bytes()));
    let hash = context.finish();
    let hash = &hash.as_ref()[..bytes];
    let digits = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// A file of lines, which its writer has for itself.
pub(crate) struct Log {
    medium: Box<dyn Medium>,
    folder: PathBuf,
    size: u64,
    /// Whether its name is known to survive.
    named: bool,
}

impl Log {
    /// Makes a file that does not exist yet.
    pub(super) fn begin(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        Self::of(disk, path, true, false)
    }

    /// Goes on with a file, if it exists. With `wait`, others may be at it.
    pub(crate) fn go_on(disk: &dyn Disk, path: &Path, wait: bool) -> io::Result<Self> {
        Self::of(disk, path, false, wait)
    }

    fn of(disk: &dyn Disk, path: &Path, new: bool, wait: bool) -> io::Result<Self> {
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        disk.folder(&folder)?;
        let medium = disk.open(path, new)?;
        medium.lock(wait)?;
        Ok(Self {
            size: medium.size()?,
            medium,
            folder,
            named: !new,
        })
    }

    /// The last line that is whole, if there is one. A torn end is cut off.
    pub(super) fn last_line(&mut self) -> io::Result<Option<String>> {
        const MOST: u64 = 1 << 16;
        let bytes = self.medium.end(MOST)?;
        let torn = bytes
            .iter()
            .rev()
            .take_while(|byte| **byte != b'\n')
            .count();
        if torn > 0 {
            self.cut(self.size.saturating_sub(torn as u64))?;
        }
        let text = String::from_utf8_lossy(&bytes[..bytes.len() - torn]);
        let line = text.trim_end_matches('\n').rsplit('\n').next();
        Ok(line.filter(|line| !line.is_empty()).map(str::to_owned))
    }

    /// Adds a line, which ends with a line break. If the disk takes only a part of it, that is taken back.
    pub(crate) fn add(&mut self, line: &str) -> io::Result<()> {
        let mut left = line.as_bytes();
        while !left.is_empty() {
            let written = match self.medium.write(left) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                written => written,
            };
            match written {
                Ok(written) => left = &left[written.min(left.len())..],
                Err(error) => {
                    // What cannot be taken back is a torn end, which readers know.
                    let _ = self.medium.cut(self.size);
                    return Err(error);
                }
            }
        }
        self.size += line.len() as u64;
        Ok(())
    }

    /// Cuts it to so many bytes.
    pub(super) fn cut(&mut self, size: u64) -> io::Result<()> {
        self.medium.cut(size)?;
        self.size = size;
        Ok(())
    }

    /// Has everything so far survive the loss of power.
    pub(crate) fn sync(&mut self, disk: &dyn Disk) -> io::Result<()> {
        self.medium.sync()?;
        if !self.named {
            disk.sync_folder(&self.folder)?;
            self.named = true;
        }
        Ok(())
    }
}
