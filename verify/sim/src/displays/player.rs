//! A process with pictures to show, and what it knows of them.
//!
//! It is a program that can go on: it draws only into what it did not flip to last, so that a flip before it frees what it draws into,
//! and sets a mode only when all that it had drawn is done. Its calls that wait do so beside it: it makes others meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

use d3dkmt::{DeviceState, EvictFlags};
use dxgk_host::{Host, Pending, ProcessLink};
use kmt_calls::{Call, DisplayCall, Refusal, Reply};
use kmt_link::{Link, Routed};
use softgpu_umd::{Gpu, Lane, Stage, Surface, SurfaceKind, UmdError};
use wddm_types::{NodeId, NtStatus, ProcessId, VidPnSourceId};

/// Submissions of a lane that are under way at most: none of them blocks.
const UNDER_WAY_MAX: u64 = 12;
/// Primaries of a source.
const PRIMARIES: usize = 3;
/// Other content.
const SPARES: usize = 4;

/// The fixtures of a world, for its processes' pictures.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub stage: Stage,
    /// Lists are residency: nothing is made resident.
    pub listed: bool,
    pub sources: u32,
    pub width: u16,
    pub height: u16,
    pub spare_bytes: u64,
}

/// A call that waits.
pub struct Waiting {
    pub pending: Pending,
    pub since_ns: u64,
    pub call: &'static str,
}

/// A player's objects on its device. Lane and surfaces go before the GPU.
struct Site {
    lane: Lane,
    primaries: Vec<Primary>,
    spares: Vec<Surface>,
    gpu: Gpu,
}

struct Primary {
    surface: Surface,
    source: u32,
    /// The picture drawn last.
    picture: u32,
    /// It is not on its device's list: there was no room when it was to come back.
    away: bool,
}

/// A process.
pub struct Player {
    pub id: ProcessId,
    /// The last primary of each source that it flipped to, or made its mode of.
    last: Vec<Option<usize>>,
    site: Site,
    scene: Scene,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    link: Arc<ProcessLink>,
}

impl Player {
    /// A process on a host.
    pub fn new(host: &Arc<Host>, scene: Scene) -> Result<Player, UmdError> {
        let link = ProcessLink::new(Arc::clone(host));
        let waiting = Arc::new(Mutex::new(Vec::new()));
        let site = Site::new(way(host, &link, &waiting), scene)?;
        let last = vec![None; scene.sources as usize];
        Ok(Player { id: link.process(), last, site, scene, waiting, link })
    }

    /// Its device is lost: it makes everything anew.
    pub fn renew(&mut self, host: &Arc<Host>) -> Result<(), UmdError> {
        self.site = Site::new(way(host, &self.link, &self.waiting), self.scene)?;
        self.last.fill(None);
        Ok(())
    }

    pub fn is_lost(&self) -> bool {
        self.site.gpu.device().state().is_ok_and(|state| state != DeviceState::Active)
    }

    /// Calls that wait.
    pub fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a present of it waits, and the process with it.
    pub fn presents(&self) -> bool {
        self.waiting().iter().any(|waiting| waiting.call == PRESENT)
    }

    /// Whether it has displays and pictures in its hands: no mode of it is on its way.
    pub fn is_settled(&self) -> bool {
        !self.waiting().iter().any(|waiting| waiting.call == MODE)
    }

    /// Whether all that it has submitted is done.
    pub fn done(&self) -> bool {
        self.site.lane.progress().current() >= self.site.lane.last_value()
    }

    /// The number of its primaries.
    pub fn primaries(&self) -> usize {
        self.site.primaries.len()
    }

    /// The source of a primary.
    pub fn source(&self, primary: usize) -> u32 {
        self.site.primaries[primary].source
    }

    /// Whether a primary is on no list: there was no room when it was to come back. It can neither be drawn nor shown.
    pub fn is_away(&self, primary: usize) -> bool {
        self.site.primaries[primary].away
    }

    /// The picture drawn last into a primary.
    pub fn picture(&self, primary: usize) -> u32 {
        self.site.primaries[primary].picture
    }

    /// Draws into a primary, in many commands; where it is displayed, or lists are short, it does not.
    pub fn draw(&mut self, primary: usize, picture: u32, times: usize) -> Result<bool, UmdError> {
        let Site { lane, primaries, gpu, .. } = &mut self.site;
        let Primary { surface, source, picture: drawn, away } = &mut primaries[primary];
        let under_way = lane.last_value().saturating_sub(lane.progress().current());
        if self.last[*source as usize] == Some(primary) || *away || under_way >= UNDER_WAY_MAX {
            return Ok(false);
        }
        // No display shows it half drawn.
        for nth in 0..times {
            lane.fill(surface, 0, surface.bytes(), !(nth as u32));
        }
        lane.fill(surface, 0, surface.bytes(), picture);
        *drawn = picture;
        lane.submit_writing(gpu, &[surface.allocation().handle()])?;
        Ok(true)
    }

