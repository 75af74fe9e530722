//! The free addresses of a space, as a balanced tree that finds the lowest ones that fit without looking at the others.
//! Called by `space`; it knows neither by what right the other addresses are taken nor what they show.
//!
//! The lowest addresses that fit are wanted, and an ordered list of gaps has to walk past all that are too small: after
//! 100,000 mappings of one page, each aligned to 64 KB, those are 100,000 gaps of 15 pages. So each node of the tree
//! knows the longest run that any gap below it holds, and a search steps over a whole subtree in which nothing fits.
//!
//! ```text
//!                  gap 48..64              longest run below: 600 pages from any page on,
//!                 /          \                               592 from a multiple of 16 on
//!       gap 17..32            gap 1000..1600
//! ```
//!
//! How long a run may be depends on where it may begin: 15 pages behind a multiple of 16 hold nothing that begins at one.
//! So each node knows the longest run for each of the [`ALIGNMENTS`] that the space is asked for. A search for one of
//! these looks at no more nodes than two ways down the tree have, whatever the gaps are. For another alignment (a driver
//! that keeps a range while its process is created asks for any power of two) the longest of these that divides it says
//! where to look: gaps that are long enough and lie wrong are looked at one after the other, each for one way down the
//! tree, and there are no more of them than ranges that the driver has kept before.
//!
//! The tree is an AVL tree: the heights of two siblings differ by one at most, so that n gaps stand in fewer than
//! 1.45 log2 n levels.

use std::cmp::Ordering;
use std::fmt;

use wddm_types::PageRun;

/// How many alignments each node knows the longest run for.
const ALIGNMENTS: usize = 1 + ASKED;

/// How many alignments a space names that it is asked for. Single pages are looked for besides.
pub(super) const ASKED: usize = 3;

/// Free addresses of a space, by page.
#[derive(Default)]
pub(super) struct Gaps {
    root: Tree,
    /// In pages; each divides the next.
    alignments: [u64; ALIGNMENTS],
}

type Tree = Option<Box<Node>>;

struct Node {
    gap: Gap,
    /// The longest run in a gap of this subtree that begins at a multiple of each alignment.
    longest: [u64; ALIGNMENTS],
    height: u8,
    low: Tree,
    high: Tree,
}

/// Free pages between two that are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub first: u64,
    /// One past the last.
    pub end: u64,
}

/// A request: pages from a multiple of `alignment` on, which [`Gaps::class_of`] has named.
struct Wish {
    pages: u64,
    alignment: u64,
    class: usize,
}

impl Gaps {
    /// One gap, which is empty if it ends where it begins. Addresses are asked for by these alignments: powers of two in
    /// pages, none smaller than the one before it.
    pub fn new(first: u64, end: u64, [small, middle, large]: [u64; ASKED]) -> Self {
        let alignments = [1, small, middle, large];
        assert!(alignments.iter().all(|alignment| alignment.is_power_of_two()), "{alignments:?}");
        assert!(alignments.is_sorted(), "{alignments:?}");
        let mut gaps = Gaps { root: None, alignments };
        if first < end {
            gaps.insert(Gap { first, end });
        }
        gaps
    }

    /// The lowest multiple of `alignment` in `minimum..maximum` from which on that many pages are free, within the bounds.
    pub fn find(&self, pages: u64, minimum: u64, maximum: u64, alignment: u64) -> Option<u64> {
        self.search(pages, (minimum, maximum), alignment, &mut || ())
    }

    /// The same; `look` is called for each node that is looked at.
    fn search(&self, pages: u64, window: (u64, u64), alignment: u64, look: &mut impl FnMut()) -> Option<u64> {
        let (minimum, maximum) = window;
        let wish = Wish { pages, alignment, class: self.class_of(alignment) };
        // The window's begin cuts the gap that it lies in, and no other.
        let cut = self.below(minimum, look).and_then(|gap| wish.fits(Gap { first: minimum, ..gap }));
        let at = cut.or_else(|| lowest(self.root.as_deref(), minimum, &wish, look))?;
        debug_assert!(minimum <= at && at.is_multiple_of(alignment), "{at:#x}, from {minimum:#x} by {alignment:#x}");
        // No lower address fits: if this one ends beyond the window, so do all.
        (at.checked_add(pages)? <= maximum).then_some(at)
    }

    /// The highest multiple of `alignment` in `minimum..maximum` from which on that many pages are free, within the bounds.
    pub fn find_highest(&self, pages: u64, minimum: u64, maximum: u64, alignment: u64) -> Option<u64> {
        self.search_down(pages, (minimum, maximum), alignment, &mut || ())
    }

