//! The outside process's end: it reads questions and answers them. A file may block its reader, as a network mount does whose server has gone,
//! so each reading has a thread of its own, and records have one for all. Names are answered at once.

use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::{ANSWER_BYTES_MAX, ASK_BYTES, Ask, RECORD_BYTES_MAX, RECORDS_MAX, WITHIN};

/// Most readings of the file that may be under way: each is a thread.
const READINGS_MAX: usize = 8;

/// The name of the program that a process of the operating system runs; `None`: it has gone, or the operating system does not tell.
pub fn name_of(pid: i32) -> Option<String> {
    let name = std::fs::read(PathBuf::from(format!("/proc/{pid}/comm"))).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// The outside process: answers questions until there are none any more. `file`: the one that the daemon may ask for; `records`: the folder
/// of records of crashes. At its end it waits at most [`WITHIN`] for readings and records that are under way.
///
/// # Errors
/// When an answer cannot be written: the daemon has gone.
pub fn look(
    file: Option<&Path>,
    records: Option<&Path>,
    asks: impl Read,
    answers: impl Write + Send + 'static,
) -> io::Result<()> {
    let (file, records) = (file.map(Path::to_owned), records.map(Path::to_owned));
    look_by(move || read(file.as_deref()), records, asks, answers)
}

/// The same; `read` reads the file.
pub(super) fn look_by(
    read: impl Fn() -> Result<String, String> + Clone + Send + 'static,
    records: Option<PathBuf>,
    mut asks: impl Read,
    answers: impl Write + Send + 'static,
) -> io::Result<()> {
    let answers = Answers { to: Arc::new(Mutex::new(answers)), readings: Arc::default() };
    // Each thread has a copy of the sender: the receiver hears of the end when all are over.
    let (over, ended) = channel::<()>();
    let records = record_thread(records, answers.clone(), over.clone())?;
    let mut ask = [0; ASK_BYTES];
    while asks.read_exact(&mut ask).is_ok() {
        match Ask::of(ask) {
            (nth, Some(Ask::Name(pid))) => {
                answers.give(nth, name_of(pid).ok_or_else(|| format!("process {pid} has no name")))?;
            }
            (nth, Some(Ask::File)) => answers.read_apart(nth, read.clone(), over.clone())?,
            (nth, Some(Ask::Record(bytes))) => {
                // CAST: 32 bits fit.
                let mut record = vec![0; (bytes as usize).min(RECORD_BYTES_MAX)];
                asks.read_exact(&mut record)?;
                // The thread is there as long as this has the sender.
                let _ = records.send((nth, record));
            }
            (nth, None) => answers.give(nth, Err(format!("no question has the number {}", ask[0])))?,
        }
    }
    drop((records, over));
    // No thread says anything: this ends with the last of them.
    let _ = ended.recv_timeout(WITHIN);
    Ok(())
}

/// Where answers go.
struct Answers<W> {
    to: Arc<Mutex<W>>,
    /// How many readings are under way.
    readings: Arc<AtomicUsize>,
}

impl<W> Clone for Answers<W> {
    fn clone(&self) -> Self {
        Answers { to: Arc::clone(&self.to), readings: Arc::clone(&self.readings) }
    }
}

impl<W: Write + Send + 'static> Answers<W> {
    /// Writes the answer to the question of this number.
    fn give(&self, nth: u32, answer: Result<String, String>) -> io::Result<()> {
        let (good, text) = answer.map_or_else(|error| (0, error), |text| (1, text));
        let mut bytes = vec![good];
        bytes.extend(nth.to_le_bytes());
        // CAST: files and names have bounds.
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// Reads the file on a thread of its own, which answers.
    fn read_apart(
        &self,
        nth: u32,
        read: impl Fn() -> Result<String, String> + Send + 'static,
        over: Sender<()>,
    ) -> io::Result<()> {
        if self.readings.fetch_add(1, Ordering::AcqRel) >= READINGS_MAX {
            self.readings.fetch_sub(1, Ordering::AcqRel);
            return self.give(nth, Err(format!("{READINGS_MAX} readings of it have not ended, because it blocks")));
        }
        let answers = self.clone();
        let run = move || {
            let text = read();
            answers.readings.fetch_sub(1, Ordering::AcqRel);
            // The daemon may have gone: the thread that reads questions ends then.
            let _ = answers.give(nth, text);
            drop(over);
        };
        match std::thread::Builder::new().name("reads".into()).spawn(run) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.readings.fetch_sub(1, Ordering::AcqRel);
                self.give(nth, Err(format!("the operating system gives no thread to read it: {error}")))
            }
        }
    }
}

/// The thread that writes records, one after the other.
fn record_thread<W: Write + Send + 'static>(
    folder: Option<PathBuf>,
    answers: Answers<W>,
    over: Sender<()>,
) -> io::Result<Sender<(u32, Vec<u8>)>> {
    let (tell, told): (_, Receiver<(u32, Vec<u8>)>) = channel();
    let run = move || {
        let mut written = 0;
        for (nth, record) in told {
            if answers.give(nth, write(folder.as_deref(), &mut written, &record)).is_err() {
                return;
            }
        }
        drop(over);
    };
    std::thread::Builder::new().name("records".into()).spawn(run).map(|_| tell)
}

/// The text of the file. A pipe, which may have no writer, or a device is no file to be read again.
fn read(file: Option<&Path>) -> Result<String, String> {
    let file = file.ok_or("the daemon was started without a configuration file")?;
    let mut text = String::new();
    let open = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file);
    let open = open.map_err(|error| error.to_string())?;
    if !open.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is no ordinary file; put one there".to_owned());
    }
    // CAST: 1 MiB.
    let read = open.take(ANSWER_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    match text.len() > ANSWER_BYTES_MAX {
        true => Err(format!("it has more than {ANSWER_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// A file of its own for a record, that no other user reads.
fn write(folder: Option<&Path>, written: &mut u32, record: &[u8]) -> Result<String, String> {
    let folder = folder.ok_or("the configuration names no folder for records of crashes")?;
    if *written == RECORDS_MAX {
        return Err(format!("this daemon has written all {RECORDS_MAX} records that it may"));
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let path = folder.join(format!("openwddm-crash-{since}-{}-{written}.txt", std::process::id()));
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let told = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = file.map_err(told)?;
    file.write_all(record).and_then(|()| file.sync_all()).map_err(told)?;
    *written += 1;
    Ok(path.display().to_string())
}
