//! The drawn cases of mapping (`mapping/cases.md`), row by row: the state before is made, the call made, the state after drawn again.

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use super::world::*;
use crate::space::{Origin, Shown};
use crate::{
    AllocationId, DeviceId, MapError, MapRequest, Protection, ReserveRequest, Reserved, SpaceId, SpaceKind, Target,
};

const CASES: &str = include_str!("../address/mapping/cases.md");
/// The first page of the first cell.
const FIRST: u64 = 1 << 10;
/// Pages of a cell.
const CELL: u64 = 16;
const CELLS: u64 = 8;

struct Board {
    mm: Mm,
    machine: Machine,
    space: SpaceId,
    device: DeviceId,
    /// A and B, while they live.
    allocations: [Option<AllocationId>; 2],
}

/// What a cell shows of an allocation: which, and from which page on.
type Content = Option<(AllocationId, u64)>;

impl Board {
    fn new() -> Board {
        let (mut mm, mut machine) = (adapter(512, ddi::SegmentFlags::empty()), Machine::default());
        let (space, root) = mm.create_space(SpaceKind::Process).expect("tables");
        machine.carry_out(&root);
        let device = mm.create_device(space);
        let allocations = [(); 2].map(|()| Some(create(&mut mm, device, CELL * CELLS, &[VRAM])));
        let mut board = Board { mm, machine, space, device, allocations };
        let all: Vec<AllocationId> = board.allocations.into_iter().flatten().collect();
        board.machine.queue(board.mm.make_resident(board.device, &all).expect("room"));
        board
    }

    fn allocation(&self, letter: char) -> Option<AllocationId> {
        match letter {
            'A' | 'a' | 'x' => self.allocations[0],
            'B' | 'b' | 'y' => self.allocations[1],
            _ => None,
        }
    }

    /// Makes a drawn state: reservations first, then what is shown.
    fn make(&mut self, drawn: &str) {
        for (from, to, _) in runs(drawn, |letter| if "-abo".contains(letter) { '-' } else { '.' }) {
            self.call(&format!("reserve {from}..{to}")).expect("free");
        }
        for (from, to, _) in runs(drawn, |letter| if "0xy_".contains(letter) { '0' } else { '.' }) {
            self.call(&format!("zeros {from}..{to}")).expect("free");
        }
        for (from, to, letter) in runs(drawn, |letter| letter) {
            let shown = match letter {
                'A' | 'a' | 'x' => "A",
                'B' | 'b' | 'y' => "B",
                'o' => "Zero",
                '_' => "NoAccess",
                _ => continue,
            };
            self.call(&format!("map {shown} {from}..{to}")).expect("free, or reserved");
        }
    }

    fn call(&mut self, call: &str) -> Result<(), MapError> {
        let words: Vec<&str> = call.split(' ').collect();
        let (from, to) = words[words.len() - 1]
            .split_once("..")
            .map_or((0, 0), |(from, to)| (from.parse::<u64>().expect("a cell"), to.parse::<u64>().expect("a cell")));
        let base = GpuVa((FIRST + from * CELL) * PAGE_BYTES);
        let size_bytes = (to - from) * CELL * PAGE_BYTES;
        let work = match words[0] {
            "map" => {
                let target = match words[1] {
                    "Zero" => Target::Reserved(Reserved::Zero),
                    "NoAccess" => Target::Reserved(Reserved::NoAccess),
                    name => {
                        let allocation = self.allocation(name.chars().next().expect("a name")).expect("it lives");
                        Target::Allocation { allocation, offset_pages: Pages(0) }
                    }
                };
                let request = MapRequest {
                    target,
                    size_pages: Pages((to - from) * CELL),
                    base: Some(base),
                    minimum: GpuVa::NULL,
                    maximum: GpuVa::NULL,
                    protection: Protection::READ_WRITE,
                };
                self.mm.map_gpu_va(self.space, request)?.1
            }
            "reserve" | "zeros" => {
                let reserved = if words[0] == "zeros" { Reserved::Zero } else { Reserved::NoAccess };
                let (minimum, maximum) = (GpuVa::NULL, GpuVa::NULL);
                let base = Some(base);
                let request = ReserveRequest { size_bytes, base, minimum, maximum, reserved, driver_protection: 0 };
                self.mm.reserve_gpu_va(self.space, request)?.1
            }
            "free" => self.mm.free_gpu_va(self.space, base, size_bytes)?,
            "destroy" => {
                let which = usize::from(words[1] == "B");
                let gone = self.allocations[which].take().expect("it lives");
                self.mm.destroy_allocation(gone, &[])
            }
            other => panic!("{other} is no call"),
        };
        self.machine.queue(work);
        self.machine.run(&mut self.mm);
        Ok(())
    }

    /// The letter of each cell, and what it shows.
    fn draw(&self) -> (String, Vec<Content>) {
        (0..CELLS).map(|cell| self.draw_cell(PageRun { first: FIRST + cell * CELL, count: Pages(CELL) })).unzip()
    }

