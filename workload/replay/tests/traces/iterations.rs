//! Traces of several iterations: gradients die where the next iteration clears or writes them.

use replay::{Lifetime, Workload};
use serde_json::Value;

use crate::hand::{ADD, EMPTY, MM, import, node, row, tensor, told};

const FOREACH: &str = "aten::_foreach_add_(Tensor(a!)[] self, Tensor[] other) -> ()";

/// A training program, written down call by call.
#[derive(Default)]
struct Program(Vec<Value>);

impl Program {
    fn call(&mut self, name: &str, schema: &str, inputs: &[Value], outputs: &[Value]) {
        let id = self.0.len() as u64 + 1;
        self.0.push(node(id, 0, name, schema, inputs, outputs));
    }

    fn mark(&mut self, name: &str) {
        self.call(name, "", &[], &[]);
    }

    /// A gradient of 800 bytes from the weights in storage 5, handed over.
    fn backward(&mut self, gradient: u64) {
        self.call("aten::mm", MM, &[tensor(5, 100)], &[tensor(gradient, 200)]);
        self.call("torch::autograd::AccumulateGrad", "", &[tensor(gradient, 200)], &[]);
    }

    fn optimize(&mut self, parameter: u64, gradient: u64) {
        self.call("aten::add_", ADD, &[tensor(parameter, 100), tensor(gradient, 200)], &[tensor(parameter, 100)]);
    }

    fn imported(&self) -> Workload {
        import("1.1.1", &self.0).unwrap()
    }
}

fn deaths(workload: &Workload) -> Vec<usize> {
    let told = told(workload);
    told.iter().enumerate().filter(|(_, row)| row.0.is_empty()).map(|(index, _)| index).collect()
}

#[test]
fn a_gradient_dies_where_it_is_cleared() {
    let mut program = Program::default();
    for (iteration, gradient) in [7, 8, 9].into_iter().enumerate() {
        program.mark(&format!("ProfilerStep#{iteration}"));
        program.call("aten::mul", MM, &[tensor(5, 100)], &[]); // the data are prepared
        program.mark("Optimizer.zero_grad#SGD.zero_grad");
        program.backward(gradient);
        program.optimize(5, gradient);
    }
    let workload = program.imported();
    assert_eq!(workload.import().iterations, 3);
    assert_eq!((workload.ops(), workload.peak_bytes(1)), (9, 400 + 800));
    assert_eq!(deaths(&workload), [4, 8], "behind the preparation, before the backward pass");
    assert_eq!(workload.lifetimes(), [Lifetime::Kept, Lifetime::Passing, Lifetime::Passing, Lifetime::LeftOver]);
}

#[test]
fn without_marks_it_dies_where_the_next_one_is_born() {
    let mut program = Program::default();
    for gradient in [7, 8, 9] {
        program.call("aten::mul", MM, &[tensor(5, 100)], &[]);
        program.backward(gradient);
        program.optimize(5, gradient);
    }
    let workload = program.imported();
    assert_eq!((workload.import().iterations, workload.peak_bytes(1)), (3, 1200));
    assert_eq!(deaths(&workload), [4, 8]);
    let mut marked = Program::default();
    for (iteration, gradient) in [7, 8].into_iter().enumerate() {
        marked.mark(&format!("ProfilerStep#{iteration}"));
        marked.call("aten::mul", MM, &[tensor(5, 100)], &[]);
        marked.backward(gradient);
        marked.optimize(5, gradient);
    }
    assert_eq!(deaths(&marked.imported()), [3], "an iteration's begin is the next best mark");
}

/// Two optimizers take turns: that one clears its gradients does not end the other's, as long as it has no successor.
#[test]
fn gradients_of_another_optimizer_stay() {
    let mut program = Program::default();
    for (parameter, gradient) in [(5, 7), (6, 8)] {
        program.mark("Optimizer.zero_grad#Adam.zero_grad");
        program.backward(gradient);
        program.optimize(parameter, gradient);
    }
    let workload = program.imported();
    assert_eq!((workload.import().iterations, deaths(&workload)), (1, vec![]));
    for (parameter, gradient) in [(5, 9), (6, 10)] {
        program.mark("Optimizer.zero_grad#Adam.zero_grad");
        program.backward(gradient);
        program.optimize(parameter, gradient);
    }
    let workload = program.imported();
    assert_eq!(workload.import().iterations, 2);
    assert_eq!(workload.peak_bytes(1), 2 * 400 + 2 * 800, "one gradient of each is alive at any time");
}

/// Many parameters in one update.
#[test]
fn fused_updates_have_successors_too() {
    let mut program = Program::default();
    for (one, two) in [(7, 8), (9, 10), (11, 12)] {
        program.backward(one);
        program.backward(two);
        let mut list = node(program.0.len() as u64 + 1, 0, "aten::_foreach_add_", FOREACH, &[], &[]);
        list["inputs"] = serde_json::json!({
            "values": [[tensor(5, 100), tensor(6, 100)], [tensor(one, 200), tensor(two, 200)]],
            "shapes": [[[100], [100]], [[200], [200]]],
            "types": ["GenericList[Tensor(float),Tensor(float)]", "GenericList[Tensor(float),Tensor(float)]"],
        });
        program.0.push(list);
    }
    let workload = program.imported();
    assert_eq!((workload.import().iterations, workload.peak_bytes(1)), (3, 2 * 400 + 2 * 800));
}

