//! Devices: where tensors and results are, what waits, what a GPU's faults are, graphs, and the texts for CUDA. What is said
//! of devices is true of each of them; on a machine without a GPU these tests run on the CPU and the simulator.

#[path = "support/devices.rs"]
mod devices;

use devices::{device, on_every_device};
use fuse::error::FaultKind;
use fuse::{Device, Error, Graph, Tensor, fuse};

fuse! {
    /// One launch.
    #[kernel(launches = 1)]
    pub fn scale<M, N>(x: Tensor<f32, M, N>, a: f32) -> Tensor<f32, M, N> { x * a }

    /// A launch for the sum, then one for the difference: with an intermediate buffer.
    #[kernel]
    pub fn centre<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x - x.mean((M, N)) }

    /// In place.
    #[kernel(launches = 1)]
    pub fn decay<N>(p: &mut Tensor<f32, N>, rate: f32) { *p -= rate * p; }

    /// Rows.
    #[kernel(launches = 1)]
    pub fn normalise<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.softmax(N) }

    /// Faults on zeros.
    #[kernel(launches = 1)]
    pub fn quotient<N>(a: Tensor<i32, N>, b: Tensor<i32, N>) -> Tensor<i32, N> { a / b }

    /// Bools.
    #[kernel(launches = 1)]
    pub fn positive<N>(x: Tensor<f32, N>) -> Tensor<bool, N> { x > 0.0 }
}

fn wave<const R: usize>(shape: [usize; R], phase: f32) -> Result<Tensor<f32, R>, Error> {
    let n = shape.iter().product::<usize>();
    Tensor::from_vec((0..n).map(|k| (k as f32 * 0.37 + phase).sin()).collect(), shape, &device())
}

#[test]
fn results_are_where_arguments_are() -> Result<(), Error> {
    let x = wave([3, 5], 0.0)?;
    let y = scale(&x, 2.0)?;
    assert_eq!(y.device(), device());
    assert_eq!(y.to_device(&Device::cpu())?.device(), Device::cpu());
    let doubled: Vec<f32> = x.to_vec()?.iter().map(|x| 2.0 * x).collect();
    assert_eq!(y.to_vec()?, doubled);
    assert_eq!(y.clone().to_vec()?, doubled);
    Ok(())
}

#[test]
fn views_are_read_and_written_where_they_lie() -> Result<(), Error> {
    let x = wave([7, 9], 1.0)?;
    let part = x.slice((1..6, 2..7))?.transpose(0, 1)?;
    let host = part.to_device(&Device::cpu())?;
    assert_eq!(part.to_vec()?, host.to_vec()?);
    assert_eq!(scale(&part, -3.0)?.to_vec()?, scale(&host, -3.0)?.to_vec()?);
    let mut column = x.slice((.., 3))?;
    column.copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])?;
    assert_eq!(x.slice((2..4, 3))?.to_vec()?, [3.0, 4.0]);
    assert_eq!(x.slice((5, 3))?.reshape([])?.item()?, 6.0);
    assert!(format!("{:?}", x.slice((2, 3..5))?).contains("[3.0, "));
    let mut rows = x.slice((0..2, ..))?;
    normalise::into(&x.slice((3..5, ..))?, &mut rows)?;
    let sums: Vec<f32> = rows.to_vec()?.chunks(9).map(|row| row.iter().sum()).collect();
    assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-6), "{sums:?}");
    Ok(())
}

#[test]
fn every_constructor_and_bools() -> Result<(), Error> {
    let zeros = Tensor::<f32, 2>::zeros([4, 5], &device())?;
    assert!(zeros.to_vec()?.iter().all(|&x| x == 0.0));
    assert_eq!(Tensor::full(7u8, [300], &device())?.to_vec()?, [7; 300]);
    assert_eq!(Tensor::scalar(2.5f64, &device())?.item()?, 2.5);
    let signs = positive(&Tensor::from_vec(vec![1.0, -1.0, 0.0, f32::NAN, 2.0], [5], &device())?)?;
    assert_eq!(signs.to_vec()?, [true, false, false, false, true]);
    Ok(())
}

