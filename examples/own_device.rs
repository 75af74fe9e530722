//! A device of one's own: what the driver reaches over the bus. This one is the software GPU behind a port that counts the driver's
//! accesses by register. `cargo run -p openwddm --example own_device`
//!
//! A device in software or silicon implements `device_port::DevicePort` as its data sheet (`softgpu_spec`) says; the driver does not know which
//! one answers. The kernel never sees the port: it asks the driver.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use device_port::DevicePort;
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};
use shared_words::Memory;
use softgpu_spec::register;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind};
use wddm_types::NodeId;

type Counts = Arc<Mutex<BTreeMap<(&'static str, u32), u64>>>;

struct Counting {
    device: Arc<dyn DevicePort>,
    counts: Counts,
}

impl Counting {
    fn count(&self, what: &'static str, offset: u32) {
        *self.counts.lock().expect("no thread panics under it").entry((what, offset)).or_default() += 1;
    }
}

impl DevicePort for Counting {
    fn read_register(&self, offset: u32) -> u64 {
        self.count("read", offset);
        self.device.read_register(offset)
    }

    fn write_register(&self, offset: u32, value: u64) {
        self.count("write", offset);
        self.device.write_register(offset, value);
    }

    fn local_memory(&self) -> &Arc<Memory> {
        self.device.local_memory()
    }

    fn doorbell_page(&self) -> &Arc<Memory> {
        self.device.doorbell_page()
    }

    fn doorbell_rung(&self, index: u32) {
        self.count("ring", index);
        self.device.doorbell_rung(index);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let counts = Counts::default();
    let seen = Arc::clone(&counts);
    let mut config = HostConfig { vram_bytes: 64 << 20, ..HostConfig::new(&PROFILES[0], Mode::Real) };
    config.wrap_port = Some(Box::new(move |device| Arc::new(Counting { device, counts: seen })));
    let host = Host::start(config)?;

    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)))?;
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default())?;
    let surface = gpu.create_surface(SurfaceKind::Local, 65536)?;
    gpu.pin(&surface)?;
    let mut commands = Commands::new();
    commands.fill(surface.va(), 65536, 7);
    let value = stream.submit(&gpu, &[], &commands)?;
    stream.wait(&gpu, value)?;

    for ((what, offset), count) in counts.lock().expect("no thread panics under it").iter() {
        println!("{what:5} {offset:#05x}: {count}");
    }
    println!("interrupt records are read at {:#05x}", register::INTERRUPT_POP);
    Ok(())
}