    /// Flips to a primary.
    pub fn flip(&mut self, primary: usize, interval: u32) -> Result<u32, UmdError> {
        let Primary { surface, source, .. } = &self.site.primaries[primary];
        let queued = self.site.lane.flip(surface, interval)?;
        self.last[*source as usize] = Some(primary);
        Ok(queued)
    }

    /// Gives a primary's source the primary's mode.
    pub fn mode(&mut self, primary: usize) -> Result<(), Refusal> {
        let Primary { surface, source, .. } = &self.site.primaries[primary];
        self.site.gpu.device().set_display_mode(surface.allocation())?;
        self.last[*source as usize] = Some(primary);
        Ok(())
    }

    /// From now on these sources are its own.
    pub fn own(&self, sources: &[VidPnSourceId]) -> Result<(), Refusal> {
        self.site.gpu.device().own_sources(sources)
    }

    pub fn limit(&self, limit: u32) -> Result<(), Refusal> {
        self.site.gpu.device().set_queued_limit(limit)
    }

    pub fn blank(&self, source: u32) -> Result<(), Refusal> {
        self.site.gpu.device().wait_for_vertical_blank(VidPnSourceId(source))
    }

    /// Another primary in place of one. Nothing draws into either.
    pub fn replace(&mut self, primary: usize) -> Result<(), UmdError> {
        let source = self.site.primaries[primary].source;
        let fresh = primary_of(&self.site.gpu, self.scene, source)?;
        if self.last[source as usize] == Some(primary) {
            self.last[source as usize] = None;
        }
        self.site.primaries[primary] = fresh;
        Ok(())
    }

    /// Takes a primary from its list, and back: what is displayed stays where it is.
    pub fn take_away(&mut self, primary: usize) -> Result<(), UmdError> {
        let Site { primaries, gpu, .. } = &mut self.site;
        let Primary { surface, away, .. } = &mut primaries[primary];
        if !*away {
            gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty())?;
        }
        *away = true;
        gpu.pin(surface)?;
        *away = false;
        Ok(())
    }

    /// Other content comes, or goes.
    pub fn crowd(&mut self, spare: usize, comes: bool) -> Result<(), UmdError> {
        let Site { lane, spares, gpu, .. } = &mut self.site;
        let surface = &spares[spare % SPARES];
        if self.scene.listed {
            lane.fill(surface, 0, 4096, 1);
            lane.submit(gpu, None)?;
        } else if comes {
            gpu.pin(surface)?;
        } else {
            gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty())?;
        }
        Ok(())
    }

    /// Everything that it has goes at once, in the middle of whatever it does.
    pub fn die(self, host: &Host) {
        host.process_died(self.id);
    }
}

const PRESENT: &str = "present";
const MODE: &str = "mode";

/// A process's way to its kernel on which nothing that waits for a display blocks: such calls are answered as if they were done, and
/// what becomes of them is looked at later.
fn way(host: &Arc<Host>, link: &Arc<ProcessLink>, waiting: &Arc<Mutex<Vec<Waiting>>>) -> Arc<dyn Link> {
    let (host, waiting) = (Arc::clone(host), Arc::clone(waiting));
    Arc::new(Routed::new(Arc::clone(link), move |link: &ProcessLink, call| {
        let (name, reply) = match &call {
            Call::Display(DisplayCall::Flip { .. } | DisplayCall::FlipOnHwQueue { .. }) => (PRESENT, Reply::Queued(0)),
            Call::Display(DisplayCall::WaitForVerticalBlankEvent { .. }) => ("blank", Reply::Done),
            Call::Display(DisplayCall::SetDisplayMode { .. }) => (MODE, Reply::Done),
            _ => return link.call(call),
        };
        host.begin_call(link.process(), call).unwrap_or_else(|pending| {
            let call = Waiting { pending, since_ns: host.now_ns(), call: name };
            waiting.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            Ok(reply)
        })
    }))
}

impl Site {
    fn new(link: Arc<dyn Link>, scene: Scene) -> Result<Site, UmdError> {
        let gpu = Gpu::open(link)?;
        let lane = Lane::create_at(&gpu, NodeId(0), scene.stage)?;
        let sources = (0..scene.sources).flat_map(|source| [source; PRIMARIES]);
        let primaries = sources.map(|source| primary_of(&gpu, scene, source)).collect::<Result<_, _>>()?;
        let spare = |_| gpu.create_surface(SurfaceKind::Local, scene.spare_bytes);
        let spares = (0..SPARES).map(spare).collect::<Result<_, _>>()?;
        Ok(Site { lane, primaries, spares, gpu })
    }
}

fn primary_of(gpu: &Gpu, scene: Scene, source: u32) -> Result<Primary, UmdError> {
    let surface = gpu.create_primary(VidPnSourceId(source), scene.width, scene.height)?;
    if !scene.listed {
        gpu.pin(&surface)?;
    }
    Ok(Primary { surface, source, picture: 0, away: false })
}

/// Why it was refused, if the kernel did.
pub fn refusal(error: &UmdError) -> Option<NtStatus> {
    match error {
        UmdError::Refused(refusal) => Some(refusal.status),
        _ => None,
    }
}
