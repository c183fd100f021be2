//! Embeds the sentences of a text file, one a line, and says which are similar.
//!
//! ```text
//! cargo run --release -p embed                                  # shipped sentences
//! cargo run --release -p embed -- TEXT --out embeddings.safetensors
//! cargo run --release -p embed -- --bench                       # sentences per second
//! ```

#![allow(clippy::print_stdout, reason = "a program that speaks to its user")]

use embed::encoder::Encoder;
use embed::sentences::{embed_all, split_lines, tokenize};
use embed::similar::find_nearest;
use embed::weights::{default_folder, read_encoder, read_tokenizer};
use example_common::program::run_program;
use example_common::progress::Progress;
use example_common::rates::summarise;
use fuse::Device;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
usage: embed [TEXT] [options]

Embeds each line of the file TEXT, or of shipped sentences, with all-MiniLM-L6-v2, and prints which are similar.

options:
  --model FOLDER   where `model.safetensors` and `tokenizer.json` lie
  --out FILE       writes the embeddings, as tensor `embeddings` of a safetensors file
  --bench          measures sentences per second, the text repeated to 960 of them, the tokenizer not counted
  --help           this";

/// Sentences that `--bench` embeds, and how often.
const BENCH: (usize, usize) = (960, 7);

#[derive(Default)]
struct Arguments {
    text: Option<PathBuf>,
    model: Option<PathBuf>,
    out: Option<PathBuf>,
    bench: bool,
}

fn main() -> ExitCode {
    run_program(HELP, parse(std::env::args().skip(1)), run)
}

/// The arguments, or that help is asked for.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().map(PathBuf::from).ok_or_else(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--model" => arguments.model = Some(value()?),
            "--out" => arguments.out = Some(value()?),
            "--bench" => arguments.bench = true,
            option if option.starts_with('-') => return Err(format!("unknown option `{option}`\n{HELP}")),
            _ if arguments.text.is_some() => return Err(format!("one text is embedded, not also `{word}`")),
            text => arguments.text = Some(PathBuf::from(text)),
        }
    }
    Ok(Some(arguments))
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let shipped = || Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sentences.txt");
    let path = arguments.text.clone().unwrap_or_else(shipped);
    let text =
        std::fs::read_to_string(&path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
    let sentences = split_lines(&text);
    if sentences.is_empty() {
        return Err(format!("`{}` has no sentence", path.display()));
    }
    let folder = arguments.model.clone().unwrap_or_else(default_folder);
    let device = Device::cpu();
    let encoder = read_encoder(&folder, &device)?;
    let tokens = tokenize(&read_tokenizer(&folder)?, &sentences)?;
    if arguments.bench {
        return measure(&encoder, &tokens);
    }

    let mut progress = Progress::new("embedding", tokens.len());
    let (embeddings, width) = embed_all(&encoder, &tokens, &mut progress)?;
    let pairs = find_nearest(&embeddings, sentences.len(), &device).map_err(|e| e.to_string())?;
    println!("{} sentences, each {width} numbers", sentences.len());
    println!("{:>6}  {:<48}  nearest", "cosine", "sentence");
    for (sentence, (nearest, cosine)) in sentences.iter().zip(pairs) {
        println!("{cosine:>6.3}  {:<48}  {}", shorten(sentence), shorten(sentences[nearest]));
    }
    if let Some(out) = &arguments.out {
        write(out, &embeddings, [sentences.len(), width])?;
        println!("written to {}", out.display());
    }
    Ok(())
}

/// The start of a sentence that is too long for the table.
fn shorten(sentence: &str) -> String {
    match sentence.char_indices().nth(47) {
        Some((end, last)) if end + last.len_utf8() < sentence.len() => format!("{}…", &sentence[..end]),
        Some(_) | None => sentence.to_owned(),
    }
}

fn write(path: &Path, embeddings: &[f32], shape: [usize; 2]) -> Result<(), String> {
    let bytes: Vec<u8> = embeddings.iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, shape.to_vec(), &bytes).map_err(|e| e.to_string())?;
    let file = safetensors::serialize([("embeddings", view)], None).map_err(|e| e.to_string())?;
    std::fs::write(path, file).map_err(|e| format!("cannot write `{}`: {e}", path.display()))
}

/// Prints how many sentences are embedded in a second: the median of some runs, and the fastest and the slowest.
fn measure(encoder: &Encoder, tokens: &[Vec<i64>]) -> Result<(), String> {
    let (count, runs) = BENCH;
    let many: Vec<Vec<i64>> = tokens.iter().cycle().take(count).cloned().collect();
    let mut rates = Vec::with_capacity(runs);
    // The first run makes room in memory and is not counted.
    for k in 0..=runs {
        let mut progress = Progress::new(&format!("run {k} of {runs}"), count);
        let start = Instant::now();
        embed_all(encoder, &many, &mut progress)?;
        if k > 0 {
            rates.push(count as f64 / start.elapsed().as_secs_f64());
        }
    }
    let (median, least, greatest) = summarise(&mut rates);
    let words: usize = many.iter().map(Vec::len).sum();
    println!(
        "{:.1} sentences/s of {:.1} tokens (from {:.1} to {:.1} in {runs} runs of {count} sentences)",
        median,
        words as f64 / count as f64,
        least,
        greatest
    );
    Ok(())
}
