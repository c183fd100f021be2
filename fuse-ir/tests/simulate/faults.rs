//! One planted fault for each detector and each kind of synchronisation: found, and silent when it is repaired.

use super::run::Launch;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::id::ViewId;
use fuse_ir::kernel_ir::build::{Builder, block_x, element, slots, thread_x};
use fuse_ir::kernel_ir::{AtomicOp, Block, Builtin, Expr, Kernel, Scope, ShuffleKind, Stmt, Unroll, Usage};
use fuse_ir::simulate::{
    AccessKind, Argument, Fault, FaultKind, SimulateError, SimulateOptions, simulate_kernel,
};

/// Elements of `x` and `out`, and threads of a block.
const LEN: u32 = 64;

/// A kernel over `x` (u32, read), `out` (u32, written, twice as long) and a tile in shared memory.
struct Plant {
    b: Builder,
    x: fuse_ir::id::ArgId,
    out: fuse_ir::id::ArgId,
    tile: ViewId,
}

fn plant(f: impl FnOnce(&mut Plant)) -> Kernel {
    plant_over(1, f)
}

fn plant_over(blocks: u64, f: impl FnOnce(&mut Plant)) -> Kernel {
    let mut b = Builder::new("planted");
    b.launch([blocks.into(), 1.into(), 1.into()], [LEN, 1, 1], 1024);
    let x = b.pointer_aligned("x", DType::U32, Usage::ReadWrite, 16);
    let out = b.pointer_aligned("out", DType::U32, Usage::ReadWrite, 16);
    let tile = b.view("tile", DType::U32, 0, 256);
    let mut plant = Plant { b, x, out, tile };
    f(&mut plant);
    plant.b.finish().unwrap_or_else(|e| panic!("{e}"))
}

/// The faults of a kernel that [`plant`] made.
fn run(kernel: &Kernel) -> Vec<Fault> {
    let mut launch = Launch::default();
    launch.pass(DType::U32, (0..LEN).map(f64::from));
    launch.pass_empty(DType::U32, 2 * LEN as usize);
    let report = launch.run(kernel);
    for fault in &report.faults {
        // The message names the place.
        let text = fault.to_string();
        assert!(text.contains("planted") && text.contains(&fault.statement), "{text}");
    }
    report.faults
}

fn check_silent(kernel: &Kernel) {
    let faults: Vec<String> = run(kernel).iter().map(|f| f.to_string()).collect();
    assert!(faults.is_empty(), "{faults:#?}\n{kernel}");
}

/// All faults are of this kind, and there are some; the first.
fn check_found(kernel: &Kernel, is: impl Fn(&FaultKind) -> bool) -> Fault {
    let faults = run(kernel);
    let texts: Vec<String> = faults.iter().map(|f| f.to_string()).collect();
    assert!(!faults.is_empty(), "nothing is found in\n{kernel}");
    assert!(faults.iter().all(|f| is(&f.kind)), "{texts:#?}\n{kernel}");
    faults[0].clone()
}

/// A zero that only the run knows.
fn zero() -> Expr {
    thread_x() / LEN
}

fn is_race(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Race { .. })
}

/// Edits statements that the verifier would refuse to build.
fn edit(block: &mut Block, f: &mut impl FnMut(&mut Stmt)) {
    for stmt in block {
        f(stmt);
        match stmt {
            Stmt::If { then, otherwise, .. } => {
                edit(then, f);
                edit(otherwise, f);
            }
            Stmt::For { body, .. } => edit(body, f),
            _ => {}
        }
    }
}

/// Each thread reads what another one wrote.
fn exchange(synchronise: impl FnOnce(&mut Builder), partner: impl FnOnce(Expr) -> Expr) -> Kernel {
    plant(|p| {
        let own = p.b.load("own", p.x, thread_x(), None);
        p.b.store(p.tile, thread_x(), own, None);
        synchronise(&mut p.b);
        let other = p.b.load("other", p.tile, partner(thread_x()), None);
        p.b.store(p.out, thread_x(), other, None);
    })
}

