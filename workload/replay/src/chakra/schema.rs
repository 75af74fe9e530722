//! Reads an operator's schema: which arguments it takes and writes, and whether it only answers a question.
//!
//! `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`: a mark `!` on an argument is a
//! declared write. Collectives declare none; `collective` knows them by the names of their arguments.
//! Called by `trace` for every node; knows no tensors.

/// One argument of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument {
    /// Its name.
    pub name: String,
    /// The schema declares that it is written.
    pub written: bool,
    /// Its type has tensors.
    pub has_tensors: bool,
}

/// The arguments of a schema in the order of a node's values. The star that opens the keyword arguments takes no place
/// among the values.
pub(super) fn arguments(schema: &str) -> Vec<Argument> {
    let Some(open) = schema.find('(') else { return Vec::new() };
    let (mut depth, mut arguments, mut text) = (0usize, Vec::new(), String::new());
    let mut end_argument = |text: &mut String| {
        if !matches!(text.trim(), "" | "*") {
            let declared = text.split('=').next().unwrap_or_default().trim();
            arguments.push(Argument {
                name: declared.rsplit(' ').next().unwrap_or_default().to_owned(),
                written: declared.contains('!'),
                has_tensors: declared.starts_with("Tensor"),
            });
        }
        text.clear();
    };
    for letter in schema[open + 1..].chars() {
        match letter {
            ')' if depth == 0 => break,
            ',' if depth == 0 => {
                end_argument(&mut text);
                continue;
            }
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        text.push(letter);
    }
    end_argument(&mut text);
    arguments
}

/// The last part of a name: `size` of `aten::size`.
pub(super) fn short_name(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// Operators that read a tensor's content though they return no tensor.
const READ_FOR_AN_ANSWER: [&str; 6] =
    ["item", "_local_scalar_dense", "equal", "is_nonzero", "allclose", "_assert_async"];

/// Operators that only look at a tensor's description, or only keep a stream or a mark beside it, by name: for traces
/// whose schema does not name the results, and for operators that return nothing or a tensor of numbers.
const DESCRIPTION_ONLY: [&str; 47] = [
    "size",
    "sizes",
    "sym_size",
    "stride",
    "strides",
    "sym_stride",
    "numel",
    "sym_numel",
    "storage_offset",
    "sym_storage_offset",
    "dim",
    "ndimension",
    "dense_dim",
    "sparse_dim",
    "is_contiguous",
    "sym_is_contiguous",
    "is_strides_like_format",
    "is_strides_like",
    "is_non_overlapping_and_dense",
    "is_same_size",
    "is_set_to",
    "result_type",
    "can_cast",
    "promote_types",
    "is_complex",
    "is_floating_point",
    "is_signed",
    "is_conj",
    "is_neg",
    "is_inference",
    "is_leaf",
    "is_pinned",
    "is_coalesced",
    "is_distributed",
    "layout",
    "device",
    "dtype",
    "element_size",
    "qscheme",
    "output_nr",
    "_version",
    "retain_grad",
    "retains_grad",
    "requires_grad_",
    "record_stream",
    "_nested_tensor_size",
    "_assert_tensor_metadata",
];

/// Whether an operator only asks for a tensor's description: no byte of the content moves.
pub(super) fn is_query(name: &str, schema: &str) -> bool {
    let short = short_name(name);
    if READ_FOR_AN_ANSWER.contains(&short) {
        return false;
    }
    if DESCRIPTION_ONLY.contains(&short) {
        return true;
    }
    let is_ours = name.starts_with("aten::") || name.starts_with("prim::");
    let has_write = arguments(schema).iter().any(|argument| argument.written);
    let answers = schema.rsplit_once("->").is_some_and(|(_, returned)| is_description(returned.trim()));
    is_ours && answers && !has_write
}

/// Whether a type of a result is part of a tensor's description. A `Scalar` is content.
fn is_description(returned: &str) -> bool {
    const KINDS: [&str; 9] =
        ["int", "SymInt", "bool", "SymBool", "ScalarType", "Layout", "Device", "QScheme", "MemoryFormat"];
    KINDS.contains(&returned.trim_end_matches("[]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_names_and_marks() {
        let told = |schema: &str| -> Vec<(String, bool, bool)> {
            arguments(schema).into_iter().map(|a| (a.name, a.written, a.has_tensors)).collect()
        };
        let row = |name: &str, written, has_tensors| (name.to_owned(), written, has_tensors);
        assert_eq!(
            told("aten::mm(Tensor self, Tensor mat2) -> Tensor"),
            [row("self", false, true), row("mat2", false, true)]
        );
        assert_eq!(
            told("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
            [row("self", true, true), row("other", false, true), row("alpha", false, false)]
        );
        assert_eq!(
            told("f(Tensor x, int[2] pad=[0, 0], *, Tensor(a!)[] out) -> ()"),
            [row("x", false, true), row("pad", false, false), row("out", true, true)]
        );
        assert_eq!(told("aten::new() -> Tensor(a!)"), []);
        assert_eq!(told("no parentheses"), []);
    }

    #[test]
    fn questions_are_known_by_name_and_by_answer() {
        let asks = [
            ("aten::size", "aten::size.int(Tensor self, int dim) -> int"),
            ("aten::sym_size", "aten::sym_size.int(Tensor self, int dim) -> SymInt"),
            ("aten::is_same_size", "aten::is_same_size(Tensor self, Tensor other) -> bool"),
            ("aten::result_type", "aten::result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType"),
            ("aten::stride", ""),
            ("aten::_fused_sdp_choice", "aten::_fused_sdp_choice(Tensor query, Tensor key, Tensor value) -> int"),
            ("prim::device", "prim::device(Tensor a) -> Device"),
            ("aten::record_stream", "aten::record_stream(Tensor(a!) self, Stream s) -> ()"),
        ];
        for (name, schema) in asks {
            assert!(is_query(name, schema), "{name}");
        }
        let works = [
            ("aten::item", "aten::item(Tensor self) -> Scalar"),
            ("aten::equal", "aten::equal(Tensor self, Tensor other) -> bool"),
            ("aten::_local_scalar_dense", "aten::_local_scalar_dense(Tensor self) -> Scalar"),
            ("mine::checksum", "mine::checksum(Tensor self) -> int"),
            ("aten::_foreach_add_", "aten::_foreach_add_(Tensor(a!)[] self, Tensor[] other) -> ()"),
            ("aten::mm", "aten::mm(Tensor self, Tensor mat2) -> Tensor"),
        ];
        for (name, schema) in works {
            assert!(!is_query(name, schema), "{name}");
        }
    }
}
