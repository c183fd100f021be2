//! How far each group is from what a target's memory and arithmetic allow, by the planner's model.
//!
//! A group's operations for each byte over memory place it under the roof: the bandwidth where it is low, the rate of
//! arithmetic where it is high. The page holds a drawing for each target and shows one.

use super::svg::escape;
use crate::kernel::Kernel;
use crate::units::{Bytes, Micros};
use fuse_ir::plan::cost::{Price, Sizes, price_group};
use fuse_ir::schedule::{ScheduleKind, ScheduledGroup};
use fuse_ir::target::Target;
use std::fmt::Write;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 56.0;

/// A choice of targets, and for each a drawing and a table.
pub(super) fn print(kernel: &Kernel) -> String {
    let targets = Target::all();
    let chosen = &kernel.program.plan.target;
    let mut text = String::from("<div class=\"rooflines\"><label>target <select>\n");
    for Target { name, .. } in &targets {
        let selected = if name == chosen { " selected=\"selected\"" } else { "" };
        let _ = writeln!(text, "<option{selected}>{}</option>", escape(name));
    }
    text += "</select></label>\n";
    for target in &targets {
        let hidden = if target.name == *chosen { "" } else { " hidden=\"hidden\"" };
        let _ = writeln!(text, "<div class=\"roofline\" data-target=\"{}\"{hidden}>", escape(&target.name));
        text += &print_target(kernel, target);
        text += "</div>\n";
    }
    text + "</div>\n"
}

/// Operations a second that all units of a target do in a group; a multiplication and an addition each count.
fn peak(target: &Target, group: &ScheduledGroup) -> f64 {
    let units = f64::from(target.units);
    match group.kind {
        ScheduleKind::Contraction | ScheduleKind::Depthwise | ScheduleKind::Streamed => {
            2.0 * target.multiply_adds * units
        }
        ScheduleKind::Pointwise | ScheduleKind::Row | ScheduleKind::Column | ScheduleKind::Split => {
            target.unit_rate * units
        }
    }
}

/// A group under the roof of a target.
struct Point {
    name: String,
    price: Price,
    peak: f64,
    /// Operations for each byte.
    intensity: f64,
}

impl Point {
    /// Operations a second that the roof allows.
    fn roof(&self, target: &Target) -> f64 {
        (self.intensity * target.bandwidth).min(self.peak)
    }

    /// Operations a second that are modelled.
    fn rate(&self) -> f64 {
        self.price.operations as f64 / self.price.seconds
    }
}

fn print_target(kernel: &Kernel, target: &Target) -> String {
    let sizes = Sizes::compute(&kernel.program.kernel);
    let points: Vec<Point> = kernel
        .program
        .plan
        .groups()
        .map(|group| {
            let price = price_group(&kernel.program.kernel, target, &sizes, group);
            let intensity = price.operations as f64 / (price.bytes.max(1)) as f64;
            Point { name: group.id.to_string(), price, peak: peak(target, group), intensity }
        })
        .collect();
    let mut text = draw(target, &points);
    text += "<table><thead><tr><th>group</th><th>memory</th><th>operations</th><th>operations a byte</th>\
             <th>bound by</th><th>modelled</th><th>of the roof</th></tr></thead><tbody>\n";
    for point in &points {
        let bound = if point.intensity * target.bandwidth < point.peak { "memory" } else { "arithmetic" };
        let share = match point.roof(target) {
            roof if roof > 0.0 => format!("{:.0} %", 100.0 * point.rate() / roof),
            // It only moves bytes.
            _ => {
                format!("{:.0} %", 100.0 * point.price.bytes as f64 / target.bandwidth / point.price.seconds)
            }
        };
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td><td>{bound}</td><td>{}</td><td>{share}</td></tr>",
            escape(&point.name),
            Bytes(point.price.bytes),
            point.price.operations,
            point.intensity,
            Micros(point.price.seconds),
        );
    }
    text + "</tbody></table>\n"
}

/// The roof and the groups under it, on logarithmic axes.
fn draw(target: &Target, points: &[Point]) -> String {
    let peak =
        points.iter().map(|point| point.peak).fold(target.unit_rate * f64::from(target.units), f64::max);
    let shown: Vec<&Point> = points.iter().filter(|point| point.price.operations > 0).collect();
    let ridge = peak / target.bandwidth;
    let (least, most) = shown
        .iter()
        .fold((ridge, ridge), |(least, most), point| (least.min(point.intensity), most.max(point.intensity)));
    let (left, right) = ((least / 8.0).log10(), (most * 8.0).log10());
    let lowest = shown.iter().map(|point| point.rate()).fold(least / 8.0 * target.bandwidth, f64::min);
    let (bottom, top) = ((lowest / 2.0).log10(), (peak * 3.0).log10());
    let x = |intensity: f64| MARGIN + (intensity.log10() - left) / (right - left) * (WIDTH - MARGIN - 12.0);
    let y = |rate: f64| HEIGHT - 34.0 - (rate.log10() - bottom) / (top - bottom) * (HEIGHT - 46.0);

    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         role=\"img\" aria-label=\"roofline on {}\">\n",
        escape(&target.name)
    );
    for power in left.ceil() as i32..=right.floor() as i32 {
        let at = x(10f64.powi(power));
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{at:.1}\" y1=\"12\" x2=\"{at:.1}\" y2=\"{:.1}\" /><text class=\"tick\" x=\"{at:.1}\" \
             y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 34.0,
            HEIGHT - 20.0,
            show_power(power)
        );
    }
    for power in bottom.ceil() as i32..=top.floor() as i32 {
        let at = y(10f64.powi(power));
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{MARGIN}\" y1=\"{at:.1}\" x2=\"{}\" y2=\"{at:.1}\" /><text class=\"tick\" x=\"{}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}/s</text>",
            WIDTH - 12.0,
            MARGIN - 5.0,
            at + 4.0,
            show_power(power)
        );
    }
    let _ = writeln!(
        text,
        "<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"end\">operations for each byte over memory</text>",
        WIDTH - 12.0,
        HEIGHT - 5.0
    );
    let start = 10f64.powf(left);
    let _ = writeln!(
        text,
        "<polyline class=\"roof\" points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\" />",
        x(start),
        y(start * target.bandwidth),
        x(ridge),
        y(peak),
        x(10f64.powf(right)),
        y(peak)
    );
    for point in shown {
        let (at, high) = (x(point.intensity), y(point.rate()));
        let _ = writeln!(
            text,
            "<g class=\"point\"><title>{}</title><circle cx=\"{at:.1}\" cy=\"{high:.1}\" r=\"5\" />\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            escape(&format!("{}: {:.2} operations a byte", point.name, point.intensity)),
            at + 8.0,
            high + 4.0,
            escape(&point.name)
        );
    }
    text + "</svg>\n"
}

/// A power of ten.
fn show_power(power: i32) -> String {
    match power {
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        2 => "100".to_owned(),
        3..=14 => {
            let unit = ["k", "M", "G", "T"][(power / 3 - 1) as usize];
            format!("{}{unit}", 10u32.pow((power % 3) as u32))
        }
        -3..=-1 => format!("{:.*}", power.unsigned_abs() as usize, 10f64.powi(power)),
        _ => format!("1e{power}"),
    }
}