#[test]
fn missing_block_barrier() {
    let reversed = |t: Expr| Expr::from(LEN - 1) - t;
    let fault = check_found(&exchange(|_| (), reversed), is_race);
    assert_eq!((fault.block, fault.path.as_slice()), ([0; 3], [2].as_slice()));
    let FaultKind::Race { memory, access, other, at } = fault.kind else { panic!() };
    assert_eq!((memory.as_str(), access, other.access), ("tile", AccessKind::Read, AccessKind::Write));
    assert_eq!(other.thread, Some([LEN - 1 - fault.thread[0], 0, 0]));
    assert_eq!(at, 4 * i64::from(LEN - 1 - fault.thread[0]));
    assert!(other.statement.starts_with("store.u32 tile"), "{}", other.statement);
    // A barrier of the warp does not order what two warps do.
    check_found(&exchange(Builder::warp_barrier, reversed), is_race);
    check_silent(&exchange(Builder::block_barrier, reversed));
}

#[test]
fn missing_warp_barrier() {
    let neighbour = |t: Expr| t ^ 1u32;
    let fault = check_found(&exchange(|_| (), neighbour), is_race);
    let FaultKind::Race { other, .. } = fault.kind else { panic!() };
    assert_eq!(other.thread, Some([fault.thread[0] ^ 1, 0, 0]));
    check_silent(&exchange(Builder::warp_barrier, neighbour));
    check_silent(&exchange(Builder::block_barrier, neighbour));
    // What a lane wrote it may read.
    check_silent(&exchange(|_| (), |t| t));
}

/// A shuffle brings the lanes together and orders nothing.
#[test]
fn a_shuffle_is_no_barrier() {
    let shuffle = |b: &mut Builder| {
        b.shuffle("s", ShuffleKind::Xor, thread_x(), 1u32, 32);
    };
    check_found(&exchange(shuffle, |t| t ^ 1u32), is_race);
}

/// Read, then written by another thread: the reader must be through.
#[test]
fn written_after_a_read() {
    let kernel = |scope: Option<Scope>, distance: u32| {
        plant(|p| {
            p.b.store(p.tile, thread_x(), thread_x(), None);
            p.b.block_barrier();
            let value = p.b.load("value", p.tile, thread_x(), None);
            if let Some(scope) = scope {
                p.b.push(Stmt::Barrier(scope));
            }
            p.b.store(p.tile, thread_x() ^ distance, value, None);
        })
    };
    check_found(&kernel(None, 1), is_race);
    check_silent(&kernel(Some(Scope::Warp), 1));
    check_found(&kernel(None, 32), is_race);
    check_found(&kernel(Some(Scope::Warp), 32), is_race);
    check_silent(&kernel(Some(Scope::Block), 32));
}

/// All lanes read one word, one of them writes it: whichever it is, it conflicts with the others.
#[test]
fn written_by_one_of_many_readers() {
    for writer in [0u32, 1, 31, 32, 63] {
        let kernel = |scope: Option<Scope>| {
            plant(|p| {
                p.b.if_then(thread_x().equals(5u32), |b| b.store(p.tile, 0u32, 7u32, None));
                p.b.block_barrier();
                p.b.load("value", p.tile, 0u32, None);
                if let Some(scope) = scope {
                    p.b.push(Stmt::Barrier(scope));
                }
                p.b.if_then(thread_x().equals(writer), |b| b.store(p.tile, 0u32, 8u32, None));
            })
        };
        check_found(&kernel(None), is_race);
        check_found(&kernel(Some(Scope::Warp)), is_race);
        check_silent(&kernel(Some(Scope::Block)));
    }
}

#[test]
fn two_lanes_store_to_one_word() {
    let kernel = |divisor: u32| {
        plant(|p| {
            // Equal values race too.
            p.b.store(p.tile, thread_x() / divisor, 1u32, None);
        })
    };
    check_found(&kernel(2), is_race);
    check_silent(&kernel(1));
}

/// A barrier where not all threads come: the verifier refuses to build it, so it is moved there afterwards.
#[test]
fn barrier_in_a_divergent_branch() {
    for scope in [Scope::Block, Scope::Warp] {
        let mut kernel = plant(|p| {
            p.b.if_then(thread_x().lt(40u32), |b| b.comment("here"));
            p.b.push(Stmt::Barrier(scope));
        });
        check_silent(&kernel);
        edit(&mut kernel.body, &mut |stmt| {
            if let Stmt::If { then, .. } = stmt {
                then.push(Stmt::Barrier(scope));
            }
        });
        let fault = check_found(&kernel, |k| *k == FaultKind::Divergent { scope });
        assert_eq!((fault.path.as_slice(), fault.thread), ([0, 1].as_slice(), [40, 0, 0]));
    }
}

