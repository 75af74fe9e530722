//! The monitor of a presentation, and its pictures as files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use device_port::{Frame, Monitor};

use crate::console::Out;
use crate::error::RunError;
use crate::output::Output;

/// A picture that was shown.
pub(super) struct Picture {
    number: u64,
    width: u32,
    height: u32,
    texels: Vec<u32>,
    torn: bool,
}

#[derive(Default)]
struct Seen {
    frames: u64,
    torn: u64,
    pictures: Vec<Picture>,
}

/// Counts frames, and keeps them if they are to be written.
pub(super) struct Screen {
    keeps: bool,
    seen: Mutex<Seen>,
}

impl Screen {
    pub(super) fn new(keeps: bool) -> Screen {
        Screen { keeps, seen: Mutex::default() }
    }

    /// Frames, torn ones, pictures.
    pub(super) fn end(&self) -> (u64, u64, Vec<Picture>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.frames, seen.torn, std::mem::take(&mut seen.pictures))
    }
}

impl Monitor for Screen {
    fn frame(&self, frame: &Frame<'_>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.frames += 1;
        seen.torn += u64::from(frame.torn);
        if self.keeps {
            let Frame { number, width, height, torn, texels, .. } = *frame;
            seen.pictures.push(Picture { number, width, height, texels: texels.to_vec(), torn });
        }
    }
}

/// A folder for pictures, found good.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Judges it: it is there and can be written to.
    pub(super) fn check(folder: &Path) -> Result<Folder, RunError> {
        Output::check("--pictures", &folder.join("frame.png"))?;
        Ok(Folder(folder.to_owned()))
    }

    /// Writes the pictures, named by their vertical blanks. Answers with how many are written.
    pub(super) fn write(&self, pictures: &[Picture], out: &mut Out) -> u64 {
        let mut write = |picture: &&Picture| {
            let torn = if picture.torn { "-torn" } else { "" };
            let path = self.0.join(format!("frame-{:05}{torn}.png", picture.number));
            match Output::check("--pictures", &path) {
                Ok(output) => out.file(&output, |file| encode(picture, file)),
                Err(error) => {
                    out.lose(error);
                    false
                }
            }
        };
        pictures.iter().filter(|picture| write(picture)).count() as u64
    }
}

fn encode(picture: &Picture, file: &mut dyn Write) -> io::Result<()> {
    let mut encoder = png::Encoder::new(file, picture.width, picture.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // Blue lies in the low byte.
    let bytes: Vec<u8> =
        picture.texels.iter().flat_map(|texel| [16, 8, 0].map(|shift| (texel >> shift) as u8)).collect();
    let mut writer = encoder.write_header().map_err(io::Error::other)?;
    writer.write_image_data(&bytes).map_err(io::Error::other)?;
    writer.finish().map_err(io::Error::other)
}