    fn search_down(&self, pages: u64, window: (u64, u64), alignment: u64, look: &mut impl FnMut()) -> Option<u64> {
        let (minimum, maximum) = window;
        let wish = Wish { pages, alignment, class: self.class_of(alignment) };
        // No higher address fits: if this one begins before the window, so do all.
        let found = highest(self.root.as_deref(), maximum, &wish, look);
        debug_assert!(found.is_none_or(|at| at + pages <= maximum), "{found:?}, {pages} pages below {maximum:#x}");
        found.filter(|at| *at >= minimum)
    }

    /// The gap that begins last of those that begin at or below a page.
    pub fn at_or_below(&self, page: u64) -> Option<Gap> {
        self.below(page, &mut || ())
    }

    fn below(&self, page: u64, look: &mut impl FnMut()) -> Option<Gap> {
        let (mut tree, mut found) = (self.root.as_deref(), None);
        while let Some(node) = tree {
            look();
            match node.gap.first <= page {
                true => (tree, found) = (node.high.as_deref(), Some(node.gap)),
                false => tree = node.low.as_deref(),
            }
        }
        found
    }

    /// Takes pages that are free.
    pub fn take(&mut self, run: PageRun) {
        let gap = self.at_or_below(run.first).expect("the pages are free");
        assert!(run.end() <= gap.end, "the pages are free");
        self.remove(gap.first);
        for rest in [Gap { first: gap.first, end: run.first }, Gap { first: run.end(), end: gap.end }] {
            if rest.first < rest.end {
                self.insert(rest);
            }
        }
    }

    /// Frees pages that are taken. Gaps that they touch become one with them.
    pub fn give(&mut self, run: PageRun) {
        let free = self.at_or_below(run.end().saturating_sub(1)).filter(|gap| gap.end > run.first);
        debug_assert!(free.is_none(), "{run:?} is freed, and free in {free:?}");
        let mut whole = Gap { first: run.first, end: run.end() };
        if let Some(before) = self.at_or_below(run.first).filter(|before| before.end == run.first) {
            self.remove(before.first);
            whole.first = before.first;
        }
        if let Some(after) = self.at_or_below(run.end()).filter(|after| after.first == run.end()) {
            self.remove(after.first);
            whole.end = after.end;
        }
        self.insert(whole);
    }

    /// All gaps by address.
    pub fn all(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        append(self.root.as_deref(), &mut gaps);
        gaps
    }

    /// Finds a fault in the tree itself.
    pub fn check(&self) -> Result<(), String> {
        sound(self.root.as_deref(), &self.alignments)
    }

    /// The alignment that says most about one: the largest that divides it.
    fn class_of(&self, alignment: u64) -> usize {
        self.alignments.iter().rposition(|class| alignment.is_multiple_of(*class)).expect("1 divides all")
    }

    fn insert(&mut self, gap: Gap) {
        debug_assert!(gap.first < gap.end, "{gap:?} has no page");
        self.root = Some(with(self.root.take(), gap, &self.alignments));
    }

    fn remove(&mut self, first: u64) {
        self.root = without(self.root.take(), first, &self.alignments);
    }
}

/// Prints the free gaps, not the shape of the tree, which depends on the order of the calls.
impl fmt::Debug for Gaps {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.all()).finish()
    }
}

impl fmt::Debug for Gap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}..{:#x}", self.first, self.end)
    }
}

impl Wish {
    fn fits(&self, gap: Gap) -> Option<u64> {
        let at = gap.first.checked_next_multiple_of(self.alignment)?;
        (at.checked_add(self.pages)? <= gap.end).then_some(at)
    }

    fn fits_at_the_end(&self, gap: Gap) -> Option<u64> {
        let last = gap.end.checked_sub(self.pages)?;
        Some(last - last % self.alignment).filter(|at| *at >= gap.first)
    }
}

/// The lowest address that fits of the gaps of a subtree that begin behind `minimum`.
fn lowest(tree: Option<&Node>, minimum: u64, wish: &Wish, look: &mut impl FnMut()) -> Option<u64> {
    let node = tree?;
    look();
    if node.longest[wish.class] < wish.pages {
        return None;
    }
    if node.gap.first <= minimum {
        return lowest(node.high.as_deref(), minimum, wish, look);
    }
    lowest(node.low.as_deref(), minimum, wish, look)
        .or_else(|| wish.fits(node.gap))
        .or_else(|| lowest(node.high.as_deref(), minimum, wish, look))
}

/// The highest address that fits of the gaps of a subtree, as far as they lie below `maximum`.
fn highest(tree: Option<&Node>, maximum: u64, wish: &Wish, look: &mut impl FnMut()) -> Option<u64> {
    let node = tree?;
    look();
    if node.longest[wish.class] < wish.pages {
        return None;
    }
    if node.gap.first >= maximum {
        return highest(node.low.as_deref(), maximum, wish, look);
    }
    let cut = Gap { end: node.gap.end.min(maximum), ..node.gap };
    highest(node.high.as_deref(), maximum, wish, look)
        .or_else(|| wish.fits_at_the_end(cut))
        .or_else(|| highest(node.low.as_deref(), maximum, wish, look))
}