/// Threads leave a loop at different times, and the barrier is in the loop.
#[test]
fn barrier_in_a_loop_of_unequal_length() {
    for scope in [Scope::Block, Scope::Warp] {
        let mut kernel = plant(|p| {
            let end = thread_x() / 32u32 + thread_x() % 2u32 + 1u32;
            p.b.for_each("i", (0u32, end), 1u32, Unroll::None, |b, _| b.comment("here"));
        });
        check_silent(&kernel);
        edit(&mut kernel.body, &mut |stmt| {
            if let Stmt::For { body, .. } = stmt {
                body.push(Stmt::Barrier(scope));
            }
        });
        check_found(&kernel, |k| *k == FaultKind::Divergent { scope });
    }
}

#[test]
fn shuffle_in_a_divergent_branch() {
    let mut kernel = plant(|p| {
        p.b.if_then(thread_x().lt(7u32), |b| b.comment("here"));
        p.b.shuffle("s", ShuffleKind::Xor, thread_x(), 1u32, 32);
    });
    check_silent(&kernel);
    let shuffle = kernel.body.pop().unwrap();
    edit(&mut kernel.body, &mut |stmt| {
        if let Stmt::If { then, .. } = stmt {
            then.push(shuffle.clone());
        }
    });
    let fault = check_found(&kernel, |k| *k == FaultKind::Divergent { scope: Scope::Warp });
    assert_eq!(fault.thread, [7, 0, 0]);
}

/// What of the synchronisation of a pipeline is left out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    Wait,
    /// Waits for one group too few.
    FullWait,
    BarrierAfterWait,
    /// The stage is overwritten while others read it.
    BarrierAfterUse,
    LastWait,
}

/// Two stages of copies; each thread reads what its neighbour in the other warp copied.
fn pipeline(without: Without) -> Kernel {
    plant(|p| {
        let (x, tile) = (p.x, p.tile);
        let copy = |b: &mut Builder, stage: Expr| {
            b.copy_async((tile, stage * LEN + thread_x()), (x, thread_x()), 4, None);
            b.commit_async();
        };
        copy(&mut p.b, 0u32.into());
        let sum = p.b.register("sum", 0u32);
        p.b.for_each("round", (0u32, 4u32), 1u32, Unroll::None, |b, round| {
            copy(b, (&round + 1u32) & 1u32);
            match without {
                Without::Wait => {}
                Without::FullWait => b.wait_async(2),
                _ => b.wait_async(1),
            }
            if without != Without::BarrierAfterWait {
                b.block_barrier();
            }
            let other = b.load("other", tile, (round & 1u32) * LEN + (thread_x() ^ 32u32), None);
            b.set(sum, Expr::from(sum) + other);
            if without != Without::BarrierAfterUse {
                b.block_barrier();
            }
        });
        if without != Without::LastWait {
            p.b.wait_async(0);
        }
        p.b.store(p.out, thread_x(), sum, None);
    })
}

#[test]
fn copies_in_the_background() {
    let in_flight = |k: &FaultKind| matches!(k, FaultKind::InFlight { .. });
    check_silent(&pipeline(Without::Nothing));
    let fault = check_found(&pipeline(Without::Wait), in_flight);
    let FaultKind::InFlight { memory, issuer, .. } = fault.kind else { panic!() };
    assert_eq!((memory.as_str(), issuer), ("tile", [fault.thread[0] ^ 32, 0, 0]));
    check_found(&pipeline(Without::FullWait), in_flight);
    check_found(&pipeline(Without::BarrierAfterWait), is_race);
    check_found(&pipeline(Without::BarrierAfterUse), is_race);
    check_found(&pipeline(Without::LastWait), |k| *k == FaultKind::Unfinished);
}

/// Two copies to the same bytes at once.
#[test]
fn overwritten_stage() {
    let kernel = |stages: u32| {
        plant(|p| {
            for round in 0..2u32 {
                let to = thread_x() + (round % stages) * LEN;
                p.b.copy_async((p.tile, to), (p.x, thread_x()), 4, None);
                p.b.commit_async();
            }
            p.b.wait_async(0);
        })
    };
    check_found(&kernel(1), |k| matches!(k, FaultKind::InFlight { access: AccessKind::Write, .. }));
    check_silent(&kernel(2));
}

