//! FILES: how all files of this crate are written. A file is written completely or not at all, and so are several
//! files that belong together.
//!
//! The bytes go to a temporary file in the same folder, whose name is random and new. It is flushed to disk and then
//! renamed, and the folder is flushed too. An existing file keeps its mode. A symbolic link stays, and the file that
//! it points to is replaced. A pipe or a device is never replaced: the bytes are written to it once all of them are
//! known.
//!
//! An object of a store is written by its URL. Its bytes go to a temporary file too, and are sent when all files are in place.
//!
//! Temporary files are removed if writing fails, and by [`interrupted`] if the process is told to end.

#[cfg(test)]
pub(crate) mod faults;
mod objects;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::Builder;

use crate::error::{Error, Result};
use crate::stores::{self, Object, is_url};
use objects::{Outgoing, Sent};

/// Is called before each operation on the disk. In tests it can make any of them fail.
fn step() -> io::Result<()> {
    #[cfg(test)]
    faults::step()?;
    Ok(())
}

/// All temporary files and folders of this process.
static TEMPORARIES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn temporaries() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all temporary files and ends the process. For the handler of a signal. If files are being put in their
/// places at that moment, it waits until all of them are.
pub fn interrupted(code: i32) -> ! {
    // The lock is held until the process has ended, so that no new temporary appears.
    let all = temporaries();
    all.iter().for_each(|path| remove(path));
    std::process::exit(code)
}