    fn draw_cell(&self, run: PageRun) -> (char, Content) {
        let space = &self.mm.spaces[self.space];
        let origin = space.range_of(run).map(|(_, range)| range.origin);
        let pieces = space.pieces(run);
        assert!(pieces.len() <= 1, "a cell shows one thing: {pieces:?}");
        let shown = pieces.first().map(|(_, piece)| piece.shown);
        let content = match shown {
            Some(Shown::Allocation(id, page)) => Some((id, page)),
            _ => None,
        };
        let first = |id: AllocationId| self.allocations[0] == Some(id);
        let letter = match (origin, shown) {
            (None, None) => '.',
            (Some(Origin::Map), Some(Shown::Allocation(id, _))) => {
                if first(id) {
                    'A'
                } else {
                    'B'
                }
            }
            (Some(Origin::Reservation(Reserved::NoAccess, _)), Some(Shown::Allocation(id, _))) => {
                if first(id) {
                    'a'
                } else {
                    'b'
                }
            }
            (Some(Origin::Reservation(Reserved::Zero, _)), Some(Shown::Allocation(id, _))) => {
                if first(id) {
                    'x'
                } else {
                    'y'
                }
            }
            (Some(Origin::Reservation(Reserved::NoAccess, _)), None) => '-',
            (Some(Origin::Reservation(Reserved::NoAccess, _)), Some(Shown::Zero)) => 'o',
            (Some(Origin::Reservation(Reserved::Zero, _)), None) => '_',
            (Some(Origin::Reservation(Reserved::Zero, _)), Some(Shown::Zero)) => '0',
            other => panic!("no case draws {other:?}"),
        };
        (letter, content)
    }

    /// Each cell's first page as hardware finds it: only what is shown is there.
    fn check_entries(&self, drawn: &str, contents: &[Content]) {
        let root = self.mm.root(self.space);
        for ((cell, letter), content) in (0..).zip(drawn.chars()).zip(contents) {
            let va = GpuVa((FIRST + cell * CELL) * PAGE_BYTES);
            let walked = self.machine.walk(root, &[5, 5, 6], va);
            let shows = "ABabxy0o".contains(letter);
            assert_eq!(walked.is_some(), shows, "cell {cell} of {drawn}");
            if let (Some(entry), Some((id, page))) = (walked, content) {
                let (_, _, segment, frame) = self.mm.allocations[*id].resident_pieces(*page, 1)[0];
                assert_eq!((entry.address.segment, entry.address.offset / PAGE_BYTES), (segment, frame), "{drawn}");
            }
        }
    }
}

/// Runs of cells that are alike: from, to, and their letter; `.` is none.
fn runs(drawn: &str, alike: impl Fn(char) -> char) -> Vec<(u64, u64, char)> {
    let mut runs: Vec<(u64, u64, char)> = Vec::new();
    for (cell, letter) in (0..).zip(drawn.chars().map(alike)) {
        match runs.last_mut() {
            Some((_, to, before)) if *before == letter && *to == cell => *to += 1,
            _ => runs.push((cell, cell + 1, letter)),
        }
    }
    runs.retain(|(_, _, letter)| *letter != '.');
    runs
}

// spec: memory §4.8, memory §4.10
#[test]
fn mapping_does_what_is_drawn() {
    let rows = CASES.lines().skip_while(|line| !line.contains("after or refusal")).skip(1);
    let rows: Vec<&str> = rows.take_while(|line| !line.starts_with("```")).collect();
    assert!(rows.len() >= 30, "the drawing has its cases: {}", rows.len());
    for row in rows {
        let (before, call, after) = (row[1..9].trim(), row[12..32].trim(), row[32..58].trim());
        let mut board = Board::new();
        board.make(before);
        let (drawn, contents) = board.draw();
        assert_eq!(drawn, before, "the state before: {row}");
        let state = board.mm.state_digest();
        let result = board.call(call);
        let (drawn, changed) = board.draw();
        match result {
            Ok(()) => assert_eq!(drawn, after, "{row}"),
            Err(error) => {
                assert_eq!(format!("{error:?}"), after, "{row}");
                assert_eq!(board.mm.state_digest(), state, "a refusal changes nothing: {row}");
            }
        }
        let called = call.rsplit(' ').next().and_then(|cells| cells.split_once(".."));
        let called = called.map_or(0..0, |(from, to)| from.parse().expect("a cell")..to.parse().expect("a cell"));
        for cell in (0..CELLS as usize).filter(|cell| !called.contains(cell) && !call.starts_with("destroy")) {
            assert_eq!(changed[cell], contents[cell], "cell {cell} shows the pages that it showed: {row}");
        }
        board.check_entries(&drawn, &changed);
        board.mm.check_invariants(&[]).expect("in order");
    }
}
