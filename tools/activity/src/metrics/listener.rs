//! Strangers on a TCP socket: one thread that serves all of them at once, with bounds on what is read, on the time of each and on their number. The
//! thread and the socket are there when it has started: none is made for a stranger. It asks the operating system for nothing that a daemon in
//! its sandbox has given up.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};

use super::request::{Answer, HEAD_MAX, end_of_head, judge, response};

/// How many are connected at the same time: one more disconnects the one that has been there longest.
const STRANGERS_MAX: usize = 32;
/// How long a stranger may take for its request and the response; then the server disconnects it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the server accepts no connection after a failure of the operating system.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A server. Dropping it ends its thread.
pub struct Listener {
    socket: Arc<TcpListener>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
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
        Listener::with_patience(address, PATIENCE, page)
    }

    fn with_patience(
        address: SocketAddr,
        patience: Duration,
        page: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> std::io::Result<Listener> {
        let socket = Arc::new(TcpListener::bind(address)?);
        socket.set_nonblocking(true)?;
        let (address, stop) = (socket.local_addr()?, Arc::<AtomicBool>::default());
        let (theirs, ends) = (Arc::clone(&socket), Arc::clone(&stop));
        let serve = move || serve(&theirs, &ends, patience, &page);
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(serve)?;
        Ok(Listener { socket, address, stop, thread: Some(thread) })
    }

    /// Where it listens: the port, if any would do.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The shutdown of a listening socket wakes the thread that polls it. It fails only when it does not listen: then none waits.
        let _ = shutdown(&*self.socket, Shutdown::Both);
        // A panic there has been printed by its thread.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Serves strangers until it is told to stop.
fn serve(socket: &TcpListener, stop: &AtomicBool, patience: Duration, page: &dyn Fn() -> Option<String>) {
    // The one that has been there longest comes first.
    let mut strangers: Vec<Stranger> = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let left = strangers.first().map(|first| first.until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut polled = vec![PollFd::new(socket, PollFlags::IN)];
        polled.extend(strangers.iter().map(|stranger| PollFd::new(&stranger.socket, stranger.wants())));
        // A signal, or want of memory: the sockets say themselves what they are ready for.
        let _ = poll(&mut polled, left.as_ref());
        let has_callers = !polled[0].revents().is_empty();
        strangers.retain_mut(|stranger| stranger.until > Instant::now() && stranger.go_on(page).is_ok_and(|more| more));
        if has_callers && !stop.load(Ordering::Acquire) {
            match accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(accepted) => strangers.push(Stranger::new(accepted, Instant::now() + patience)),
                // It is no error when a client disconnects early.
                Err(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED) => {}
                Err(error) => {
                    tracing::warn!("accepting a connection for figures failed: {error}; the listener tries again");
                    std::thread::park_timeout(AFTER_FAILURE);
                }
            }
            if strangers.len() > STRANGERS_MAX {
                strangers.remove(0);
            }
        }
    }
}

/// A connection.
struct Stranger {
    socket: OwnedFd,
    until: Instant,
    head: Vec<u8>,
    /// The response, and how much of it is written; `None`: the request is not whole.
    response: Option<(Vec<u8>, usize)>,
    /// Bytes behind the request that the server has read since it wrote the response.
    drained: usize,
}

impl Stranger {
    fn new(socket: OwnedFd, until: Instant) -> Stranger {
        Stranger { socket, until, head: Vec::new(), response: None, drained: 0 }
    }

    fn is_answered(&self) -> bool {
        self.response.as_ref().is_some_and(|(bytes, written)| *written == bytes.len())
    }

    fn wants(&self) -> PollFlags {
        if self.response.is_some() && !self.is_answered() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Does all that its socket is ready for. False: it is served.
    fn go_on(&mut self, page: &dyn Fn() -> Option<String>) -> std::io::Result<bool> {
        if self.response.is_none() {
            let Some(answer) = self.read_head()? else { return Ok(true) };
            let figures = if answer == Answer::Figures { page() } else { Some(String::new()) };
            let bytes = match figures {
                Some(figures) => response(answer, &figures),
                None => response(Answer::NoFigures, ""),
            };
            self.response = Some((bytes, 0));
        }
        if let Some((bytes, written)) = self.response.as_mut().filter(|(bytes, written)| *written < bytes.len()) {
            while *written < bytes.len() {
                match ready(|| rustix::io::write(&self.socket, &bytes[*written..]))? {
                    None => return Ok(true),
                    Some(more) => *written += more,
                }
            }
            shutdown(&self.socket, Shutdown::Write)?;
        }
        // The server reads bytes behind the request, or the operating system would reset the connection and lose the response; within bounds.
        while self.drained < HEAD_MAX {
            match ready(|| rustix::io::read(&self.socket, &mut [0; 1024]))? {
                None => return Ok(true),
                Some(0) => break,
                Some(more) => self.drained += more,
            }
        }
        Ok(false)
    }

    /// Reads the request as far as it has come. `None`: it is not whole.
    fn read_head(&mut self) -> std::io::Result<Option<Answer>> {
        loop {
            match end_of_head(&self.head) {
                Some(end) if end <= HEAD_MAX => return Ok(Some(judge(&self.head[..end]))),
                Some(_) => return Ok(Some(Answer::TooLong)),
                None if self.head.len() >= HEAD_MAX => return Ok(Some(Answer::TooLong)),
                None => {}
            }
            let mut some = [0; 1024];
            match ready(|| rustix::io::read(&self.socket, &mut some))? {
                None => return Ok(None),
                Some(0) if self.head.is_empty() => return Err(ErrorKind::UnexpectedEof.into()),
                Some(0) => return Ok(Some(Answer::Bad)),
                Some(got) => self.head.extend_from_slice(&some[..got]),
            }
        }
    }
}

/// The result of a call that does not block; `None`: the socket is not ready.
fn ready(mut does: impl FnMut() -> rustix::io::Result<usize>) -> std::io::Result<Option<usize>> {
    loop {
        match does() {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            done => return Ok(Some(done?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::AtomicU32;

    const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

    /// A server that disconnects no client for its slowness, and how often it has asked for figures.
    fn server(figures: &'static str) -> (Listener, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let page = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Some(figures.to_owned())
        };
        let patience = Duration::from_secs(1 << 20);
        (Listener::with_patience(SocketAddr::from(HERE), patience, page).expect("a port"), asked)
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
    fn clients_that_send_nothing_or_read_nothing_delay_no_other() {
        static LONG: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| "x".repeat(16 << 20));
        let (listener, _) = server(&LONG);
        // Some say a part of a request, and nothing more.
        let silent: Vec<_> = (0..3 * STRANGERS_MAX)
            .map(|nth| {
                let mut stream = TcpStream::connect(listener.address()).expect("it listens");
                let _ = stream.write_all(&b"GET /met"[..nth % 9]);
                stream
            })
            .collect();
        let mut deaf = TcpStream::connect(listener.address()).expect("it listens");
        deaf.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("it listens");
        let answer = ask(&listener, b"GET /no HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        drop((silent, deaf));
    }

    #[test]
    fn a_client_that_sends_nothing_is_disconnected() {
        let page = || None;
        let listener = Listener::with_patience(SocketAddr::from(HERE), Duration::from_millis(1), page).expect("a port");
        let mut silent = TcpStream::connect(listener.address()).expect("it listens");
        assert_eq!(silent.read(&mut [0]).ok(), Some(0), "nothing else ends it");
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