fn with(tree: Tree, gap: Gap, alignments: &[u64; ALIGNMENTS]) -> Box<Node> {
    let Some(mut node) = tree else {
        let longest = alignments.map(|alignment| run_from(gap, alignment));
        return Box::new(Node { gap, longest, height: 1, low: None, high: None });
    };
    match gap.first < node.gap.first {
        true => node.low = Some(with(node.low.take(), gap, alignments)),
        false => node.high = Some(with(node.high.take(), gap, alignments)),
    }
    balanced(node, alignments)
}

fn without(tree: Tree, first: u64, alignments: &[u64; ALIGNMENTS]) -> Tree {
    let mut node = tree.expect("a gap begins there");
    match first.cmp(&node.gap.first) {
        Ordering::Less => node.low = without(node.low.take(), first, alignments),
        Ordering::Greater => node.high = without(node.high.take(), first, alignments),
        Ordering::Equal => {
            let Some(high) = node.high.take() else { return node.low };
            (node.gap, node.high) = without_lowest(high, alignments);
        }
    }
    Some(balanced(node, alignments))
}

fn without_lowest(mut node: Box<Node>, alignments: &[u64; ALIGNMENTS]) -> (Gap, Tree) {
    let Some(low) = node.low.take() else { return (node.gap, node.high) };
    let (gap, rest) = without_lowest(low, alignments);
    node.low = rest;
    (gap, Some(balanced(node, alignments)))
}

/// A node whose subtrees are balanced and differ by two in height at most, balanced itself.
fn balanced(mut node: Box<Node>, alignments: &[u64; ALIGNMENTS]) -> Box<Node> {
    let (low, high) = (height(&node.low), height(&node.high));
    if low > high + 1 {
        let child = node.low.take().expect("it is the higher one");
        let leans_in = height(&child.high) > height(&child.low);
        node.low = Some(if leans_in { raised_high(child, alignments) } else { child });
        return raised_low(node, alignments);
    }
    if high > low + 1 {
        let child = node.high.take().expect("it is the higher one");
        let leans_in = height(&child.low) > height(&child.high);
        node.high = Some(if leans_in { raised_low(child, alignments) } else { child });
        return raised_high(node, alignments);
    }
    summed(node, alignments)
}

/// The lower child becomes the parent of its parent.
fn raised_low(mut node: Box<Node>, alignments: &[u64; ALIGNMENTS]) -> Box<Node> {
    let mut child = node.low.take().expect("the child that is raised");
    node.low = child.high.take();
    child.high = Some(summed(node, alignments));
    summed(child, alignments)
}

/// So does the higher one.
fn raised_high(mut node: Box<Node>, alignments: &[u64; ALIGNMENTS]) -> Box<Node> {
    let mut child = node.high.take().expect("the child that is raised");
    node.high = child.low.take();
    child.low = Some(summed(node, alignments));
    summed(child, alignments)
}

/// A node with what it says of its subtrees as they are now.
fn summed(mut node: Box<Node>, alignments: &[u64; ALIGNMENTS]) -> Box<Node> {
    node.height = 1 + height(&node.low).max(height(&node.high));
    node.longest = longest(&node, alignments);
    node
}

fn longest(node: &Node, alignments: &[u64; ALIGNMENTS]) -> [u64; ALIGNMENTS] {
    let below = |tree: &Tree, class: usize| tree.as_ref().map_or(0, |node| node.longest[class]);
    std::array::from_fn(|class| {
        run_from(node.gap, alignments[class]).max(below(&node.low, class)).max(below(&node.high, class))
    })
}

/// Pages of a gap from its first multiple of an alignment on.
fn run_from(gap: Gap, alignment: u64) -> u64 {
    gap.first.checked_next_multiple_of(alignment).map_or(0, |at| gap.end.saturating_sub(at))
}

fn height(tree: &Tree) -> u8 {
    tree.as_ref().map_or(0, |node| node.height)
}

fn append(tree: Option<&Node>, gaps: &mut Vec<Gap>) {
    if let Some(node) = tree {
        append(node.low.as_deref(), gaps);
        gaps.push(node.gap);
        append(node.high.as_deref(), gaps);
    }
}

fn sound(tree: Option<&Node>, alignments: &[u64; ALIGNMENTS]) -> Result<(), String> {
    let Some(node) = tree else { return Ok(()) };
    sound(node.low.as_deref(), alignments)?;
    sound(node.high.as_deref(), alignments)?;
    let (low, high) = (height(&node.low), height(&node.high));
    if low.abs_diff(high) > 1 || node.height != 1 + low.max(high) {
        return Err(format!("gap {:?} stands above {low} and {high} levels of gaps", node.gap));
    }
    if node.longest != longest(node, alignments) {
        return Err(format!("gap {:?} does not know the longest run below it: {:?}", node.gap, node.longest));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