#[test]
fn tensors_of_two_devices_do_not_mix() -> Result<(), Error> {
    let other = if device() == Device::cpu() { Device::simulator() } else { Device::cpu() };
    let (a, b) = (Tensor::full(1i32, [2], &device())?, Tensor::full(1i32, [2], &other)?);
    let message = quotient(&a, &b).err().map(|e| e.to_string()).unwrap_or_default();
    let expected = format!("kernel `quotient`: argument `b` is on {other}, but `a` is on {}", device());
    assert!(message.starts_with(&expected), "{message}");
    Ok(())
}

/// On a GPU the fault is that of the next call that waits; elsewhere that of the call.
#[test]
fn a_fault_is_reported_once_with_its_place() -> Result<(), Error> {
    let a = Tensor::from_vec(vec![7, 8, 9, 10], [4], &device())?;
    let b = Tensor::from_vec(vec![7, 0, 3, 0], [4], &device())?;
    let outcome = quotient(&a, &b).and_then(|y| y.to_vec());
    let Err(Error::Fault(fault)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((fault.kernel.as_str(), fault.kind), ("quotient", FaultKind::DivisionByZero));
    assert!(fault.file.ends_with("devices.rs") && fault.line > 0, "{}:{}", fault.file, fault.line);
    device().synchronize()?;
    let ones = Tensor::full(1, [4], &device())?;
    assert_eq!(quotient(&a, &ones)?.to_vec()?, [7, 8, 9, 10]);
    Ok(())
}

#[test]
fn the_first_of_many_faults_is_reported() -> Result<(), Error> {
    let a = Tensor::full(1, [8], &device())?;
    let (zero, one) = (Tensor::full(0, [8], &device())?, Tensor::full(1, [8], &device())?);
    let mut faults = 0;
    // More launches than a GPU's array of words has places for.
    for k in 0..9000 {
        let b = if k == 17 || k == 8500 { &zero } else { &one };
        faults += usize::from(matches!(quotient(&a, b), Err(Error::Fault(_))));
        if !device().is_cuda() && k == 20 {
            break;
        }
    }
    faults += usize::from(matches!(device().synchronize(), Err(Error::Fault(_))));
    assert_eq!(faults, if device().is_cuda() { 2 } else { 1 });
    device().synchronize()
}

#[test]
fn a_graph_replays_with_new_contents() -> Result<(), Error> {
    let mut x = wave([6, 50], 0.0)?;
    let mut p = wave([10], 0.5)?;
    let step = |x: &Tensor<f32, 2>, p: &mut Tensor<f32, 1>| {
        let y = centre(&normalise(x)?)?;
        decay(p, 0.25)?;
        scale(&y, 3.0)
    };
    let (graph, y) = Graph::capture(&device(), || step(&x, &mut p))?;
    assert_eq!(graph.call_count(), 4);
    let mut same = Tensor::from_vec(p.to_vec()?, [10], &device())?;
    for round in 0..100 {
        let contents = wave([6, 50], round as f32)?.to_vec()?;
        x.copy_from_slice(&contents)?;
        graph.replay()?;
        let direct = step(&Tensor::from_vec(contents, [6, 50], &device())?, &mut same)?;
        assert_eq!(y.to_vec()?, direct.to_vec()?, "round {round}");
        assert_eq!(p.to_vec()?, same.to_vec()?, "round {round}");
        if device() == Device::simulator() && round == 3 {
            break;
        }
    }
    Ok(())
}

#[test]
fn a_graph_without_its_input_is_an_error() -> Result<(), Error> {
    let x = wave([4, 4], 0.0)?;
    let (graph, y) = Graph::capture(&device(), || scale(&x, 2.0))?;
    graph.replay()?;
    let before = y.to_vec()?;
    drop(x);
    let message = graph.replay().err().map(|e| e.to_string()).unwrap_or_default();
    assert!(message.starts_with("kernel `scale`: argument `x` was dropped"), "{message}");
    assert_eq!(y.to_vec()?, before);
    let inside = || scale(&wave([4, 4], 1.0)?, 2.0);
    let (graph, _) = Graph::capture(&device(), inside)?;
    assert!(matches!(graph.replay(), Err(Error::Dropped { .. })));
    Ok(())
}

#[test]
fn faults_of_a_graph_are_those_of_each_replay() -> Result<(), Error> {
    let a = Tensor::full(6, [3], &device())?;
    let mut b = Tensor::full(2, [3], &device())?;
    let (graph, y) = Graph::capture(&device(), || quotient(&a, &b))?;
    let replay = || graph.replay().and_then(|()| y.to_vec());
    assert_eq!(replay()?, [3, 3, 3]);
    b.copy_from_slice(&[1, 0, 2])?;
    assert!(matches!(replay(), Err(Error::Fault(_))));
    b.copy_from_slice(&[1, 3, 2])?;
    assert_eq!(replay()?, [6, 2, 3]);
    Ok(())
}

#[test]
fn a_loop_of_calls_from_many_threads() -> Result<(), Error> {
    let here = device();
    let x = wave([5, 40], 0.0)?;
    let want = normalise(&x)?.to_vec()?;
    std::thread::scope(|scope| {
        let work = || {
            for _ in 0..if here == Device::simulator() { 2 } else { 50 } {
                assert_eq!(normalise(&x)?.to_vec()?, want);
            }
            Ok::<(), Error>(())
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("no panic"))
    })
}

#[test]
fn streams_of_one_gpu_copy_to_one_another() -> Result<(), Error> {
    let other = device().new_stream()?;
    let x = wave([3, 70], 0.0)?;
    let y = scale(&scale(&x, 2.0)?.to_device(&other)?, 0.5)?;
    assert_eq!(y.device(), other);
    assert_eq!(y.to_vec()?, x.to_vec()?);
    Ok(())
}

#[test]
fn more_memory_than_there_is_is_an_error() -> Result<(), Error> {
    let outcome = Tensor::<f64, 1>::zeros([1 << 58], &device());
    assert!(matches!(outcome, Err(Error::OutOfMemory { .. } | Error::TooLarge { .. })), "{outcome:?}");
    assert_eq!(scale(&wave([2, 2], 0.0)?, 1.0)?.shape(), [2, 2]);
    Ok(())
}

#[test]
fn texts_for_cuda_are_in_the_binary() {
    let sources = centre::cuda_source();
    let launches = centre::plan().launches.len();
    assert!((0..launches).all(|launch| sources.iter().any(|s| s.launch == launch)));
    for source in sources {
        assert!(source.text.contains("extern \"C\" __global__"), "{}", source.text);
        assert!(!source.text.contains("#include"), "{}", source.text);
    }
    assert!(sources.iter().all(|s| s.variant < 4), "at most four structures a group");
}

#[test]
fn a_missing_gpu_is_an_error_with_a_remedy() {
    match Device::cuda(4096) {
        Err(Error::Cuda(why)) => {
            let text = why.to_string();
            assert!(["install", "check", "numbered", "feature"].iter().any(|w| text.contains(w)), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(Device::best_or_cpu().is_cuda(), Device::why_not_cuda().is_none());
    if Device::cuda_count() == 0 {
        assert_eq!(Device::best().ok(), Some(Device::cpu()));
    }
}

on_every_device!(
    results_are_where_arguments_are,
    views_are_read_and_written_where_they_lie,
    every_constructor_and_bools,
    tensors_of_two_devices_do_not_mix,
    a_fault_is_reported_once_with_its_place,
    the_first_of_many_faults_is_reported,
    a_graph_replays_with_new_contents,
    a_graph_without_its_input_is_an_error,
    faults_of_a_graph_are_those_of_each_replay,
    a_loop_of_calls_from_many_threads,
    streams_of_one_gpu_copy_to_one_another,
    more_memory_than_there_is_is_an_error,
);
