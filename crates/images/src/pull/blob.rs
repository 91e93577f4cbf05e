use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::Body;
use ureq::http::Response;

use super::session::{Ask, Session};
use crate::digest::Hasher;
use crate::error::{Error, Result};
use crate::manifest::Descriptor;
use crate::progress::{Progress, Step, told};

/// How often a registry may fail without a single byte in between.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);
const PIECE: usize = 64 * 1024;

/// A blob on its way into a file. The file stays when it breaks off, and the next one goes on from there.
pub(super) struct Download<'a> {
    descriptor: &'a Descriptor,
    path: PathBuf,
    what: String,
    file: File,
    hasher: Hasher,
    length: u64,
    progress: &'a dyn Progress,
}

/// What came of one request.
enum Piece {
    Whole,
    /// It broke off after so many bytes.
    Broken(u64, Error),
}

impl<'a> Download<'a> {
    /// Goes on with what is in the file, if that is not more than there should be.
    pub(super) fn open(descriptor: &'a Descriptor, path: &Path, progress: &'a dyn Progress) -> Result<Self> {
        let open =
            OpenOptions::new().create(true).truncate(false).append(true).read(true).mode(0o600).open(path);
        let file = open.map_err(Error::io("open", path))?;
        let what = format!("layer {}", descriptor.digest);
        let path = path.to_owned();
        let mut download = Self { descriptor, path, what, file, hasher: Hasher::new(), length: 0, progress };
        download.take_up()?;
        Ok(download)
    }

    fn take_up(&mut self) -> Result<()> {
        let cannot = |error| Error::io("read", &self.path)(error);
        if self.file.metadata().map_err(cannot)?.len() > self.descriptor.size {
            return self.start_over();
        }
        let mut file = File::open(&self.path).map_err(cannot)?;
        let mut buffer = vec![0; PIECE];
        loop {
            let count = file.read(&mut buffer).map_err(cannot)?;
            if count == 0 {
                return Ok(());
            }
            self.hasher.update(buffer.get(..count).unwrap_or_default());
            self.length += u64::try_from(count).unwrap_or_default();
        }
    }

    fn start_over(&mut self) -> Result<()> {
        self.file.set_len(0).map_err(Error::io("empty", &self.path))?;
        self.hasher = Hasher::new();
        self.length = 0;
        Ok(())
    }

    /// Fetches what is missing from one registry, however often it breaks off, as long as it gets on.
    pub(super) fn fetch(&mut self, session: &Session) -> Result<()> {
        let mut resumed = self.length > 0;
        let mut tries = 0;
        loop {
            let broken = match self.length == self.descriptor.size {
                true => None,
                false => match self.piece(session)? {
                    Piece::Whole => None,
                    Piece::Broken(count, error) => Some((count, error)),
                },
            };
            match broken {
                Some((_, error)) if tries + 1 >= TRIES || !error.is_of_the_network() => return Err(error),
                Some((count, _)) => {
                    tries = if count > 0 { 0 } else { tries + 1 };
                    resumed |= self.length > 0;
                    std::thread::sleep(PAUSE * (1 << tries));
                }
                None => match self.verify() {
                    // What was there before may be what is wrong.
                    Err(Error::WrongDigest { .. }) if resumed => {
                        self.start_over()?;
                        resumed = false;
                    }
                    verified => return verified,
                },
            }
        }
    }

    fn verify(&mut self) -> Result<()> {
        let found = self.hasher.clone().finish();
        if found != self.descriptor.digest {
            let wrong = Error::WrongDigest {
                what: self.what.clone(),
                expected: self.descriptor.digest.clone(),
                found,
            };
            // None of it is valid.
            self.file.set_len(0).map_err(Error::io("empty", &self.path))?;
            return Err(wrong);
        }
        self.file.sync_all().map_err(Error::io("sync", &self.path))
    }

    fn piece(&mut self, session: &Session) -> Result<Piece> {
        let range = format!("bytes={}-", self.length);
        let fields: &[(&str, &str)] = if self.length > 0 { &[("Range", &range)] } else { &[] };
        let path = format!("blobs/{}", self.descriptor.digest);
        let answer = match session.get(&Ask { what: &self.what, path: &path, fields }) {
            Ok(answer) => answer,
            Err(error) => return Ok(Piece::Broken(0, error)),
        };
        if !self.goes_on(&answer) {
            self.start_over()?;
            if answer.status() == 416 {
                return Ok(Piece::Broken(0, session.failed(&self.what, "it has no such range".to_owned())));
            }
        }
        self.take(session, answer)
    }

    /// Whether the answer begins where we are. A registry may ignore the range and send everything.
    fn goes_on(&self, answer: &Response<Body>) -> bool {
        let range = answer.headers().get("content-range").and_then(|field| field.to_str().ok());
        match answer.status().as_u16() {
            206 => range.is_some_and(|range| range.starts_with(&format!("bytes {}-", self.length))),
            200 => self.length == 0,
            _ => false,
        }
    }

    fn take(&mut self, session: &Session, answer: Response<Body>) -> Result<Piece> {
        let size = self.descriptor.size;
        // One more than there should be, to see that there is more.
        let limit = (size - self.length).saturating_add(1);
        let mut body = answer.into_body().into_with_config().limit(u64::MAX).reader().take(limit);
        let mut buffer = vec![0; PIECE];
        let begun = self.length;
        while self.length <= size {
            let count = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => {
                    let error = session.failed(&self.what, format!("it broke off: {error}"));
                    return Ok(Piece::Broken(self.length - begun, error));
                }
            };
            let bytes = buffer.get(..count).unwrap_or_default();
            self.length += u64::try_from(count).unwrap_or_default();
            if self.length > size {
                self.start_over()?;
                return Err(Error::WrongSize { what: self.what.clone(), expected: size, found: size + 1 });
            }
            self.hasher.update(bytes);
            self.file.write_all(bytes).map_err(Error::io("write", &self.path))?;
            told(self.progress, Step::Fetching { what: &self.what, done: self.length, total: size })?;
        }
        if self.length < size {
            let why = format!("it broke off after {} of {size} bytes", self.length);
            return Ok(Piece::Broken(self.length - begun, session.failed(&self.what, why)));
        }
        Ok(Piece::Whole)
    }
}