/// Removes a file or folder. There is nothing to do about an error: an earlier one is reported, or none at all.
fn remove(path: &Path) {
    if !path.is_dir() {
        let _ = fs::remove_file(path);
        return;
    }
    // Another thread may create files while the folder is emptied, for as long as it finds the folder.
    for tries in 0..500 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
        if tries > 10 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Waits for ever if the process is being [interrupted]. For the end of a program, which must not come before temporaries are
/// removed: what was being written to them fails by then.
pub fn end_unless_interrupted() {
    drop(temporaries());
}

/// A temporary file or folder, which is removed when it is dropped, unless it was renamed.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    /// Creates it with a random name that does not exist yet.
    fn new<T>(folder: &Path, create: impl FnMut(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        step()?;
        let mut all = temporaries();
        let made = Builder::new().prefix(".surefoot-").suffix(".tmp").rand_bytes(12).make_in(folder, create)?;
        let (value, path) = made.into_parts();
        let path = path.keep().map_err(|error| error.error)?;
        all.insert(path.clone());
        Ok((Temporary(path), value))
    }

    /// Gives it its final name. The caller holds the lock.
    fn rename(&self, to: &Path, all: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        step()?;
        fs::rename(&self.0, to)?;
        all.remove(&self.0);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut all = temporaries();
        if all.remove(&self.0) {
            remove(&self.0);
        }
    }
}

/// A file to write to.
#[derive(Debug)]
pub(crate) struct Output(File);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = step() {
            // As on a full disk, a part is written before the error.
            self.0.write_all(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        step()?;
        self.0.seek(to)
    }
}

/// What a path to write to stands for.
#[derive(Debug, PartialEq)]
enum Target {
    /// A file, which may not exist yet. Symbolic links are resolved.
    Replace(PathBuf),
    /// A pipe or a device.
    Through(PathBuf),
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        let bad = |kind, text: &str| Err(io::Error::new(kind, text));
        if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return bad(ErrorKind::IsADirectory, "it should be the name of a file, but is a folder");
        }
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|data| data.is_symlink());
        match fs::metadata(path) {
            Ok(data) if data.is_dir() => {
                bad(ErrorKind::IsADirectory, "it should be the name of a file, but is a folder")
            }
            Ok(data) if !data.is_file() => Ok(Target::Through(path.into())),
            // An open file by its number, such as /dev/stdout.
            Ok(_) if is_link(path) && folder_of(path).canonicalize()?.starts_with("/proc") => {
                Ok(Target::Through(path.into()))
            }
            Ok(_) if is_link(path) => Ok(Target::Replace(path.canonicalize()?)),
            Ok(_) => Ok(Target::Replace(path.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // A link to a file that does not exist yet.
                let mut path = path.to_owned();
                for _ in 0..40 {
                    match fs::read_link(&path) {
                        Ok(next) => path = folder_of(&path).join(next),
                        Err(_) => break,
                    }
                }
                match folder_of(&path) {
                    folder if folder.is_dir() => Ok(Target::Replace(path)),
                    folder => bad(ErrorKind::NotFound, &format!("there is no folder {}", folder.display())),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// Checks that a file can be written: its folder exists and is writable, and it is not a folder itself. Call it before
/// the work.
pub fn check_output(path: &Path) -> Result<()> {
    if is_url(path) {
        return stores::check_writable(path);
    }
    let check = || match Target::of(path)? {
        Target::Through(_) => Ok(()),
        Target::Replace(target) => Temporary::new(folder_of(&target), create).map(drop),
    };
    check().map_err(|reason| cannot(path, reason))
}

/// Checks that a file that will be written is none of those that are read: it would replace them.
pub fn check_not_read<'a>(output: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let real = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    let same = |input: &Path| input == output || real(input).is_some_and(|input| real(output) == Some(input));
    match inputs.into_iter().any(same) {
        true => Err(cannot(output, io::Error::new(ErrorKind::InvalidInput, "it is one of the files that are read"))),
        false => Ok(()),
    }
}

/// Checks that a new folder can be written. Folders above it are created if they are missing.
pub(crate) fn check_output_folder(path: &Path) -> Result<()> {
    if is_url(path) {
        return stores::check_writable(&path.join("certificates.json"));
    }
    let check = || {
        // All ancestors of a relative path end with the empty one, which is the current folder.
        let mut above = path.ancestors().skip(1).map(|path| if path == Path::new("") { Path::new(".") } else { path });
        match above.find(|path| path.symlink_metadata().is_ok()) {
            Some(folder) => Temporary::new(folder, |path| fs::create_dir(path)).map(drop),
            None => Ok(()),
        }
    };
    check().map_err(|reason| cannot(path, reason))
}

fn cannot(path: &Path, reason: io::Error) -> Error {
    Error::Write { place: path.display().to_string(), reason }
}

/// Creates a file that does not exist, with the usual mode.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// Creates a folder that does not exist.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    step().and_then(|()| fs::create_dir(path)).map_err(|reason| cannot(path, reason))
}

/// Flushes the entries of a folder to disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    step()?;
    // Other systems cannot open a folder.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Files and folders that appear together or not at all.
///
/// If an error occurs before all of them are in place, those that already are get back what was there before. If the
/// machine stops while they are renamed, the first ones may be new and the last ones old: the file that names the
/// others should come last.
#[derive(Debug, Default)]
pub(crate) struct Together {
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    /// The path in the words of the caller.
    path: PathBuf,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A temporary file or folder, and its final path.
    Renamed(Temporary, PathBuf),
    /// The content of a pipe or a device.
    Through(File),
    /// The content of an object of a store.
    Object(File),
    /// A temporary folder, whose files become objects.
    Objects(Temporary),
}

impl Together {
    /// Writes a file with a temporary name.
    pub(crate) fn file(&mut self, path: &Path, content: impl FnOnce(&mut Output) -> io::Result<()>) -> Result<()> {
        let stage = || {
            if is_url(path) {
                step()?;
                let mut output = Output(tempfile::tempfile()?);
                content(&mut output)?;
                return Ok(What::Object(output.0));
            }
            let target = match Target::of(path)? {
                Target::Through(_) => {
                    step()?;
                    let mut output = Output(tempfile::tempfile()?);
                    content(&mut output)?;
                    return Ok(What::Through(output.0));
                }
                Target::Replace(target) => target,
            };
            let (temporary, file) = Temporary::new(folder_of(&target), create)?;
            let mut output = Output(file);
            content(&mut output)?;
            if let Some(mode) = mode(&target)? {
                step()?;
                output.0.set_permissions(mode)?;
            }
            step()?;
            output.0.sync_all()?;
            Ok(What::Renamed(temporary, target))
        };
        let what = stage().map_err(|reason| cannot(path, reason))?;
        self.items.push(Item { path: path.into(), what });
        Ok(())
    }

    /// Creates a folder with a temporary name, which it returns: the caller writes its content there. The folder with
    /// the final name must be missing or empty.
    pub(crate) fn folder(&mut self, path: &Path) -> Result<PathBuf> {
        if is_url(path) {
            let made = Temporary::new(&std::env::temp_dir(), create_private_folder);
            let (temporary, ()) = made.map_err(|reason| cannot(path, reason))?;
            let place = temporary.0.clone();
            self.items.push(Item { path: path.into(), what: What::Objects(temporary) });
            return Ok(place);
        }
        let stage = || {
            let above = folder_of(path);
            if !above.is_dir() {
                step()?;
                fs::create_dir_all(above)?;
            }
            // A link to an empty folder stays, and the folder that it points to is filled.
            let target = if path.is_dir() { path.canonicalize()? } else { path.to_owned() };
            let (temporary, ()) = Temporary::new(folder_of(&target), |path| fs::create_dir(path))?;
            Ok((temporary, target))
        };
        let (temporary, target) = stage().map_err(|reason| cannot(path, reason))?;
        let place = temporary.0.clone();
        self.items.push(Item { path: path.into(), what: What::Renamed(temporary, target) });
        Ok(place)
    }

    /// Gives all files their names, in the order in which they were written.
    pub(crate) fn commit(self) -> Result<()> {
        let backups: Vec<Option<Temporary>> = self.items.iter().map(Item::backup).collect::<Result<_>>()?;
        let (mut undo, mut sent): (Vec<Undo<'_>>, Vec<Sent>) = (Vec::new(), Vec::new());
        let placed = self.place(&backups, &mut undo);
        let done = placed.and_then(|()| self.send(&mut sent)).and_then(|()| self.pass_through());
        if done.is_err() {
            sent.iter().rev().for_each(Sent::undo);
            let mut all = temporaries();
            undo.iter().rev().for_each(|undo| undo.run(&mut all));
        }
        done
    }

    /// Renames all temporaries, while an interrupt has to wait.
    fn place<'a>(&'a self, backups: &'a [Option<Temporary>], undo: &mut Vec<Undo<'a>>) -> Result<()> {
        // No temporary may be dropped while this is held: its drop takes the lock too.
        let mut all = temporaries();
        for (item, backup) in self.items.iter().zip(backups) {
            let What::Renamed(temporary, target) = &item.what else { continue };
            let failed = |reason| cannot(&item.path, reason);
            if temporary.0.is_dir() {
                sync_folder(&temporary.0).map_err(failed)?;
            }
            let empty_folder = target.is_dir();
            temporary.rename(target, &mut all).map_err(failed)?;
            undo.push(Undo { target, backup: backup.as_ref(), empty_folder });
        }
        drop(all);
        for item in &self.items {
            if let What::Renamed(_, target) = &item.what {
                sync_folder(folder_of(target)).map_err(|reason| cannot(&item.path, reason))?;
            }
        }
        Ok(())
    }

    /// Sends the objects, in the order in which they were written.
    fn send(&self, sent: &mut Vec<Sent>) -> Result<()> {
        let mut all: Vec<Outgoing> = Vec::new();
        for item in &self.items {
            let failed = |reason| cannot(&item.path, reason);
            match &item.what {
                What::Object(content) => {
                    all.push(Outgoing { path: item.path.clone(), content: content.try_clone().map_err(failed)? });
                }
                What::Objects(folder) => all.extend(objects::under(&item.path, &folder.0).map_err(failed)?),
                What::Renamed(..) | What::Through(_) => {}
            }
        }
        let last = !self.items.iter().any(|item| matches!(item.what, What::Through(_)));
        objects::send(all, last, sent)
    }

    /// Writes to pipes and devices, which cannot be undone, last.
    fn pass_through(&self) -> Result<()> {
        for item in &self.items {
            let What::Through(content) = &item.what else { continue };
            let mut content = content;
            let mut write = || {
                step()?;
                content.seek(SeekFrom::Start(0))?;
                let mut out = OpenOptions::new().write(true).open(&item.path)?;
                io::copy(&mut content, &mut out).map(drop)
            };
            write().map_err(|reason| cannot(&item.path, reason))?;
        }
        Ok(())
    }
}

/// The mode of an existing file.
fn mode(path: &Path) -> io::Result<Option<Permissions>> {
    match fs::metadata(path) {
        Ok(data) => Ok(Some(data.permissions())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Item {
    /// A second name for the existing file, under which it survives until all files are in place and flushed.
    fn backup(&self) -> Result<Option<Temporary>> {
        match &self.what {
            What::Renamed(_, target) if target.is_file() => {
                let keep = |path: &Path| match fs::hard_link(target, path) {
                    // The file system has no links.
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                        io::copy(&mut File::open(target)?, &mut create(path)?)?;
                        fs::set_permissions(path, fs::metadata(target)?.permissions())
                    }
                    done => done,
                };
                let made = Temporary::new(folder_of(target), keep);
                made.map(|(backup, ())| Some(backup)).map_err(|reason| cannot(&self.path, reason))
            }
            _ => Ok(None),
        }
    }
}

/// What was there before a file or folder got its final name.
#[derive(Debug)]
struct Undo<'a> {
    target: &'a Path,
    backup: Option<&'a Temporary>,
    empty_folder: bool,
}

impl Undo<'_> {
    /// Restores it. The caller holds the lock, and reports the error that was the reason.
    fn run(&self, all: &mut BTreeSet<PathBuf>) {
        match self.backup {
            Some(backup) => {
                let _ = fs::rename(&backup.0, self.target);
                all.remove(&backup.0);
            }
            None => remove(self.target),
        }
        if self.empty_folder {
            let _ = fs::create_dir(self.target);
        }
    }
}

/// The largest number of bytes that are copied to a temporary file: 64 GiB.
const MOST_PIPED: u64 = 1 << 36;

/// The content of a pipe or of a compressed file in a temporary file, so that it can be read several times and at any
/// place. Only its owner can read it.
#[derive(Debug)]
pub(crate) struct Spool(Temporary);

impl Spool {
    /// Reads a pipe to its end, and returns its size too.
    pub(crate) fn copy(path: &Path) -> Result<(Self, u64)> {
        Self::copy_at_most(path, MOST_PIPED)
    }

    fn copy_at_most(path: &Path, most: u64) -> Result<(Self, u64)> {
        let pipe = File::open(path).map_err(|reason| Error::io(path, reason))?;
        Self::fill_at_most(&path.display().to_string(), "the size of a pipe in bytes", pipe, most)
    }

    /// Reads a stream to its end, and returns its size too. In errors, `place` is its name and `what` its size.
    pub(crate) fn fill(place: &str, what: &str, stream: impl io::Read) -> Result<(Self, u64)> {
        Self::fill_at_most(place, what, stream, MOST_PIPED)
    }

    fn fill_at_most(place: &str, what: &str, stream: impl io::Read, most: u64) -> Result<(Self, u64)> {
        let failed = |reason| Error::Io { place: place.to_owned(), reason };
        let (spool, mut file) = Temporary::new(&std::env::temp_dir(), create_private).map_err(failed)?;
        let size = io::copy(&mut stream.take(most + 1), &mut file).map_err(failed)?;
        if size > most {
            let (place, what) = (place.to_owned(), what.to_owned());
            return Err(Error::TooLarge { place, what, limit: most, found: "more".into() });
        }
        Ok((Spool(spool), size))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.0
    }
}

/// Creates a file that does not exist and that only its owner can read.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates a folder that does not exist and that only its owner can read.
fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The content of a file, or of an object of a store.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    match is_url(path) {
        true => Object::open(path)?.read(),
        false => fs::read(path).map_err(|reason| Error::io(path, reason)),
    }
}

/// The number of bytes of a file or of an object.
pub(crate) fn size(path: &Path) -> Result<u64> {
    match is_url(path) {
        true => Object::open(path).map(|object| object.size()),
        false => fs::metadata(path).map(|data| data.len()).map_err(|reason| Error::io(path, reason)),
    }
}

/// Whether a file or an object has exactly this content.
pub(crate) fn contains(path: &Path, bytes: &[u8]) -> bool {
    match is_url(path) {
        true => Object::find(path).is_ok_and(|object| {
            object.is_some_and(|object| {
                object.size() == bytes.len() as u64 && object.read().is_ok_and(|found| found == bytes)
            })
        }),
        false => {
            fs::metadata(path).is_ok_and(|data| data.len() == bytes.len() as u64)
                && fs::read(path).is_ok_and(|found| found == bytes)
        }
    }
}

/// The names of what is in a folder or under a prefix, in any order.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    if is_url(folder) {
        return stores::list(folder);
    }
    let unreadable = |reason| Error::io(folder, reason);
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    entries.map(|entry| Ok(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned())).collect()
}

/// Writes a file completely or not at all.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_with(path, |file| file.write_all(bytes))
}

/// Like [`replace`], for several files that appear together or not at all. The file that names the others comes last.
pub fn replace_all(files: &[(&Path, &[u8])]) -> Result<()> {
    let mut together = Together::default();
    for (path, bytes) in files {
        together.file(path, |file| file.write_all(bytes))?;
    }
    together.commit()
}

/// Like [`replace`], for content that is written piece by piece.
pub(crate) fn replace_with(path: &Path, content: impl FnOnce(&mut Output) -> io::Result<()>) -> Result<()> {
    let mut together = Together::default();
    together.file(path, content)?;
    together.commit()
}

#[cfg(test)]
mod tests;
