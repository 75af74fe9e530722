//! Strangers on a TCP socket: a few threads that take one after the other, with bounds on what is read and on the time of it all. The threads
//! and the socket are there when it has started: none is made for a stranger. It asks the operating system for nothing that a daemon in its
//! sandbox has given up.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};

use super::request::{Answer, HEAD_MAX, end_of_head, judge, response};

/// How many are served at the same time.
const THREADS: usize = 2;
/// How long a stranger may take for its request and the response; then the server disconnects it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a thread accepts no connection after a failure of the operating system.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A server. Dropping it ends its threads.
pub struct Listener {
    socket: Arc<TcpListener>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Listener {
    /// Listens at an address; `page` makes the figures anew for each request, and returns `None` when there are none.
    ///
    /// # Errors
    /// When nothing can listen there, or the operating system gives no thread.
    pub fn start(
        address: SocketAddr,
        page: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> std::io::Result<Listener> {
        let socket = Arc::new(TcpListener::bind(address)?);
        let address = socket.local_addr()?;
        let mut listener = Listener { socket: Arc::clone(&socket), address, stop: Arc::default(), threads: Vec::new() };
        let page = Arc::new(page);
        for _ in 0..THREADS {
            let (socket, stop, page) = (Arc::clone(&socket), Arc::clone(&listener.stop), Arc::clone(&page));
            let accept = move || accept(&socket, &stop, &*page);
            listener.threads.push(std::thread::Builder::new().name("metrics".into()).spawn(accept)?);
        }
        Ok(listener)
    }

    /// Where it listens: the port, if any would do.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The shutdown of a listening socket wakes the threads that accept on it. It fails only when it does not listen: then none waits.
        let _ = shutdown(&*self.socket, Shutdown::Both);
        for thread in self.threads.drain(..) {
            // A panic there has been printed by its thread.
            let _ = thread.join();
        }
    }
}

fn accept(socket: &TcpListener, stop: &AtomicBool, page: &dyn Fn() -> Option<String>) {
    loop {
        let accepted = accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        if stop.load(Ordering::Acquire) {
            return;
        }
        match accepted {
            // It is no error when a client disconnects early.
            Ok(stranger) => drop(serve(stranger.as_fd(), page)),
            Err(Errno::INTR) => {}
            Err(error) => {
                tracing::warn!("accepting a connection for figures failed: {error}; the listener tries again");
                std::thread::park_timeout(AFTER_FAILURE);
            }
        }
    }
}

/// Reads a stranger's request, and sends the response.
fn serve(stranger: BorrowedFd<'_>, page: &dyn Fn() -> Option<String>) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let answer = loop {
        match end_of_head(&head) {
            Some(end) if end <= HEAD_MAX => break judge(&head[..end]),
            Some(_) => break Answer::TooLong,
            None if head.len() >= HEAD_MAX => break Answer::TooLong,
            None => {}
        }
        let mut some = [0; 1024];
        match read(stranger, &mut some, until)? {
            0 if head.is_empty() => return Ok(()),
            0 => break Answer::Bad,
            got => head.extend_from_slice(&some[..got]),
        }
    };
    let figures = if answer == Answer::Figures { page() } else { Some(String::new()) };
    let bytes = match figures {
        Some(figures) => response(answer, &figures),
        None => response(Answer::NoFigures, ""),
    };
    write_all(stranger, &bytes, until)?;
    // The server reads bytes behind the request, or the operating system would reset the connection and lose the response; within bounds.
    shutdown(stranger, Shutdown::Write)?;
    for _ in 0..HEAD_MAX / 1024 {
        if read(stranger, &mut [0; 1024], until)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Reads some bytes; none: the stranger has shut its side of the connection.
fn read(stranger: BorrowedFd<'_>, into: &mut [u8], until: Instant) -> std::io::Result<usize> {
    in_time(stranger, PollFlags::IN, until, || rustix::io::read(stranger, &mut *into))
}

fn write_all(stranger: BorrowedFd<'_>, mut bytes: &[u8], until: Instant) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let written = in_time(stranger, PollFlags::OUT, until, || rustix::io::write(stranger, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Makes a call that does not block as soon as the stranger's socket is ready for it.
fn in_time(
    stranger: BorrowedFd<'_>,
    ready: PollFlags,
    until: Instant,
    mut does: impl FnMut() -> rustix::io::Result<usize>,
) -> std::io::Result<usize> {
    loop {
        match does() {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = Timespec::try_from(left(until)?).map_err(|_| ErrorKind::InvalidInput)?;
                match poll(&mut [PollFd::from_borrowed_fd(stranger, ready)], Some(&left)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            done => return Ok(done?),
        }
    }
}

/// The rest of a stranger's time; an error when it is over.
fn left(until: Instant) -> std::io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::AtomicU32;

    const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

    /// A server, and how often it has asked for figures.
    fn server(figures: &'static str) -> (Listener, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let page = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Some(figures.to_owned())
        };
        (Listener::start(SocketAddr::from(HERE), page).expect("a port"), asked)
    }

    fn ask(listener: &Listener, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(listener.address()).expect("it listens");
        // One that was refused early hears no more.
        let _ = stream.write_all(request);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer, whole");
        answer
    }

    #[test]
    fn who_asks_well_is_answered_and_who_does_not_is_refused_and_nothing_else_happens() {
        let (listener, asked) = server("figure 1\n");
        let answer = ask(&listener, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nfigure 1\n"), "{answer}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        for (request, status) in [
            (b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "404"),
            (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody".to_vec(), "405"),
            (b"openwddm\r\n\r\n".to_vec(), "400"),
            (vec![b'x'; HEAD_MAX + 1], "431"),
            ([vec![b'y'; 3 * HEAD_MAX], b"\r\n\r\n".to_vec()].concat(), "431"),
        ] {
            let answer = ask(&listener, &request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1, "refused requests ask the kernel for no figures");
    }

    #[test]
    fn clients_that_send_nothing_or_read_nothing_delay_others_for_a_bounded_time() {
        static LONG: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| "x".repeat(16 << 20));
        let (listener, _) = server(&LONG);
        let silent: Vec<_> =
            (0..THREADS).map(|_| TcpStream::connect(listener.address()).expect("it listens")).collect();
        let mut deaf = TcpStream::connect(listener.address()).expect("it listens");
        deaf.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("it listens");
        // Its answer comes because the server ends the others, which do nothing more.
        let answer = ask(&listener, b"GET /no HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        drop((silent, deaf));
    }

    #[test]
    fn a_kernel_that_has_failed_has_no_figures_and_a_server_ends() {
        let listener = Listener::start(SocketAddr::from(HERE), || None).expect("a port");
        assert!(ask(&listener, b"GET /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 503"));
        let address = listener.address();
        drop(listener);
        assert!(TcpStream::connect(address).is_err(), "the server listens no more");
    }
}