/// The source of a copy is written before the wait.
#[test]
fn overwritten_source() {
    let kernel = |wait_first: bool| {
        plant(|p| {
            p.b.copy_async((p.tile, thread_x()), (p.x, thread_x()), 4, None);
            p.b.commit_async();
            if wait_first {
                p.b.wait_async(0);
            }
            p.b.store(p.x, thread_x(), 0u32, None);
            p.b.wait_async(0);
        })
    };
    check_found(&kernel(false), |k| matches!(k, FaultKind::SourceInFlight { .. }));
    check_silent(&kernel(true));
}

#[test]
fn copies_longer_than_they_are() {
    let kernel = |valid: u32| {
        plant(|p| {
            p.b.copy_async((p.tile, thread_x()), (p.x, thread_x()), 4, Some(zero() + valid));
            p.b.commit_async();
            p.b.wait_async(0);
        })
    };
    check_found(&kernel(8), |k| *k == FaultKind::CopyTooLong { valid: 8 });
    check_silent(&kernel(4));
    check_silent(&kernel(0));
}

#[test]
fn two_blocks_on_one_word() {
    let kernel = |apart: bool| {
        plant_over(2, |p| {
            let at = if apart { block_x() * LEN + thread_x() } else { thread_x() };
            p.b.store(p.out, at, thread_x(), None);
        })
    };
    let fault = check_found(&kernel(false), is_race);
    let FaultKind::Race { other, .. } = fault.kind else { panic!() };
    assert_eq!((fault.block, other.block), ([1, 0, 0], [0; 3]));
    check_silent(&kernel(true));
}

/// One block reads what another one writes; barriers order nothing across blocks.
#[test]
fn read_across_blocks() {
    for writer in [0u32, 1] {
        let kernel = |apart: bool| {
            plant_over(2, |p| {
                let (x, out) = (p.x, p.out);
                let own = if apart { writer * 32 } else { 0 };
                p.b.block_barrier();
                p.b.if_else(
                    block_x().equals(writer),
                    |b| b.store(x, own, 9u32, None),
                    |b| {
                        let value = b.load("value", x, 1u32 - u32::from(!apart), None);
                        b.store(out, thread_x(), value, None);
                    },
                );
            })
        };
        let fault_free_alone = kernel(true);
        // All threads of the writing block store to one word: keep one.
        let only_one = |mut kernel: Kernel| {
            edit(&mut kernel.body, &mut |stmt| {
                if let Stmt::Store { access, .. } = stmt
                    && access.index.as_const().is_some()
                {
                    access.when = Some(thread_x().equals(0u32));
                }
            });
            kernel
        };
        check_found(&only_one(kernel(false)), is_race);
        check_silent(&only_one(fault_free_alone));
    }
}

#[test]
fn atomics() {
    // Among themselves they do not race, with others they do.
    let kernel = |plain: bool, blocks: u64| {
        plant_over(blocks, |p| {
            p.b.atomic(AtomicOp::Add, p.x, 3u32, 1u32, None);
            if plain {
                p.b.load("value", p.x, 3u32, Some(thread_x().equals(63u32)));
            }
        })
    };
    check_silent(&kernel(false, 2));
    check_found(&kernel(true, 1), is_race);
    check_found(&kernel(true, 2), is_race);
    let mut launch = Launch::default();
    let x = launch.pass(DType::U32, (0..LEN).map(f64::from));
    launch.pass_empty(DType::U32, 2 * LEN as usize);
    launch.run_clean(&kernel(false, 2));
    assert_eq!(launch.read(x, DType::U32)[3], 3.0 + f64::from(2 * LEN));
}

/// Neighbouring bytes of one word are not one place.
#[test]
fn bytes_side_by_side_do_not_race() {
    let mut b = Builder::new("planted");
    b.launch([4.into(), 1.into(), 1.into()], [32, 1, 1], 32);
    let out = b.pointer("out", DType::U8, Usage::Write);
    let tile = b.view("tile", DType::U8, 0, 32);
    b.store(tile, thread_x(), Expr::Const(Value::U8(1)), None);
    b.store(out, thread_x() * 4u32 + block_x(), Expr::Const(Value::U8(2)), None);
    let kernel = b.finish().unwrap();
    let mut launch = Launch::default();
    let out = launch.pass_empty(DType::U8, 128);
    launch.run_clean(&kernel);
    assert_eq!(launch.read(out, DType::U8), vec![2.0; 128]);
}

