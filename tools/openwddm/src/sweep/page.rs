//! The picture of a sweep: one HTML file that needs nothing but a browser, and no network. The curves are drawn by uPlot, which lies in the
//! page with its licence; the data are one block of JSON, from which the page's script makes text nodes only (see `report`).
//!
//! Called by the command line.

use serde_json::{Value, json};

use crate::report::{fill, harmless};
use crate::sweep::row::Row;
use crate::sweep::{Knee, Swept};

/// The whole file.
pub fn page(swept: &Swept, knees: &[Knee], target_millionths: u64) -> String {
    // A knee for each curve, in the order of the rows.
    let mut knees = knees.iter();
    let tables: Vec<Value> = swept.rows.chunk_by(Row::is_in_table_of).map(|rows| one(rows, &mut knees)).collect();
    let data = json!({
        "tables": tables,
        "target": target_millionths,
        "imports": swept.imports.iter().map(|imported| json!([imported.workload, imported.sentences()])).collect::<Vec<_>>(),
        "missing": swept.missing,
        "interrupted": swept.interrupted,
        "left_out": swept.unfit.iter().map(|unfit| json!([unfit.workload, unfit.processes, unfit.asked_bytes])).collect::<Vec<_>>(),
    });
    let parts = [
        ("{{licence}}", include_str!("page/uplot/LICENSE").to_owned()),
        ("{{uplot_style}}", include_str!("page/uplot/uPlot.min.css").to_owned()),
        ("{{report_style}}", include_str!("../report/page.css").to_owned()),
        ("{{style}}", include_str!("page/page.css").to_owned()),
        ("{{data}}", harmless(&data.to_string())),
        ("{{uplot}}", include_str!("page/uplot/uPlot.iife.min.js").to_owned()),
        ("{{script}}", include_str!("page/page.js").to_owned()),
    ];
    fill(include_str!("page/page.html"), &parts)
}

/// One workload in so many processes: its curves over common sizes, and what the bound has there.
fn one<'a>(rows: &[Row], knees: &mut impl Iterator<Item = &'a Knee>) -> Value {
    let first = &rows[0];
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.vram_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let at = |size: &u64, rows: &[Row]| rows.iter().find(|row| row.vram_bytes == *size).cloned();
    let over = |rows: &[Row], value: &dyn Fn(Row) -> Option<u64>| -> Vec<Option<u64>> {
        sizes.iter().map(|size| at(size, rows).and_then(value)).collect()
    };
    let mut curve = |rows: &[Row]| {
        let knee = knees.next();
        json!({
            "policy": rows[0].policy,
            "share": over(rows, &|row| Some(row.share_millionths)),
            "moved": over(rows, &|row| Some(row.moved_bytes())),
            "knee": knee.and_then(|knee| knee.needed_bytes),
            "sentence": knee.map(|knee| &knee.sentence),
        })
    };
    let known = |value: &dyn Fn(&Row) -> Option<u64>| -> Vec<Option<u64>> {
        let of = |size: &u64| rows.iter().filter(|row| row.vram_bytes == *size).find_map(value);
        sizes.iter().map(of).collect()
    };
    json!({
        "workload": first.workload,
        "adapter": first.adapter,
        "processes": first.processes,
        "steps": first.steps,
        "link": first.link_bytes_per_us,
        "peak": first.peak_bytes,
        "last_step": first.last_step_ideal_ns.is_some(),
        "sizes": sizes,
        "at_best": known(&|row| row.share_at_best_millionths),
        "fewest": known(&|row| row.fewest_bytes),
        "curves": rows.chunk_by(Row::is_on_curve_of).map(&mut curve).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(workload: &str) -> Swept {
        let row = |policy: &str, vram_bytes| Row {
            workload: workload.to_owned(),
            policy: policy.to_owned(),
            processes: 1,
            asked_bytes: vram_bytes,
            vram_bytes,
            peak_bytes: 200,
            share_millionths: vram_bytes * 5_000,
            paged_in_bytes: 7,
            fewest_bytes: Some(5),
            last_step_ideal_ns: Some(1),
            ..Row::default()
        };
        let rows = vec![row("lru", 100), row("lru", 200), row("kept", 100)];
        Swept { rows, ..Swept::default() }
    }

    #[test]
    fn names_cannot_leave_the_data_and_the_page_fetches_nothing() {
        let swept = swept("</script><b>&\u{2028}");
        let page = page(&swept, &crate::sweep::knees(&swept.rows, 950_000), 950_000);
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(!page.contains("<b>&") && page.contains("default-src 'none'"));
        let own = include_str!("page/page.js").to_owned() + include_str!("page/page.html");
        for word in ["http", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "src="] {
            assert!(!own.replace("http-equiv", "").contains(word), "{word}");
        }
        assert!(page.contains("Copyright (c) 2022 Leon Sorokin") && page.contains("The above copyright notice"));
    }

    #[test]
    fn curves_stand_over_common_sizes() {
        let swept = swept("net");
        let table = one(&swept.rows, &mut crate::sweep::knees(&swept.rows, 950_000).iter());
        assert_eq!(table["sizes"], json!([100, 200]));
        assert_eq!(table["fewest"], json!([5, 5]));
        assert_eq!(table["curves"][0]["share"], json!([500_000, 1_000_000]));
        assert_eq!(table["curves"][0]["knee"], 200);
        assert_eq!(table["curves"][1]["share"], json!([500_000, null]));
        assert_eq!(table["curves"][1]["moved"], json!([7, null]));
        assert_eq!(table["curves"][1]["knee"], json!(null));
    }
}
