//! What the user asks for, from the command line.

use std::fmt;

/// How a picture is developed. The defaults suit an ordinary photograph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Stops by which the picture is lifted.
    pub exposure: f32,
    /// How far the exposure moves by itself towards a middle grey average: 0 not at all, 1 all the way.
    pub auto: f32,
    /// Colour temperature of the light that the picture was taken for, in kelvin; more makes it warmer.
    pub temperature: f32,
    /// Stops towards magenta (positive) or green (negative).
    pub tint: f32,
    /// How far the means of the channels are made equal: 0 not at all, 1 wholly.
    pub grey_world: f32,
    /// Slope of the tone curve, over what the picture asks for itself.
    pub contrast: f32,
    /// Distance of colours from grey.
    pub saturation: f32,
    /// Which dither noise.
    pub seed: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            exposure: 0.0,
            auto: 0.3,
            temperature: 6500.0,
            tint: 0.0,
            grey_world: 0.0,
            contrast: 1.0,
            saturation: 1.1,
            seed: 0,
        }
    }
}

/// One option: its name, the least and the greatest value, and what `--help` says of it.
struct Knob {
    name: &'static str,
    range: (f32, f32),
    what: &'static str,
}

const KNOBS: [Knob; 7] = [
    Knob { name: "exposure", range: (-10.0, 10.0), what: "stops by which the picture is lifted" },
    Knob { name: "auto", range: (0.0, 1.0), what: "how far exposure moves by itself to middle grey" },
    Knob { name: "temperature", range: (2000.0, 25000.0), what: "of the light, in kelvin; more is warmer" },
    Knob { name: "tint", range: (-2.0, 2.0), what: "stops towards magenta, negative towards green" },
    Knob { name: "grey-world", range: (0.0, 1.0), what: "how far the means of the channels are made equal" },
    Knob { name: "contrast", range: (0.25, 3.0), what: "slope of the tone curve" },
    Knob { name: "saturation", range: (0.0, 4.0), what: "distance of colours from grey" },
];

impl Settings {
    fn knob(&mut self, name: &str) -> Option<&mut f32> {
        match name {
            "exposure" => Some(&mut self.exposure),
            "auto" => Some(&mut self.auto),
            "temperature" => Some(&mut self.temperature),
            "tint" => Some(&mut self.tint),
            "grey-world" => Some(&mut self.grey_world),
            "contrast" => Some(&mut self.contrast),
            "saturation" => Some(&mut self.saturation),
            _ => None,
        }
    }

    /// Factors of red, green and blue light for temperature and tint; a white of 6500 K stays as bright as it is.
    pub fn gains(&self) -> [f32; 3] {
        let (from, to) = (white_of(f64::from(self.temperature)), white_of(6500.0));
        let tint = [0.5, -0.5, 0.5].map(|t| (t * f64::from(self.tint)).exp2());
        let gain = [0, 1, 2].map(|c| to[c] / from[c] * tint[c]);
        let luminance = 0.2126 * gain[0] + 0.7152 * gain[1] + 0.0722 * gain[2];
        gain.map(|g| (g / luminance) as f32)
    }
}

/// Linear sRGB of a black body of that many kelvin, by the cubic fit of Kang et al. (2002) to the Planckian locus.
fn white_of(kelvin: f64) -> [f64; 3] {
    let t = 1000.0 / kelvin;
    let x = if kelvin < 4000.0 {
        ((-0.2661239 * t - 0.2343589) * t + 0.8776956) * t + 0.179910
    } else {
        ((-3.0258469 * t + 2.1070379) * t + 0.2226347) * t + 0.240390
    };
    let y = if kelvin < 2222.0 {
        ((-1.1063814 * x - 1.34811020) * x + 2.18555832) * x - 0.20219683
    } else if kelvin < 4000.0 {
        ((-0.9549476 * x - 1.37418593) * x + 2.09137015) * x - 0.16748867
    } else {
        ((3.0817580 * x - 5.87338670) * x + 3.75112997) * x - 0.37001483
    };
    let (big_x, big_z) = (x / y, (1.0 - x - y) / y);
    // Light of 2000 K has almost no blue in sRGB: kept above 0, so that the gain stays finite.
    [
        3.2404542 * big_x - 1.5371385 - 0.4985314 * big_z,
        -0.9692660 * big_x + 1.8760108 + 0.0415560 * big_z,
        0.0556434 * big_x - 0.2040259 + 1.0572252 * big_z,
    ]
    .map(|c| c.max(0.02))
}

/// What the command line asks for.
pub enum Command {
    /// `--help`.
    Help,
    /// Develop a picture.
    Develop {
        /// The picture; `None`: one that is shipped.
        photo: Option<String>,
        /// Where to; `None`: `developed.png`.
        out: Option<String>,
        /// How.
        settings: Settings,
        /// Whether to print every decision of the plans.
        explain: bool,
    },
}

/// Reads the command line, without the program's name.
///
/// # Errors
/// A sentence for the user if an option is unknown, lacks its value, or has one that is no number or out of range.
pub fn parse_arguments(arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut settings = Settings::default();
    let (mut files, mut explain) = (Vec::new(), false);
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if argument == "--help" || argument == "-h" {
            return Ok(Command::Help);
        }
        if argument == "--explain" {
            explain = true;
            continue;
        }
        let Some(option) = argument.strip_prefix("--") else {
            files.push(argument);
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name.to_string(), value.to_string()),
            None => {
                let value =
                    arguments.next().ok_or_else(|| format!("`--{option}` needs a value; try `--help`"))?;
                (option.to_string(), value)
            }
        };
        if name == "seed" {
            settings.seed =
                value.parse().map_err(|_| format!("`--seed {value}`: not a number of 32 bits"))?;
            continue;
        }
        let knob = KNOBS.iter().find(|k| k.name == name);
        let (Some(knob), Some(field)) = (knob, settings.knob(&name)) else {
            return Err(format!("unknown option `--{name}`; try `--help`"));
        };
        let number: f32 = value.parse().map_err(|_| format!("`--{name} {value}`: not a number"))?;
        let (low, high) = knob.range;
        if !(low..=high).contains(&number) {
            return Err(format!("`--{name} {value}`: must be from {low} to {high}"));
        }
        *field = number;
    }
    if files.len() > 2 {
        return Err(format!("one picture and one output file, not also `{}`; try `--help`", files[2]));
    }
    let mut files = files.into_iter();
    Ok(Command::Develop { photo: files.next(), out: files.next(), settings, explain })
}

/// The text of `--help`.
pub struct Help;

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "develop [OPTIONS] [PHOTO [OUT.png]]\n")?;
        writeln!(
            f,
            "Develops a PNG or JPEG and writes a PNG of 8 bits; alpha is dropped, grey becomes RGB."
        )?;
        writeln!(
            f,
            "Without PHOTO a shipped portrait is taken, without OUT.png `developed.png` is written.\n"
        )?;
        let mut defaults = Settings::default();
        for knob in &KNOBS {
            let default = defaults.knob(knob.name).map_or(0.0, |d| *d);
            let option = format!("--{} {}..{}", knob.name, knob.range.0, knob.range.1);
            writeln!(f, "  {option:<28} {} [{default}]", knob.what)?;
        }
        writeln!(f, "  {:<28} which dither noise [{}]", "--seed N", defaults.seed)?;
        write!(f, "  {:<28} print the reason of every fusion", "--explain")
    }
}