/// Views overlap: a race is one of bytes, not of names.
#[test]
fn views_over_the_same_bytes() {
    let kernel = |second: u64| {
        plant(|p| {
            let bytes = p.b.view("bytes", DType::U8, second, 64);
            p.b.store(p.tile, thread_x(), thread_x(), None);
            p.b.store(bytes, thread_x(), Expr::Const(Value::U8(1)), None);
        })
    };
    check_found(&kernel(0), is_race);
    check_silent(&kernel(256));
}

#[test]
fn out_of_bounds() {
    let out_of = |memory: &'static str, byte: i64| move |k: &FaultKind| matches!(k, FaultKind::OutOfBounds { memory: m, at, .. } if m == memory && *at == byte);
    let global = |index: Expr, when: Option<Expr>| {
        plant(|p| {
            let value = p.b.load("value", p.x, index, when);
            p.b.store(p.out, thread_x(), value, None);
        })
    };
    check_found(&global(thread_x() + 1u32, None), out_of("x", 256));
    check_silent(&global(thread_x() + 1u32, Some(thread_x().lt(63u32))));
    // Before the start, by an index that wraps and one that is negative.
    check_found(&global(thread_x().cast(DType::U64) - 1u64, None), out_of("x", -4));
    check_found(&global(thread_x().cast(DType::I32) - 1i32, None), out_of("x", -4));
    // 32 bits wrap before they are widened.
    check_found(&global(thread_x() - 1u32, None), |k| matches!(k, FaultKind::OutOfBounds { .. }));
    // A view ends before the shared memory does.
    let shared = |len: u64| {
        plant(|p| {
            let small = p.b.view("small", DType::U32, 0, len);
            p.b.store(small, thread_x(), 1u32, None);
        })
    };
    check_found(&shared(63), out_of("small", 252));
    check_silent(&shared(64));
    // The source of a copy, and of a store.
    let copy = |valid: Option<Expr>| {
        plant(|p| {
            p.b.copy_async((p.tile, thread_x()), (p.x, thread_x() + 1u32), 4, valid);
            p.b.commit_async();
            p.b.wait_async(0);
        })
    };
    check_found(&copy(None), out_of("x", 256));
    check_silent(&copy(Some(thread_x().lt(63u32).select(4u32, 0u32))));
}

/// The verifier refuses what is not known to be aligned, so the index is moved afterwards.
#[test]
fn misaligned() {
    for global in [true, false] {
        let mut kernel = plant(|p| {
            let words = p.b.array("words", DType::U32, 4, Some(Value::U32(1)));
            let when = Some(thread_x().lt(8u32));
            if global {
                p.b.load_into(slots(words, 0u32, 4), p.x, thread_x() * 4u32, when);
            } else {
                p.b.store_from(p.tile, thread_x() * 4u32, slots(words, 0u32, 4), when);
            }
        });
        check_silent(&kernel);
        edit(&mut kernel.body, &mut |stmt| {
            if let Stmt::Load { access, .. } | Stmt::Store { access, .. } = stmt {
                access.index = access.index.clone() + 2u32;
            }
        });
        let fault = check_found(&kernel, |k| matches!(k, FaultKind::Misaligned { at: 8, width: 16, .. }));
        assert_eq!(fault.thread, [0; 3]);
    }
}

