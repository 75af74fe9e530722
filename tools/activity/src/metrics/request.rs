//! Requests and responses: functions of bytes, without a socket. One request, `GET /metrics`, has a response of more than a line.

/// Most bytes of a request's lines, with the empty one that ends them.
pub const HEAD_MAX: usize = 8 << 10;

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The figures.
    Figures,
    /// It is no request of HTTP/1.0 or 1.1.
    Bad,
    /// The path has no page.
    NotFound,
    /// The method is not GET.
    NotAllowed,
    /// Its lines are longer than [`HEAD_MAX`].
    TooLong,
    /// The kernel has failed: there are no figures.
    NoFigures,
}

/// Where the lines of a request end; `None`: they are not there yet.
pub fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4)
}

/// Judges the lines of a request, up to and with the empty one.
pub fn judge(head: &[u8]) -> Answer {
    let Ok(text) = std::str::from_utf8(head) else { return Answer::Bad };
    let Some((line, fields)) = text.split_once("\r\n") else { return Answer::Bad };
    let parts: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = parts[..] else { return Answer::Bad };
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let mut hosts = 0;
    for field in fields.split("\r\n").take_while(|field| !field.is_empty()) {
        match field.split_once(':') {
            Some((name, _)) if is_token(name) => hosts += usize::from(name.eq_ignore_ascii_case("host")),
            _ => return Answer::Bad,
        }
    }
    let has_host = match version {
        "HTTP/1.1" => hosts == 1,
        "HTTP/1.0" => hosts <= 1,
        _ => false,
    };
    let control = |byte: u8| byte.is_ascii_control();
    if !is_token(method) || !has_host || !target.starts_with('/') || target.bytes().any(control) {
        return Answer::Bad;
    }
    match (target.split('?').next(), method) {
        (Some("/metrics"), "GET") => Answer::Figures,
        (Some("/metrics"), _) => Answer::NotAllowed,
        _ => Answer::NotFound,
    }
}

/// The bytes of an answer. `figures` are what [`Answer::Figures`] promises.
pub fn response(answer: Answer, figures: &str) -> Vec<u8> {
    let (status, kind, more, body) = match answer {
        Answer::Figures => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", "", figures),
        Answer::Bad => ("400 Bad Request", PLAIN, "", "the request is not one of HTTP/1.0 or HTTP/1.1\n"),
        Answer::NotFound => ("404 Not Found", PLAIN, "", "the only page is /metrics\n"),
        Answer::NotAllowed => ("405 Method Not Allowed", PLAIN, "Allow: GET\r\n", "the only method is GET\n"),
        Answer::TooLong => ("431 Request Header Fields Too Large", PLAIN, "", "the request is longer than 8 KiB\n"),
        Answer::NoFigures => ("503 Service Unavailable", PLAIN, "", "the kernel has failed\n"),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

const PLAIN: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_question_has_an_answer_and_every_other_its_refusal() {
        let host = "Host: x\r\n\r\n";
        for (line, answer) in [
            ("GET /metrics HTTP/1.1", Answer::Figures),
            ("GET /metrics HTTP/1.0", Answer::Figures),
            ("GET /metrics?module=all HTTP/1.1", Answer::Figures),
            ("GET / HTTP/1.1", Answer::NotFound),
            ("GET /metrics/ HTTP/1.1", Answer::NotFound),
            ("GET /../metrics HTTP/1.1", Answer::NotFound),
            ("POST / HTTP/1.1", Answer::NotFound),
            ("POST /metrics HTTP/1.1", Answer::NotAllowed),
            ("HEAD /metrics HTTP/1.1", Answer::NotAllowed),
            ("get /metrics HTTP/1.1", Answer::NotAllowed),
            ("GET /metrics HTTP/2.0", Answer::Bad),
            ("GET /metrics", Answer::Bad),
            ("GET  /metrics HTTP/1.1", Answer::Bad),
            ("GET metrics HTTP/1.1", Answer::Bad),
            ("GET /metrics\0 HTTP/1.1", Answer::Bad),
            (" /metrics HTTP/1.1", Answer::Bad),
            ("", Answer::Bad),
        ] {
            assert_eq!(judge(format!("{line}\r\n{host}").as_bytes()), answer, "{line}");
        }
        for (fields, answer) in [
            ("", Answer::Bad),
            ("Host: a\r\nhost: b\r\n", Answer::Bad),
            ("Host: a\r\nno field\r\n", Answer::Bad),
            ("Host: a\r\n folded: b\r\n", Answer::Bad),
            ("Host:\r\nAccept: */*\r\n", Answer::Figures),
        ] {
            assert_eq!(judge(format!("GET /metrics HTTP/1.1\r\n{fields}\r\n").as_bytes()), answer, "{fields}");
        }
        assert_eq!(judge(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n"), Answer::Bad);
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let text = String::from_utf8(response(Answer::Figures, "x 1\n")).expect("text");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nx 1\n"), "{text}");
        assert!(text.contains("Content-Length: 4\r\n") && text.contains("version=0.0.4"), "{text}");
        assert!(String::from_utf8(response(Answer::NotAllowed, "")).expect("text").contains("Allow: GET\r\n"));
        assert_eq!((end_of_head(b"GET / HTTP/1.1\r\n\r\nmore"), end_of_head(b"GET /\r\n")), (Some(18), None));
    }
}