/// Forward and backward alone, no optimizer in the trace: a clearing ends what was handed over before it.
#[test]
fn gradients_that_nothing_uses_die_at_the_next_clearing() {
    let mut program = Program::default();
    for gradient in [7, 8] {
        program.mark("Optimizer.zero_grad#SGD.zero_grad");
        program.backward(gradient);
    }
    assert_eq!(program.imported().peak_bytes(1), 1200);
    program.mark("Optimizer.zero_grad#SGD.zero_grad");
    assert_eq!(program.imported().lifetimes()[2], Lifetime::LeftOver, "nothing follows: the next step begins so");
}

/// Gradient accumulation: a tensor added to an existing gradient dies, the gradient stays.
#[test]
fn what_is_added_to_a_gradient_passes() {
    let mut program = Program::default();
    program.backward(7);
    program.call("aten::mm", MM, &[tensor(5, 100)], &[tensor(8, 200)]);
    program.call("torch::autograd::AccumulateGrad", "", &[tensor(8, 200)], &[]);
    let parent = program.0.len() as u64;
    program.0.push(node(parent + 1, parent, "aten::add_", ADD, &[tensor(7, 200), tensor(8, 200)], &[tensor(7, 200)]));
    program.optimize(5, 7);
    let workload = program.imported();
    assert_eq!(workload.lifetimes(), [Lifetime::Kept, Lifetime::LeftOver, Lifetime::Passing]);
    assert_eq!(told(&workload)[3], row("", &[800], &[]));
}

/// The bucket's part becomes the parameter's gradient, and the optimizer uses that.
#[test]
fn a_gradient_that_goes_into_a_bucket_dies_there() {
    let copy = |program: &mut Program| {
        let range = program.0.len() as u64 + 1;
        program.mark("torch::distributed::reducer::mul_out");
        let out = "aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)";
        program.0.push(node(range + 1, range, "aten::mul", out, &[tensor(7, 200), tensor(6, 200)], &[tensor(6, 200)]));
    };
    let mut program = Program::default();
    program.backward(7);
    copy(&mut program);
    program.optimize(5, 6);
    assert_eq!(program.imported().lifetimes(), [Lifetime::Kept, Lifetime::Kept, Lifetime::Passing]);
    let mut copied_back = Program::default();
    copied_back.backward(7);
    copy(&mut copied_back);
    copied_back.call("aten::copy_", ADD, &[tensor(7, 200), tensor(6, 200)], &[tensor(7, 200)]);
    copied_back.optimize(5, 7);
    assert_eq!(copied_back.imported().lifetimes()[2], Lifetime::LeftOver);
}

/// The update takes what was made of the gradient, not the gradient: `p -= p.grad * rate`.
#[test]
fn an_update_with_what_was_made_of_a_gradient_counts() {
    let mut program = Program::default();
    for (gradient, temporary) in [(7, 10), (8, 11), (9, 12)] {
        program.backward(gradient);
        program.call("aten::mul", MM, &[tensor(gradient, 200)], &[tensor(temporary, 200)]);
        program.optimize(5, temporary);
    }
    let workload = program.imported();
    assert_eq!((workload.import().iterations, workload.peak_bytes(1)), (3, 400 + 2 * 800));
}

/// A moment that is born in the first step carries its gradient, and is updated with the second.
#[test]
fn a_state_that_is_born_in_the_trace_is_updated_from_the_second_gradient_on() {
    let mut program = Program::default();
    for (gradient, first) in [(7, true), (8, false), (9, false)] {
        program.backward(gradient);
        if first {
            program.call("aten::mul", MM, &[tensor(gradient, 200)], &[tensor(20, 200)]);
        } else {
            program.optimize(20, gradient);
        }
        program.optimize(5, 20);
    }
    let workload = program.imported();
    assert_eq!((workload.import().iterations, workload.peak_bytes(1)), (3, 400 + 2 * 800));
}

/// Without a mark the first successor ends the whole pass: a program clears all gradients before it makes new ones.
#[test]
fn gradients_of_a_pass_die_together() {
    let mut program = Program::default();
    for gradients in [[7, 8], [9, 10]] {
        gradients.into_iter().for_each(|gradient| program.backward(gradient));
        for (parameter, gradient) in [(5, gradients[0]), (6, gradients[1])] {
            program.optimize(parameter, gradient);
        }
    }
    assert_eq!(deaths(&program.imported()), [4, 5]);
}

/// An id that names another storage: its gradient is cleared, so those of the same pass are as soon as the update has used them.
#[test]
fn a_reused_id_tells_that_gradients_are_cleared() {
    let mut program = Program::default();
    program.backward(7);
    program.backward(8);
    program.optimize(5, 7);
    program.call("aten::mul", MM, &[tensor(5, 100)], &[tensor(7, 200)]);
    program.optimize(6, 8);
    program.call("aten::mul", MM, &[tensor(5, 100)], &[]);
    let workload = program.imported();
    assert_eq!(deaths(&workload), [3, 5, 7], "the first gradient, its id's next storage, the second gradient");
}

/// What comes out of a reduce-scatter is the gradient then, and outlives the trace in its place.
#[test]
fn a_scattered_gradient_passes_its_role_on() {
    let scatter = "c10d::_reduce_scatter_base_(Tensor output_tensor, Tensor input_tensor) -> (Tensor, Work)";
    let mut program = Program::default();
    program.backward(7);
    let (shard, whole) = (tensor(8, 100), tensor(7, 200));
    program.call("aten::empty", EMPTY, &[], std::slice::from_ref(&shard));
    program.call("c10d::_reduce_scatter_base_", scatter, &[shard.clone(), whole], &[shard]);
    program.optimize(5, 8);
    let workload = program.imported();
    assert_eq!(workload.lifetimes(), [Lifetime::Kept, Lifetime::Passing, Lifetime::LeftOver]);
}