#[test]
fn uninitialised() {
    let of = |name: &'static str| move |k: &FaultKind| matches!(k, FaultKind::Uninitialised { memory, .. } if memory == name);
    let shared = |written: u32| {
        plant(|p| {
            p.b.store(p.tile, thread_x(), thread_x(), Some(thread_x().lt(written)));
            p.b.block_barrier();
            p.b.load("value", p.tile, thread_x() ^ 1u32, None);
        })
    };
    let fault = check_found(&shared(63), of("tile"));
    assert_eq!(fault.thread, [62, 0, 0]);
    check_silent(&shared(64));
    // Shared memory is new for every block.
    let first_only = plant_over(2, |p| {
        let first = block_x().equals(0u32);
        p.b.store(p.tile, thread_x(), thread_x(), Some(first));
        p.b.load("value", p.tile, thread_x(), None);
    });
    assert_eq!(check_found(&first_only, of("tile")).block, [1, 0, 0]);
    let global = |stores: bool| {
        plant(|p| {
            p.b.store(p.out, thread_x(), 1u32, Some(Expr::from(stores)));
            p.b.load("value", p.out, thread_x(), None);
        })
    };
    check_found(&global(false), of("out"));
    check_silent(&global(true));
}

#[test]
fn undefined_registers() {
    let kernel = |all: bool| {
        plant(|p| {
            let words = p.b.array("words", DType::U32, 2, None);
            p.b.set_element(words, 0u32, 1u32);
            if all {
                p.b.set_element(words, 1u32, 2u32);
            } else {
                p.b.if_then(thread_x().lt(9u32), |b| b.set_element(words, 1u32, 2u32));
            }
            p.b.store_from(p.out, thread_x() * 2u32, slots(words, 0u32, 2), None);
            p.b.store(p.tile, thread_x(), element(words, 1u32), None);
        })
    };
    let fault = check_found(&kernel(false), |k| matches!(k, FaultKind::UndefinedRegister { .. }));
    assert_eq!(fault.thread, [9, 0, 0]);
    check_silent(&kernel(true));
}

#[test]
fn lanes_outside_the_segment() {
    let kernel = |distance: u32| {
        plant(|p| {
            let by = zero() + distance;
            p.b.shuffle("s", ShuffleKind::Xor, thread_x(), by, 8);
        })
    };
    check_found(&kernel(8), |k| *k == FaultKind::NoSuchLane { lane: 8 });
    check_silent(&kernel(7));
}

#[test]
fn loops_that_do_not_end() {
    let kernel = |end: u32, step: u32| {
        plant(|p| {
            let step = zero() + step;
            p.b.for_each("i", (0u32, end), step, Unroll::None, |_, _| ());
        })
    };
    check_found(&kernel(4, 0), |k| *k == FaultKind::InvalidLoop);
    check_found(&kernel(u32::MAX, 1 << 30), |k| *k == FaultKind::InvalidLoop);
    check_silent(&kernel(15 << 28, 1 << 28));
    let mut launch = Launch::default();
    launch.pass(DType::U32, [0.0]);
    launch.pass_empty(DType::U32, 1);
    let options = SimulateOptions { max_instructions: 1000 };
    let report = simulate_kernel(&kernel(100_000, 1), &mut launch.memory, &launch.args, &options).unwrap();
    assert_eq!(report.faults[0].kind, FaultKind::TooLong);
}

/// What a launcher must not do is an error, not a fault.
#[test]
fn arguments_keep_their_promises() {
    let kernel = plant(|p| p.b.store(p.out, thread_x(), 1u32, None));
    let mut launch = Launch::default();
    let x = launch.pass(DType::U32, (0..3 * LEN).map(f64::from));
    launch.args.push(Argument::Pointer { buffer: x, offset: 64 });
    let options = SimulateOptions::default();
    let mut run = |args: &[Argument]| simulate_kernel(&kernel, &mut launch.memory, args, &options);
    let refused = |result: Result<_, SimulateError>, part: &str| {
        let text = result.expect_err(part).to_string();
        assert!(text.contains(part), "{text}");
    };
    refused(run(&launch.args), "for another parameter too");
    refused(run(&launch.args[..1]), "does not fit");
    refused(run(&[launch.args[0], Argument::Pointer { buffer: 7, offset: 0 }]), "no allocation");
    refused(run(&[launch.args[0], Argument::Pointer { buffer: x, offset: 4 }]), "not aligned");
    refused(run(&[launch.args[0], Argument::Scalar(Value::U32(1))]), "does not fit");
    let mut ill_typed = kernel.clone();
    edit(&mut ill_typed.body, &mut |stmt| {
        if let Stmt::Store { access, .. } = stmt {
            access.index = Expr::from(Builtin::Lane).lt(3u32);
        }
    });
    refused(simulate_kernel(&ill_typed, &mut launch.memory, &launch.args, &options), "indexed by bool");
}
